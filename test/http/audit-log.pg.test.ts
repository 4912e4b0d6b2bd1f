import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AuditEntry } from "../../src/operations/reports/audit-log.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contractFor, tasker, upload } from "../support/contracting.ts";
import { callStep, changeAccounts, changeServices, type Take } from "../support/every-change.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

type Page = { data: AuditEntry[]; next: number | null; error?: string };

/** Reads the audit log of one request as the platform ADMIN. */
async function entriesOf(requestId: string): Promise<AuditEntry[]> {
  const rows = await api.database.connection.client<{ id: string }[]>`
    select id from audit_log where request_id = ${requestId} order by id`;
  const { body } = await api.call<Page>("GET", "/audit-log?limit=100", { key: api.callers.platformAdmin.key });
  return body.data.filter((entry) => rows.some((row) => Number(row.id) === entry.id)).toReversed();
}

/** Calls without an audit entry: the ledger or the event log records some, the others only read. */
const ELSEWHERE = [
  "POST /users/authenticate",
  // Keys have no sessions: sessions.pg.test.ts has the entries of those that end.
  "POST /sessions",
  "DELETE /sessions",
  "DELETE /sessions/current",
  "DELETE /sessions/:sessionId",
  "POST /recovery",
  // Ends sessions by a token that a provider signs: see sign-on.pg.test.ts.
  "POST /auth/oidc/backchannel-logout",
  "POST /features/:userId",
  "POST /features/:userId/pricing-token",
  "POST /features/:userId/:featureId",
  "POST /features/:userId/:featureId/unlock",
  "POST /holds/:holdId",
  "DELETE /holds/:holdId",
  "POST /features/:userId/:featureId/leases",
  "POST /leases/:leaseId",
  "DELETE /leases/:leaseId",
  "POST /pricing-tokens/verify",
  "POST /snapshot",
  "POST /usage",
  // Their entries are those of the contracts that they move: see billing.pg.test.ts.
  "POST /billing/:connectionId",
  "POST /organizations/:organizationId/billing/:provider/messages/:messageId/replay",
  "POST /organizations/:organizationId/billing/:provider/replay",
  ...["", "/organizations/:organizationId"].flatMap((below) => [
    `POST ${below}/services/:serviceName/diff`,
    `POST ${below}/services/:serviceName/impact`,
    `POST ${below}/services/:serviceName/replay`,
    `POST ${below}/services/lint`,
  ]),
];

describe("every route that changes something leaves an entry, in the same transaction", () => {
  const seen = new Set<string>();
  let requests = 0;

  const take: Take = async (step, ids) => {
    const requestId = `step-${(requests += 1)}`;
    const body = await callStep(api, step, ids, { "x-request-id": requestId });
    const entries = await entriesOf(requestId);
    expect(
      entries.map((one) => one.action),
      step.route,
    ).toEqual(step.actions);
    if (step.entry !== undefined) expect(entries, step.route).toContainEqual(expect.objectContaining(step.entry));
    seen.add(step.route);
    return body;
  };

  it("accounts, organizations, members and keys", () => changeAccounts(api, take));

  it.each(["", "/organizations/:organizationId"] as const)("services, contracts and webhooks below %j", (below) =>
    changeServices(api, below, take),
  );

  it("no route that changes something is missing above", () => {
    const changing = api.app.routes
      .filter(({ method, path }) => ["POST", "PUT", "PATCH", "DELETE"].includes(method) && path.startsWith("/api/v1"))
      .map(({ method, path }) => `${method} ${path.slice("/api/v1".length)}`);
    expect(changing.length).toBeGreaterThan(40);
    const missing = [...new Set(changing)].filter((route) => !seen.has(route) && !ELSEWHERE.includes(route));
    expect(missing).toEqual([]);
  });

  it("no secret, no hash of one and no password is in the log", async () => {
    const rows = await api.database.connection.client<{ text: string }[]>`select a::text as text from audit_log a`;
    const text = rows.map((row) => row.text).join("\n");
    expect(rows.length).toBeGreaterThan(40);
    expect(text).not.toMatch(/(usr|org)_[0-9a-f]{8}|whsec_|pbkdf2|v1\$|sesame|secret-path|hidden|[0-9a-f]{64}/);
  });
});

it("a refused change leaves no entry", async () => {
  const { all, evaluator, organizationId } = api.callers;
  const refused = [
    await api.call("POST", "/contracts", {
      key: all.key,
      body: contractFor("nobody"),
      headers: { "x-request-id": "refused" },
    }),
    await api.call("POST", `/organizations/${organizationId}/members`, {
      key: evaluator.key,
      body: { username: "outsider", role: "MANAGER" },
      headers: { "x-request-id": "refused" },
    }),
  ];
  expect(refused.map(({ status }) => status).every((status) => status >= 400)).toBe(true);
  expect(await entriesOf("refused")).toEqual([]);
});

describe("reading it", () => {
  it("pages from the newest to the oldest, each entry once, and filters", async () => {
    const { owner } = api.callers;
    const { id } = await api.newOrganization(owner, "Paged");
    for (let i = 0; i < 5; i += 1) {
      api.setNow(new Date(Date.UTC(2025, 5, 16, i)));
      await api.call("PUT", `/organizations/${id}`, { key: owner.key, body: { name: `Paged ${i}` } });
    }
    const path = `/organizations/${id}/audit-log`;
    const read = (query: string) => api.call<Page>("GET", `${path}?${query}`, { key: owner.key });
    const found: string[] = [];
    let next: number | null = Number.MAX_SAFE_INTEGER - 1;
    for (let pages = 0; next !== null && pages < 10; pages += 1) {
      const { body }: { body: Page } = await read(`limit=4&before=${String(next).slice(0, 15)}`);
      found.push(...body.data.map((entry) => entry.target));
      next = body.next;
    }
    expect(found).toEqual(["Paged 3", "Paged 2", "Paged 1", "Paged 0", "Paged", "Paged"]);
    expect((await read("action=organization.create")).body.data).toHaveLength(1);
    expect((await read("action=organization")).body.data).toHaveLength(6);
    expect((await read("action=member")).body.data).toEqual([]);
    expect((await read("target=Paged 2")).body.data).toHaveLength(1);
    expect((await read(`actorId=${owner.id}`)).body.data).toHaveLength(6);
    const window = await read("from=2025-06-16T01:00:00Z&to=2025-06-16T03:00:00Z");
    expect(window.body.data.map((entry) => entry.target)).toEqual(["Paged 1", "Paged 0"]);
  });

  it("says who it was as they are called now, and only the id of who is gone", async () => {
    const { owner, platformAdmin } = api.callers;
    const { id } = await api.newOrganization(owner, "Named");
    const path = `/organizations/${id}`;
    const made = await api.call<{ apiKeys: { id: string; key: string; name?: string }[] }>("POST", `${path}/api-keys`, {
      key: owner.key,
      body: { scope: "ALL", name: "Deployments" },
    });
    const byKey = made.body.apiKeys.at(-1);
    await upload(api, byKey?.key ?? "", tasker({ name: "Named" }));
    const helper = await api.newUser("helper");
    await api.call("POST", `${path}/members`, { key: owner.key, body: { username: "helper", role: "ADMIN" } });
    await api.call("PUT", path, { key: helper.key, body: { name: "Named again" } });
    const actors = async () =>
      (await api.call<Page>("GET", `${path}/audit-log`, { key: owner.key })).body.data.map(({ actor }) => actor);
    expect((await actors()).slice(0, 3)).toEqual([
      { kind: "user", id: helper.id, name: "helper" },
      { kind: "user", id: owner.id, name: "owner" },
      { kind: "key", id: byKey?.id, name: "Deployments" },
    ]);
    await api.call("DELETE", "/users/helper", { key: platformAdmin.key });
    expect(await actors()).toContainEqual({ kind: "user", id: helper.id, name: null });
  });

  it("an organization reads its own entries and no others", async () => {
    const { all, owner, outsider } = api.callers;
    const { body } = await api.call<Page>("GET", "/audit-log?limit=100", { key: all.key });
    expect(body.data.length).toBeGreaterThan(3);
    expect(new Set(body.data.map((entry) => entry.organizationId))).toEqual(new Set([api.callers.organizationId]));
    const foreign = await api.newOrganization(outsider, "Foreign");
    expect((await api.call("GET", `/organizations/${foreign.id}/audit-log`, { key: owner.key })).status).toBe(403);
    const named = await api.call<Page>("GET", `/audit-log?organizationId=${foreign.id}`, { key: all.key });
    expect(new Set(named.body.data.map((entry) => entry.organizationId))).toEqual(
      new Set([api.callers.organizationId]),
    );
  });

  it.each([
    ["limit=0", "INVALID DATA: Limit must be between 1 and 100"],
    ["limit=101", "INVALID DATA: Limit must be between 1 and 100"],
    ["before=x", "INVALID DATA: before must be the id of an entry"],
    ["from=yesterday", "INVALID DATA: from must be an ISO 8601 date"],
    ["to=2025-13-45", "INVALID DATA: to must be an ISO 8601 date"],
  ])("%s is refused", async (query, error) => {
    const answer = await api.call("GET", `/audit-log?${query}`, { key: api.callers.all.key });
    expect(answer).toMatchObject({ status: 400, body: { error } });
  });
});

describe("the longest name of an organization", () => {
  /** Incompressible text of four-byte characters. */
  const long = (seed: number) =>
    Array.from({ length: 512 }, (_, i) => String.fromCodePoint(0x20000 + ((i * 7919 + seed * 104729) % 40000))).join(
      "",
    );

  it("does not keep an organization from being renamed, found and deleted", async () => {
    const { owner } = api.callers;
    const { id } = await api.newOrganization(owner, long(1));
    const path = `/organizations/${id}`;
    const renamed = await api.call("PUT", path, { key: owner.key, body: { name: long(2) } });
    expect(renamed).toMatchObject({ status: 200, body: { name: long(2) } });
    const found = await api.call<Page>("GET", `${path}/audit-log?target=${encodeURIComponent(long(1))}`, {
      key: owner.key,
    });
    expect(found.body.data.map(({ action }) => action)).toEqual(["organization.update", "organization.create"]);
    expect(found.body.data[0]?.target).toBe(Array.from(long(1)).slice(0, 512).join(""));
    expect(found.body.data[0]?.after).toMatchObject({ name: long(2) });
    expect((await api.call("DELETE", path, { key: owner.key })).status).toBe(204);
  });

  it("does not keep its owner from being deleted", async () => {
    const leaver = await api.newUser("long-named");
    await api.newOrganization(leaver, long(3));
    expect((await api.call("DELETE", "/users/long-named", { key: leaver.key })).status).toBe(204);
  });
});

it("an escape of half a character that is a text itself is written down", async () => {
  const { owner } = api.callers;
  const { id } = await api.newOrganization(owner, "Halves");
  const name = 'a\\ud800 \\\\"';
  const changed = await api.call("PUT", `/organizations/${id}`, { key: owner.key, body: { name } });
  expect(changed.status).toBe(200);
  const { body } = await api.call<Page>("GET", `/organizations/${id}/audit-log`, { key: owner.key });
  expect(body.data[0]?.after).toMatchObject({ name });
});
