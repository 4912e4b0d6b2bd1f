import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { createTestApi, type Answer, type TestApi } from "../support/api.ts";
import { contract, type ContractBody, tasker, upload } from "../support/contracting.ts";

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01" }));
});
afterEach(() => api.call("DELETE", "/contracts", { key }));
afterAll(() => api.close());

/** On a busy machine. */
const SOON = { timeout: 20_000 };

/** Runs `change` while `read` is blocked on a locked table, and returns the answer of `read`. */
async function readDuring<T>(table: string, read: () => Promise<T>, change: string): Promise<T> {
  const { client } = api.database.connection;
  let answer: Promise<T> | undefined;
  await client.begin(async (tx) => {
    await tx.unsafe(`lock table ${table} in access exclusive mode`);
    answer = read();
    await vi.waitUntil(async () => {
      const blocked = await client`
        select 1 from pg_stat_activity
        where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;
      return blocked.length > 0;
    }, SOON);
    await tx.unsafe(change);
  });
  if (answer === undefined) throw new Error("nothing was begun");
  return answer;
}

/** Novates contracts and deletes one. */
const CHANGE = `
  update contracts set start_date = '2026-01-01T00:00:00Z' where user_id = 'read';
  update contract_services set plan = 'BASIC';
  insert into contract_history
    (contract_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons)
    select id, '2025-06-15T10:00:00Z', '2026-01-01T00:00:00Z', '{}', '{}', '{}' from contracts;
  delete from contracts where user_id = 'gone'`;

test.each<[path: string, table: string]>([
  ["/contracts/read", "usage_levels"],
  ["/contracts/read", "contract_history"],
  ["/contracts", "usage_levels"],
  ["/contracts", "contract_history"],
])("GET %s shows one moment, whatever is changed while it waits for %s", async (path, table) => {
  const made = [await contract(api, key, "gone"), await contract(api, key, "read")];
  const answer = await readDuring<Answer<ContractBody | ContractBody[]>>(
    table,
    () => api.call("GET", path, { key }),
    CHANGE,
  );
  if (path === "/contracts") {
    expect(answer.body).toEqual(made);
    expect(answer.headers.get("x-total-count")).toBe("2");
  } else {
    expect(answer.body).toEqual(made[1]);
  }
});
