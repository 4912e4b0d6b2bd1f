import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { contract, contractOf, familyCalls } from "../support/service-calls.ts";

let api: TestApi;
let base: string;
let own: TestOrganization;
let created = 0;
beforeAll(async () => {
  api = await createTestApi();
  base = `/organizations/${api.callers.organizationId}`;
  own = await api.newOrganization(api.callers.manager, "The manager's own");
});
afterEach(async () => {
  await setRules([]);
  await expectBalancesMatchLedger(api.database);
});
afterAll(() => api.close());

const setRules = (rules: object[]) => api.call("PUT", `${base}/gate`, { key: api.callers.owner.key, body: { rules } });

/** Creates a service with one contract. Returns the service's name and the user's id. */
async function serviceWithContract(): Promise<{ name: string; user: string }> {
  created += 1;
  const name = `Movable ${created}`;
  const user = `mover-${created}`;
  await familyCalls(api, "/services").create({ name });
  await contract(api, user, { [name]: { version: "1.0.0", plan: "PRO" } });
  return { name, user };
}

const moveInside = (name: string, key: string, organizationId: string, query = "") =>
  api.call("PUT", `${base}/services/${encodeURIComponent(name)}${query}`, { key, body: { organizationId } });
const moveAtTop = (name: string, key: string, organizationId: string, query = "") =>
  api.call("PUT", `/services/${encodeURIComponent(name)}${query}`, { key, body: { organizationId } });

describe("a service cannot be moved out of an organization by callers who cannot remove it", () => {
  test("a MANAGER cannot move a service and its contracts into an organization of its own", async () => {
    const { name, user } = await serviceWithContract();
    const before = await contractOf(api, user);
    expect(await moveInside(name, api.callers.manager.key, own.id)).toMatchObject({
      status: 403,
      body: { error: "PERMISSION ERROR: Only an OWNER or ADMIN can move a service to another organization" },
    });
    expect(await contractOf(api, user)).toEqual(before);
    expect((await api.call("GET", "/services", { key: own.key })).body).toEqual([]);
  });

  test("a MANAGER is refused before it is told whether the target exists", async () => {
    const { name } = await serviceWithContract();
    for (const target of ["0".repeat(24), "z".repeat(24)]) {
      expect((await moveInside(name, api.callers.manager.key, target)).status).toBe(403);
    }
  });

  test("a MANAGEMENT key is refused with the sentence of its DELETE", async () => {
    const { name, user } = await serviceWithContract();
    const target = await api.newOrganization(api.callers.owner, "Same owner");
    const { key } = api.callers.management;
    for (const sent of [name, name.toLowerCase()]) {
      const deleted = await api.call("DELETE", `/services/${encodeURIComponent(sent)}`, { key });
      expect(deleted.status).toBe(403);
      expect(await moveAtTop(sent, key, target.id)).toMatchObject({ status: 403, body: deleted.body });
    }
    expect(await contractOf(api, user)).toMatchObject({ organizationId: api.callers.organizationId });
  });

  test("a MANAGER and a MANAGEMENT key still rename, also while naming the organization that it is in", async () => {
    const { name } = await serviceWithContract();
    const { organizationId } = api.callers;
    expect(await moveInside(name, api.callers.manager.key, organizationId)).toMatchObject({ status: 200 });
    const renamed = await api.call("PUT", `/services/${encodeURIComponent(name)}`, {
      key: api.callers.management.key,
      body: { name: `${name} renamed`, organizationId },
    });
    expect(renamed).toMatchObject({ status: 200, body: { name: `${name} renamed`, organizationId } });
  });

  test("an OWNER, an ADMIN who writes in the target, a platform ADMIN and an ALL key may", async () => {
    const target = await api.newOrganization(api.callers.owner, "Welcoming");
    const { organizationAdmin, owner, platformAdmin, all } = api.callers;
    await api.call("POST", `/organizations/${target.id}/members`, {
      key: owner.key,
      body: { username: organizationAdmin.username, role: "MANAGER" },
    });
    for (const { key } of [owner, organizationAdmin, platformAdmin]) {
      expect((await moveInside((await serviceWithContract()).name, key, target.id)).status).toBe(200);
    }
    expect((await moveAtTop((await serviceWithContract()).name, all.key, target.id)).status).toBe(200);
  });
});

describe("the gate of the organization that a service leaves is asked as for disabling it", () => {
  let target: TestOrganization;
  beforeAll(async () => {
    target = await api.newOrganization(api.callers.owner, "Elsewhere");
  });

  test("a broken rule refuses with 409 and the report of disabling, and changes nothing", async () => {
    const { name, user } = await serviceWithContract();
    await setRules([{ rule: "noFeatureLost" }]);
    const before = await contractOf(api, user);
    const { owner, all } = api.callers;
    const disabled = await api.call("DELETE", `/services/${encodeURIComponent(name)}`, { key: all.key });
    expect(disabled.status).toBe(409);
    const moves = [
      () => moveInside(name, owner.key, target.id),
      () => moveAtTop(name, all.key, target.id),
      () => moveInside(name, api.callers.platformAdmin.key, target.id),
    ];
    for (const move of moves) {
      const { result, events } = await eventsDuring(api.database, move);
      expect(result).toMatchObject({ status: 409, body: disabled.body });
      expect(events).toEqual([]);
    }
    expect(await contractOf(api, user)).toEqual(before);
  });

  test("only an OWNER overrides it, with a reason that is kept for the organization that the service leaves", async () => {
    const { name, user } = await serviceWithContract();
    await setRules([{ rule: "noFeatureLost" }]);
    const { owner, organizationAdmin, all } = api.callers;
    await api.call("POST", `/organizations/${target.id}/members`, {
      key: owner.key,
      body: { username: organizationAdmin.username, role: "MANAGER" },
    });
    const why = "?overrideReason=agreed";
    const refusal = {
      status: 403,
      body: { error: "PERMISSION ERROR: Only the OWNER of an organization can override its gate" },
    };
    expect(await moveInside(name, organizationAdmin.key, target.id, why)).toMatchObject(refusal);
    expect(await moveAtTop(name, all.key, target.id, why)).toMatchObject(refusal);
    expect(await moveInside(name, owner.key, target.id, "?overrideReason=+")).toMatchObject({ status: 400 });
    expect(await moveInside(name, owner.key, target.id, why)).toMatchObject({ status: 200 });
    expect(await contractOf(api, user, target.key)).toMatchObject({ organizationId: target.id });
    const audited = async (organizationId: string) => {
      const path = `/organizations/${organizationId}/audit-log?action=service.update&limit=1`;
      const { body } = await api.call<{ data: { after: object }[] }>("GET", path, { key: owner.key });
      return body.data[0]?.after;
    };
    expect(await audited(api.callers.organizationId)).toMatchObject({
      organizationId: target.id,
      overrideReason: "agreed",
      gate: [{ passed: false }],
      impact: { contracts: 1 },
    });
    expect(await audited(target.id)).toEqual({ name, organizationId: target.id });
    const kept = await api.database.connection.client`
      select action, override_reason from pricing_decisions d join services s on s.id = d.service_id where s.name = ${name}`;
    expect([...kept]).toEqual([{ action: "disable", override_reason: "agreed" }]);
  });

  test("decisions of the organization that the service leaves are neither read nor applied in the other", async () => {
    const { name, user } = await serviceWithContract();
    await setRules([{ rule: "noFeatureLost" }]);
    const { owner } = api.callers;
    expect(await moveInside(name, owner.key, target.id, "?overrideReason=a+secret+plan")).toMatchObject({
      status: 200,
    });
    const theirs = `/organizations/${target.id}`;
    const at = `${theirs}/services/${encodeURIComponent(name)}`;
    const decisions = () => api.call<{ data: object[] }>("GET", `${at}/decisions`, { key: owner.key });
    expect(await decisions()).toMatchObject({ status: 200, body: { data: [], next: null } });

    const rules = [{ rule: "noFeatureLost" }];
    await api.call("PUT", `${theirs}/gate`, { key: owner.key, body: { rules } });
    const before = await contractOf(api, user, target.key);
    expect(await api.call("DELETE", at, { key: owner.key })).toMatchObject({ status: 409 });
    expect(await contractOf(api, user, target.key)).toEqual(before);
    await setRules([]);
    expect(await api.call("PUT", at, { key: owner.key, body: { organizationId: api.callers.organizationId } })).toMatchObject({ status: 409 }); // prettier-ignore
    await api.call("PUT", `${theirs}/gate`, { key: owner.key, body: { rules: [] } });
    expect(await api.call("PUT", at, { key: owner.key, body: { organizationId: api.callers.organizationId } })).toMatchObject({ status: 200 }); // prettier-ignore
    const back = await api.call<{ data: object[] }>("GET", `${base}/services/${encodeURIComponent(name)}/decisions`, {
      key: owner.key,
    });
    expect(back.body.data).toMatchObject([{ action: "disable", overrideReason: "a secret plan" }]);
  });

  test("the gate of the target is not asked, nor is the own one for a rename", async () => {
    const { name } = await serviceWithContract();
    await api.call("PUT", `/organizations/${target.id}/gate`, {
      key: api.callers.owner.key,
      body: { rules: [{ rule: "noFeatureLost" }] },
    });
    expect((await moveInside(name, api.callers.owner.key, target.id)).status).toBe(200);
    const other = await serviceWithContract();
    await setRules([{ rule: "noFeatureLost" }]);
    const renamed = await api.call("PUT", `/services/${encodeURIComponent(other.name)}`, {
      key: api.callers.all.key,
      body: { name: `${other.name} renamed` },
    });
    expect(renamed.status).toBe(200);
  });
});
