import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createTestApi, type Answer, type Callers, type TestApi } from "../support/api.ts";
import { signInByCookie } from "../support/browser-session.ts";
import { upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { contract, contractOf, familyCalls } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

interface Request {
  id: string;
  action: string;
  state: string;
  revision: number;
  summary: string;
  report: { counts?: Record<string, number> };
}
type Held = { changeRequest: Request; error?: string };

let api: TestApi;
let callers: Callers;
let base: string;
let services = 0;
let name: string;
let user: string;

const ALL = ["activate", "archive", "disable", "novate", "gate", "delete"];
const setApprovals = (body: object, key = callers.owner.key) =>
  api.call<{ error?: string }>("PUT", `${base}/approvals`, { key, body });

beforeAll(async () => {
  api = await createTestApi();
  callers = api.callers;
  base = `/organizations/${callers.organizationId}`;
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

/** Versions 0.9.0 (archived), 1.0.0 with two contracts, and 2.0.0. */
beforeEach(async () => {
  api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  expect((await setApprovals({ actions: [] })).status).toBe(200);
  await api.call("PUT", `${base}/gate`, { key: callers.owner.key, body: { rules: [] } });
  name = `Watched${(services += 1)}`;
  user = `watched-${services}`;
  const plans = "\n  FREE: { price: 0, features: null }\n  PRO: { price: 9, features: null }";
  const to = familyCalls(api, "/services");
  await to.create({ name });
  await to.add({ name, version: "0.9.0", createdAt: "2024-04-01", plans, addOns: " {}" });
  await to.add({ name, version: "2.0.0", createdAt: "2025-04-01", plans, addOns: " {}" });
  const body = { subscriptionPlan: "PRO" };
  const archived = await api.call("PUT", at("/pricings/0.9.0?availability=archived"), { key: callers.owner.key, body });
  expect(archived.status, JSON.stringify(archived.body)).toBe(200);
  await contract(api, user, { [name]: { version: "1.0.0", plan: "PRO" } });
  await contract(api, `${user} free`, { [name]: { version: "1.0.0", plan: "FREE" } });
});

const at = (path: string) => `${base}/services/${name}${path}`;
const inOrganization = (key: string) => key !== callers.all.key;
/** Calls by path in the organization for users, and without it for keys. */
const ask = <T = Held>(method: "PUT" | "POST" | "DELETE", path: string, key: string, body?: unknown) =>
  api.call<T>(method, inOrganization(key) ? path : path.slice(base.length), { key, body });

const FALLBACK = { subscriptionPlan: "PRO", subscriptionAddOns: {} };
const RULES = { rules: [{ rule: "noPriceRise" }] };
const CALLS = {
  archive: (key) => ask("PUT", at("/pricings/1.0.0?availability=archived"), key, FALLBACK),
  activate: (key) => ask("PUT", at("/pricings/0.9.0?availability=active"), key, {}),
  disable: (key) => ask("DELETE", at(""), key),
  novate: (key) => ask("POST", at("/novations"), key, { pricingVersion: "2.0.0", from: ["1.0.0"], ...FALLBACK }),
  delete: (key) => ask("DELETE", at("/pricings/0.9.0"), key),
  gate: (key) => api.call<Held>("PUT", `${base}/gate`, { key, body: RULES }),
} satisfies Record<string, (key: string) => Promise<Answer<Held>>>;
type Action = keyof typeof CALLS;

/** Every row that a change could have written. Requests, their audit entries and events are apart. */
async function stateOf(): Promise<string> {
  const tables = ["services", "pricings", "contracts", "contract_services", "usage_ledger", "pricing_decisions"];
  const more = ["contract_history", "contract_states", "deleted_pricings", "scheduled_changes"];
  const rows = [...tables, ...more].map((table) => `select '${table}' t, to_jsonb(x)::text r from ${table} x`);
  const [digest] = await api.database.connection.client.unsafe<{ digest: string }[]>(
    `select md5(string_agg(t || r, '' order by t, r)) as digest from (${rows.join(" union all ")}) every`,
  );
  const gate = await api.call("GET", `${base}/gate`, { key: callers.owner.key });
  return `${digest?.digest} ${JSON.stringify(gate.body)}`;
}

const requests = async (query = "") =>
  (await api.call<Request[]>("GET", `${base}/change-requests${query}`, { key: callers.evaluator.key })).body;
const decide = (id: string, verb: string, key: string, body?: unknown, query = "") =>
  api.call<Request & { error?: string; report?: object }>("POST", `${base}/change-requests/${id}/${verb}${query}`, {
    key,
    body,
  });
const versions = async () => {
  const { body } = await api.call<{ activePricings: Record<string, unknown>; archivedPricings: object }>(
    "GET",
    at(""),
    {
      key: callers.owner.key,
    },
  );
  return { active: Object.keys(body.activePricings ?? {}), archived: Object.keys(body.archivedPricings ?? {}) };
};
async function hold(action: Action, key = callers.manager.key): Promise<Request> {
  const answer = await CALLS[action](key);
  expect(answer.status, JSON.stringify(answer.body)).toBe(202);
  return answer.body.changeRequest;
}

describe("a change that needs a second person", () => {
  test.each(Object.keys(CALLS) as Action[])(
    "%s: waits, changes nothing, and is made exactly once by its approval",
    async (action) => {
      await setApprovals({ actions: ALL });
      const before = await stateOf();
      // Only a user sets the gate.
      const author = action === "gate" ? callers.organizationAdmin.key : callers.all.key;
      const { result: request, events: requested } = await eventsWith(() => hold(action, author));
      expect(request).toMatchObject({ action, state: "pending", revision: 1 });
      expect(await stateOf()).toBe(before);
      expect(requested).toEqual(["CHANGE_REQUESTED"]);
      const { result: approved, events } = await eventsWith(() => decide(request.id, "approve", callers.owner.key));
      expect([approved.status, approved.body]).toEqual([
        200,
        expect.objectContaining({ id: request.id, state: "approved", decidedBy: "owner" }),
      ]);
      expect(events.at(-1)).toBe("CHANGE_APPROVED");
      expect(await stateOf()).not.toBe(before);
      const again = await decide(request.id, "approve", callers.owner.key);
      expect([again.status, again.body]).toEqual([
        409,
        { error: `CONFLICT: Change request ${request.id} is approved` },
      ]);
      const log = await api.call<{ data: { action: string; actor: { kind: string; name: string } }[] }>(
        "GET",
        `${base}/audit-log?limit=4`,
        { key: callers.owner.key },
      );
      expect(log.body.data.map((entry) => [entry.action, entry.actor.kind])).toEqual(
        expect.arrayContaining([
          ["change-request.approve", "user"],
          [expect.stringMatching(/^(pricing|service|gate)\./), action === "gate" ? "user" : "key"],
        ]),
      );
    },
  );

  test("also by a user, on a date, of a group, and when a service moves or all are deleted", async () => {
    await setApprovals({ actions: ALL });
    const { owner, manager, organizationAdmin } = callers;
    const other = await api.newOrganization(owner, "Elsewhere");
    const groupId = `${user}-group`;
    const subscription = { contractedServices: { [name]: "2.0.0" }, subscriptionPlans: { [name]: "PRO" } };
    const grouped = { userContact: { userId: `${user} grouped`, username: "grouped" }, groupId, ...subscription };
    const made = await api.call("POST", "/contracts", {
      key: callers.all.key,
      body: { ...grouped, contractedServices: { [name]: "1.0.0" }, subscriptionAddOns: {} },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const calls = [
      () => CALLS.archive(manager.key),
      () => ask("PUT", at("/pricings/1.0.0?availability=archived&at=2025-07-01"), manager.key, FALLBACK),
      () =>
        ask("PUT", `${base}/contracts?groupId=${groupId}`, manager.key, { ...subscription, subscriptionAddOns: {} }),
      () => ask("PUT", at(""), owner.key, { organizationId: other.id }),
      () => ask("DELETE", `${base}/services`, organizationAdmin.key),
    ];
    const before = await stateOf();
    for (const call of calls) {
      const answer = await call();
      expect([answer.status, answer.body.changeRequest?.state], JSON.stringify(answer.body)).toEqual([202, "pending"]);
      expect(await stateOf()).toBe(before);
    }
    const dated = (await requests("?state=pending")).find(({ summary }) => summary.includes("2025-07-01"));
    const approved = await decide(dated?.id ?? "", "approve", organizationAdmin.key);
    expect([approved.status, approved.body.state], JSON.stringify(approved.body)).toEqual([200, "approved"]);
    const scheduled = await api.call<{ state: string; actor: { name: string } }[]>("GET", at("/scheduled"), {
      key: owner.key,
    });
    expect(scheduled.body[0]).toMatchObject({ state: "pending", actor: { name: "manager" } });
  });

  test("a move to another organization is made by its approval", async () => {
    await setApprovals({ actions: ["disable"] });
    const other = await api.newOrganization(callers.owner, "Elsewhere");
    const moved = await ask("PUT", at(""), callers.owner.key, { organizationId: other.id });
    const approved = await decide(moved.body.changeRequest.id, "approve", callers.organizationAdmin.key);
    expect(approved.status, JSON.stringify(approved.body)).toBe(200);
    expect((await api.call("GET", at(""), { key: callers.owner.key })).status).toBe(404);
  });

  test("is refused to a platform ADMIN who changes all organizations at once", async () => {
    const { platformAdmin, all } = callers;
    const groupId = `${user} everywhere`;
    const body = {
      contractedServices: { [name]: "2.0.0" },
      subscriptionPlans: { [name]: "PRO" },
      subscriptionAddOns: {},
    };
    const userContact = { userId: groupId, username: groupId };
    const grouped = { userContact, groupId, ...body, contractedServices: { [name]: "1.0.0" } };
    await api.call("POST", "/contracts", { key: all.key, body: grouped });
    await setApprovals({ actions: ALL });
    const before = await stateOf();
    for (const [method, path] of [
      ["DELETE", "/services"],
      ["PUT", `/contracts?groupId=${groupId}`],
    ] as const) {
      const refused = await api.call(method, path, { key: platformAdmin.key, body });
      expect([refused.status, refused.body], path).toEqual([
        409,
        {
          error: `CONFLICT: Organization ${callers.organizationId} needs a second person for this change: make it for each organization alone`,
        },
      ]);
    }
    expect(await stateOf()).toBe(before);
  });

  test("is checked as usual first: what is refused today is refused alike, and stores nothing", async () => {
    const wrong = [
      () => ask("PUT", at("/pricings/1.0.0?availability=archived"), callers.manager.key, {}),
      () => ask("PUT", at("/pricings/9.9.9?availability=active"), callers.manager.key, {}),
      () => ask("DELETE", at("/pricings/1.0.0"), callers.owner.key),
      () => CALLS.archive(callers.evaluator.key),
      () => CALLS.archive(callers.outsider.key),
    ];
    const answers = async () => {
      const all: unknown[] = [];
      for (const call of wrong) {
        const { status, body } = await call();
        all.push([status, body]);
      }
      return all;
    };
    const today = await answers();
    await setApprovals({ actions: ALL });
    const count = (await requests()).length;
    expect(await answers()).toEqual(today);
    expect(await requests()).toHaveLength(count);
  });

  test("a change that changes nothing is answered as today", async () => {
    await setApprovals({ actions: ALL });
    const answer = await ask("PUT", at("/pricings/1.0.0?availability=active"), callers.manager.key, {});
    expect(answer.status).toBe(200);
  });

  test("a repeated call finds its pending request; another author makes another", async () => {
    await setApprovals({ actions: ALL });
    const [first, repeated, other] = [
      await hold("archive"),
      await hold("archive"),
      await hold("archive", callers.all.key),
    ];
    expect(repeated.id).toBe(first.id);
    expect(other.id).not.toBe(first.id);
  });

  test("without settings, or with others, everything is as today", async () => {
    await setApprovals({ actions: ["archive", "gate"] });
    expect((await CALLS.activate(callers.manager.key)).status).toBe(200);
    expect((await CALLS.delete(callers.owner.key)).status).toBe(404);
    expect((await CALLS.novate(callers.manager.key)).status).toBe(200);
  });
});

/** Codes of the events that `run` records. */
async function eventsWith<T>(run: () => Promise<T>): Promise<{ result: T; events: string[] }> {
  const codes = async () => {
    const rows = await api.database.connection.client<{ code: string }[]>`
      select code from (
        select code, id, 0 as seq from outbox union all select code, 1e12, seq from outbox_staged
      ) every order by id, seq`;
    return rows.map(({ code }) => code);
  };
  const before = (await codes()).length;
  const result = await run();
  return { result, events: (await codes()).slice(before) };
}

describe("deciding", () => {
  beforeEach(() => setApprovals({ actions: ALL }));

  test("the author never approves or rejects: not by key, by session, nor with a platform ADMIN's role", async () => {
    const request = await hold("archive", callers.owner.key);
    const { cookie } = await signInByCookie(api, "owner");
    const path = `${base}/change-requests/${request.id}`;
    const headers = { cookie, origin: "http://localhost" };
    const answers = [
      await decide(request.id, "approve", callers.owner.key),
      await decide(request.id, "reject", callers.owner.key),
      await decide(request.id, "approve", callers.owner.key, undefined, "?confirm=alone"),
      await api.call("POST", `${path}/approve`, { headers, body: {} }),
    ];
    const error =
      "PERMISSION ERROR: The author cannot decide on a change request; an OWNER without members approves with confirm=alone";
    for (const { status, body } of answers) expect([status, body]).toEqual([403, { error }]);
    const byAdmin = await hold("activate", callers.platformAdmin.key);
    expect((await decide(byAdmin.id, "approve", callers.platformAdmin.key)).status).toBe(403);
    expect((await requests("?state=pending")).map(({ id }) => id)).toEqual(
      expect.arrayContaining([request.id, byAdmin.id]),
    );
  });

  test("is for the roles of by, in this organization", async () => {
    const request = await hold("archive");
    const { manager, evaluator, outsider, all, organizationAdmin } = callers;
    for (const { key } of [manager, evaluator, outsider, all]) {
      for (const verb of ["approve", "reject"]) expect((await decide(request.id, verb, key)).status).toBe(403);
    }
    await setApprovals({ actions: ALL, by: ["OWNER"] });
    const refused = await decide(request.id, "approve", organizationAdmin.key);
    expect([refused.status, refused.body]).toEqual([
      403,
      { error: "PERMISSION ERROR: Change requests are decided on by: OWNER" },
    ]);
    const stranger = await api.newUser();
    const other = await api.newOrganization(stranger, "Foreign");
    const foreign = `/organizations/${other.id}/change-requests/${request.id}`;
    for (const verb of ["approve", "reject", "withdraw"]) {
      expect((await api.call("POST", `${foreign}/${verb}`, { key: stranger.key })).status).toBe(404);
    }
    expect((await api.call("GET", foreign, { key: stranger.key })).status).toBe(404);
    expect((await decide(request.id, "approve", callers.owner.key)).status).toBe(200);
  });

  test("a rejection and a withdrawal change nothing, and end the request", async () => {
    const before = await stateOf();
    const [first, second] = [await hold("archive"), await hold("activate")];
    const reason = "Wait until after the holidays";
    const rejected = await decide(first.id, "reject", callers.owner.key, { reason });
    expect(rejected.body).toMatchObject({ state: "rejected", reason, decidedBy: "owner" });
    expect((await decide(second.id, "withdraw", callers.owner.key)).body).toEqual({
      error: "PERMISSION ERROR: Only the author can withdraw a change request",
    });
    expect((await decide(second.id, "withdraw", callers.manager.key)).body).toMatchObject({ state: "withdrawn" });
    for (const [{ id }, state] of [
      [first, "rejected"],
      [second, "withdrawn"],
    ] as const) {
      const late = await decide(id, "approve", callers.owner.key);
      expect([late.status, late.body]).toEqual([409, { error: `CONFLICT: Change request ${id} is ${state}` }]);
    }
    expect(await stateOf()).toBe(before);
  });

  test("a request expires after its days", async () => {
    await setApprovals({ actions: ALL, days: 2 });
    const request = await hold("archive");
    api.setNow(new Date(api.resources.now().getTime() + 2 * 86_400_000));
    expect((await decide(request.id, "approve", callers.owner.key)).body).toEqual({
      error: `CONFLICT: Change request ${request.id} is expired`,
    });
    expect((await requests("?state=expired")).map(({ id }) => id)).toContain(request.id);
    expect((await requests("?state=pending")).map(({ id }) => id)).not.toContain(request.id);
  });

  test("a request for a scheduled change expires at its moment", async () => {
    const later = (moment: string) =>
      ask("PUT", at(`/pricings/1.0.0?availability=archived&at=${moment}`), callers.manager.key, FALLBACK);
    const [soon, late] = [await later("2025-06-16T10:00:00.000Z"), await later("2025-07-01T00:00:00.000Z")];
    expect(late.body.changeRequest).toMatchObject({ expiresAt: "2025-06-22T10:00:00.000Z" });
    const { id } = soon.body.changeRequest;
    expect(soon.body.changeRequest).toMatchObject({ state: "pending", expiresAt: "2025-06-16T10:00:00.000Z" });
    api.setNow(new Date("2025-06-16T10:00:00.000Z"));
    const refused = await decide(id, "approve", callers.owner.key);
    expect([refused.status, refused.body]).toEqual([409, { error: `CONFLICT: Change request ${id} is expired` }]);
    const pending = (await requests("?state=pending")).map((each) => each.id);
    expect(pending).toContain(late.body.changeRequest.id);
    expect(pending).not.toContain(id);
  });

  test("groups that the last contract has left are 409, which says what to do", async () => {
    const groups = [{ configuration: { plan: "FREE" }, target: { plan: "PRO" } }];
    const path = at("/pricings/1.0.0?availability=archived");
    const { changeRequest } = (await ask("PUT", path, callers.manager.key, { ...FALLBACK, groups })).body;
    expect(changeRequest.state).toBe("pending");
    await api.call("DELETE", `/contracts/${encodeURIComponent(`${user} free`)}`, { key: callers.all.key });
    const refused = await decide(changeRequest.id, "approve", callers.owner.key);
    expect([refused.status, refused.body]).toEqual([
      409,
      {
        error: `CONFLICT: Change request ${changeRequest.id} cannot be approved: no contract has the configuration of groups[0] any more. Reject or withdraw it`,
      },
    ]);
    expect((await decide(changeRequest.id, "reject", callers.owner.key)).body).toMatchObject({ state: "rejected" });
  });

  test("a report with other counts is 409 with the new one, which has to be approved again", async () => {
    const request = await hold("archive");
    expect(request.report.counts).toMatchObject({ contracts: 2 });
    await contract(api, `${user} third`, { [name]: { version: "1.0.0", plan: "PRO" } });
    const before = await stateOf();
    const stale = await decide(request.id, "approve", callers.owner.key, { revision: 1 });
    expect(stale.status).toBe(409);
    expect(stale.body).toMatchObject({
      error: `CONFLICT: The report of change request ${request.id} has changed: approve the new one`,
      report: { counts: expect.objectContaining({ contracts: 3 }) },
    });
    expect(await stateOf()).toBe(before);
    // An approval of the old report is refused.
    expect((await decide(request.id, "approve", callers.owner.key, { revision: 1 })).status).toBe(409);
    expect((await decide(request.id, "approve", callers.owner.key, { revision: 2 })).body).toMatchObject({
      state: "approved",
    });
    expect((await versions()).archived).toContain("1.0.0");
  });

  test("a version that was replaced by another of its name is 409, though the counts are the same", async () => {
    await setApprovals({ actions: ["novate"] });
    const to = familyCalls(api, "/services");
    const body = {
      contractedServices: { [name]: "2.0.0" },
      subscriptionPlans: { [name]: "PRO" },
      subscriptionAddOns: {},
    };
    const groupId = `${name}-group`;
    const grouped = { ...body, contractedServices: { [name]: "1.0.0" }, groupId };
    const userContact = { userId: `${user} grouped`, username: "grouped" };
    await api.call("POST", "/contracts", { key: callers.all.key, body: { userContact, ...grouped } });
    const ofGroup = await ask("PUT", `${base}/contracts?groupId=${groupId}`, callers.organizationAdmin.key, body);
    expect([ofGroup.status, ofGroup.body.changeRequest?.summary]).toEqual([202, `Move 1 contract of group ${groupId}`]);
    const held = [await hold("novate"), ofGroup.body.changeRequest];
    for (const [method, path] of [
      ["PUT", "/pricings/2.0.0?availability=archived"],
      ["DELETE", "/pricings/2.0.0"],
    ] as const) {
      expect((await ask(method, at(path), callers.organizationAdmin.key, FALLBACK)).status).toBeLessThan(300);
    }
    const plans = "\n  FREE: { price: 0, features: null }\n  PRO: { price: 99, features: null }";
    await to.add({ name, version: "2.0.0", createdAt: "2025-04-01", plans, addOns: " {}" });
    for (const { id } of held) {
      const stale = await decide(id, "approve", callers.owner.key, { revision: 1 });
      expect([stale.status, stale.body.error]).toEqual([
        409,
        `CONFLICT: The report of change request ${id} has changed: approve the new one`,
      ]);
      expect((await decide(id, "approve", callers.owner.key, { revision: 2 })).body.state).toBe("approved");
    }
  });

  test("rules of the gate that are broken since are 409, although the author gave a reason to pass over the gate", async () => {
    await setApprovals({ actions: ["archive"] });
    const path = at("/pricings/1.0.0?availability=archived&overrideReason=New%20prices");
    const { changeRequest } = (await ask("PUT", path, callers.owner.key, FALLBACK)).body;
    await api.call("PUT", `${base}/gate`, { key: callers.owner.key, body: RULES });
    const approve = (revision: number) =>
      decide(changeRequest.id, "approve", callers.organizationAdmin.key, { revision });
    const stale = await approve(1);
    expect([stale.status, stale.body]).toMatchObject([409, { report: { gate: { passed: false } } }]);
    expect((await versions()).archived).not.toContain("1.0.0");
    expect((await approve(2)).body).toMatchObject({ state: "approved" });
    expect((await versions()).archived).toContain("1.0.0");
  });

  test("rules that the move of a group breaks since are 409, and the new report names them", async () => {
    await setApprovals({ actions: ["novate"] });
    const groupId = `${name}-passing`;
    const body = (version: string, plan: string) => ({
      contractedServices: { [name]: version },
      subscriptionPlans: { [name]: plan },
      subscriptionAddOns: {},
    });
    const userContact = { userId: `${user} passing`, username: "passing" };
    const { key } = callers.all;
    await api.call("POST", "/contracts", { key, body: { userContact, groupId, ...body("1.0.0", "FREE") } });
    const path = `${base}/contracts?groupId=${groupId}&overrideReason=New%20prices`;
    const { changeRequest } = (await ask("PUT", path, callers.owner.key, body("2.0.0", "PRO"))).body;
    await api.call("PUT", `${base}/gate`, { key: callers.owner.key, body: RULES });
    const approve = (revision: number) =>
      decide(changeRequest.id, "approve", callers.organizationAdmin.key, { revision });
    const stale = await approve(1);
    expect([stale.status, stale.body]).toMatchObject([409, { report: { passedOver: RULES.rules } }]);
    expect((await approve(2)).body).toMatchObject({ state: "approved" });
  });

  test("rules of the gate that change while an approval waits for them are 409", async () => {
    const request = await hold("gate", callers.organizationAdmin.key);
    const { client } = api.database.connection;
    let approving: ReturnType<typeof decide> | undefined;
    await client.begin(async (sql) => {
      await sql`
        update organizations set gate_rules = '[{"rule": "noQuotaLost"}]' where id = ${callers.organizationId}`;
      approving = decide(request.id, "approve", callers.owner.key, { revision: 1 });
      await vi.waitFor(async () => {
        const [row] = await client<{ waiting: number }[]>`
          select count(*)::int waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        expect(row?.waiting).toBe(1);
      });
    });
    expect((await approving)?.body).toMatchObject({
      error: `CONFLICT: The report of change request ${request.id} has changed: approve the new one`,
      report: { before: [{ rule: "noQuotaLost" }], after: RULES.rules },
    });
    const { body } = await api.call("GET", `${base}/gate`, { key: callers.owner.key });
    expect(body).toEqual({ rules: [{ rule: "noQuotaLost" }] });
  });

  test("deleting all services is 409 for others of the same names", async () => {
    const own = await api.newUser();
    const made = await api.call<{ id: string }>("POST", "/organizations", {
      key: own.key,
      body: { name: "Emptied", owner: own.username },
    });
    const path = `/organizations/${made.body.id}`;
    const { key } = own;
    const create = async () => {
      const body = yamlUpload(readFileSync("src/samples/tasker.yml", "utf8"));
      expect((await api.call("POST", `${path}/services`, { key, body })).status).toBe(201);
    };
    const set = (actions: string[]) => api.call("PUT", `${path}/approvals`, { key, body: { actions } });
    await create();
    await set(["disable"]);
    const { changeRequest } = (await api.call<Held>("DELETE", `${path}/services`, { key })).body;
    expect(changeRequest.summary).toBe("Delete the only service");
    await set([]);
    expect((await api.call("DELETE", `${path}/services`, { key })).status).toBe(200);
    await create();
    const stale = await api.call("POST", `${path}/change-requests/${changeRequest.id}/approve`, {
      key: callers.platformAdmin.key,
    });
    expect([stale.status, stale.body]).toMatchObject([
      409,
      { error: `CONFLICT: The report of change request ${changeRequest.id} has changed: approve the new one` },
    ]);
    expect((await api.call<unknown[]>("GET", `${path}/services`, { key })).body).toHaveLength(1);
  });

  test("the checks run again: what is not possible any more is refused, and the request waits", async () => {
    const request = await hold("archive");
    await setApprovals({ actions: [] });
    expect((await ask("PUT", at("/pricings/2.0.0?availability=archived"), callers.owner.key, FALLBACK)).status).toBe(
      200,
    );
    const refused = await decide(request.id, "approve", callers.owner.key);
    expect(refused.status).toBe(400);
    expect((await requests("?state=pending")).map(({ id }) => id)).toContain(request.id);
    const done = await hold2("activate");
    await CALLS.activate(callers.owner.key);
    await setApprovals({ actions: [] });
    await CALLS.activate(callers.owner.key);
    expect((await decide(done.id, "approve", callers.owner.key)).body).toEqual({
      error: `CONFLICT: The change of request ${done.id} has been made already: reject or withdraw it`,
    });
  });

  const hold2 = async (action: Action) => {
    await setApprovals({ actions: ALL });
    return hold(action);
  };

  test("an author who may no longer make the change makes none by an approval", async () => {
    const leaving = await api.newUser();
    const members = `${base}/members`;
    const { key } = callers.owner;
    await api.call("POST", members, { key, body: { username: leaving.username, role: "MANAGER" } });
    const made = await api.call<{ apiKeys: { id: string; key: string }[] }>("POST", `${base}/api-keys`, {
      key,
      body: { scope: "ALL" },
    });
    const issued = made.body.apiKeys.at(-1);
    const byMember = await hold("archive", leaving.key);
    const byKey = (await api.call<Held>("DELETE", `/services/${name}`, { key: issued?.key })).body.changeRequest;
    await api.call("DELETE", `${members}/${leaving.username}`, { key });
    await api.call("DELETE", `${base}/api-keys/${issued?.id}`, { key });
    const before = await stateOf();
    for (const { id } of [byMember, byKey]) {
      expect((await decide(id, "approve", key)).body).toEqual({
        error: `CONFLICT: The author of change request ${id} may not make this change any more`,
      });
    }
    expect(await stateOf()).toBe(before);
  });

  test("two approvers at once have one effect", async () => {
    const request = await hold("archive");
    const { result: answers, events } = await eventsWith(() =>
      Promise.all([callers.owner, callers.organizationAdmin].map(({ key }) => decide(request.id, "approve", key))),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    expect(events.filter((code) => code === "PRICING_ARCHIVED")).toHaveLength(1);
    expect(events.filter((code) => code === "CHANGE_APPROVED")).toHaveLength(1);
  });

  test("two approvals of one revision at once novate once", async () => {
    const request = await hold("novate");
    const keys = [callers.owner.key, callers.organizationAdmin.key, callers.platformAdmin.key];
    const answers = await Promise.all(keys.map((key) => decide(request.id, "approve", key)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(await contractOf(api, user)).toMatchObject({ history: [expect.anything()] });
  });

  test("a failure in between leaves neither the change nor the approval", async () => {
    const request = await hold("archive");
    const { client } = api.database.connection;
    const before = await stateOf();
    await client.unsafe(`
      create function fail_approval() returns trigger language plpgsql as $$ begin raise 'crash in between'; end $$;
      create trigger fail_approval before update on change_requests for each row execute function fail_approval()`);
    try {
      expect((await decide(request.id, "approve", callers.owner.key)).status).toBe(500);
    } finally {
      await client.unsafe("drop trigger fail_approval on change_requests; drop function fail_approval");
    }
    expect(await stateOf()).toBe(before);
    expect((await requests("?state=pending")).map(({ id }) => id)).toContain(request.id);
    expect((await decide(request.id, "approve", callers.owner.key)).status).toBe(200);
  });

  test("an OWNER without members approves with confirm=alone, which the audit log says", async () => {
    const alone = await api.newUser();
    const { id } = await api.newOrganization(alone, "Lonely");
    const own = `/organizations/${id}`;
    const call = (method: "PUT" | "POST", path: string, body: object) =>
      api.call<Held & Request>(method, `${own}${path}`, { key: alone.key, body });
    await call("PUT", "/approvals", { actions: ["gate"] });
    const held = await call("PUT", "/gate", RULES);
    const path = `/change-requests/${held.body.changeRequest.id}/approve`;
    expect((await call("POST", path, {})).status).toBe(403);
    expect((await call("POST", `${path}?confirm=yes`, {})).status).toBe(400);
    expect((await call("POST", `${path}?confirm=alone`, {})).body).toMatchObject({ state: "approved" });
    const log = await api.call<{ data: { action: string; after: object }[] }>("GET", `${own}/audit-log?limit=5`, {
      key: alone.key,
    });
    expect(log.body.data.find(({ action }) => action === "change-request.approve")?.after).toMatchObject({
      alone: true,
    });
  });

  test("an OWNER without members approves a key's request with confirm=alone, where only ADMINs decide", async () => {
    const alone = await api.newUser();
    const { id } = await api.newOrganization(alone, "Lonely");
    const own = `/organizations/${id}`;
    const call = (method: "PUT" | "POST", path: string, body: object) =>
      api.call<Held & Request & { apiKeys: { key: string }[] }>(method, `${own}${path}`, { key: alone.key, body });
    const key = (await call("POST", "/api-keys", { scope: "ALL" })).body.apiKeys.at(-1)?.key ?? "";
    await upload(api, key, readFileSync("src/samples/tasker.yml", "utf8"));
    await call("PUT", "/approvals", { actions: ["disable"], by: ["ADMIN"] });
    const held = await api.call<Held>("DELETE", "/services/Tasker", { key });
    const path = `/change-requests/${held.body.changeRequest.id}/approve`;
    const refused = await call("POST", path, {});
    expect([refused.status, refused.body]).toEqual([
      403,
      { error: "PERMISSION ERROR: Change requests are decided on by: ADMIN" },
    ]);
    expect((await call("POST", `${path}?confirm=alone`, {})).body).toMatchObject({ state: "approved" });
    expect((await api.call("GET", "/services/Tasker", { key })).status).toBe(404);
  });
});

describe("the settings", () => {
  test("are the OWNER's and a platform ADMIN's to set, and every member's to read", async () => {
    const body = { actions: ["archive"], by: ["OWNER"], days: 30 };
    expect((await setApprovals(body)).body).toEqual(body);
    for (const { key } of [
      callers.organizationAdmin,
      callers.manager,
      callers.evaluator,
      callers.outsider,
      callers.all,
    ]) {
      expect((await setApprovals({ actions: [] }, key)).status).toBe(403);
    }
    const shown = await api.call("GET", `${base}/approvals`, { key: callers.evaluator.key });
    expect(shown.body).toEqual(body);
    expect((await setApprovals({ actions: [] }, callers.platformAdmin.key)).body).toEqual({
      actions: [],
      by: ["OWNER", "ADMIN"],
      days: 7,
    });
  });

  test.each([
    [{}, /^The actions field must be/],
    [{ actions: ["rename"] }, /^The actions field must be/],
    [{ actions: ["gate", "gate"] }, /^The actions field must be/],
    [{ actions: [], by: [] }, /^The by field must be/],
    [{ actions: [], by: ["MANAGER"] }, /^The by field must be/],
    [{ actions: [], days: 31 }, /^The days field must be/],
  ])("%j is refused", async (body, error) => {
    const answer = await setApprovals(body);
    expect([answer.status, answer.body]).toEqual([422, { error: expect.stringMatching(error) }]);
  });

  test("at most 100 requests wait", async () => {
    const owner = await api.newUser();
    const { id } = await api.newOrganization(owner, "Busy");
    const call = (rules: object[]) => api.call("PUT", `/organizations/${id}/gate`, { key: owner.key, body: { rules } });
    await api.call("PUT", `/organizations/${id}/approvals`, { key: owner.key, body: { actions: ["gate"] } });
    for (let i = 1; i <= 100; i += 1) {
      expect((await call([{ rule: "noFeatureLost", atMost: { percent: i / 2 } }])).status).toBe(202);
    }
    expect((await call([{ rule: "noPriceRise" }])).body).toEqual({
      error: "CONFLICT: An organization can have at most 100 pending change requests",
    });
  });
});
