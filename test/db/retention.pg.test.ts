import { afterAll, beforeAll, expect, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import {
  compactLedger,
  pruneAuditLog,
  pruneDenials,
  pruneIdempotencyKeys,
  pruneRequests,
} from "../../src/db/queries/retention.ts";
import { pruneMails } from "../../src/events/mails.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, tasker, upload } from "../support/contracting.ts";

const DAY_MS = 86_400_000;
const now = new Date();
const daysAgo = (days: number) => new Date(now.getTime() - days * DAY_MS);

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

it("old movements become one sum a balance; balances, reverts and new use are as if nothing had happened", async () => {
  const { key } = api.callers.all;
  api.setNow(daysAgo(40));
  await upload(api, key, tasker({ maxTasks: 100_000 }));
  for (const user of ["ada", "bob"]) await contract(api, key, user, { billingPeriod: { renewalDays: 365 } });
  const consume = (user: string, amount: number) =>
    api.call("POST", `/features/${user}/tasker-bulk`, {
      key,
      body: { "tasker-maxTasks": amount, "tasker-maxExports": 0 },
    });
  for (let i = 1; i <= 5; i += 1) expect((await consume("ada", i)).status).toBe(200);
  expect((await consume("bob", 7)).status).toBe(200);
  api.setNow(now);
  // Both start a new month, which is a movement too, and consume.
  expect((await consume("ada", 20)).status).toBe(200);
  const movements = async () => (await checkLedger(api.resources.db)).movements;
  const before = await movements();
  const removed = await compactLedger(api.resources.db, now, 30);
  expect(removed).toBeGreaterThanOrEqual(6);
  expect(await movements()).toBeLessThan(before);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  expect(await consumed(api, key, "ada")).toBe(20);
  expect(await compactLedger(api.resources.db, now, 30)).toBe(0);
  expect((await consume("ada", 3)).status).toBe(200);
  const reverted = await api.call("POST", "/features/ada/tasker-bulk?revert=true&latest=true", { key });
  expect(reverted.status).toBe(204);
  expect(await consumed(api, key, "ada")).toBe(20);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});

it("compacting beside callers who go on consuming loses and doubles nothing", async () => {
  const { key } = api.callers.all;
  const { client } = api.database.connection;
  await contract(api, key, "busy", { billingPeriod: { renewalDays: 365 } });
  const consume = () => api.call("POST", "/features/busy/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
  for (let i = 0; i < 30; i += 1) await consume();
  await client`update usage_ledger set created_at = now() - interval '40 days'`;
  const calls = Array.from({ length: 60 }, consume);
  const compacting = Array.from({ length: 4 }, () => compactLedger(api.resources.db, now, 30));
  await Promise.all([...calls, ...compacting]);
  expect(await consumed(api, key, "busy")).toBe(90);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});

it("the movements of a contract go with it, also while it is consumed from and the ledger is compacted", async () => {
  const { key } = api.callers.all;
  const { client } = api.database.connection;
  const users = Array.from({ length: 20 }, (_, i) => `leaver-${i}`);
  const consume = (user: string) =>
    api.call("POST", `/features/${user}/tasker-board`, { key, body: { "tasker-maxTasks": 1 } });
  for (const user of users) await contract(api, key, user, { billingPeriod: { renewalDays: 365 } });
  await Promise.all([...users, ...users].map(consume));
  await client`update usage_ledger set created_at = now() - interval '40 days'`;
  const leave = async (user: string, uses: number) => {
    const statuses: number[] = [];
    for (let i = 0; i < uses; i += 1) statuses.push((await consume(user)).status);
    const together = [consume(user), api.call("DELETE", `/contracts/${user}`, { key }), consume(user)];
    const answers = [...(await Promise.all(together)), await consume(user)];
    return [...statuses, ...answers.map(({ status }) => status)];
  };
  const leaving = users.map((user, i) => leave(user, i % 10));
  const compacting = Array.from({ length: 4 }, () => compactLedger(api.resources.db, now, 30));
  expect(new Set((await Promise.all(leaving)).flat())).toEqual(new Set([200, 204, 404]));
  await Promise.all(compacting);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  expect(await client`select from contracts where user_id like 'leaver-%'`).toHaveLength(0);
});

it("the movements of an organization go with it", async () => {
  const { client } = api.database.connection;
  const { owner } = api.callers;
  const { id, key } = await api.newOrganization(owner, "Leaving");
  await upload(api, key, tasker({ name: "Leaving" }));
  await contract(api, key, "ada", {
    contractedServices: { leaving: "1.0.0" },
    subscriptionPlans: { leaving: "PRO" },
    subscriptionAddOns: {},
  });
  const use = { key, body: { "leaving-maxTasks": 3 } };
  expect((await api.call("POST", "/features/ada/leaving-board", use)).body).toMatchObject({ eval: true });
  const [row] = await client`select id from contracts where organization_id = ${id}`;
  const movements = () => client`select from usage_ledger where contract_id = ${row?.["id"] ?? ""}`;
  expect(await movements()).toHaveLength(1);
  expect((await api.call("DELETE", `/organizations/${id}`, { key: owner.key })).status).toBe(204);
  expect(await movements()).toHaveLength(0);
});

it("states of a contract that were over before the ledger begins go with its next change, and no others", async () => {
  const { key } = api.callers.all;
  const { client } = api.database.connection;
  const bill = async (days: number) => {
    api.setNow(daysAgo(days));
    const body = { endDate: daysAgo(days - 365).toISOString(), autoRenew: true, renewalDays: days };
    expect((await api.call("PUT", "/contracts/carl/billingPeriod", { key, body })).status).toBe(200);
  };
  await client`update usage_ledger_start set at = null`;
  api.setNow(daysAgo(60));
  const { id } = await contract(api, key, "carl", { billingPeriod: { renewalDays: 365 } });
  await contract(api, key, "dora", { billingPeriod: { renewalDays: 365 } });
  for (const days of [58, 56, 54, 20]) await bill(days);
  await api.call("POST", "/features/carl/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
  await client`update usage_ledger set created_at = ${daysAgo(35).toISOString()} where contract_id = ${id}`;
  api.setNow(now);
  const at = (days: number, user = "carl") =>
    api.call("GET", `/contracts/${user}?at=${daysAgo(days).toISOString()}`, { key });
  const states = async () =>
    (
      await client<{ days: number }[]>`
      select renewal_days as days from contract_states where contract_id = ${id} order by id`
    ).map(({ days }) => days);
  const asked = await Promise.all([34, 21].map((days) => at(days)));
  expect(asked.map(({ body }) => body["billingPeriod"])).toMatchObject([{ renewalDays: 54 }, { renewalDays: 54 }]);
  await compactLedger(api.resources.db, now, 30);
  expect(await states()).toEqual([365, 58, 56, 54, 20]);
  await bill(5);
  api.setNow(now);
  expect(await states()).toEqual([54, 20, 5]);
  expect((await Promise.all([34, 21].map((days) => at(days)))).map(({ body }) => body)).toEqual(
    asked.map(({ body }) => body),
  );
  expect((await at(57)).body["error"]).toMatch("INVALID DATA: The record of usage starts at");
  // A contract without changes keeps its current state.
  expect((await at(34, "dora")).status).toBe(200);
});

it("movements of the last day stay, whatever is asked for", async () => {
  const { key } = api.callers.all;
  await contract(api, key, "eve", { billingPeriod: { renewalDays: 365 } });
  await api.call("POST", "/features/eve/tasker-board", { key, body: { "tasker-maxTasks": 5 } });
  await compactLedger(api.resources.db, new Date(now.getTime() + 10 * DAY_MS), 0);
  expect((await api.call("POST", "/features/eve/tasker-board?revert=true", { key })).status).toBe(204);
  expect(await consumed(api, key, "eve")).toBe(0);
});

it("the audit log loses what is older than its time, in many steps, and nothing of the last seven days", async () => {
  const { client } = api.database.connection;
  await client`
    insert into audit_log (at, actor_kind, action, target)
    select ${daysAgo(400).toISOString()}::timestamptz + i * interval '1 second', 'anonymous', 'user.create', i::text
    from generate_series(1, 2500) i`;
  const counts = async () => {
    const limit = daysAgo(365).toISOString();
    const [row] = await client<{ old: number; young: number }[]>`
      select count(*) filter (where at < ${limit})::int as old, count(*) filter (where at >= ${limit})::int as young
      from audit_log`;
    return row ?? { old: 0, young: 0 };
  };
  const before = await counts();
  expect(before.old).toBeGreaterThanOrEqual(2500);
  expect(await pruneAuditLog(api.resources.db, now, 365)).toBe(before.old);
  expect(await counts()).toEqual({ old: 0, young: before.young });
});

it("answers to old Idempotency-Keys go, young ones stay", async () => {
  const { client } = api.database.connection;
  await client`
    insert into idempotency_keys (scope, organization_id, key, fingerprint, status, created_at)
    select 's', 's', i::text, 'f', 200, now() - (i % 3) * interval '20 hours' from generate_series(1, 3000) i`;
  expect(await pruneIdempotencyKeys(api.resources.db, now)).toBe(1000);
  expect((await client`select count(*)::int as n from idempotency_keys where scope = 's'`)[0]).toEqual({ n: 2000 });
});

it("denials go after 31 days, in many steps", async () => {
  const { client } = api.database.connection;
  await client`
    insert into denials (organization_id, hour, feature_id, reason, count)
    select ${api.callers.organizationId}, date_trunc('hour', now()) - (i % 62) * interval '1 day', i::text, 'NOT_GRANTED', 1
    from generate_series(1, 6200) i`;
  expect(await pruneDenials(api.resources.db, now)).toBe(3100);
  expect(await pruneDenials(api.resources.db, now)).toBe(0);
  expect((await client`select count(*)::int as n from denials`)[0]).toEqual({ n: 3100 });
});

it("invitations and change requests go after they expired, in any state, and pending ones stay", async () => {
  const { client } = api.database.connection;
  const { organizationId, owner } = api.callers;
  await client`
    insert into invitations (id, organization_id, role, token_hash, inviter_id, created_at, expires_at, accepted_at, revoked_at)
    select i::text, ${organizationId}, 'MANAGER', i::text, ${owner.id}, now() - interval '60 days',
      now() - (i % 3 - 1) * interval '40 days', case when i % 2 = 0 then now() end, case when i % 5 = 0 then now() end
    from generate_series(1, 3000) i`;
  await client`
    insert into change_requests (id, organization_id, action, operation, input, method, path, fingerprint, actor_kind, summary,
      report, basis, created_at, expires_at, state)
    select i::text, ${organizationId}, 'gate', 'setGate', '{}', 'PUT', '/', i::text, 'user', '', '{}', '{}',
      now() - interval '60 days', now() - (i % 3 - 1) * interval '40 days', (array['pending', 'approved', 'rejected'])[i % 2 + 1]
    from generate_series(1, 3000) i`;
  expect(await pruneRequests(api.resources.db, now, 30)).toBe(2000);
  expect(await pruneRequests(api.resources.db, now, 30)).toBe(0);
  for (const table of ["invitations", "change_requests"]) {
    const [left] = await client.unsafe(
      `select count(*)::int as n, min(expires_at) > now() - interval '30 days' as young from ${table}`,
    );
    expect(left, table).toEqual({ n: 2000, young: true });
  }
});

it("requests of unknown users for a new password go after an hour, mails after their days", async () => {
  const { client } = api.database.connection;
  const { owner } = api.callers;
  await client`
    insert into mails (id, kind, user_id, organization_id, language, status, next_attempt_at, created_at)
    select i::text, 'recovery', case when i % 2 = 0 then ${owner.id} end, '', 'en', 'void', now(),
      now() - (i % 3) * interval '5 days' - interval '10 minutes'
    from generate_series(1, 12000) i`;
  await pruneMails(api.resources.db, 7);
  const left = await client`
    select user_id is null as unknown, count(*)::int as n from mails group by 1 order by 1`;
  expect(left).toEqual([
    { unknown: false, n: 4000 },
    { unknown: true, n: 2000 },
  ]);
});
