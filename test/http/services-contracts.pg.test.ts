import { sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import {
  contract,
  contractOf,
  type FamilyCalls,
  familyCalls,
  type ServiceAnswer,
  use,
} from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

/** More than one page of the reference service, which processed only the first 20 contracts. */
const MANY = 21;

let api: TestApi;
let to: FamilyCalls;
let second: TestOrganization;
let foreign: TestOrganization;
beforeAll(async () => {
  api = await createTestApi();
  to = familyCalls(api, "/services");
  second = await api.newOrganization(api.callers.owner, "Second");
  foreign = await api.newOrganization(api.callers.outsider, "Foreign");
});
afterEach(() => expectBalancesMatchLedger(api.database));
afterAll(() => api.close());

/** Creates a service with many contracts of its own and as many that also hold `Other`, all with consumption. */
async function populate(name: string): Promise<{ alone: string[]; shared: string[] }> {
  const key = name.toLowerCase();
  await to.create({ name });
  if ((await to.call("GET", "/Other")).status === 404) await to.create({ name: "Other" });
  const alone = Array.from({ length: MANY }, (_, i) => `${key}-alone-${i}`);
  const shared = Array.from({ length: MANY }, (_, i) => `${key}-shared-${i}`);
  await Promise.all([
    ...alone.map(async (user) => {
      await contract(api, user, { [name]: { version: "1.0.0", plan: "PRO", addOns: { extraSeats: 2 } } });
      await use(api, user, { [key]: { tasks: 3 } });
    }),
    ...shared.map(async (user) => {
      await contract(
        api,
        user,
        { [name]: { version: "1.0.0", plan: "PRO" }, Other: { version: "1.0.0", plan: "FREE" } },
        { renewalDays: 7, autoRenew: true },
      );
      await use(api, user, { [key]: { seats: 2 }, other: { tasks: 4 } });
    }),
  ]);
  return { alone, shared };
}

describe("renaming", () => {
  test("the new key stands in all four maps of every contract; history and billing period stay", async () => {
    const { alone, shared } = await populate("Before");
    const before = await contractOf(api, shared[0] ?? "");
    await to.call("PUT", "/Before", { name: "After X" });
    for (const user of alone) {
      expect(await contractOf(api, user)).toMatchObject({
        contractedServices: { "after x": "1.0.0" },
        subscriptionPlans: { "after x": "PRO" },
        subscriptionAddOns: { "after x": { extraSeats: 2 } },
        usageLevels: { "after x": { tasks: { consumed: 3 } } },
        history: [],
      });
    }
    for (const user of shared) {
      const after = await contractOf(api, user);
      expect(after.billingPeriod).toEqual(before.billingPeriod);
      expect(Object.keys(after.contractedServices)).toEqual(["after x", "other"]);
      expect(after.usageLevels["after x"]).toMatchObject({ seats: { consumed: 2 } });
    }
    const evaluated = await api.call("POST", `/features/${alone[0]}`, { key: api.callers.all.key });
    expect(evaluated.body).toEqual({ "after x-board": true, "after x-export": true });
  });

  test("what history says stays as it was then", async () => {
    await to.create({ name: "Chronicle" });
    await contract(api, "chronicler", { Chronicle: { version: "1.0.0", plan: "FREE" } });
    await api.call("PUT", "/contracts/chronicler", {
      key: api.callers.all.key,
      body: {
        contractedServices: { Chronicle: "1.0.0" },
        subscriptionPlans: { Chronicle: "PRO" },
        subscriptionAddOns: {},
      },
    });
    await to.call("PUT", "/chronicle", { name: "Annals" });
    expect(await contractOf(api, "chronicler")).toMatchObject({
      contractedServices: { annals: "1.0.0" },
      history: [{ contractedServices: { chronicle: "1.0.0" } }],
    });
  });
});

describe("moving to another organization of the same owner", () => {
  test("contracts with only this service go along unchanged, the others lose it without history", async () => {
    const { alone, shared } = await populate("Mover");
    const before = await contractOf(api, alone[0] ?? "");
    const staying = await contractOf(api, shared[0] ?? "");
    const path = (await to.call<{ path: string }>("GET", "/Mover/pricings/1.0.0/public-url")).body.path;
    const { result, events } = await eventsDuring(api.database, () =>
      to.call<ServiceAnswer>("PUT", "/Mover", { organizationId: second.id }),
    );
    expect(result).toMatchObject({ status: 200, body: { name: "Mover", organizationId: second.id } });
    expect(events).toEqual([]);
    expect(await to.call("GET", "/Mover")).toMatchObject({ status: 404 });
    const shown = await api.call("GET", "/services/Mover/pricings/1.0.0", { key: second.key });
    expect(shown).toMatchObject({ status: 200, body: { _organizationId: second.id, yamlPath: path } });
    expect(await api.call("GET", path)).toMatchObject({ status: 200 });
    expect(await contractOf(api, alone[0] ?? "", second.key)).toEqual({ ...before, organizationId: second.id });
    for (const user of alone) {
      expect((await api.call("GET", `/contracts/${user}`, { key: api.callers.all.key })).status).toBe(404);
      expect((await contractOf(api, user, second.key)).usageLevels).toMatchObject({
        mover: { tasks: { consumed: 3 } },
      });
    }
    for (const user of shared) {
      expect(await contractOf(api, user)).toMatchObject({
        organizationId: api.callers.organizationId,
        contractedServices: { other: "1.0.0" },
        subscriptionPlans: { other: "FREE" },
        usageLevels: { other: { tasks: { consumed: 4 } } },
        billingPeriod: staying.billingPeriod,
        history: [],
      });
      expect(Object.keys((await contractOf(api, user)).usageLevels)).toEqual(["other"]);
    }
  });

  test("rename and move together give the results of both", async () => {
    await to.create({ name: "Both" });
    await contract(api, "both", { Both: { version: "1.0.0", plan: "FREE" } });
    const answer = await to.call("PUT", "/Both", { name: "Both New", organizationId: second.id });
    expect(answer).toMatchObject({ status: 200, body: { name: "Both New", organizationId: second.id } });
    expect(await contractOf(api, "both", second.key)).toMatchObject({
      organizationId: second.id,
      contractedServices: { "both new": "1.0.0" },
      usageLevels: { "both new": { tasks: { consumed: 0 } } },
    });
  });

  test("a rename that goes along may leave a name that is taken there, for one that is taken here", async () => {
    await to.create({ name: "Taken There" });
    await to.create({ name: "Taken Here" });
    await contract(api, "renamed-away", { "Taken There": { version: "1.0.0", plan: "FREE" } });
    const there = yamlUpload(pricingText({ name: "taken there" }));
    expect(await api.call("POST", "/services", { key: second.key, body: there })).toMatchObject({ status: 201 });
    const moved = await to.call("PUT", "/Taken%20There", { name: "Taken Here", organizationId: second.id });
    expect(moved).toMatchObject({ status: 200, body: { name: "Taken Here", organizationId: second.id } });
    expect(await contractOf(api, "renamed-away", second.key)).toMatchObject({
      contractedServices: { "taken here": "1.0.0" },
      usageLevels: { "taken here": { tasks: { consumed: 0 } } },
    });
    const shown = await api.call("GET", "/services/taken%20here", { key: second.key });
    expect(shown).toMatchObject({ status: 200, body: { name: "Taken Here" } });
    expect(await to.call("GET", "/Taken%20Here")).toMatchObject({ status: 200 });
    expect(await to.call("GET", "/Taken%20There")).toMatchObject({ status: 404 });
  });

  test("a name that is taken there is a conflict", async () => {
    await to.create({ name: "Twice" });
    await api.call("POST", "/services", { key: second.key, body: yamlUpload(pricingText({ name: "TWICE" })) });
    expect(await to.call("PUT", "/Twice", { organizationId: second.id })).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: Service name Twice already exists" },
    });
    expect(await to.call("GET", "/Twice")).toMatchObject({ status: 200 });
  });

  test("an end user who is contracted there already is a conflict, and nothing has changed", async () => {
    await to.create({ name: "Meets" });
    await contract(api, "met", { Meets: { version: "1.0.0", plan: "FREE" } });
    await contract(api, "not-met", { Meets: { version: "1.0.0", plan: "FREE" } });
    await api.call("POST", "/services", { key: second.key, body: yamlUpload(pricingText({ name: "There" })) });
    await contract(api, "met", { There: { version: "1.0.0", plan: "FREE" } }, { key: second.key });
    expect(await to.call("PUT", "/Meets", { name: "Met", organizationId: second.id })).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: Contract for user met already exists" },
    });
    expect(await to.call("GET", "/Meets")).toMatchObject({ status: 200, body: { name: "Meets" } });
    expect(await contractOf(api, "not-met")).toMatchObject({ organizationId: api.callers.organizationId });
  });

  test.each([
    ["an unknown organization", "0".repeat(24), `INVALID DATA: Organization with id ${"0".repeat(24)} not found`],
    ["an id that is not hexadecimal", "z".repeat(24), "INVALID DATA: Invalid organization ID"],
  ])("%s is refused", async (_, organizationId, error) => {
    await to.create({ name: "Stays" });
    expect(await to.call("PUT", "/Stays", { organizationId })).toMatchObject({ status: 400, body: { error } });
  });
});

describe("moving between owners", () => {
  const move = (name: string, key: string, organizationId: string) =>
    api.call("PUT", `/organizations/${api.callers.organizationId}/services/${name}`, {
      key,
      body: { organizationId },
    });

  test("an organization key may not push a service into somebody else's organization", async () => {
    await to.create({ name: "Pushed" });
    for (const { key } of [api.callers.all, api.callers.management]) {
      const answer = await api.call("PUT", "/services/Pushed", { key, body: { organizationId: foreign.id } });
      expect(answer.status).toBe(403);
    }
    expect(await to.call("GET", "/Pushed")).toMatchObject({ status: 200 });
    expect((await api.call("GET", "/services", { key: foreign.key })).body).toEqual([]);
  });

  test.each([
    ["nothing", undefined, 403],
    ["EVALUATOR", "EVALUATOR", 403],
    ["MANAGER", "MANAGER", 200],
    ["ADMIN", "ADMIN", 200],
  ])("an ADMIN who is %s in the target organization may move or not", async (word, role, status) => {
    const name = `Moved by ${word}`;
    await to.create({ name });
    const target = await api.newOrganization(api.callers.outsider, `Target ${word}`);
    if (role !== undefined) {
      await api.call("POST", `/organizations/${target.id}/members`, {
        key: api.callers.outsider.key,
        body: { username: api.callers.organizationAdmin.username, role },
      });
    }
    expect((await move(name, api.callers.organizationAdmin.key, target.id)).status).toBe(status);
  });

  test("the owner of both and a platform ADMIN may", async () => {
    await to.create({ name: "By owner" });
    expect((await move("By owner", api.callers.owner.key, second.id)).status).toBe(200);
    await to.create({ name: "By admin" });
    expect((await move("By admin", api.callers.platformAdmin.key, foreign.id)).status).toBe(200);
  });
});

/** Contract §6.3: contracts of a removed service. */
async function expectRemoved(users: { alone: string[]; shared: string[] }, key: string, when: string): Promise<void> {
  const later = new Date(Date.parse(when) + 7 * 86_400_000).toISOString();
  for (const user of users.alone) {
    expect(await contractOf(api, user)).toMatchObject({
      contractedServices: {},
      subscriptionPlans: {},
      subscriptionAddOns: {},
      usageLevels: {},
      billingPeriod: { startDate: when, endDate: when, autoRenew: false, renewalDays: 0 },
      history: [
        {
          startDate: "2025-06-15T10:00:00.000Z",
          endDate: when,
          contractedServices: { [key]: "1.0.0" },
          subscriptionPlans: { [key]: "PRO" },
          subscriptionAddOns: { [key]: { extraSeats: 2 } },
        },
      ],
    });
  }
  for (const user of users.shared) {
    expect(await contractOf(api, user)).toMatchObject({
      contractedServices: { other: "1.0.0" },
      subscriptionPlans: { other: "FREE" },
      usageLevels: { other: { tasks: { consumed: 4 } } },
      billingPeriod: { startDate: when, endDate: later, autoRenew: true, renewalDays: 7 },
      history: [{ contractedServices: { [key]: "1.0.0", other: "1.0.0" }, endDate: when }],
    });
  }
}

describe("disabling", () => {
  test("every contract loses the service with a history entry; what is left restarts, what is empty ends", async () => {
    const users = await populate("Disabled One");
    api.setNow(new Date("2025-06-18T00:00:00.000Z"));
    expect((await to.call("DELETE", "/disabled one")).status).toBe(204);
    await expectRemoved(users, "disabled one", "2025-06-18T00:00:00.000Z");
    const key = api.callers.all.key;
    const evaluated = await api.call("POST", `/features/${users.shared[0]}`, { key });
    expect(evaluated.body).toEqual({ "other-board": true, "other-export": false });
    api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  });

  test("re-creating it attaches no contract again", async () => {
    await to.create({ name: "Disabled One", version: "5" });
    expect(await contractOf(api, "disabled one-alone-0")).toMatchObject({ contractedServices: {} });
  });
});

describe("pruning", () => {
  const prune = (key: string, path = "/services") => api.call("DELETE", path, { key });

  test("an organization without services prunes none", async () => {
    const empty = await api.newOrganization(api.callers.owner, "Empty");
    expect(await prune(empty.key)).toMatchObject({ status: 200, body: { message: "Pruned 0 services" } });
  });

  test("services go for good, disabled ones counted, contracts as at disabling, without an event", async () => {
    const users = await populate("Pruned One");
    const { path } = (await to.call<{ path: string }>("GET", "/pruned one/pricings/1.0.0/public-url")).body;
    await to.create({ name: "Already disabled" });
    await to.call("DELETE", "/Already disabled");
    const before = await api.database.connection.db.execute<{ n: number }>(
      sql`select count(*)::int as n from services where organization_id = ${api.callers.organizationId}`,
    );
    const others = await api.call("GET", "/services", { key: second.key });
    api.setNow(new Date("2025-06-18T00:00:00.000Z"));
    const { result, events } = await eventsDuring(api.database, () => prune(to.key));
    expect(result).toMatchObject({ status: 200, body: { message: `Pruned ${before[0]?.n} services` } });
    expect(events).toEqual([]);
    for (const user of [...users.alone, ...users.shared]) {
      expect(await contractOf(api, user)).toMatchObject({
        contractedServices: {},
        usageLevels: {},
        billingPeriod: { autoRenew: false, renewalDays: 0 },
        history: [{ endDate: "2025-06-18T00:00:00.000Z" }],
      });
    }
    expect((await to.call("GET", "")).body).toEqual([]);
    expect(await api.call("GET", path)).toMatchObject({ status: 404 });
    expect((await api.call("GET", "/services", { key: second.key })).body).toEqual(others.body);
    api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  });

  test("the same service and version can be created again", async () => {
    expect((await to.create({ name: "Pruned One" })).body).toMatchObject({ activePricings: { "1.0.0": {} } });
  });

  test("inside an organization, a platform ADMIN prunes only that one", async () => {
    await api.call("POST", "/services", { key: foreign.key, body: yamlUpload(pricingText({ name: "Foreign" })) });
    expect(await prune(api.callers.platformAdmin.key, `/organizations/${foreign.id}/services`)).toMatchObject({
      status: 200,
      body: { message: expect.stringMatching(/^Pruned [12] services$/) as unknown },
    });
    expect(await to.call("GET", "/Pruned One")).toMatchObject({ status: 200 });
    expect((await api.call("GET", "/services", { key: second.key })).body).not.toEqual([]);
  });

  test("on the top level, a platform ADMIN who names an organization prunes only that one", async () => {
    await api.call("POST", "/services", { key: foreign.key, body: yamlUpload(pricingText({ name: "Foreign" })) });
    const answer = await prune(api.callers.platformAdmin.key, `/services?organizationId=${foreign.id}`);
    expect(answer).toMatchObject({ status: 200, body: { message: "Pruned 1 services" } });
    expect(await to.call("GET", "/Pruned One")).toMatchObject({ status: 200 });
  });

  test("an empty organizationId, as an unset variable makes it, is refused and not taken for all of them", async () => {
    expect((await prune(api.callers.platformAdmin.key, "/services?organizationId=")).status).toBe(400);
    expect(await to.call("GET", "/Pruned One")).toMatchObject({ status: 200 });
  });

  test("an organization key prunes its own organization whatever it names", async () => {
    const third = await api.newOrganization(api.callers.owner, "Third");
    expect(await prune(third.key, `/services?organizationId=${api.callers.organizationId}`)).toMatchObject({
      body: { message: "Pruned 0 services" },
    });
    expect(await to.call("GET", "/Pruned One")).toMatchObject({ status: 200 });
  });

  test("a platform ADMIN's DELETE of one service or version works where the organization is named", async () => {
    const { key } = api.callers.platformAdmin;
    await to.add({ name: "Pruned One", version: "2.0.0" });
    await to.archive("Pruned One", "1.0.0", { subscriptionPlan: "FREE" });
    for (const path of ["/services/Pruned One/pricings/1.0.0", "/services/Pruned One"]) {
      expect(await api.call("DELETE", path, { key })).toMatchObject({
        status: 403,
        body: { error: `Your user role (ADMIN) does not have permission to DELETE ${encodeURI(path)}` },
      });
      const named = `${path}?organizationId=${api.callers.organizationId}`;
      expect((await api.call("DELETE", `${path}?organizationId=`, { key })).status).toBe(403);
      expect((await api.call("DELETE", `${path}?organizationId=${second.id}`, { key })).status).toBe(404);
      expect((await api.call("DELETE", named, { key })).status).toBe(204);
    }
  });

  test("on the top level, a platform ADMIN prunes the whole instance, disabled services included", async () => {
    const before = await api.database.connection.db.execute<{ n: number }>(
      sql`select count(*)::int as n from services`,
    );
    expect(await prune(api.callers.platformAdmin.key)).toMatchObject({
      body: { message: `Pruned ${before[0]?.n} services` },
    });
    expect((await api.call("GET", "/services", { key: api.callers.platformAdmin.key })).body).toEqual([]);
  });
});
