import { eq, sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { lockSubscribers, removeServicesFromContracts } from "../../src/db/queries/contracts.ts";
import { services } from "../../src/db/schema.ts";
import { createTestApi, type Answer, type TestApi } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, type FamilyCalls, familyCalls, type ServiceAnswer, use } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

let api: TestApi;
let to: FamilyCalls;
beforeAll(async () => {
  api = await createTestApi({ connections: 10 });
  to = familyCalls(api, "/services");
});
afterEach(() => expectBalancesMatchLedger(api.database));
afterAll(() => api.close());

/** On a busy machine. */
const SOON = { timeout: 20_000 };

/** Number of answers per status: `{ 201: 1, 400: 19 }`. */
function statuses(answers: readonly Answer<unknown>[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

const times = <T>(count: number, work: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, i) => work(i)));

/** Repeats a call that a busy server had no room to analyze, or no connection for, as clients do. */
async function patiently<T>(send: () => Promise<Answer<T>>, again = [429, 503]): Promise<Answer<T>> {
  for (;;) {
    const answer = await send();
    if (!again.includes(answer.status)) return answer;
    await new Promise((wait) => setTimeout(wait, 100));
  }
}

test("twenty creations of one name at once make one service, in any letter case, and one event", async () => {
  const { result, events } = await eventsDuring(api.database, () =>
    times(20, (i) => patiently(() => to.create({ name: i % 2 === 0 ? "Contested" : "CONTESTED", version: `${i}` }))),
  );
  expect(statuses(result)).toEqual({ 201: 1, 400: 19 });
  for (const { status, body } of result) {
    if (status === 400) expect(body.error).toMatch(/^Invalid request: Service contested already exists$/i);
  }
  expect(events).toHaveLength(1);
});

test("twenty re-creations of a disabled service at once enable it once", async () => {
  await to.create({ name: "Revived" });
  await to.call("DELETE", "/Revived");
  expect(statuses(await times(20, () => patiently(() => to.create({ name: "Revived" }))))).toEqual({ 201: 1, 400: 19 });
});

test("twenty uploads of one version at once add it once, and one event", async () => {
  await to.create({ name: "Versions" });
  const { result, events } = await eventsDuring(api.database, () =>
    times(20, (i) => patiently(() => to.add({ name: "Versions", version: i % 2 === 0 ? "2.0.0" : "2_0_0" }))),
  );
  expect(statuses(result)).toEqual({ 201: 1, 400: 19 });
  expect(events).toHaveLength(1);
});

test("twenty uploads of distinct services at once are all created, with gapless events", async () => {
  const { result, events } = await eventsDuring(api.database, () =>
    times(20, (i) => patiently(() => to.create({ name: `Distinct ${i}` }))),
  );
  expect(statuses(result)).toEqual({ 201: 20 });
  expect(events).toHaveLength(20);
});

test("a creation while its organization is deleted is done before it or finds nobody, never an error of the server", async () => {
  const { owner } = api.callers;
  for (let round = 0; round < 12; round += 1) {
    const { id, key } = await api.newOrganization(owner, `Leaving ${round}`);
    const creations = [0, 1, 2].flatMap((i) => [
      patiently(
        () => api.call("POST", "/services", { key, body: yamlUpload(pricingText({ name: `Top ${i}` })) }),
        [429],
      ),
      patiently(
        () =>
          api.call("POST", `/organizations/${id}/services`, {
            key: owner.key,
            body: yamlUpload(pricingText({ name: `Nested ${i}` })),
          }),
        [429],
      ),
    ]);
    const [removed, ...answers] = await Promise.all([
      api.call("DELETE", `/organizations/${id}`, { key: owner.key }),
      ...creations,
    ]);
    expect(removed.status).toBe(204);
    for (const { status } of answers) expect([201, 401, 404]).toContain(status);
  }
});

test("two archivings at once leave one active version, every time", async () => {
  await to.create({ name: "Pair", version: "a" });
  await to.add({ name: "Pair", version: "b" });
  for (let round = 0; round < 10; round += 1) {
    const answers = await Promise.all(["a", "b"].map((v) => to.archive("Pair", v, { subscriptionPlan: "FREE" })));
    expect(statuses(answers)).toEqual({ 200: 1, 400: 1 });
    const { body } = await to.call<ServiceAnswer>("GET", "/Pair");
    expect(Object.keys(body.activePricings)).toHaveLength(1);
    for (const version of Object.keys(body.archivedPricings ?? {})) {
      await to.call("PUT", `/Pair/pricings/${version}?availability=active`);
    }
  }
});

test("twenty equal archivings at once move contracts once and record one event", async () => {
  await to.create({ name: "Equal" });
  await to.add({ name: "Equal", version: "2.0.0" });
  await contract(api, "equal", { Equal: { version: "1.0.0", plan: "FREE" } });
  const { result, events } = await eventsDuring(api.database, () =>
    times(20, () => to.archive("Equal", "1.0.0", { subscriptionPlan: "FREE" })),
  );
  expect(statuses(result)).toEqual({ 200: 20 });
  expect(events).toHaveLength(1);
});

test("renaming two services to one name at once makes one of them a conflict", async () => {
  for (const name of ["Left", "Right"]) await to.create({ name });
  const answers = await Promise.all(["Left", "Right"].map((name) => to.call("PUT", `/${name}`, { name: "Middle" })));
  expect(statuses(answers)).toEqual({ 200: 1, 409: 1 });
});

test("disabling once among twenty answers 204 once and records one event", async () => {
  await to.create({ name: "Disabled once" });
  const { result, events } = await eventsDuring(api.database, () =>
    times(20, () => to.call("DELETE", "/Disabled once")),
  );
  expect(statuses(result)).toEqual({ 204: 1, 404: 19 });
  expect(events).toHaveLength(1);
});

test("archiving while contracts are made, novated and used ends with none on an archived version and no 503", async () => {
  const key = api.callers.all.key;
  const name = "Busy";
  await to.create({ name, version: "v0" });
  await to.add({ name, version: "v1" });
  const users = Array.from({ length: 2 }, (_, i) => `busy-${i}`);
  for (const user of users) await contract(api, user, { busy: { version: "v0", plan: "PRO" } });
  const subscription = (version: string, plan: string) => ({
    contractedServices: { busy: version },
    subscriptionPlans: { busy: plan },
    subscriptionAddOns: {},
  });
  for (let round = 0; round < 50; round += 1) {
    const [old, next] = [`v${round % 2}`, `v${(round + 1) % 2}`];
    const answers = await Promise.all([
      ...users.map((user) => api.call("PUT", `/contracts/${user}`, { key, body: subscription(old, "FREE") })),
      to.archive(name, old, { subscriptionPlan: "PRO" }),
      ...users.map((user) => api.call("POST", `/features/${user}/busy-board`, { key, body: { "busy-tasks": 1 } })),
      api.call("POST", "/contracts", {
        key,
        body: {
          userContact: { userId: `made-${round}`, username: "made" },
          billingPeriod: { autoRenew: false, renewalDays: 30 },
          ...subscription(old, "FREE"),
        },
      }),
    ]);
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    const astray = await api.database.connection.db.execute(sql`
      select cs.contract_id, p.version from contract_services cs join pricings p on p.id = cs.pricing_id
      where p.availability = 'archived'`);
    expect([...astray]).toEqual([]);
    await to.call("PUT", `/${name}/pricings/${old}?availability=active`);
    // Every contract starts the next round on the version that the round archives.
    for (const user of users) await api.call("PUT", `/contracts/${user}`, { key, body: subscription(next, "PRO") });
  }
}, 240_000);

test("contracting while a service is disabled, moved or pruned leaves no contract on it", async () => {
  const key = api.callers.all.key;
  const second = await api.newOrganization(api.callers.owner, "Second");
  for (let round = 0; round < 6; round += 1) {
    const name = `Leaving ${round}`;
    await to.create({ name });
    const leave = () =>
      round % 3 === 0
        ? to.call("DELETE", `/${name}`)
        : round % 3 === 1
          ? to.call("PUT", `/${name}`, { organizationId: second.id })
          : api.call("DELETE", "/services", { key });
    const answers = await Promise.all([
      ...Array.from({ length: 4 }, (_, i) =>
        api.call("POST", "/contracts", {
          key,
          body: {
            userContact: { userId: `leaving-${round}-${i}`, username: "leaving" },
            billingPeriod: { autoRenew: false, renewalDays: 30 },
            contractedServices: { [name]: "1.0.0" },
            subscriptionPlans: { [name]: "FREE" },
            subscriptionAddOns: {},
          },
        }),
      ),
      leave(),
    ]);
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    await expectBalancesMatchLedger(api.database);
  }
});

test("a move that meets a contract made at that moment is a conflict or takes it in, never an error of the server", async () => {
  const third = await api.newOrganization(api.callers.owner, "Third");
  await api.call("POST", "/services", { key: third.key, body: yamlUpload(pricingText({ name: "There" })) });
  for (let round = 0; round < 6; round += 1) {
    const name = `Meeting ${round}`;
    await to.create({ name });
    await contract(api, `meeting-${round}`, { [name]: { version: "1.0.0", plan: "FREE" } });
    const [moved, made] = await Promise.all([
      to.call("PUT", `/${name}`, { organizationId: third.id }),
      api.call("POST", "/contracts", {
        key: third.key,
        body: {
          userContact: { userId: `meeting-${round}`, username: "meeting" },
          billingPeriod: { autoRenew: false, renewalDays: 30 },
          contractedServices: { there: "1.0.0" },
          subscriptionPlans: { there: "FREE" },
          subscriptionAddOns: {},
        },
      }),
    ]);
    expect([
      [200, 400],
      [200, 409],
      [409, 201],
    ]).toContainEqual([moved.status, made.status]);
  }
});

test("consuming while a version is archived leaves every balance equal to its movements", async () => {
  const key = api.callers.all.key;
  await to.create({ name: "Ledger", version: "v0" });
  await to.add({ name: "Ledger", version: "v1" });
  await contract(api, "ledger", { ledger: { version: "v0", plan: "PRO" } });
  for (let round = 0; round < 10; round += 1) {
    const answers = await Promise.all([
      ...Array.from({ length: 6 }, () =>
        api.call("POST", "/features/ledger/ledger-board", { key, body: { "ledger-tasks": 1 } }),
      ),
      to.archive("Ledger", `v${round % 2}`, { subscriptionPlan: "PRO" }),
      use(api, "ledger", { ledger: { seats: 1 } }).then(() => ({ status: 200 }) as Answer<unknown>),
    ]);
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    await expectBalancesMatchLedger(api.database);
    await to.call("PUT", `/Ledger/pricings/v${round % 2}?availability=active`);
  }
});

test("what waits for a contract and then finds that it has lost the service leaves it alone", async () => {
  const doings: [name: string, doing: (service: string) => Promise<Answer<unknown>>, status: number][] = [
    ["archiving", (service) => to.archive(service, "1.0.0", { subscriptionPlan: "FREE" }), 200],
    ["renaming", (service) => to.call("PUT", `/${service}`, { name: `${service} renamed` }), 200],
    ["moving", (service) => to.call("PUT", `/${service}`, { organizationId: other.id }), 200],
    ["disabling", (service) => to.call("DELETE", `/${service}`), 204],
  ];
  const other = await api.newOrganization(api.callers.owner, "Elsewhere");
  for (const [name, doing, status] of doings) {
    const service = `Lost ${name}`;
    await to.create({ name: service });
    await to.add({ name: service, version: "2.0.0" });
    await contract(api, `lost-${name}`, { [service]: { version: "1.0.0", plan: "FREE" } });
    let answer: Promise<Answer<unknown>> | undefined;
    const { events } = await eventsDuring(api.database, async () => {
      await api.database.connection.db.transaction(async (tx) => {
        await tx.execute(sql`select id from contracts where user_id = ${`lost-${name}`} for update`);
        answer = doing(service);
        await vi.waitUntil(async () => {
          const [row] = await api.database.connection.db.execute<{ n: number }>(
            sql`select count(*)::integer as n from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
          );
          return row?.n === 1;
        }, SOON);
        const [row] = await tx.select().from(services).where(eq(services.name, service));
        const serviceIds = [row?.id ?? ""];
        const holders = await lockSubscribers(tx, { serviceIds });
        expect(holders).toHaveLength(1);
        await removeServicesFromContracts(tx, {
          contractIds: holders.map(({ id }) => id),
          serviceIds,
          now: new Date("2025-06-15T10:00:00Z"),
          operationId: `lost ${name}`,
        });
      });
      expect((await answer)?.status).toBe(status);
    });
    expect(events.map((event) => event.code)).not.toContain("CONTRACT_NOVATED");
    const { body } = await api.call<object>("GET", `/contracts/lost-${name}`, { key: api.callers.all.key });
    expect(body).toMatchObject({
      contractedServices: {},
      history: [{ subscriptionPlans: { [service.toLowerCase()]: "FREE" } }],
    });
  }
});
