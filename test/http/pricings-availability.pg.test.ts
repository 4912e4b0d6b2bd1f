import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import {
  contract,
  contractOf,
  FAMILIES,
  type FamilyCalls,
  familyCalls,
  type ServiceAnswer,
  use,
} from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

const LAST = (name: string) => `You cannot archive the last active pricing for service ${name}`;
const NEEDS_FALLBACK = (version: string, name: string) =>
  `Invalid request: Archiving pricing version ${version} of service ${name} cannot be completed. To proceed, you must provide a fallback subscription in the request body. All active contracts will be novated to this new version upon archiving.`;
const EMPTY_FALLBACK =
  "Invalid request: In order to novate contracts to the latest version, the provided fallback subscription must contain at least a subscriptionPlan (if the pricing has plans), and optionally a subset of add-ons. If the pricing do not have plans, the set of add-ons is mandatory.";

describe.each(FAMILIES)("PUT %s/{serviceName}/pricings/{pricingVersion}", (family) => {
  let to: FamilyCalls;
  const mine = (name: string) => `${name} ${FAMILIES.indexOf(family)}`;
  /** Creates a service with the active versions 1.0.0 and 2.0.0. */
  const withTwo = async (name: string) => {
    const first = await to.create({ name });
    if (first.status === 201) await to.add({ name, version: "2.0.0", createdAt: "2025-04-01" });
    return name;
  };
  const put = (name: string, version: string, query: string, body?: unknown) =>
    to.call<ServiceAnswer>("PUT", `/${encodeURIComponent(name)}/pricings/${version}${query}`, body);
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  describe("archives and activates", () => {
    test("the version moves, the answer is the whole service, and exactly one event is recorded each time", async () => {
      const name = await withTwo(mine("Moves"));
      const archived = await eventsDuring(api.database, () =>
        put(name.toLowerCase(), "1_0_0", "?availability=archived", { subscriptionPlan: "FREE" }),
      );
      expect(archived.result.status).toBe(200);
      expect(archived.result.body).toMatchObject({ name, disabled: false });
      expect(Object.keys(archived.result.body.activePricings)).toEqual(["2.0.0"]);
      expect(Object.keys(archived.result.body.archivedPricings ?? {})).toEqual(["1.0.0"]);
      const details = { serviceName: name, pricingVersion: "1.0.0" };
      expect(archived.events).toEqual([{ code: "PRICING_ARCHIVED", details }]);

      const activated = await eventsDuring(api.database, () => put(name, "1.0.0", "?availability=active"));
      expect(activated.result.status).toBe(200);
      expect(Object.keys(activated.result.body.activePricings)).toEqual(["1.0.0", "2.0.0"]);
      expect(activated.result.body.archivedPricings).toEqual({});
      expect(activated.events).toEqual([{ code: "PRICING_ACTIVED", details }]);
    });

    test("a missing availability archives", async () => {
      const name = await withTwo(mine("Missing"));
      const answer = await put(name, "1.0.0", "", { subscriptionAddOns: {} });
      expect(answer).toMatchObject({ status: 200, body: { archivedPricings: { "1.0.0": {} } } });
    });

    test.each<[string, unknown]>([
      ["no body", undefined],
      ["a fallback", { subscriptionPlan: "FREE" }],
      ["a body of the wrong shape", { subscriptionPlan: 7, subscriptionAddOns: [] }],
      ["a list", [1]],
    ])("activating ignores %s", async (_, body) => {
      const name = await withTwo(mine("Ignores"));
      await put(name, "1.0.0", "?availability=archived", { subscriptionPlan: "FREE" });
      expect(await put(name, "1.0.0", "?availability=active", body)).toMatchObject({ status: 200 });
    });

    test.each<[string, string, unknown]>([
      ["active", "2.0.0", undefined],
      ["active", "2_0_0", { subscriptionPlan: 7 }],
      ["archived", "1.0.0", undefined],
      ["archived", "1.0.0", { subscriptionPlan: 7, subscriptionAddOns: "x" }],
    ])("setting %s on %s, which it is already, changes and records nothing and looks at no body", async (...row) => {
      const [availability, version, body] = row;
      const name = await withTwo(mine("Same state"));
      await put(name, "1.0.0", "?availability=archived", { subscriptionPlan: "FREE" });
      const before = await to.call("GET", `/${name}`);
      const { result, events } = await eventsDuring(api.database, () =>
        put(name, version, `?availability=${availability}`, body),
      );
      expect(result.status).toBe(200);
      expect(result.body).toEqual(before.body);
      expect(events).toEqual([]);
    });
  });

  test.each<[string, string, string, string, unknown, number, (name: string) => string]>([
    ["an empty availability", "Two", "1.0.0", "?availability=", {}, 400, () => "No availability provided"],
    ["an unknown availability", "Two", "1.0.0", "?availability=retired", {}, 400, () => 'Invalid availability status. Either provide "active" or "archived"'], // prettier-ignore
    ["a list", "Two", "1.0.0", "", [1], 422, () => "The body must be an object"],
    ["a number as plan", "Two", "1.0.0", "", { subscriptionPlan: 1 }, 422, () => "The subscriptionPlan field must be a string"], // prettier-ignore
    ["null as plan", "Two", "1.0.0", "", { subscriptionPlan: null }, 422, () => "The subscriptionPlan field must be a string"], // prettier-ignore
    ["a text as add-ons", "Two", "1.0.0", "", { subscriptionAddOns: "x" }, 422, () => "The subscriptionAddOns field must be an object"], // prettier-ignore
    ["null as add-ons", "Two", "1.0.0", "", { subscriptionAddOns: null }, 422, () => "The subscriptionAddOns field must be an object"], // prettier-ignore
    ["a list as add-ons", "Two", "1.0.0", "", { subscriptionAddOns: [1] }, 422, () => "The subscriptionAddOns field must be an object"], // prettier-ignore
    ["a text as quantity", "Two", "1.0.0", "", { subscriptionAddOns: { a: "1" } }, 422, () => "All values in subscriptionAddOns must be numbers"], // prettier-ignore
    ["the plan before the add-ons", "Two", "1.0.0", "", { subscriptionAddOns: 1, subscriptionPlan: 1 }, 422, () => "The subscriptionPlan field must be a string"], // prettier-ignore
    ["a wrong shape for an unknown service", "Nobody", "1", "", { subscriptionPlan: 1 }, 422, () => "The subscriptionPlan field must be a string"], // prettier-ignore
    ["an unknown service", "Nobody", "1", "", {}, 404, (name) => `NOT FOUND: Service with name ${name}`],
    ["an unknown service to activate in", "Nobody", "1", "?availability=active", {}, 404, (name) => `NOT FOUND: Service with name ${name}`], // prettier-ignore
    ["the last active version", "One", "1.0.0", "", {}, 400, LAST],
    ["the last active version with a fallback", "One", "1_0_0", "", { subscriptionPlan: "FREE" }, 400, LAST],
    ["a missing fallback", "Two", "1_0_0", "", undefined, 400, (name) => NEEDS_FALLBACK("1_0_0", name)],
    ["an empty fallback", "Two", "1.0.0", "?availability=archived", {}, 400, (name) => NEEDS_FALLBACK("1.0.0", name)],
    ["an empty list", "Two", "1.0.0", "", [], 400, (name) => NEEDS_FALLBACK("1.0.0", name)],
    ["an unknown version without a fallback", "Two", "9", "", {}, 400, (name) => NEEDS_FALLBACK("9", name)],
    ["an unknown version with a fallback", "Two", "9", "", { subscriptionPlan: "FREE" }, 404, (name) => `Pricing version 9 not found for service ${name}`], // prettier-ignore
    ["an unknown version of a service without archive", "One", "9", "", { other: 1 }, 404, (name) => `Pricing version 9 not found for service ${name}`], // prettier-ignore
    ["an unknown version to activate", "Two", "9", "?availability=active", {}, 404, (name) => `Pricing version 9 not found for service ${name}`], // prettier-ignore
    ["a fallback without plan and add-ons", "Two", "1.0.0", "", { plan: "FREE" }, 400, () => EMPTY_FALLBACK],
  ])("%s is refused, writes nothing and records nothing", async (_, kind, version, query, body, status, error) => {
    const name = mine(`Refusing ${kind}`);
    if (kind === "Two") await withTwo(name);
    if (kind === "One") await to.create({ name });
    const before = await to.call("GET", `/${name}`);
    const { result, events } = await eventsDuring(api.database, () => put(name, version, query, body));
    expect(result).toMatchObject({ status, body: { error: error(name) } });
    expect(events).toEqual([]);
    expect((await to.call("GET", `/${name}`)).body).toEqual(before.body);
  });

  describe("novates", () => {
    const wrapped = (name: string, inner: string) =>
      `The configuration provided to novate affected contracts is not valid for version 2.0.0 of service ${name.toLowerCase()}. Error: Error: ${inner}`;
    const WHERE = "in the request organization";

    test.each<[unknown, number, (name: string) => string]>([
      [{ subscriptionPlan: "GOLD" }, 404, (s) => `Plan GOLD for service ${s} not found ${WHERE}`],
      [{ subscriptionAddOns: { nothing: 1 } }, 404, () => `Add-on nothing declared in the subscription not found in pricing version 2.0.0 ${WHERE}`], // prettier-ignore
      [{ subscriptionPlan: "FREE", subscriptionAddOns: { extraSeats: 2 } }, 400, () => `Add-on extraSeats is not available for plan FREE ${WHERE}`], // prettier-ignore
      [{ subscriptionPlan: "PRO", subscriptionAddOns: { support: 1 } }, 400, () => `Add-on support requires the following add-ons to be selected ${WHERE}: extraSeats`], // prettier-ignore
      [{ subscriptionPlan: "PRO", subscriptionAddOns: { quiet: 1, loud: 1 } }, 400, () => `Add-on quiet cannot be selected with the following add-ons ${WHERE}: loud`], // prettier-ignore
      [{ subscriptionPlan: "PRO", subscriptionAddOns: { extraSeats: 3 } }, 400, () => `Add-on extraSeats quantity 3 is not valid. It must be between 2 and 6, and a multiple of 2 ${WHERE}`], // prettier-ignore
      [{ subscriptionPlan: "PRO", subscriptionAddOns: { extraSeats: 8 } }, 400, () => `Add-on extraSeats quantity 8 is not valid. It must be between 2 and 6, and a multiple of 2 ${WHERE}`], // prettier-ignore
    ])("%j, which a contract cannot take, stops all of it", async (fallback, status, inner) => {
      const name = await withTwo(mine("Stops"));
      if ((await api.call("GET", `/contracts/${name}`, { key: api.callers.all.key })).status === 404) {
        await contract(api, name, { [name]: { version: "1.0.0", plan: "PRO" } });
      }
      const before = await Promise.all([to.call("GET", `/${name}`), contractOf(api, name)]);
      const { result, events } = await eventsDuring(api.database, () => put(name, "1.0.0", "", fallback));
      expect(result).toMatchObject({ status, body: { error: wrapped(name, inner(name.toLowerCase())) } });
      expect(events).toEqual([]);
      const after = await Promise.all([to.call("GET", `/${name}`), contractOf(api, name)]);
      expect(after.map((one) => ("body" in one ? one.body : one))).toEqual(
        before.map((one) => ("body" in one ? one.body : one)),
      );
    });

    test("without affected contracts the fallback is not checked", async () => {
      const name = await withTwo(mine("Unchecked"));
      expect(await put(name, "1.0.0", "", { subscriptionPlan: "GOLD" })).toMatchObject({ status: 200 });
    });

    test("a contract gets version, plan and add-ons as sent, fresh levels, and keeps the rest", async () => {
      const name = mine("Novates");
      const key = name.toLowerCase();
      const other = mine("Bystander");
      await to.create({ name: other });
      await to.create({ name });
      api.setNow(new Date("2025-06-16T10:00:00.000Z"));
      await contract(
        api,
        name,
        {
          [name]: { version: "1.0.0", plan: "PRO", addOns: { extraSeats: 2 } },
          [other]: { version: "1.0.0", plan: "FREE" },
        },
        { renewalDays: 90, autoRenew: true },
      );
      await use(api, name, { [key]: { tasks: 7, seats: 3 }, [other.toLowerCase()]: { tasks: 5 } });
      const before = await contractOf(api, name);
      await to.add({
        name,
        version: "2.0.0",
        usageLimits: `
  calls: { valueType: NUMERIC, defaultValue: 9, unit: call, type: RENEWABLE, period: { value: 2, unit: DAY } }
  tasks: { valueType: NUMERIC, defaultValue: 9, unit: task, type: RENEWABLE, period: { value: 1, unit: YEAR } }
  seats: { valueType: NUMERIC, defaultValue: 9, unit: seat, type: NON_RENEWABLE, trackable: false }
  depth: { valueType: NUMERIC, defaultValue: 9, unit: level, type: NON_RENEWABLE, trackable: true }`,
      });
      api.setNow(new Date("2025-06-20T10:00:00.000Z"));
      const fallback = { subscriptionPlan: "pro", subscriptionAddOns: { EXTRASEATS: 4 } };
      expect(await put(name, "1.0.0", "", fallback)).toMatchObject({ status: 200 });
      const after = await contractOf(api, name);
      expect(after).toEqual({
        ...before,
        contractedServices: { ...before.contractedServices, [key]: "2.0.0" },
        subscriptionPlans: { ...before.subscriptionPlans, [key]: "pro" },
        subscriptionAddOns: { ...before.subscriptionAddOns, [key]: { extraSeats: 4 } },
        usageLevels: {
          ...before.usageLevels,
          [key]: {
            calls: { resetTimeStamp: "2025-06-22T10:00:00.000Z", consumed: 0 },
            tasks: { resetTimeStamp: "2026-06-20T10:00:00.000Z", consumed: 0 },
            depth: { consumed: 0 },
          },
        },
      });
      expect(after.history).toEqual([]);
      api.setNow(new Date("2025-06-15T10:00:00.000Z"));
    });

    test("without a plan the key is absent, and without a tracked limit there are no levels", async () => {
      const name = mine("Add-ons only");
      await to.create({ name });
      await contract(api, name, { [name]: { version: "1.0.0", plan: "FREE" } });
      await to.add({ name, version: "2.0.0", usageLimits: " {}", features: `\n  export: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN }`, plans: " {}", addOns: `\n  only: { price: 1, unit: u, features: { export: { value: true } } }` }); // prettier-ignore
      expect(await put(name, "1.0.0", "", { subscriptionAddOns: { only: 1 } })).toMatchObject({ status: 200 });
      expect(await contractOf(api, name)).toMatchObject({
        contractedServices: { [name.toLowerCase()]: "2.0.0" },
        subscriptionPlans: {},
        subscriptionAddOns: { [name.toLowerCase()]: { only: 1 } },
        usageLevels: {},
      });
    });

    test("a plan alone leaves no add-ons", async () => {
      const name = await withTwo(mine("Plan only"));
      await contract(api, name, { [name]: { version: "1.0.0", plan: "PRO", addOns: { loud: 1 } } });
      await put(name, "1.0.0", "", { subscriptionPlan: "PRO" });
      expect(await contractOf(api, name)).toMatchObject({ subscriptionAddOns: { [name.toLowerCase()]: {} } });
    });

    test.each<[string, [string, string][], string]>([
      ["the greatest createdAt, not the latest upload", [["2", "2025-05-01"], ["3", "2025-04-01"]], "2"], // prettier-ignore
      ["the earliest upload among equals", [["5", "2025-04-01"], ["4", "2025-04-01"]], "5"], // prettier-ignore
      ["an older one when nothing newer is active", [["0.1", "2024-01-01"]], "0.1"],
    ])("the target is the active version with %s", async (rule, versions, target) => {
      const name = mine(`Target of ${rule}`.replace(",", ""));
      await to.create({ name, createdAt: "2025-03-01" });
      for (const [version, createdAt] of versions) await to.add({ name, version, createdAt });
      await contract(api, name, { [name]: { version: "1.0.0", plan: "FREE" } });
      await put(name, "1.0.0", "", { subscriptionPlan: "FREE" });
      expect((await contractOf(api, name)).contractedServices).toEqual({ [name.toLowerCase()]: target });
    });

    test("contracts of other versions, services and organizations stay as they are", async () => {
      const name = await withTwo(mine("Only its own"));
      const other = await api.newOrganization(api.callers.owner, `Other of ${name}`);
      await api.call("POST", "/services", { key: other.key, body: yamlUpload(pricingText({ name })) });
      await contract(api, `${name} a`, { [name]: { version: "2.0.0", plan: "FREE" } });
      await contract(api, `${name} b`, { [name]: { version: "1.0.0", plan: "FREE" } }, { key: other.key });
      const before = [await contractOf(api, `${name} a`), await contractOf(api, `${name} b`, other.key)];
      expect(await put(name, "1.0.0", "", { subscriptionPlan: "FREE" })).toMatchObject({ status: 200 });
      expect([await contractOf(api, `${name} a`), await contractOf(api, `${name} b`, other.key)]).toEqual(before);
    });

    test("the next evaluation answers by the new version, and activating again moves nobody back", async () => {
      const name = mine("Fresh");
      const key = name.toLowerCase();
      await to.create({ name });
      await contract(api, name, { [name]: { version: "1.0.0", plan: "PRO" } });
      const evaluate = () => api.call("POST", `/features/${name}`, { key: api.callers.all.key });
      const token = () => api.call<{ pricingToken: string }>("POST", `/features/${name}/pricing-token`, { key: api.callers.all.key }); // prettier-ignore
      expect((await evaluate()).body).toMatchObject({ [`${key}-export`]: true });
      await token();
      await to.add({ name, version: "2.0.0" });
      await put(name, "1.0.0", "", { subscriptionPlan: "FREE" });
      expect((await evaluate()).body).toMatchObject({ [`${key}-export`]: false });
      const payload = JSON.parse(atob((await token()).body.pricingToken.split(".")[1] ?? "")) as { features: object };
      expect(payload.features).toMatchObject({ [`${key}-export`]: { eval: false } });
      await put(name, "1.0.0", "?availability=active");
      expect((await contractOf(api, name)).contractedServices).toEqual({ [key]: "2.0.0" });
    });
  });
});

test("archiving with 101 contracts moves all 101 and takes their use back to zero, in the ledger too", async () => {
  const to = familyCalls(api, "/services");
  const name = "Hundred";
  await to.create({ name });
  await to.add({ name, version: "2.0.0", createdAt: "2025-04-01" });
  const users = Array.from({ length: 101 }, (_, i) => `hundred-${i}`);
  for (const [i, user] of users.entries()) {
    await contract(api, user, { hundred: { version: "1.0.0", plan: "PRO" } });
    if (i % 3 === 0) await use(api, user, { hundred: { tasks: i + 0.5, seats: 1 } });
  }
  await expectBalancesMatchLedger(api.database);
  const { events } = await eventsDuring(api.database, () =>
    to.archive(name, "1.0.0", { subscriptionPlan: "PRO", subscriptionAddOns: { extraSeats: 2 } }),
  );
  expect(events).toHaveLength(1);
  await expectBalancesMatchLedger(api.database);
  for (const user of users) {
    expect(await contractOf(api, user)).toMatchObject({
      contractedServices: { hundred: "2.0.0" },
      subscriptionAddOns: { hundred: { extraSeats: 2 } },
      usageLevels: { hundred: { tasks: { consumed: 0 }, seats: { consumed: 0 } } },
    });
  }
});
