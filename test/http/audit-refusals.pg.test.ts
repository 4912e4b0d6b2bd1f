import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { auditRows, type AuditEntry, type AuditQuery } from "../../src/operations/reports/audit-log.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

interface Page {
  data: AuditEntry[];
}

/** Reads the entries about denied attempts after they are flushed. */
async function refusals(key: string, path = "/audit-log"): Promise<AuditEntry[]> {
  await api.resources.deniedAttempts.flush();
  const answer = await api.call<Page>("GET", `${path}?action=access&limit=100`, { key });
  expect(answer.status).toBe(200);
  return answer.body.data;
}

describe("attempts to change something that are refused", () => {
  beforeEach(async () => {
    await api.resources.deniedAttempts.flush();
    await api.database.connection.client`delete from audit_log where action = 'access.refuse'`;
  });

  it("by a key are in its organization's log, a thousand of them as one entry with the last request", async () => {
    const { evaluation, owner, organizationId } = api.callers;
    for (let i = 0; i < 50; i += 1) {
      const headers = { "x-request-id": `attempt-${i}` };
      const refused = await api.call("DELETE", "/contracts/ada", { key: evaluation.key, headers });
      expect(refused.status).toBe(403);
    }
    const entries = await refusals(owner.key, `/organizations/${organizationId}/audit-log`);
    expect(entries).toEqual([
      expect.objectContaining({
        organizationId,
        actor: { kind: "key", id: expect.any(String), name: null },
        action: "access.refuse",
        target: expect.stringMatching(/^DELETE /),
        before: null,
        after: { status: 403, attempts: 50 },
        requestId: "attempt-49",
      }),
    ]);
  });

  it("by a member whose role does not allow it are in the organization's log, by an outsider in the platform's only", async () => {
    const { owner, evaluator, outsider, organizationId, platformAdmin } = api.callers;
    for (const { key } of [evaluator, outsider]) {
      const body = { name: "Mine now" };
      expect((await api.call("PUT", `/organizations/${organizationId}`, { key, body })).status).toBe(403);
    }
    const ours = await refusals(owner.key, `/organizations/${organizationId}/audit-log`);
    expect(ours.map(({ actor }) => actor)).toEqual([{ kind: "user", id: evaluator.id, name: "evaluator" }]);
    const all = await refusals(platformAdmin.key);
    expect(all.map(({ actor, organizationId: of }) => [actor.id, of]).toSorted()).toEqual(
      [
        [evaluator.id, organizationId],
        [outsider.id, null],
      ].toSorted(),
    );
  });

  it("without a key, with an unknown one and with a wrong password are noted, reading and what is allowed are not", async () => {
    await api.call("POST", "/contracts", { body: {} });
    await api.call("PUT", "/users/admin", { key: "usr_unknown", body: {} });
    await api.call("POST", "/users/authenticate", { body: { username: "nobody", password: "guess-work" } });
    await api.call("GET", "/contracts");
    await api.call("GET", "/contracts", { key: api.callers.evaluation.key });
    await api.call("POST", "/contracts", { key: api.callers.all.key, body: {} });
    const entries = await refusals(api.callers.platformAdmin.key);
    expect(entries.map(({ actor, after }) => [actor.kind, actor.id, after]).toSorted()).toEqual(
      Array.from({ length: 3 }, () => ["anonymous", null, { status: 401, attempts: 1 }]),
    );
    // The log contains neither a key nor a password nor a path.
    expect(JSON.stringify(entries)).not.toMatch(/usr_|guess-work|nobody|users\/admin/);
  });

  it("are no way to fill the log: at most twenty entries a minute and process, and one for all the others", async () => {
    const users = await Promise.all(Array.from({ length: 30 }, () => api.newUser()));
    for (const { key } of users) {
      expect((await api.call("POST", "/cache/set", { key, body: {} })).status).toBe(403);
    }
    const entries = await refusals(api.callers.platformAdmin.key);
    expect(entries).toHaveLength(21);
    expect(entries.find(({ target }) => target === "others")).toMatchObject({
      organizationId: null,
      actor: { kind: "anonymous", id: null },
      after: { attempts: 10 },
    });
  });

  it("are kept for the next time when they cannot be written", async () => {
    const { client } = api.database.connection;
    await api.call("POST", "/contracts", { body: {} });
    await client`alter table audit_log rename to audit_log_away`;
    await expect(api.resources.deniedAttempts.flush()).rejects.toThrow("Failed query");
    await client`alter table audit_log_away rename to audit_log`;
    expect(await refusals(api.callers.platformAdmin.key)).toHaveLength(1);
  });
});

/** Fields of a query plan that the tests read. */
interface Plan {
  "Node Type": string;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Index Recheck"?: number;
  Plans?: Plan[];
}

describe("each filter of a log of 200,000 entries finds its page without reading the others", () => {
  const ORGANIZATION = "aaaaaaaaaaaaaaaaaaaaaaaa";
  beforeAll(async () => {
    const { client } = api.database.connection;
    // Inserts old rows before new ones; one organization owns half of them; the rows that match are rare and old.
    await client`
      insert into audit_log (at, organization_id, actor_kind, actor_id, action, target)
      select '2024-01-01'::timestamptz + n * interval '3 minutes',
        case when n % 2 = 0 then ${ORGANIZATION} else 'o' || n % 500 end, 'key',
        case when n < 1000 then 'rare' else 'k' || n % 2000 end,
        case when n between 500 and 540 then 'key.delete' else 'contract.create' end,
        case when n < 100 then 'seldom' else 't' || n end
      from generate_series(1, 200000) as n`;
    await client`vacuum analyze audit_log`;
  });

  const queries: [what: string, organizationId: string | undefined, query: Partial<AuditQuery>][] = [
    ["nothing", undefined, {}],
    ["nothing, of one organization", ORGANIZATION, {}],
    ["a page far back", ORGANIZATION, { before: 20_000 }],
    ["an action", ORGANIZATION, { action: "key.delete" }],
    ["a kind of action", ORGANIZATION, { action: "key" }],
    ["a target", undefined, { target: "seldom" }],
    ["a target, of one organization", ORGANIZATION, { target: "seldom" }],
    ["an actor", undefined, { actorId: "rare" }],
    ["an actor, of one organization", ORGANIZATION, { actorId: "rare" }],
    ["a day", undefined, { from: new Date("2024-01-10"), to: new Date("2024-01-11") }],
    ["a day, of one organization", ORGANIZATION, { from: new Date("2024-01-10"), to: new Date("2024-01-11") }],
    ["a time since", ORGANIZATION, { from: new Date("2024-01-10") }],
  ];
  it.each(queries)("%s", async (_, organizationId, query) => {
    const text = auditRows(api.database.connection.db, { organizationId, query: { limit: 20, ...query } }).toSQL();
    const [row] = await api.database.connection.client.unsafe<{ "QUERY PLAN": { Plan: Plan }[] }[]>(
      `explain (analyze, format json) ${text.sql}`,
      text.params as string[],
    );
    const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)];
    const plans = nodes(row?.["QUERY PLAN"][0]?.Plan ?? { "Node Type": "none" });
    expect(plans.map((plan) => plan["Node Type"])).not.toContain("Seq Scan");
    const removed = plans.reduce(
      (sum, plan) => sum + (plan["Rows Removed by Filter"] ?? 0) + (plan["Rows Removed by Index Recheck"] ?? 0),
      0,
    );
    expect(removed).toBeLessThan(1500);
  });
});
