import * as fc from "fast-check";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import "../support/property-seed.ts";

/* Cases of contract offers §10, by their numbers. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const named = (name: string, text = SAMPLE) => text.replace("saasName: Tasker", `saasName: ${name}`);

interface Target {
  pricingVersion: string;
  plan: string | null;
  addOns: Record<string, number>;
}
interface Purchase {
  target: Target | null;
  contact: boolean;
  price: { now: number | null; then: number | null; currency: string; unit: string | null } | null;
  gains: { kind: string; id: string; before: unknown; after: unknown }[];
  losses: unknown[];
  differences: unknown[];
}
interface Unlock extends Purchase {
  service: string | null;
  current: Target | null;
  reason: string | null;
  alternatives: Purchase[];
  complete: boolean;
}
interface Item {
  name: string;
  price: { value: number | string; text: string };
  select: Target | null;
  scenario?: string;
  held?: number;
  features: { text: string }[];
  limits: { text: string }[];
  extensions: Record<string, { text: string }>;
}
interface Offer {
  pricingVersion: string;
  versions?: string[];
  plans: Item[];
  addOns: Item[];
  current?: (Target & { expired: boolean }) | null;
}

let api: TestApi;
let key: string;
let organizationId: string;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  ({ organizationId } = api.callers);
  await upload(api, key, SAMPLE);
});
afterAll(() => api.close());

let users = 0;
/** Contracts a new end user to the plan, with this consumption. */
async function subscribed(plan: string, extraTasks = 0, used = 0, service = "tasker"): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    contractedServices: { [service]: "1.0.0" },
    subscriptionPlans: { [service]: plan },
    subscriptionAddOns: extraTasks === 0 ? {} : { [service]: { extraTasks } },
  });
  if (used > 0) await use(userId, used, service);
  return userId;
}

async function use(userId: string, amount: number, service = "tasker"): Promise<void> {
  const body = { [service]: { maxTasks: amount } };
  expect(await api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body })).toMatchObject({ status: 200 });
}

async function unlock(userId: string, featureId: string, body: object = {}, query = ""): Promise<Unlock> {
  const answer = await api.call<Unlock>("POST", `/features/${userId}/${featureId}/unlock${query}`, { key, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}

const brief = ({ target, price }: Purchase) => [target?.plan, target?.addOns, price?.now, price?.then];

describe("the cheapest unlock", () => {
  test("1: a feature that is on needs none", async () => {
    expect(await unlock(await subscribed("PRO", 1, 299), "tasker-board")).toMatchObject({
      target: null,
      reason: "ALREADY_ON",
      alternatives: [],
      complete: true,
    });
    const served = await unlock(await subscribed("PRO", 1, 300), "tasker-board", {}, "?server=true");
    expect(served.reason).toBe("ALREADY_ON");
  });

  test("2: answers the example of the contract, byte for byte", async () => {
    const answer = await unlock(await subscribed("PRO", 1, 300), "tasker-board");
    // oxlint-disable-next-line unicorn/no-thenable -- a number, and the contract's name for it
    const price = (then: number) => ({ now: 8, then, currency: "EUR", unit: "user/month" });
    expect(JSON.stringify(answer)).toBe(
      JSON.stringify({
        featureId: "tasker-board",
        service: "tasker",
        current: { pricingVersion: "1.0.0", plan: "PRO", addOns: { extraTasks: 1 } },
        target: { pricingVersion: "1.0.0", plan: "PRO", addOns: { extraTasks: 2 } },
        reason: null,
        contact: false,
        price: price(10),
        gains: [{ kind: "limit", id: "tasker-maxTasks", before: 300, after: 400 }],
        losses: [],
        differences: [],
        alternatives: [
          {
            target: { pricingVersion: "1.0.0", plan: "BUSINESS", addOns: {} },
            contact: false,
            price: price(12),
            gains: [
              { kind: "feature", id: "tasker-export", before: false, after: true },
              { kind: "feature", id: "tasker-sla", before: "99%", after: "99.9%" },
              { kind: "limit", id: "tasker-maxTasks", before: 300, after: 2000 },
            ],
            losses: [],
            differences: [],
          },
        ],
        complete: true,
      }),
    );
  });

  test.each([
    ["3", "PRO", 1, 300, 250, ["BUSINESS", {}, 8, 12], [["PRO", { extraTasks: 4 }, 8, 14]]],
    ["4", "PRO", 1, 299, 2, ["PRO", { extraTasks: 2 }, 8, 10], [["BUSINESS", {}, 8, 12]]],
    ["5", "FREE", 0, 20, undefined, ["PRO", {}, 0, 6], [["BUSINESS", {}, 0, 12]]],
    ["5", "BUSINESS", 0, 2000, undefined, ["BUSINESS", { extraTasks: 1 }, 12, 14], []],
  ])("%s: %s + %d, %d used, amount %s", async (_, plan, extraTasks, used, amount, target, alternatives) => {
    const body = amount === undefined ? {} : { amounts: { "tasker-maxTasks": amount } };
    const answer = await unlock(await subscribed(plan, extraTasks, used), "tasker-board", body);
    expect(brief(answer)).toEqual(target);
    expect(answer.alternatives.map(brief)).toEqual(alternatives);
  });

  test("6 to 9: plans, nothing on offer, unknown features, features without expression", async () => {
    const free = await subscribed("FREE");
    const found = await unlock(free, "tasker-export");
    expect([brief(found), found.alternatives]).toEqual([["BUSINESS", {}, 0, 12], []]);
    const none = await unlock(await subscribed("FREE", 0, 5000), "tasker-board");
    expect(none).toMatchObject({ reason: "NOT_OFFERED", target: null, price: null, complete: true });
    for (const featureId of ["tasker-nope", "other-board"]) {
      const unknown = await unlock(free, featureId);
      expect(unknown).toMatchObject({ reason: "UNKNOWN_FEATURE", service: null, current: null });
    }
    await upload(api, key, named("Mute", SAMPLE.replace("pricingContext['features']['export']", "true")));
    const muted = await unlock(await subscribed("FREE", 0, 0, "mute"), "mute-export");
    expect(muted).toMatchObject({ reason: "NO_EXPRESSION", service: "mute", current: { plan: "FREE" } });
  });

  test("10, 11: text prices come after everything else, and then decide alone", async () => {
    const textual = named("Talk", SAMPLE.replace("price: 12", "price: Contact sales"));
    await upload(api, key, textual);
    const answer = await unlock(await subscribed("FREE", 0, 0, "talk"), "talk-export");
    expect([brief(answer), answer.contact]).toEqual([["BUSINESS", {}, 0, null], true]);
    const both = named("Both", textual.replaceAll("Talk", "Both")).replace(
      "addOns:\n",
      `  SMALL:
    price: 900
    unit: user/month
    features: { export: { value: true } }
    usageLimits: { maxTasks: { value: 10 } }
addOns:
`,
    );
    await upload(api, key, both);
    const paid = await unlock(await subscribed("FREE", 0, 0, "both"), "both-export");
    expect(brief(paid)).toEqual(["SMALL", {}, 0, 900]);
    expect(paid.losses).toEqual([{ kind: "limit", id: "both-maxTasks", before: 20, after: 10 }]);
    expect(paid.alternatives.map(({ target, contact }) => [target?.plan, contact])).toEqual([["BUSINESS", true]]);
  });

  test("12, 26: private plans are for those who hold them", async () => {
    const text = named("Hidden", SAMPLE.replace("    price: 12\n", "    price: 12\n    private: true\n"));
    await upload(api, key, text);
    expect(await unlock(await subscribed("FREE", 0, 0, "hidden"), "hidden-export")).toMatchObject({
      reason: "NOT_OFFERED",
    });
    const holder = await unlock(await subscribed("BUSINESS", 0, 2000, "hidden"), "hidden-board");
    expect(brief(holder)).toEqual(["BUSINESS", { extraTasks: 1 }, 12, 14]);
    const page = await api.call("GET", "/services/hidden/offer", { key });
    expect(JSON.stringify(page.body)).not.toContain("BUSINESS");
  });

  test("13: of plans that are equal in all but name, the first name answers", async () => {
    const twins = named("Twins", SAMPLE).replace(
      "addOns:\n",
      `  ATTIC:
    price: 12
    unit: user/month
    features: { darkMode: { value: true }, export: { value: true }, sla: { value: "99.9%" } }
    usageLimits: { maxTasks: { value: 2000 } }
addOns:
`,
    );
    await upload(api, key, twins);
    const answer = await unlock(await subscribed("FREE", 0, 0, "twins"), "twins-export");
    expect([answer, ...answer.alternatives].map(({ target }) => target?.plan)).toEqual(["ATTIC", "BUSINESS"]);
  });

  test("15: searches the version that the user has, or the one asked for", async () => {
    await upload(api, key, named("Aging"));
    const userId = await subscribed("FREE", 0, 0, "aging");
    const newer = named("Aging", SAMPLE).replace('"1.0.0"', '"2.0.0"').replace("2025-03-01", "2025-05-01");
    await upload(api, key, newer.replace("price: 12", "price: 15"));
    expect((await unlock(userId, "aging-export")).target?.pricingVersion).toBe("1.0.0");
    const asked = await unlock(userId, "aging-export", {}, "?pricingVersion=2_0_0");
    expect([asked.current?.pricingVersion, asked.target?.pricingVersion, asked.price?.then]).toEqual([
      "1.0.0",
      "2.0.0",
      15,
    ]);
    const call = (query: string) => api.call("POST", `/features/${userId}/aging-export/unlock${query}`, { key });
    expect(await call("?pricingVersion=")).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The pricingVersion query parameter is empty" },
    });
    expect(await call("?pricingVersion=9")).toMatchObject({
      status: 404,
      body: { error: "Pricing version 9 not found for service aging" },
    });
    const body = { subscriptionPlan: "FREE" };
    await api.call("PUT", "/services/aging/pricings/1.0.0?availability=archived", { key, body });
    expect(await call("?pricingVersion=1.0.0")).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: Pricing version 1.0.0 of service aging is archived" },
    });
    const offered = await api.call("GET", "/services/aging/offer?pricingVersion=1.0.0", { key });
    expect(offered).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: Pricing version 1.0.0 of service aging is archived" },
    });
  });

  test.each([
    [{ amount: {} }, "Unknown field: amount"],
    [[], "The body must be an object"],
    [{ amounts: 3 }, "The amounts field must be an object"],
    [
      { amounts: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`x${i}`, ""])) },
      "The amounts field must not have more than 50 entries",
    ],
    [{ amounts: { "tasker-maxTasks": "1" } }, "All values in amounts must be numbers"],
    [{ amounts: { "tasker-maxTasks": -1 } }, "All values in amounts must be non-negative finite numbers"],
    [{ amounts: { "tasker-maxTasks": 2 ** 53 } }, "All values in amounts must be non-negative finite numbers"],
    [{ amounts: { a: -1, "tasker-maxTasks": "1" } }, "All values in amounts must be numbers"],
    [{ amounts: { "tasker-x": 1 } }, "Unknown field: amounts.tasker-x"],
  ])("16: %j is refused", async (body, error) => {
    const userId = await subscribed("FREE");
    const answer = await api.call("POST", `/features/${userId}/tasker-board/unlock`, { key, body });
    expect(answer).toMatchObject({ status: 422, body: { error } });
  });

  test("16, 17: moments, contracts and callers", async () => {
    const userId = await subscribed("FREE");
    const path = `/features/${userId}/tasker-board/unlock`;
    expect(await api.call("POST", `${path}?at=2026-01-01`, { key })).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: 'at' cannot be combined with an unlock" },
    });
    expect((await api.call("POST", path, { key: api.callers.evaluation.key })).status).toBe(200);
    expect(await api.call("POST", path, { key: api.callers.owner.key })).toMatchObject({ status: 403 });
    expect(await api.call("POST", "/features/nobody/tasker-board/unlock", { key })).toMatchObject({
      status: 404,
      body: { error: "Contract with userId nobody not found" },
    });
  });

  test("18, 19: the target is accepted and unlocks; asking writes nothing", async () => {
    const userId = await subscribed("PRO", 1, 300);
    const audited = async () =>
      (await api.call<{ data: unknown[] }>("GET", "/audit-log?limit=100", { key })).body.data.length;
    const before = await audited();
    const answers = await Promise.all(Array.from({ length: 32 }, () => unlock(userId, "tasker-board")));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(await audited()).toBe(before);
    const { target } = answers[0] ?? {};
    const novation = {
      contractedServices: { tasker: target?.pricingVersion },
      subscriptionPlans: { tasker: target?.plan },
      subscriptionAddOns: { tasker: target?.addOns },
    };
    expect(await api.call("PUT", `/contracts/${userId}`, { key, body: novation })).toMatchObject({ status: 200 });
    const spent = await api.call("POST", `/features/${userId}/tasker-board?strict=true&dryRun=true`, {
      key,
      body: { "tasker-maxTasks": 1 },
    });
    expect(spent.body).toMatchObject({ eval: true });
  });
});

describe("an unlock beside open holds and leases", () => {
  const novate = async (userId: string, target: Target | null | undefined) => {
    const body = {
      contractedServices: { tasker: target?.pricingVersion },
      subscriptionPlans: { tasker: target?.plan },
      subscriptionAddOns: { tasker: target?.addOns },
    };
    expect(await api.call("PUT", `/contracts/${userId}`, { key, body })).toMatchObject({ status: 200 });
  };
  const isOn = async (userId: string) =>
    (await api.call<{ eval: boolean }>("POST", `/features/${userId}/tasker-board`, { key })).body.eval;

  test.each([
    ["a hold", "?hold=PT10M", { "tasker-maxTasks": 290 }],
    ["a lease", "/leases", { for: "PT1M", amounts: { "tasker-maxTasks": 290 } }],
  ])("counts what %s sets aside", async (_, path, body) => {
    const userId = await subscribed("PRO", 1, 10);
    const taken = await api.call("POST", `/features/${userId}/tasker-board${path}`, { key, body });
    expect(taken.status, JSON.stringify(taken.body)).toBeLessThan(300);
    expect(await isOn(userId)).toBe(false);
    const { target, gains } = await unlock(userId, "tasker-board");
    expect(target).toMatchObject({ plan: "PRO", addOns: { extraTasks: 2 } });
    expect(gains.length).toBeGreaterThan(0);
    await novate(userId, target);
    expect(await isOn(userId)).toBe(true);
  });

  test("never names the present configuration while the feature is off, and its target turns it on", async () => {
    const history = fc.record({
      plan: fc.constantFrom("FREE", "PRO"),
      extraTasks: fc.integer({ min: 0, max: 3 }),
      used: fc.integer({ min: 0, max: 600 }),
      // Shares of the remainder that are set aside one after the other. The last one may take it all.
      shares: fc.array(fc.constantFrom(0.2, 0.5, 1), { maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(history, async ({ plan, extraTasks, used, shares }) => {
        const userId = await subscribed(plan, plan === "FREE" ? 0 : extraTasks, used);
        for (const share of shares) {
          const { body } = await api.call<{ used: Record<string, number>; limit: Record<string, number> }>(
            "POST",
            `/features/${userId}/tasker-board`,
            { key },
          );
          const left = (body.limit["tasker-maxTasks"] ?? 0) - (body.used["tasker-maxTasks"] ?? 0);
          await api.call("POST", `/features/${userId}/tasker-board?hold=PT10M`, {
            key,
            body: { "tasker-maxTasks": Math.max(1, Math.ceil(left * share)) },
          });
        }
        const on = await isOn(userId);
        const { target, current, reason } = await unlock(userId, "tasker-board");
        expect(reason === "ALREADY_ON").toBe(on);
        if (on) return;
        expect(target).not.toEqual(current);
        await novate(userId, target);
        expect(await isOn(userId)).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});

describe("the offer of a service", () => {
  const offerFor = async (query = "", service = "tasker") => {
    const answer = await api.call<Offer>("GET", `/services/${service}/offer${query}`, { key });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer;
  };

  test("21, 22: says what each item means for the user", async () => {
    const { body } = await offerFor(`?userId=${await subscribed("PRO", 1)}`);
    expect(body.plans.map(({ name, scenario, select }) => [name, scenario, select?.addOns])).toEqual([
      ["FREE", "downgrade", {}],
      ["PRO", "current", { extraTasks: 1 }],
      ["BUSINESS", "upgrade", { extraTasks: 1 }],
    ]);
    expect(body.addOns[0]).toMatchObject({ held: 1, select: { plan: "PRO", addOns: { extraTasks: 2 } } });
    expect(body.current).toEqual({ pricingVersion: "1.0.0", plan: "PRO", addOns: { extraTasks: 1 }, expired: false });
    const full = await offerFor(`?userId=${await subscribed("PRO", 5)}`);
    expect(full.body.addOns[0]).toMatchObject({ held: 5, select: null });
  });

  test("24: has the texts of a price page", async () => {
    const { body } = await offerFor();
    const [free, pro] = body.plans;
    expect(free?.price.text).toBe("Free");
    expect(pro?.price.text).toBe("6 EUR / user/month");
    expect(pro?.limits[0]?.text).toBe("200 task per month");
    expect(pro?.features[0]?.text).toBe("Included");
    expect(body.addOns[0]?.price.text).toBe("2 EUR / month");
    expect(body.addOns[0]?.extensions["maxTasks"]?.text).toBe("+100 task");
    expect([body.current, body.plans[0]?.scenario, body.addOns[0]?.held, body.addOns[0]?.select]).toEqual([
      undefined,
      undefined,
      undefined,
      null,
    ]);
    expect(JSON.stringify(body)).not.toContain("pricingContext");
  });

  test("25: for contracts that have ended, and users without one", async () => {
    const userId = await subscribed("PRO");
    const body = { endDate: "2025-06-20T00:00:00.000Z", autoRenew: false };
    expect((await api.call("PUT", `/contracts/${userId}/billingPeriod`, { key, body })).status).toBe(200);
    api.setNow(new Date("2025-06-20T00:00:00.001Z"));
    const ended = await offerFor(`?userId=${userId}`);
    expect(ended.body.current).toMatchObject({ plan: "PRO", expired: true });
    expect(ended.body.plans[1]?.scenario).toBe("current");
    expect((await api.call("POST", `/features/${userId}/tasker-board/unlock`, { key })).status).toBe(400);
    api.setNow(new Date("2025-06-15T10:00:00.000Z"));
    const nobody = await offerFor("?userId=nobody");
    expect(nobody.body.current).toBeNull();
    expect(nobody.body.plans.map(({ scenario }) => scenario)).toEqual(["upgrade", "upgrade", "upgrade"]);
  });

  test("27: has an ETag that changes with it", async () => {
    await upload(api, key, named("Tagged"));
    const first = await offerFor("", "tagged");
    const tag = first.headers.get("etag") ?? "";
    expect(first.headers.get("cache-control")).toBe("private, no-cache");
    const again = () => api.call("GET", "/services/tagged/offer", { key, headers: { "if-none-match": tag } });
    expect((await again()).status).toBe(304);
    const newer = named("Tagged").replace('"1.0.0"', '"2.0.0"').replace("2025-03-01", "2025-05-01");
    await upload(api, key, newer);
    const changed = await again();
    expect([changed.status, changed.headers.get("etag") === tag]).toEqual([200, false]);
  });

  test("is read by members, at their address", async () => {
    const path = `/organizations/${organizationId}/services/TASKER/offer`;
    const mine = await api.call<Offer>("GET", path, { key: api.callers.evaluator.key });
    expect(mine.body).toEqual((await offerFor()).body);
    expect((await api.call("GET", path, { key: api.callers.outsider.key })).status).toBe(403);
    expect((await api.call("GET", "/services/tasker/offer", { key: api.callers.owner.key })).status).toBe(403);
    expect(await api.call("GET", "/services/nope/offer?userId=", { key })).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The userId query parameter is empty" },
    });
    expect((await api.call("GET", "/services/nope/offer", { key })).status).toBe(404);
  });
});

describe("public offers", () => {
  const publish = (services: unknown, caller = api.callers.organizationAdmin.key) =>
    api.call("PUT", `/organizations/${organizationId}/public-offer`, { key: caller, body: { services } });
  const read = (service = "tasker", headers: Record<string, string> = {}) =>
    api.call<Offer>("GET", `/public-offers/${organizationId}/${service}`, { headers });

  test("28: are open to every page once they are published", async () => {
    expect(await read()).toMatchObject({ status: 404, body: { error: "NOT FOUND: Service with name tasker" } });
    expect(await publish(["tasker", "Tasker"])).toMatchObject({ status: 200, body: { services: ["Tasker"] } });
    const answer = await read("tasker", { origin: "https://pages.example" });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
    expect(answer.headers.get("cache-control")).toBe("public, max-age=60");
    expect([answer.body.versions, answer.body.current, answer.body.plans[0]?.scenario]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    const asked = await api.call("OPTIONS", `/public-offers/${organizationId}/tasker`, {
      headers: { origin: "https://pages.example", "access-control-request-method": "GET" },
    });
    expect([asked.status, asked.headers.get("access-control-allow-methods")]).toEqual([204, "GET,HEAD,OPTIONS"]);
    expect(asked.headers.get("access-control-allow-credentials")).toBeNull();
    for (const name of ["userId", "pricingVersion"]) {
      expect(await api.call("GET", `/public-offers/${organizationId}/tasker?${name}=x`)).toMatchObject({
        status: 400,
        body: { error: `INVALID DATA: A public offer takes no ${name}` },
      });
    }
    expect((await read("tasker", { "x-api-key": `org_${"0".repeat(64)}` })).status).toBe(401);
    expect((await api.call("GET", "/public-offers/nope/tasker")).status).toBe(404);
  });

  test("29: end when the service is disabled, for good", async () => {
    await upload(api, key, named("Brief"));
    expect((await publish(["Brief"])).status).toBe(200);
    expect((await read("brief")).status).toBe(200);
    expect((await api.call("DELETE", "/services/brief", { key })).status).toBe(204);
    expect((await read("brief")).status).toBe(404);
    await upload(api, key, named("Brief"));
    expect((await read("brief")).status).toBe(404);
    const listed = await api.call("GET", `/organizations/${organizationId}/public-offer`, {
      key: api.callers.evaluator.key,
    });
    expect(listed.body).toEqual({ services: [] });
    expect(await publish([], api.callers.manager.key)).toMatchObject({
      status: 403,
      body: { error: expect.stringContaining("Allowed roles: OWNER, ADMIN") },
    });
    expect(await publish([], key)).toMatchObject({
      status: 403,
      body: { error: "This route requires a user API key. Organization API keys are not allowed" },
    });
  });

  test.each([
    [{}, "The services field is required"],
    [{ services: "Tasker" }, "The services field must be a list of service names"],
    [{ services: [3] }, "The services field must be a list of service names"],
    [{ services: [], more: 1 }, "Unknown field: more"],
    [{ services: Array.from({ length: 1001 }, () => "x") }, "The services field must not have more than 1000 elements"],
    [[], "The body must be an object"],
  ])("%#: a wrong list is refused", async (body, error) => {
    const path = `/organizations/${organizationId}/public-offer`;
    const answer = await api.call("PUT", path, { key: api.callers.owner.key, body });
    expect(answer).toMatchObject({ status: 422, body: { error } });
  });

  test("name the first unknown service, and audit each change once", async () => {
    expect(await publish(["nope"])).toMatchObject({
      status: 404,
      body: { error: "NOT FOUND: Service with name nope" },
    });
    const entries = async () =>
      (await api.call<{ data: { after: unknown }[] }>("GET", "/audit-log?action=offer.publish", { key })).body.data;
    const before = (await entries()).length;
    await publish(["Tasker"]);
    await publish(["TASKER"]);
    const after = await entries();
    expect(after.length).toBe(before + 1);
    expect(after[0]?.after).toEqual({ services: ["Tasker"] });
  });
});
