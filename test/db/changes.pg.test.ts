import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type Invalidation, type Invalidations, listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

let api: TestApi;
let changes: Invalidations;
let told: Invalidation[] = [];
const APPLICATION = "faregate-told";

beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, tasker());
  changes = listenForInvalidations(api.database.url, { applicationName: APPLICATION });
  changes.follow((change) => told.push(change));
  await vi.waitUntil(() => changes.isFresh(), { timeout: 20_000 });
});
afterAll(async () => {
  await changes.close();
  await api.close();
});
beforeEach(async () => {
  await changes.invalidationsApplied();
  told = [];
});

/** Changes except those of everything, which a busy machine announces after a missed heartbeat. */
const named = () => told.filter(({ of }) => of !== "everything");

const sql = () => api.database.connection.client;

test("a changed contract is told by its id, once a transaction", async () => {
  const { id } = await contract(api, api.callers.all.key, "told");
  await changes.invalidationsApplied();
  told = [];
  await sql().begin(async (tx) => {
    await tx`update contracts set updated_at = now() where id = ${id}`;
    await tx`update contract_services set plan = 'PRO' where contract_id = ${id}`;
  });
  await changes.invalidationsApplied();
  await expect.poll(named).toEqual([{ of: "contract", contractId: id, organizationId: api.callers.organizationId }]);
  told = [];
  await sql()`delete from contracts where id = ${id}`;
  await changes.invalidationsApplied();
  await expect.poll(named).toEqual([{ of: "contract", contractId: id, organizationId: api.callers.organizationId }]);
});

test("a contract that is created, read or consumed from is not told", async () => {
  const key = api.callers.all.key;
  await contract(api, key, "silent");
  await api.call("POST", "/features/silent/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
  await api.call("POST", "/features/silent?details=true", { key });
  await api.call("PUT", "/contracts/silent/usageLevels", { key, body: { tasker: { maxTasks: 1 } } });
  await changes.invalidationsApplied();
  expect(named()).toEqual([]);
});

test("many contracts that change at once are told as all of them", async () => {
  await sql()`
    insert into contracts (id, organization_id, user_id, username, start_date, end_date)
    select 'many-' || n, ${api.callers.organizationId}, 'many-' || n, 'many', now(), now()
    from generate_series(1, 101) n`;
  await changes.invalidationsApplied();
  told = [];
  await sql()`update contracts set updated_at = now() where user_id like 'many-%'`;
  await changes.invalidationsApplied();
  await expect.poll(named).toEqual([{ of: "contracts", organizationIds: [api.callers.organizationId] }]);
});

test("a service that changes is told as all contracts, a key that changes or goes as all keys", async () => {
  await sql()`update services set disabled = disabled`;
  await changes.invalidationsApplied();
  await expect.poll(named).toEqual([{ of: "contracts", organizationIds: [api.callers.organizationId] }]);
  const { id: userId } = api.callers.outsider;
  for (const change of [
    () => sql()`update users set role = 'ADMIN' where id = ${userId}`,
    () => sql()`update organization_keys set scope = 'EVALUATION' where id = ${api.callers.management.id}`,
    () => sql()`delete from organization_keys where id = ${api.callers.management.id}`,
  ]) {
    told = [];
    await change();
    await changes.invalidationsApplied();
    await expect.poll(named).toEqual([{ of: "keys" }]);
  }
});

test("losing the connection ends its life at once, says that anything may have changed, and is made good by itself", async () => {
  const [killed] = await sql()<{ ended: boolean }[]>`
    select pg_terminate_backend(pid) as ended from pg_stat_activity
    where datname = current_database() and application_name = ${`${APPLICATION}-changes`}`;
  expect(killed?.ended).toBe(true);
  await expect.poll(() => changes.isFresh(), { interval: 1 }).toBe(false);
  expect(told).toContainEqual({ of: "everything" });
  await expect.poll(() => changes.isFresh()).toBe(true);
  told = [];
  await sql()`update services set disabled = disabled`;
  await changes.invalidationsApplied();
  await expect.poll(named).toEqual([{ of: "contracts", organizationIds: [api.callers.organizationId] }]);
});

test("a connection that is silent without having ended is not trusted for longer than a second", async () => {
  const own = listenForInvalidations(api.database.url, { applicationName: "faregate-silent" });
  await expect.poll(() => own.isFresh()).toBe(true);
  // The session stops answering while its socket stays open.
  const [session] = await sql()<{ pid: number }[]>`
    select pid from pg_stat_activity
    where datname = current_database() and application_name = 'faregate-silent-changes'`;
  const pid = session?.pid ?? 0;
  process.kill(pid, "SIGSTOP");
  try {
    await new Promise((wait) => setTimeout(wait, 1000));
    expect(own.isFresh()).toBe(false);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  await expect.poll(() => own.isFresh()).toBe(true);
  await own.close();
});
