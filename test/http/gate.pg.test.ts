import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { contract, contractOf, familyCalls } from "../support/service-calls.ts";

interface Result {
  rule: object;
  passed: boolean;
  contracts: number;
  percent: number;
  reason: string;
}
interface Refusal {
  error: string;
  gate: { passed: boolean; rules: Result[]; report: { action: string; counts: Record<string, number> } };
}
interface Decision {
  id: number;
  action: string;
  pricingVersion: string | null;
  actor: { kind: string; id: string | null };
  rules: Result[];
  overrideReason: string | null;
  report: { counts: Record<string, number>; groups: object[] };
}

let api: TestApi;
let base: string;
let services = 0;
let name: string;
let user: string;
beforeAll(async () => {
  api = await createTestApi();
  base = `/organizations/${api.callers.organizationId}`;
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

const setRules = (rules: unknown, key = api.callers.owner.key) =>
  api.call<{ rules: object[]; error?: string }>("PUT", `${base}/gate`, { key, body: { rules } });
/** Two contracts on 1.0.0. One has the export that PRO of 2.0.0 lacks. */
beforeEach(async () => {
  expect((await setRules([])).status).toBe(200);
  name = `Gated${(services += 1)}`;
  user = `gated-${services}`;
  const plans = "\n  FREE: { price: 0, features: null }\n  PRO: { price: 9, features: null }";
  const to = familyCalls(api, "/services");
  await to.create({ name });
  await to.add({ name, version: "2.0.0", createdAt: "2025-04-01", plans, addOns: " {}" });
  await contract(api, user, { [name]: { version: "1.0.0", plan: "PRO" } });
  await contract(api, `${user} free`, { [name]: { version: "1.0.0", plan: "FREE" } });
});

const WHY = "Agreed with all of them by telephone, żółw";
const because = `overrideReason=${encodeURIComponent(WHY)}`;
type Act = (key: string, query?: string) => Promise<{ status: number; body: unknown }>;
const at = (path: string) => `${base}/services/${name}${path}`;
const ACTIONS: Record<string, Act> = {
  archive: (key, query = "") =>
    api.call("PUT", at(`/pricings/1.0.0?availability=archived&${query}`), { key, body: { subscriptionPlan: "PRO" } }),
  novation: (key, query = "") =>
    api.call("POST", at(`/novations?${query}`), { key, body: { pricingVersion: "2.0.0" } }),
  disable: (key, query = "") => api.call("DELETE", at(`?${query}`), { key }),
};

describe("the rules", () => {
  test("are none at first, and are what was set last", async () => {
    const { owner, evaluator, organizationAdmin } = api.callers;
    expect((await api.call("GET", `${base}/gate`, { key: evaluator.key })).body).toEqual({ rules: [] });
    const rules = [
      { rule: "noFeatureLost", features: ["export"] },
      { rule: "noQuotaLost", atMost: { percent: 2, contracts: 10 } },
      { rule: "noPriceRise", byMoreThanPercent: 5 },
    ];
    expect(await setRules(rules, organizationAdmin.key)).toMatchObject({ status: 200, body: { rules } });
    expect((await api.call("GET", `${base}/gate`, { key: owner.key })).body).toEqual({ rules });
    const { body } = await api.call<{ data: object[] }>("GET", `${base}/audit-log?limit=1`, { key: owner.key });
    expect(body.data[0]).toMatchObject({ action: "gate.set", before: { rules: [] }, after: { rules } });
    await setRules([]);
    expect((await api.call("GET", `${base}/gate`, { key: owner.key })).body).toEqual({ rules: [] });
  });

  test("are of one organization", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Open");
    await setRules([{ rule: "nobodyLoses" }]);
    const shown = await api.call("GET", `/organizations/${other.id}/gate`, { key: api.callers.outsider.key });
    expect(shown.body).toEqual({ rules: [] });
  });

  test.each<[unknown, RegExp]>([
    [undefined, /^rules: must be a list$/],
    [{}, /^rules: /],
    [[{}], /^rules\[0\]\.rule: must be one of everyContractIsPlaced, noFeatureLost, /],
    [[{ rule: "noFeatureLost" }, { rule: "noFun" }], /^rules\[1\]\.rule: /],
    [[{ rule: "noFeatureLost", atMost: { percent: 101 } }], /^rules\[0\]\.atMost\.percent: must be at most 100$/],
    [[{ rule: "noFeatureLost", atMost: {} }], /^rules\[0\]\.atMost: Give percent, contracts, or both$/],
    [
      [{ rule: "noQuotaLost", features: ["a"] }],
      /^rules\[0\]\.features: features applies only to the rule noFeatureLost$/,
    ],
    [[{ rule: "noFeatureLost", more: 1 }], /^rules\[0\]: has the unknown field more$/],
    [
      [{ rule: "noFeatureLost", features: ["x".repeat(513)] }],
      /^rules\[0\]\.features\[0\]: must not be longer than 512 characters$/,
    ],
  ])("%j are refused with 422, naming the place", async (rules, error) => {
    const answer = await setRules(rules);
    expect(answer.status).toBe(422);
    expect(answer.body.error).toMatch(error);
  });

  test("more than a hundred are refused", async () => {
    const answer = await setRules(Array.from({ length: 101 }, () => ({ rule: "nobodyLoses" })));
    expect(answer).toMatchObject({ status: 422, body: { error: "rules: must have at most 100 elements" } });
  });

  test("a list as body is refused", async () => {
    const answer = await api.call("PUT", `${base}/gate`, { key: api.callers.owner.key, body: [1] });
    expect(answer).toMatchObject({ status: 422, body: { error: expect.stringMatching(/^The body: /) as string } });
  });
});

describe.each(Object.keys(ACTIONS))("%s", (action) => {
  const act: Act = (key, query) => (ACTIONS[action] ?? Promise.reject)(key, query);
  const done = action === "disable" ? 204 : 200;
  const decisions = (query = "") =>
    api.call<{ data: Decision[]; next: number | null }>("GET", at(`/decisions?${query}`), {
      key: api.callers.owner.key,
    });

  test("goes as ever where there are no rules", async () => {
    expect((await act(api.callers.owner.key)).status).toBe(done);
  });

  test("that breaks a rule is refused with 409, the report and the rules, and changes nothing", async () => {
    await setRules([{ rule: "nobodyAboveLimit" }, { rule: "noFeatureLost", atMost: { percent: 40 } }]);
    const before = [await contractOf(api, user), (await api.call("GET", at(""), { key: api.callers.owner.key })).body];
    const { result, events } = await eventsDuring(api.database, () => act(api.callers.owner.key));
    expect(result.status).toBe(409);
    const { error, gate } = result.body as Refusal;
    const losing = action === "disable" ? 2 : 1;
    expect(error).toMatch(
      new RegExp(
        `^CONFLICT: The gate is closed: ${losing} of 2 contracts \\(\\d+ %\\) lose a feature; at most 40 % may`,
      ),
    );
    expect(gate).toMatchObject({ passed: false, report: { action, counts: { contracts: 2, losingFeatures: losing } } });
    expect(gate.rules.map(({ passed, contracts }) => [passed, contracts])).toEqual([
      [true, 0],
      [false, losing],
    ]);
    expect(events).toEqual([]);
    const after = [await contractOf(api, user), (await api.call("GET", at(""), { key: api.callers.owner.key })).body];
    expect(after).toEqual(before);
    expect((await decisions()).body.data).toEqual([]);
  });

  test("that breaks none goes, and what was known of it is kept with it and in the audit log", async () => {
    const rule = { rule: "nobodyNewlyAboveLimit" };
    await setRules([rule]);
    expect((await act(api.callers.organizationAdmin.key)).status).toBe(done);
    const { body } = await api.call<{ data: { action: string; after: { gate: Result[]; impact: object } }[] }>(
      "GET",
      `${base}/audit-log?limit=1`,
      { key: api.callers.owner.key },
    );
    expect(body.data[0]?.after).toMatchObject({ gate: [{ rule, passed: true }], impact: { contracts: 2 } });
    if (action === "disable") return;
    const kept = await decisions("pricingVersion=1.0.0");
    const about = action === "archive" ? "1.0.0" : "2.0.0";
    const [decision] = (await decisions(`pricingVersion=${about}`)).body.data;
    expect(decision).toMatchObject({
      action,
      pricingVersion: about,
      actor: { kind: "user", id: api.callers.organizationAdmin.id },
      rules: [{ rule, passed: true, contracts: 0 }],
      overrideReason: null,
      report: { counts: { contracts: 2 } },
    });
    expect(kept.body.data).toHaveLength(action === "archive" ? 1 : 0);
    expect(kept.body.next).toBeNull();
  });

  test("is overridden by an OWNER with a reason, which is kept, and by nobody else", async () => {
    await setRules([{ rule: "noFeatureLost" }]);
    const { owner, organizationAdmin, manager } = api.callers;
    for (const { key } of action === "disable" ? [organizationAdmin] : [organizationAdmin, manager]) {
      expect(await act(key, because)).toMatchObject({
        status: 403,
        body: { error: "PERMISSION ERROR: Only the OWNER of an organization can override its gate" },
      });
    }
    expect(await act(owner.key, "overrideReason=+")).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The overrideReason query parameter is empty" },
    });
    expect(await act(owner.key, `overrideReason=${"x".repeat(1001)}`)).toMatchObject({ status: 400 });
    expect((await act(owner.key)).status).toBe(409);
    expect((await act(owner.key, because)).status).toBe(done);
    const { body } = await api.call<{ data: { after: object }[] }>("GET", `${base}/audit-log?limit=1`, {
      key: owner.key,
    });
    expect(body.data[0]?.after).toMatchObject({ overrideReason: WHY, gate: [{ passed: false }] });
    if (action === "disable") return;
    expect((await decisions()).body.data[0]).toMatchObject({ overrideReason: WHY, rules: [{ passed: false }] });
  });

  test("is overridden by a platform ADMIN too, and by no key", async () => {
    await setRules([{ rule: "noFeatureLost" }]);
    const path: Record<string, [Parameters<TestApi["call"]>[0], string, unknown]> = {
      archive: [
        "PUT",
        `/services/${name}/pricings/1.0.0?availability=archived&${because}`,
        { subscriptionPlan: "PRO" },
      ],
      novation: ["POST", `/services/${name}/novations?${because}`, { pricingVersion: "2.0.0" }],
      disable: ["DELETE", `/services/${name}?${because}`, undefined],
    };
    const [method, asked, body] = path[action] ?? ["GET", "", undefined];
    expect((await api.call(method, asked, { key: api.callers.all.key, body })).status).toBe(403);
    expect((await act(api.callers.platformAdmin.key, because)).status).toBe(done);
  });
});

test("a fallback that nobody can take is refused as such, before the gate is asked", async () => {
  await setRules([{ rule: "everyContractIsPlaced" }]);
  const answer = await api.call("PUT", at("/pricings/1.0.0"), {
    key: api.callers.owner.key,
    body: { subscriptionPlan: "DIAMOND" },
  });
  expect(answer.status).toBe(404);
});

test("activating is held against the rules, and moves nobody", async () => {
  const { owner } = api.callers;
  await api.call("PUT", at("/pricings/1.0.0"), { key: owner.key, body: { subscriptionPlan: "PRO" } });
  await setRules([{ rule: "nobodyLoses" }]);
  expect((await api.call("PUT", at("/pricings/1.0.0?availability=active"), { key: owner.key })).status).toBe(200);
  const { body } = await api.call<{ data: Decision[] }>("GET", at("/decisions?pricingVersion=1_0_0"), {
    key: owner.key,
  });
  expect(body.data).toMatchObject([
    { action: "activate", pricingVersion: "1.0.0", rules: [{ passed: true }], report: { counts: { affected: 0 } } },
  ]);
  // The contracts above a limit are above it before the change too.
  await api.call("PUT", at("/pricings/1.0.0"), { key: owner.key, body: { subscriptionPlan: "PRO" } });
  await api.call("PUT", `/contracts/${user}/usageLevels`, {
    key: api.callers.all.key,
    body: { [name.toLowerCase()]: { tasks: 1000 } },
  });
  await setRules([{ rule: "nobodyAboveLimit" }]);
  const refused = await api.call<Refusal>("PUT", at("/pricings/1.0.0?availability=active"), { key: owner.key });
  expect(refused).toMatchObject({ status: 409, body: { gate: { rules: [{ passed: false, contracts: 1 }] } } });
  await setRules([{ rule: "nobodyNewlyAboveLimit" }]);
  expect((await api.call("PUT", at("/pricings/1.0.0?availability=active"), { key: owner.key })).status).toBe(200);
});

test("the dry run predicts the verdict of the gate", async () => {
  await setRules([{ rule: "noFeatureLost" }, { rule: "noQuotaLost", atMost: { contracts: 1 } }]);
  const { owner } = api.callers;
  const told = await api.call<{ gate: { passed: boolean; rules: Result[] } }>("POST", at("/impact?certificate=true"), {
    key: owner.key,
    body: { action: "archive", pricingVersion: "1.0.0", subscriptionPlan: "PRO" },
  });
  const refused = await api.call<Refusal>("PUT", at("/pricings/1.0.0"), {
    key: owner.key,
    body: { subscriptionPlan: "PRO" },
  });
  expect(told.status).toBe(200);
  expect(refused.status).toBe(409);
  const { report, ...gate } = refused.body.gate;
  expect(gate).toEqual(told.body.gate);
  expect({ ...report, gate }).toEqual(told.body);
});

test("decisions are paged, newest first", async () => {
  const { owner } = api.callers;
  for (const from of ["1.0.0", "2.0.0", "1.0.0"]) {
    const pricingVersion = from === "1.0.0" ? "2.0.0" : "1.0.0";
    await api.call("POST", at("/novations"), { key: owner.key, body: { pricingVersion } });
  }
  const read = (query: string) =>
    api.call<{ data: Decision[]; next: number | null; error?: string }>("GET", at(`/decisions?${query}`), {
      key: owner.key,
    });
  const first = (await read("limit=2")).body;
  expect(first.data.map(({ pricingVersion }) => pricingVersion)).toEqual(["2.0.0", "1.0.0"]);
  const rest = (await read(`limit=2&before=${first.next}`)).body;
  expect(rest.data.map(({ pricingVersion }) => pricingVersion)).toEqual(["2.0.0"]);
  expect(rest.next).toBeNull();
  for (const [query, status] of [
    ["limit=0", 400],
    ["limit=101", 400],
    ["before=x", 400],
    ["pricingVersion=9", 404],
  ] as const)
    // prettier-ignore
    expect((await read(query)).status).toBe(status);
});
