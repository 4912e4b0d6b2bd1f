import { sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { newestEvent, numberEvents } from "../../src/db/queries/outbox.ts";
import type { Proposal } from "../../src/core/change/best-fit/best-fit.ts";
import { createPricingCache } from "../../src/operations/state/pricing-cache.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, contractOf, FAMILIES, type FamilyCalls, familyCalls, use } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

/** Fields of a novation's answer that these tests read. */
interface Novated {
  targetVersion: string;
  novatedContracts: number;
  counts: Record<string, number>;
  groups: {
    pricingVersion: string;
    configuration: { plan?: string; addOns: Record<string, number> };
    target: { plan?: string; addOns: Record<string, number> };
    counts: Record<string, number>;
    chosenBy: string;
    proposal: { certificate: { optimality: string } };
  }[];
  error?: string;
}

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterEach(() => expectBalancesMatchLedger(api.database));
afterAll(() => api.close());

const NOW = new Date("2025-06-15T10:00:00.000Z");
/** FREE has fewer tasks, PRO costs more, BIG is new and has everything. */
const SECOND = {
  version: "2.0.0",
  createdAt: "2025-04-01",
  plans: `
  FREE: { price: 0, unit: user/month, features: null, usageLimits: { tasks: { value: 50 } } }
  PRO: { price: 12, unit: user/month, features: { export: { value: true } } }
  BIG: { price: 30, unit: user/month, features: { export: { value: true } }, usageLimits: { tasks: { value: 900 } } }`,
};

describe.each(FAMILIES)("POST %s/{serviceName}/novations", (family) => {
  let to: FamilyCalls;
  const number = FAMILIES.indexOf(family);
  const mine = (name: string) => `${name} ${number}`;
  const novate = (name: string, body: object, query = "") =>
    to.call<Novated>(
      "POST",
      `/${encodeURIComponent(name)}/novations${query}`,
      Array.isArray(body) ? body : { pricingVersion: "2.0.0", ...body },
    );
  const withTwo = async (name: string) => {
    await to.create({ name });
    await to.add({ name, ...SECOND });
    return name;
  };
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  test("every configuration goes where it fits best, in one transaction, and the answer says where and why", async () => {
    const name = await withTwo(mine("Fits"));
    const key = name.toLowerCase();
    const [free, pro, seats, there] = ["free", "pro", "seats", "there"].map(mine) as [string, string, string, string];
    await contract(api, free, { [name]: { version: "1.0.0", plan: "FREE" } });
    await contract(api, pro, { [name]: { version: "1.0.0", plan: "pro" } });
    await contract(api, seats, { [name]: { version: "1.0.0", plan: "PRO", addOns: { extraSeats: 4 } } });
    await contract(api, there, { [name]: { version: "2.0.0", plan: "FREE" } });
    await use(api, pro, { [key]: { tasks: 7, seats: 2 } });
    const events = await lastEvent();
    const { status, body } = await novate(name, {});
    expect(status).toBe(200);
    expect(body).toMatchObject({ targetVersion: "2.0.0", novatedContracts: 3, counts: { contracts: 3, losing: 0 } });
    const placed = body.groups.map((each) => [each.configuration.plan, each.target, each.chosenBy]);
    expect(placed).toContainEqual(["FREE", { plan: "PRO", addOns: {} }, "bestFit"]);
    expect(placed).toContainEqual(["pro", { plan: "PRO", addOns: {} }, "bestFit"]);
    expect(placed).toContainEqual(["PRO", { plan: "PRO", addOns: { extraSeats: 4 } }, "bestFit"]);
    expect(body.groups.map(({ proposal }) => proposal.certificate.optimality)).toHaveLength(3);
    expect(await contractOf(api, pro)).toMatchObject({
      contractedServices: { [key]: "2.0.0" },
      subscriptionPlans: { [key]: "PRO" },
      usageLevels: { [key]: { tasks: { consumed: 7 }, seats: { consumed: 2 } } },
      history: [{ contractedServices: { [key]: "1.0.0" }, subscriptionPlans: { [key]: "pro" } }],
    });
    expect((await contractOf(api, there)).history).toEqual([]);
    expect(await eventsAfter(events)).toEqual([free, pro, seats].map((userId) => `CONTRACT_NOVATED ${userId}`).sort());
    const audited = await api.call<{ data: { action: string; target: string; before: object; after: object }[] }>(
      "GET",
      "/audit-log?limit=4",
      { key: api.callers.all.key },
    );
    const actions = audited.body.data.map(({ action }) => action);
    expect(actions).toEqual(["pricing.novate", "contract.novate", "contract.novate", "contract.novate"]);
    expect(audited.body.data[0]).toMatchObject({ target: `${name} 2.0.0`, after: { novatedContracts: 3 } });
    expect(audited.body.data.find(({ target }) => target === pro)).toMatchObject({
      before: { subscriptionPlans: { [key]: "pro" } },
      after: { subscriptionPlans: { [key]: "PRO" }, contractedServices: { [key]: "2.0.0" } },
    });
  });

  test("a group goes where the caller says, the rest where all are said to go, and other services stay", async () => {
    const name = await withTwo(mine("Said"));
    const other = mine("Beside");
    await to.create({ name: other });
    const [key, beside] = [name.toLowerCase(), other.toLowerCase()];
    const [ann, ben] = ["ann", "ben"].map(mine) as [string, string];
    await contract(api, ann, {
      [other]: { version: "1.0.0", plan: "PRO" },
      [name]: { version: "1.0.0", plan: "FREE" },
    });
    await contract(api, ben, { [name]: { version: "1.0.0", plan: "PRO" } });
    await use(api, ann, { [key]: { tasks: 3 }, [beside]: { tasks: 5 } });
    const { status, body } = await novate(name, {
      subscriptionPlan: "PRO",
      groups: [
        { pricingVersion: "1.0.0", configuration: { plan: "free" }, target: { plan: "BIG", addOns: { QUIET: 1 } } },
      ],
    });
    expect(status).toBe(200);
    expect(body.groups.map(({ chosenBy }) => chosenBy).sort()).toEqual(["fallback", "group"]);
    const after = await contractOf(api, ann);
    expect(after).toMatchObject({
      contractedServices: { [key]: "2.0.0", [beside]: "1.0.0" },
      subscriptionPlans: { [key]: "BIG", [beside]: "PRO" },
      subscriptionAddOns: { [key]: { quiet: 1 } },
      usageLevels: { [key]: { tasks: { consumed: 3 } }, [beside]: { tasks: { consumed: 5 } } },
    });
    expect(Object.keys(after.contractedServices)).toEqual([beside, key]);
    expect(await contractOf(api, ben)).toMatchObject({ subscriptionPlans: { [key]: "PRO" } });
  });

  test("levels that the new version does not count go, new ones begin at zero, and the billing period restarts", async () => {
    const name = mine("Levels");
    const key = name.toLowerCase();
    await to.create({ name });
    const user = mine("levels");
    await contract(api, user, { [name]: { version: "1.0.0", plan: "PRO" } }, { renewalDays: 10 });
    await use(api, user, { [key]: { tasks: 7, seats: 3 } });
    await to.add({
      name,
      ...SECOND,
      usageLimits: `
  tasks: { valueType: NUMERIC, defaultValue: 100, unit: task, type: RENEWABLE, period: { value: 1, unit: MONTH }, linkedFeatures: [board] }
  calls: { valueType: NUMERIC, defaultValue: 9, unit: call, type: NON_RENEWABLE, trackable: true }`,
      addOns: " {}",
    });
    api.setNow(new Date("2025-06-20T10:00:00.000Z"));
    expect((await novate(name, {})).status).toBe(200);
    expect(await contractOf(api, user)).toMatchObject({
      usageLevels: {
        [key]: { tasks: { consumed: 7, resetTimeStamp: "2025-07-15T10:00:00.000Z" }, calls: { consumed: 0 } },
      },
      billingPeriod: { startDate: "2025-06-20T10:00:00.000Z", endDate: "2025-06-30T10:00:00.000Z" },
    });
    api.setNow(NOW);
  });

  test("a contract that has ended is moved and stays ended; a period that is over counts no more", async () => {
    const name = mine("Ended");
    const key = name.toLowerCase();
    await to.create({ name });
    const [gone, renews] = ["gone", "renews"].map(mine) as [string, string];
    await contract(api, gone, { [name]: { version: "1.0.0", plan: "PRO" } }, { renewalDays: 10 });
    await contract(api, renews, { [name]: { version: "1.0.0", plan: "PRO" } }, { renewalDays: 10, autoRenew: true });
    await use(api, renews, { [key]: { tasks: 70 } });
    await to.add({
      name,
      ...SECOND,
      usageLimits: `
  tasks: { valueType: NUMERIC, defaultValue: 100, unit: task, type: NON_RENEWABLE, trackable: true, linkedFeatures: [board] }`,
      addOns: " {}",
    });
    const before = await contractOf(api, gone);
    api.setNow(new Date("2025-08-01T10:00:00.000Z"));
    expect(await novate(name, {})).toMatchObject({ status: 200, body: { novatedContracts: 2 } });
    expect((await contractOf(api, gone)).billingPeriod).toEqual(before.billingPeriod);
    expect(await contractOf(api, renews)).toMatchObject({
      usageLevels: { [key]: { tasks: { consumed: 0 } } },
      billingPeriod: { startDate: "2025-08-01T10:00:00.000Z" },
    });
    api.setNow(NOW);
  });

  test("a renamed plan keeps its contracts, by the version's own renames or by those of the request", async () => {
    const name = mine("Renames");
    const key = name.toLowerCase();
    await to.create({ name });
    await to.add({ name, ...SECOND, plans: `${SECOND.plans}\nrenames: { PRO: BIG, FREE: NOWHERE }` });
    const renamed = pricingText({ name, ...SECOND, version: "3.0.0" }).replaceAll(/\bPRO\b/g, "TEAM");
    expect((await to.call("POST", `/${encodeURIComponent(name)}/pricings`, yamlUpload(renamed))).status).toBe(201);
    const [kept, gone] = [mine("named pro"), mine("named big")];
    await contract(api, kept, { [name]: { version: "1.0.0", plan: "PRO", addOns: { extraSeats: 4 } } });
    await contract(api, gone, { [name]: { version: "2.0.0", plan: "BIG" } });
    const chosen = ({ body }: { body: Novated }) =>
      body.groups.map((each) => [each.configuration.plan, each.target?.plan, each.chosenBy]);
    // Version 2 still has PRO, so its rename means nothing.
    expect(chosen(await novate(name, {}))).toEqual([["PRO", "PRO", "bestFit"]]);
    const answer = await novate(name, { pricingVersion: "3.0.0", renames: { pro: "Team" } });
    expect(chosen(answer).sort()).toEqual([
      ["BIG", "BIG", "bestFit"],
      ["PRO", "TEAM", "rename"],
    ]);
    expect((await contractOf(api, kept)).subscriptionPlans).toEqual({ [key]: "TEAM" });
    expect((await contractOf(api, kept)).subscriptionAddOns).toEqual({ [key]: { extraSeats: 4 } });
  });

  test.each<[string, object, number, (name: string) => string]>([
    [
      "an unknown plan",
      { subscriptionPlan: "DIAMOND" },
      404,
      (key) =>
        `The configuration provided to novate affected contracts is not valid for version 2.0.0 of service ${key}. Error: Error: Plan DIAMOND for service ${key} not found in the request organization`,
    ],
    [
      "a group without a plan where plans are",
      { groups: [{ configuration: { plan: "FREE" }, target: {} }] },
      400,
      (key) =>
        `The configuration provided to novate affected contracts is not valid for version 2.0.0 of service ${key}. Error: Error: Service ${key} must have a plan selected`,
    ],
    [
      "a group that nobody is in",
      { groups: [{ configuration: { plan: "BIG" }, target: {} }] },
      400,
      () => "INVALID DATA: groups[0] has a configuration that no contract has",
    ],
    [
      "a version that is archived",
      { pricingVersion: "0.9.0" },
      400,
      (key) => `Pricing version 0.9.0 of service ${key.replace("refuses", "Refuses")} is archived`,
    ],
    [
      "an unknown version",
      { pricingVersion: "9" },
      404,
      (key) => `Pricing version 9 not found for service ${key.replace("refuses", "Refuses")}`,
    ],
    [
      "a misspelled field of a target",
      { groups: [{ configuration: { plan: "FREE" }, target: { plan: "PRO", addons: {} } }] },
      422,
      () => "Unknown field: groups[].target.addons",
    ],
    ["renames of a wrong shape", { renames: { PRO: 1 } }, 422, () => "All values in renames must be strings"],
    ["a wrong shape", { groups: 1 }, 422, () => "The groups field must be a list"],
    ["a list", [1], 422, () => "The body must be an object"],
    ["a body without a version", { pricingVersion: undefined }, 422, () => "The pricingVersion field is required"],
    [
      "a misspelled field",
      { pricingVersion: undefined, pricingversion: "2.0.0" },
      422,
      () => "Unknown field: pricingversion",
    ],
  ])("%s is refused, and nobody is moved", async (_, body, status, error) => {
    const name = mine("Refuses");
    const user = mine("refused");
    if ((await to.call("GET", `/${name}`)).status === 404) {
      await to.create({ name, version: "0.9.0", createdAt: "2025-01-01" });
      await to.add({ name });
      await to.add({ name, ...SECOND });
      await contract(api, user, { [name]: { version: "1.0.0", plan: "FREE" } });
      await contract(api, `${user} too`, { [name]: { version: "1.0.0", plan: "PRO" } });
      await to.archive(name, "0.9.0", { subscriptionPlan: "FREE" });
    }
    const before = await Promise.all([contractOf(api, user), contractOf(api, `${user} too`)]);
    const events = await lastEvent();
    expect(await novate(name, body)).toMatchObject({ status, body: { error: error(name.toLowerCase()) } });
    expect(await Promise.all([contractOf(api, user), contractOf(api, `${user} too`)])).toEqual(before);
    expect(await lastEvent()).toBe(events);
  });

  test("one group that cannot go stops all of them", async () => {
    const name = await withTwo(mine("Whole"));
    const [ann, ben] = ["whole ann", "whole ben"].map(mine) as [string, string];
    await contract(api, ann, { [name]: { version: "1.0.0", plan: "FREE" } });
    await contract(api, ben, { [name]: { version: "1.0.0", plan: "PRO" } });
    const groups = [{ configuration: { plan: "PRO" }, target: { plan: "FREE", addOns: { extraSeats: 2 } } }];
    expect((await novate(name, { groups })).status).toBe(400);
    for (const user of [ann, ben]) {
      expect(Object.values((await contractOf(api, user)).contractedServices)).toEqual(["1.0.0"]);
    }
    expect(await novate(name, {})).toMatchObject({ status: 200, body: { novatedContracts: 2 } });
    expect(await novate(name, {})).toMatchObject({ status: 200, body: { novatedContracts: 0, groups: [] } });
  });

  describe("archiving with groups", () => {
    test("each goes where its group says, and who is in none where it fits best, with fresh levels", async () => {
      const name = await withTwo(mine("Archived"));
      const key = name.toLowerCase();
      const [ann, ben] = ["archived ann", "archived ben"].map(mine) as [string, string];
      await contract(api, ann, { [name]: { version: "1.0.0", plan: "FREE" } });
      await contract(api, ben, { [name]: { version: "1.0.0", plan: "PRO" } });
      await use(api, ann, { [key]: { tasks: 9 } });
      const groups = [{ configuration: { plan: "FREE" }, target: { plan: "BIG" } }];
      expect(await to.archive(name, "1.0.0", { groups })).toMatchObject({ status: 200, body: { name } });
      expect(await contractOf(api, ann)).toMatchObject({
        contractedServices: { [key]: "2.0.0" },
        subscriptionPlans: { [key]: "BIG" },
        usageLevels: { [key]: { tasks: { consumed: 0 } } },
        history: [],
      });
      expect(await contractOf(api, ben)).toMatchObject({ subscriptionPlans: { [key]: "PRO" } });
    });

    test("the fallback is for who is in no group; a target that cannot be subscribed to stops all of it", async () => {
      const name = await withTwo(mine("Fallback"));
      const key = name.toLowerCase();
      const [ann, ben] = ["fallback ann", "fallback ben"].map(mine) as [string, string];
      await contract(api, ann, { [name]: { version: "1.0.0", plan: "FREE" } });
      await contract(api, ben, { [name]: { version: "1.0.0", plan: "PRO" } });
      const archive = (plan: string) =>
        to.archive(name, "1.0.0", {
          subscriptionPlan: "BIG",
          groups: [{ configuration: { plan: "PRO" }, target: { plan } }],
        });
      expect((await archive("DIAMOND")).status).toBe(404);
      expect(await contractOf(api, ann)).toMatchObject({ contractedServices: { [key]: "1.0.0" } });
      expect((await archive("FREE")).status).toBe(200);
      expect(await contractOf(api, ann)).toMatchObject({ subscriptionPlans: { [key]: "BIG" } });
      expect(await contractOf(api, ben)).toMatchObject({ subscriptionPlans: { [key]: "FREE" } });
    });

    test.each<[unknown, number, string]>([
      [{ groups: 7 }, 422, "The groups field must be a list"],
      [{ groups: [{ configuration: {}, target: 1 }] }, 422, "groups[].target must be an object"],
    ])("%j is refused with %i", async (body, status, error) => {
      const name = mine("Archived wrong");
      await withTwo(name);
      expect(await to.archive(name, "1.0.0", body)).toMatchObject({ status, body: { error } });
    });
  });
});

const lastEvent = () => newestEvent(api.resources.db);

async function eventsAfter(id: number): Promise<string[]> {
  await numberEvents(api.resources.db);
  const rows = await api.database.connection.client<{ code: string; details: { userId: string } }[]>`
    select code, details from outbox where id > ${id}`;
  return rows.map(({ code, details }) => `${code} ${details.userId}`).sort();
}

describe("a best fit", () => {
  const cache = createPricingCache();
  let tampered: ((best: Proposal) => Proposal) | undefined;
  let other: TestApi;
  beforeAll(async () => {
    other = await createTestApi({
      resources: {
        pricingCache: {
          ...cache,
          proposal: (key) => {
            const kept = cache.proposal(key);
            return kept?.best === undefined || tampered === undefined ? kept : { best: tampered(kept.best) };
          },
        },
      },
    });
  });
  afterAll(() => other.close());

  const free = { plan: "FREE", addOns: {} };
  test.each<[string, (best: Proposal) => Proposal]>([
    ["of another target", (best) => ({ ...best, target: free })],
    [
      "of another loss",
      (best) => ({ ...best, certificate: { ...best.certificate, loss: { ...best.loss, shortfall: 0.5 } } }),
    ],
    [
      "that says the worse one is the best",
      (best) => ({ ...best, target: free, certificate: { ...best.certificate, to: { version: "2.0.0", ...free } } }),
    ],
  ])("with a certificate %s is refused with 409, and nobody is moved", async (what, tamper) => {
    const to = familyCalls(other, "/services");
    const name = `Certified ${what.length}`;
    await to.create({ name });
    await to.add({ name, ...SECOND });
    const user = `certified ${what.length}`;
    await contract(other, user, { [name]: { version: "1.0.0", plan: "PRO" } });
    expect((await to.call("POST", `/${name}/impact`, { action: "novation" })).status).toBe(200);
    tampered = tamper;
    for (const attempt of [
      () => to.call<Novated>("POST", `/${name}/novations`, { pricingVersion: "2.0.0" }),
      () => to.archive(name, "1.0.0", { groups: [] }),
    ]) {
      const answer = await attempt();
      expect(answer.status).toBe(409);
      expect(answer.body.error).toMatch(/^CONFLICT: What fits contracts with PRO best cannot be certified: /);
      expect(Object.values((await contractOf(other, user)).contractedServices)).toEqual(["1.0.0"]);
    }
    tampered = undefined;
    expect((await to.call("POST", `/${name}/novations`, { pricingVersion: "2.0.0" })).status).toBe(200);
  });

  test("of a version that was set aside under another label is certified as any other", async () => {
    const to = familyCalls(other, "/services");
    const name = "Relabelled";
    await to.create({ name });
    await to.call("DELETE", `/${name}`);
    await to.create({ name });
    const shown = await to.call<{ archivedPricings: object }>("GET", `/${name}`);
    const [label = ""] = Object.keys(shown.body.archivedPricings);
    expect(label).toMatch(/^1\.0\.0\.\d+$/);
    await to.call("PUT", `/${name}/pricings/${label}?availability=active`);
    await contract(other, "relabelled", { [name]: { version: "1.0.0", plan: "PRO" } });
    const moved = await to.call<Novated>("POST", `/${name}/novations`, { pricingVersion: label });
    expect(moved).toMatchObject({ status: 200, body: { targetVersion: label, novatedContracts: 1 } });
    expect(Object.values((await contractOf(other, "relabelled")).contractedServices)).toEqual([label]);
  });
});

describe("beside consumption", () => {
  test("nothing that is granted meanwhile is lost, and everybody ends on the last version", async () => {
    const key = api.callers.all.key;
    const to = familyCalls(api, "/services");
    const limits = (type: string) => `
  tasks: { valueType: NUMERIC, defaultValue: 1000000, unit: task, ${type}, linkedFeatures: [board] }`;
    const parts = { name: "Raced", usageLimits: limits("type: NON_RENEWABLE, trackable: true"), addOns: " {}" };
    const plans = "\n  FREE: { price: 0, features: null }\n  PRO: { price: 9, features: { export: { value: true } } }";
    await to.create({ ...parts, plans, version: "v0" });
    await to.add({ ...parts, plans, version: "v1" });
    const users = Array.from({ length: 12 }, (_, i) => `raced-${i}`);
    for (const [i, user] of users.entries()) {
      await contract(api, user, { raced: { version: "v0", plan: i % 2 ? "PRO" : "FREE" } }, { autoRenew: true });
    }
    const granted = new Map(users.map((user) => [user, 0]));
    const over = new AbortController();
    const consuming = users.map(async (user) => {
      while (!over.signal.aborted) {
        const answer = await api.call<{ eval?: boolean }>("POST", `/features/${user}/raced-board`, {
          key,
          body: { "raced-tasks": 1 },
        });
        expect(answer.status).toBe(200);
        if (answer.body.eval === true) granted.set(user, (granted.get(user) ?? 0) + 1);
      }
    });
    const inAll = () => [...granted.values()].reduce((sum, count) => sum + count, 0);
    let rounds = 0;
    // Novates back and forth until enough consumption has run meanwhile, on a machine of any speed.
    while (rounds < 12 || rounds % 2 === 1 || inAll() <= 100) {
      rounds += 1;
      const answer = await to.call<Novated>("POST", "/Raced/novations", { pricingVersion: `v${rounds % 2}` });
      expect(answer).toMatchObject({ status: 200, body: { novatedContracts: users.length } });
      expect(answer.body.groups).toHaveLength(2);
    }
    over.abort();
    await Promise.all(consuming);
    expect(inAll()).toBeGreaterThan(100);
    for (const [i, user] of users.entries()) {
      expect(await contractOf(api, user)).toMatchObject({
        contractedServices: { raced: "v0" },
        subscriptionPlans: { raced: i % 2 ? "PRO" : "FREE" },
        usageLevels: { raced: { tasks: { consumed: granted.get(user) } } },
      });
    }
    const [moved] = await api.database.connection.db.execute<{ count: string }>(sql`
      select count(*) from contract_history h join contracts c on c.id = h.contract_id where c.user_id like 'raced-%'`);
    expect(Number(moved?.count)).toBe(rounds * users.length);
  });

  test("mass novations, archivings and single novations at once end whole, without a 5xx", async () => {
    const key = api.callers.all.key;
    const to = familyCalls(api, "/services");
    await to.create({ name: "Crowded", version: "v0" });
    await to.add({ name: "Crowded", version: "v1" });
    const users = Array.from({ length: 6 }, (_, i) => `crowded-${i}`);
    for (const user of users) await contract(api, user, { crowded: { version: "v0", plan: "PRO" } });
    for (let round = 0; round < 20; round += 1) {
      const [old, next] = [`v${round % 2}`, `v${(round + 1) % 2}`];
      const answers = await Promise.all([
        to.call("POST", "/Crowded/novations", { pricingVersion: next }),
        to.call("POST", "/Crowded/impact", { action: "novation", pricingVersion: next }),
        to.archive("Crowded", old, { groups: [] }),
        ...users.map((user, i) =>
          api.call("PUT", `/contracts/${user}`, {
            key,
            body: {
              contractedServices: { crowded: old },
              subscriptionPlans: { crowded: i % 2 ? "PRO" : "FREE" },
              subscriptionAddOns: {},
            },
          }),
        ),
        ...users.map((user) =>
          api.call("POST", `/features/${user}/crowded-board`, { key, body: { "crowded-tasks": 1 } }),
        ),
      ]);
      expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
      await to.call("PUT", `/Crowded/pricings/${old}?availability=active`);
      await expectBalancesMatchLedger(api.database);
    }
  });
});
