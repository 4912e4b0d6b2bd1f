import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contractOf, familyCalls } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

interface Decision {
  action: string;
  pricingVersion: string | null;
  overrideReason: string | null;
  rules: { passed: boolean }[];
  report: { targetVersion: string | null; counts: Record<string, number>; groups: { pricingVersion: string }[] };
}

let api: TestApi;
let base: string;
let services = 0;
let name: string;
let group: string;
beforeAll(async () => {
  api = await createTestApi();
  base = `/organizations/${api.callers.organizationId}`;
});
afterEach(() => expectBalancesMatchLedger(api.database));
afterAll(() => api.close());

const setRules = (rules: object[], organizationId = api.callers.organizationId, key = api.callers.owner.key) =>
  api.call("PUT", `/organizations/${organizationId}/gate`, { key, body: { rules } });

/** PRO of 2.0.0 lacks the export that PRO of 1.0.0 has. */
const SECOND = {
  version: "2.0.0",
  createdAt: "2025-04-01",
  plans: "\n  FREE: { price: 0, features: null }\n  PRO: { price: 9, features: null }",
  addOns: " {}",
};

const subscription = (versions: Record<string, string>, plan: string) => ({
  contractedServices: versions,
  subscriptionPlans: Object.fromEntries(Object.keys(versions).map((service) => [service, plan])),
  subscriptionAddOns: {},
});

async function contractInGroup(
  userId: string,
  versions: Record<string, string>,
  plan: string,
  key = api.callers.all.key,
): Promise<void> {
  const userContact = { userId, username: userId };
  const body = { userContact, groupId: group, ...subscription(versions, plan) };
  expect(await api.call("POST", "/contracts", { key, body })).toMatchObject({ status: 201 });
}

beforeEach(async () => {
  await setRules([]);
  name = `Grouped${(services += 1)}`;
  group = `group-${services}`;
  const to = familyCalls(api, "/services");
  await to.create({ name });
  await to.add({ name, ...SECOND });
  await contractInGroup(`${group}-pro`, { [name]: "1.0.0" }, "PRO");
  await contractInGroup(`${group}-free`, { [name]: "1.0.0" }, "FREE");
});

const novateGroup = (key: string, body: object, query = "") =>
  api.call(
    "PUT",
    key === api.callers.all.key || key === api.callers.management.key
      ? `/contracts?groupId=${group}${query}`
      : `${base}/contracts?groupId=${group}${query}`,
    { key, body },
  );
const novateService = (key: string, query = "") =>
  api.call("POST", `${base}/services/${name}/novations?${query}`, {
    key,
    body: { pricingVersion: "2.0.0", from: ["1.0.0"], subscriptionPlan: "PRO", subscriptionAddOns: {} },
  });
const decisions = async (service = name) =>
  (
    await api.call<{ data: Decision[] }>("GET", `${base}/services/${service}/decisions`, {
      key: api.callers.owner.key,
    })
  ).body.data;
const users = () => [`${group}-pro`, `${group}-free`];
const toSecond = () => subscription({ [name]: "2.0.0" }, "PRO");

describe("PUT contracts?groupId=", () => {
  test("is refused by the gate with the 409 and the report of a mass novation, and changes nothing", async () => {
    await setRules([{ rule: "nobodyAboveLimit" }, { rule: "noFeatureLost", atMost: { percent: 40 } }]);
    const before = await Promise.all(users().map((user) => contractOf(api, user)));
    const refused = await novateService(api.callers.owner.key);
    expect(refused.status).toBe(409);
    const { all, management, owner, manager } = api.callers;
    for (const { key } of [all, management, owner, manager]) {
      const answer = await novateGroup(key, toSecond());
      expect(answer).toMatchObject({ status: 409, body: refused.body });
    }
    expect(await Promise.all(users().map((user) => contractOf(api, user)))).toEqual(before);
    expect(await decisions()).toEqual([]);
  });

  test("is overridden by an OWNER or a platform ADMIN with a reason, and by nobody else", async () => {
    await setRules([{ rule: "noFeatureLost" }]);
    const { owner, organizationAdmin, manager, all, platformAdmin } = api.callers;
    const why = "&overrideReason=agreed";
    for (const { key } of [organizationAdmin, manager, all]) {
      expect(await novateGroup(key, toSecond(), why)).toMatchObject({
        status: 403,
        body: { error: "PERMISSION ERROR: Only the OWNER of an organization can override its gate" },
      });
    }
    expect(await novateGroup(owner.key, toSecond(), "&overrideReason=+")).toMatchObject({ status: 400 });
    expect(await novateGroup(owner.key, toSecond(), why)).toMatchObject({ status: 200 });
    expect(await decisions()).toMatchObject([
      { action: "novation", pricingVersion: "2.0.0", overrideReason: "agreed", rules: [{ passed: false }] },
    ]);
    await setRules([]);
    await novateGroup(owner.key, subscription({ [name]: "1.0.0" }, "PRO"));
    await setRules([{ rule: "noFeatureLost" }]);
    expect(await novateGroup(platformAdmin.key, toSecond(), why)).toMatchObject({ status: 200 });
  });

  test("keeps the decision that a mass novation keeps, and says so in the audit log", async () => {
    await setRules([{ rule: "nobodyNewlyAboveLimit" }]);
    expect(await novateGroup(api.callers.manager.key, toSecond())).toMatchObject({ status: 200 });
    const [ofGroup] = await decisions();
    const { body } = await api.call<{ data: object[] }>("GET", `${base}/audit-log?action=pricing.novate&limit=1`, {
      key: api.callers.owner.key,
    });
    expect(body.data[0]).toMatchObject({
      target: `${name} 2.0.0`,
      after: { novatedContracts: 2, gate: [{ passed: true }], impact: { contracts: 2 } },
    });
    await setRules([]);
    await novateGroup(api.callers.owner.key, subscription({ [name]: "1.0.0" }, "PRO"));
    await api.call("PUT", `/contracts/${group}-free`, {
      key: api.callers.all.key,
      body: subscription({ [name]: "1.0.0" }, "FREE"),
    });
    await setRules([{ rule: "nobodyNewlyAboveLimit" }]);
    expect(await novateService(api.callers.manager.key)).toMatchObject({ status: 200 });
    const [ofService] = await decisions();
    expect(ofGroup).toMatchObject({
      action: ofService?.action,
      pricingVersion: ofService?.pricingVersion,
      rules: ofService?.rules,
      report: ofService?.report,
    });
  });

  test("without rules goes as ever and keeps no decision", async () => {
    expect(await novateGroup(api.callers.manager.key, toSecond())).toMatchObject({ status: 200 });
    expect(await decisions()).toEqual([]);
  });

  test("asks about each version that contracts leave, and about nobody outside of the group", async () => {
    const to = familyCalls(api, "/services");
    await to.add({ name, version: "3.0.0", createdAt: "2025-05-01" });
    await contractInGroup(`${group}-second`, { [name]: "2.0.0" }, "PRO");
    const mine = group;
    group = `${mine}-other`;
    await contractInGroup(`${group}-pro`, { [name]: "1.0.0" }, "PRO");
    group = mine;
    await setRules([{ rule: "everyContractIsPlaced" }]);
    const answer = await novateGroup(api.callers.owner.key, subscription({ [name]: "3.0.0" }, "PRO"));
    expect(answer).toMatchObject({ status: 200 });
    const steps = (await decisions()).map(({ report }) => [
      report.groups[0]?.pricingVersion,
      report.targetVersion,
      report.counts["contracts"],
    ]);
    expect(steps.sort()).toEqual([
      ["1.0.0", "3.0.0", 2],
      ["2.0.0", "3.0.0", 1],
    ]);
    expect((await contractOf(api, `${mine}-other-pro`)).contractedServices).toEqual({ [name.toLowerCase()]: "1.0.0" });
  });

  test("asks about a smaller plan of the same version, and about a service that is taken away", async () => {
    const extra = `Extra${services}`;
    const to = familyCalls(api, "/services");
    await to.create({ name: extra });
    const both = subscription({ [name]: "1.0.0", [extra]: "1.0.0" }, "PRO");
    expect((await novateGroup(api.callers.all.key, both)).status).toBe(200);
    await setRules([{ rule: "noFeatureLost" }]);
    const smaller = await novateGroup(api.callers.all.key, subscription({ [name]: "1.0.0", [extra]: "1.0.0" }, "FREE"));
    expect(smaller.status).toBe(409);
    const without = await novateGroup(api.callers.all.key, subscription({ [name]: "1.0.0" }, "PRO"));
    expect(without).toMatchObject({
      status: 409,
      body: { gate: { report: { action: "disable", serviceName: extra, counts: { contracts: 2 } } } },
    });
    expect((await novateGroup(api.callers.all.key, both)).status).toBe(200);
    expect([await decisions(), await decisions(extra)]).toEqual([[], []]);
  });

  test("does not ask about what stays as it is, nor about a service that is new to the contracts", async () => {
    const extra = `New${services}`;
    await familyCalls(api, "/services").create({ name: extra });
    const body = subscription({ [name]: "1.0.0" }, "PRO");
    await novateGroup(api.callers.all.key, body);
    await api.call("PUT", `/contracts/${group}-pro/usageLevels`, {
      key: api.callers.all.key,
      body: { [name.toLowerCase()]: { tasks: 1000 } },
    });
    await setRules([{ rule: "nobodyAboveLimit" }]);
    const more = subscription({ [name]: "1.0.0", [extra]: "1.0.0" }, "PRO");
    expect(await novateGroup(api.callers.all.key, more)).toMatchObject({ status: 200 });
    expect([await decisions(), await decisions(extra)]).toEqual([[], []]);
  });

  test("lets a group change its plan on an archived version that all of it holds", async () => {
    await setRules([{ rule: "everyContractIsPlaced" }]);
    await api.database.connection.client`
      update pricings set availability = 'archived' from services s
      where s.id = service_id and s.name = ${name} and version = '1.0.0'`;
    expect(await novateGroup(api.callers.all.key, subscription({ [name]: "1.0.0" }, "PRO"))).toMatchObject({
      status: 200,
    });
    expect(await decisions()).toMatchObject([{ pricingVersion: "1.0.0", report: { counts: { contracts: 2 } } }]);
  });

  test("of a platform ADMIN asks the gate of each organization about its own contracts", async () => {
    const { outsider, platformAdmin } = api.callers;
    const other = await api.newOrganization(outsider, "Elsewhere");
    for (const [path, parts] of [
      ["/services", { name }],
      [`/services/${name}/pricings`, { name, ...SECOND }],
    ] as const) {
      await api.call("POST", path, { key: other.key, body: yamlUpload(pricingText(parts)) });
    }
    await contractInGroup(`${group}-theirs`, { [name]: "1.0.0" }, "PRO", other.key);
    await setRules([{ rule: "noFeatureLost" }], other.id, outsider.key);
    const everywhere = (query = "") =>
      api.call("PUT", `/contracts?groupId=${group}${query}`, { key: platformAdmin.key, body: toSecond() });
    expect(await everywhere()).toMatchObject({
      status: 409,
      body: { gate: { report: { counts: { contracts: 1 } } } },
    });
    expect(await contractOf(api, `${group}-pro`)).toMatchObject({ subscriptionPlans: { [name.toLowerCase()]: "PRO" } });
    expect(await everywhere("&overrideReason=agreed")).toMatchObject({ status: 200 });
    expect(await decisions()).toEqual([]);
  });
});
