import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { retriedTransactions } from "../../src/db/postgres/retry.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, contractFor, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { yamlUpload } from "../support/uploads.ts";

/*
 * Postgres rolls transactions back with a deadlock or serialization failure. A trigger raises these codes as often as a
 * test wants; a sequence, which survives the rollback, counts the attempts.
 */

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi({ connections: 10 });
  await upload(api, api.callers.all.key, tasker());
  await api.database.connection.client.unsafe(`
    create sequence attempts;
    create table trouble (times integer not null, code text not null);
    insert into trouble values (0, '40P01');
    create function lose() returns trigger language plpgsql as $$
    declare held trouble;
    begin
      select * into held from trouble;
      if nextval('attempts') <= held.times then
        raise exception using errcode = held.code, message = 'lost to another transaction';
      end if;
      return new;
    end $$;
    create trigger lose_audited before insert on audit_log for each statement execute function lose();
    create trigger lose_counted before insert on usage_ledger for each statement execute function lose();
  `);
});
afterAll(() => api.close());

let users = 0;
let user = "";
beforeEach(async () => {
  await lose(0);
  user = `user-${(users += 1)}`;
  await contract(api, api.callers.all.key, user);
});

/** Makes the next attempts fail. */
async function lose(times: number, code = "40P01"): Promise<void> {
  await api.database.connection.client`update trouble set times = ${times}, code = ${code}`;
  await api.database.connection.client`alter sequence attempts restart`;
}
async function attempts(): Promise<number> {
  const [row] = await api.database.connection.client<{ n: number }[]>`
    select case when is_called then last_value else 0 end::int as n from attempts`;
  return row?.n ?? 0;
}

/** Tables that the changes of these tests write. */
const TABLES = [
  "users",
  "organizations",
  "services",
  "pricings",
  "contracts",
  "contract_states",
  "usage_levels",
].concat(["usage_ledger", "idempotency_keys", "outbox", "outbox_staged", "audit_log"]);
async function contents(): Promise<string[]> {
  const { client } = api.database.connection;
  return Promise.all(
    TABLES.map(async (table) => {
      // `last_used_at` is written at any time, so it is left out.
      const [row] = await client.unsafe<{ text: string }[]>(`
        select coalesce(string_agg(r, '|' order by r), '') as text
        from (select (to_jsonb(t) - 'api_key_last_used_at')::text as r from ${table} t) rows`);
      return `${table}: ${row?.text ?? ""}`;
    }),
  );
}

let names = 0;
const CHANGES: [what: string, ask: () => ReturnType<TestApi["call"]>][] = [
  [
    "a contact",
    () => api.call("PUT", `/contracts/${user}/userContact`, { key: api.callers.all.key, body: { firstName: "Ada" } }),
  ],
  [
    "a new contract",
    () => api.call("POST", "/contracts", { key: api.callers.all.key, body: contractFor(`${user}-b`) }),
  ],
  [
    "a new service",
    () =>
      api.call("POST", "/services", {
        key: api.callers.all.key,
        body: yamlUpload(tasker({ name: `Service${(names += 1)}` })),
      }),
  ],
  [
    "a new user",
    () =>
      api.call("POST", "/users", {
        key: api.callers.platformAdmin.key,
        body: { username: `new-${(names += 1)}`, password: "password" },
      }),
  ],
  [
    "usage that is set",
    () =>
      api.call("PUT", `/contracts/${user}/usageLevels`, {
        key: api.callers.all.key,
        body: { tasker: { maxTasks: 2 } },
      }),
  ],
  [
    "a consumption",
    () =>
      api.call("POST", `/features/${user}/tasker-board`, { key: api.callers.all.key, body: { "tasker-maxTasks": 2 } }),
  ],
  [
    "a consumption with a key, a transaction inside of another one",
    () =>
      api.call("POST", `/features/${user}/tasker-board`, {
        key: api.callers.all.key,
        body: { "tasker-maxTasks": 2 },
        headers: { "idempotency-key": `once-${user}` },
      }),
  ],
];

it.each(CHANGES)("%s that loses to others three times is made all the same, and once", async (what, ask) => {
  const before = retriedTransactions();
  for (const code of ["40P01", "40001"]) {
    // Repeats the change where a second one is possible.
    if (code === "40001" && what.startsWith("a new contract")) user = `${user}-again`;
    if (code === "40001" && what.includes("with a key")) user = `user-${(users += 1)}`;
    if (code === "40001" && what.includes("with a key")) await contract(api, api.callers.all.key, user);
    await lose(3, code);
    const answer = await ask();
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    expect(await attempts()).toBeGreaterThan(3);
  }
  expect(retriedTransactions() - before).toBe(6);
  await lose(0);
  if (/usage|consumption/.test(what)) {
    const shown = await api.call<{ usageLevels: { tasker: { maxTasks: { consumed: number } } } }>(
      "GET",
      `/contracts/${user}`,
      { key: api.callers.all.key },
    );
    expect(shown.body.usageLevels.tasker.maxTasks.consumed).toBe(what.includes("with a key") ? 2 : 4);
  }
  await expectBalancesMatchLedger(api.database);
});

it.each(CHANGES)("%s that loses every time is 503 after four attempts, and nothing is changed", async (_, ask) => {
  const before = await contents();
  for (const code of ["40P01", "40001", "26000"]) {
    await lose(1000, code);
    const answer = await ask();
    expect(answer).toMatchObject({
      status: 503,
      body: { error: "The service is temporarily unavailable. Please try again" },
    });
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(await attempts()).toBe(4);
  }
  expect(await contents()).toEqual(before);
});

it("an error that is no loss is not tried again", async () => {
  await lose(1000, "57014");
  const answer = await api.call("PUT", `/contracts/${user}/userContact`, {
    key: api.callers.all.key,
    body: { firstName: "Ada" },
  });
  expect(answer.status).toBe(503);
  expect(await attempts()).toBe(1);
});
