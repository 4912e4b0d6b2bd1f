import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Invalidations, listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, show, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

/* Two applications over one database cache keys and contracts, like two processes. Neither may return stale data. */

let api: TestApi;
const opened: {
  connection: Connection;
  changes: Invalidations;
  app: ReturnType<typeof createApp>;
  statements: string[];
}[] = [];

beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, tasker());
  for (let i = 0; i < 2; i += 1) {
    const statements: string[] = [];
    const connection = connect(api.database.url);
    connection.client.options.debug = (_, query) => statements.push(query);
    const changes = listenForInvalidations(api.database.url, { applicationName: `faregate-kept-${i}` });
    const { keyring, settings, now } = api.resources;
    const resources = createResources(connection, { keyring, settings, now, changes });
    const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
    opened.push({ connection, changes, app, statements });
    await vi.waitUntil(() => changes.isFresh(), { timeout: 20_000 });
  }
});
afterAll(async () => {
  for (const { connection, changes } of opened) {
    await changes.close();
    await connection.close(0);
  }
  await api.close();
});

async function ask(which: number, path: string, options: { key: string; method?: string; body?: unknown }) {
  const answer = await opened[which]?.app.request(`/api/v1${path}`, {
    method: options.method ?? "POST",
    headers: { "x-api-key": options.key, "content-type": "application/json" },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
  });
  const text = (await answer?.text()) ?? "";
  return { status: answer?.status, body: (text === "" ? undefined : JSON.parse(text)) as Record<string, unknown> };
}

const theme = (which: number, userId: string) =>
  ask(which, `/features/${userId}/tasker-darkMode`, { key: api.callers.all.key });
const basic = { subscriptionPlans: { tasker: "BASIC" } };
const toPro = { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "PRO" }, subscriptionAddOns: {} };

/**
 * Waits while the other application returns stale answers. Yields to the event loop, because back-to-back cached answers would
 * starve its notifications.
 */
async function untilSeen(check: () => Promise<boolean>): Promise<void> {
  const started = performance.now();
  while (!(await check())) {
    if (performance.now() - started > 20_000) throw new Error("it is never seen");
    await setImmediate();
  }
}

test("what is asked again is answered without asking the database", async () => {
  await contract(api, api.callers.all.key, "kept", basic);
  expect((await theme(0, "kept")).body).toMatchObject({ eval: false });
  const { statements } = opened[0] ?? { statements: [] };
  // On a busy machine the application may miss a heartbeat, and asks the database until the next one.
  const asked = async () => {
    statements.length = 0;
    for (let i = 0; i < 5; i += 1) expect((await theme(0, "kept")).status).toBe(200);
    return [...statements];
  };
  await expect.poll(asked).toEqual([]);
});

test("a change through one application is seen through itself at once and through the other soon", async () => {
  const key = api.callers.all.key;
  for (let i = 0; i < 10; i += 1) {
    const userId = `changed-${i}`;
    await contract(api, key, userId, basic);
    for (const which of [0, 1]) expect((await theme(which, userId)).body).toMatchObject({ eval: false });
    expect((await ask(0, `/contracts/${userId}`, { key, method: "PUT", body: toPro })).status).toBe(200);
    expect((await theme(0, userId)).body).toMatchObject({ eval: true });
    await untilSeen(async () => (await theme(1, userId)).body["eval"] === true);
    expect((await ask(1, `/contracts/${userId}`, { key, method: "DELETE" })).status).toBe(204);
    expect((await theme(1, userId)).status).toBe(404);
    await untilSeen(async () => (await theme(0, userId)).status === 404);
  }
});

test("an override that one application sets is seen by the other, and its end by both without asking the database", async () => {
  const key = api.callers.all.key;
  await contract(api, key, "excepted", basic);
  for (const which of [0, 1]) expect((await theme(which, "excepted")).body).toMatchObject({ eval: false });
  const until = new Date(api.resources.now().getTime() + 60_000);
  const body = { mode: "set", value: true, until: until.toISOString(), reason: "Agreed with support" };
  const path = "/contracts/excepted/overrides/tasker/features/darkMode";
  expect((await ask(0, path, { key, method: "PUT", body })).status).toBe(200);
  expect((await theme(0, "excepted")).body).toMatchObject({ eval: true });
  await untilSeen(async () => (await theme(1, "excepted")).body["eval"] === true);
  const before = api.resources.now();
  api.setNow(until);
  for (const { statements } of opened) statements.length = 0;
  for (const which of [0, 1]) expect((await theme(which, "excepted")).body).toMatchObject({ eval: false });
  for (const { statements } of opened) expect(statements).toEqual([]);
  api.setNow(before);
});

test("a disabled service and a deleted key are seen through both within 100 ms", async () => {
  const { all, organizationId, owner } = api.callers;
  await upload(api, all.key, tasker({ name: "Going" }));
  await contract(api, all.key, "leaving", {
    contractedServices: { going: "1.0.0" },
    subscriptionPlans: { going: "BASIC" },
    subscriptionAddOns: {},
  });
  const asked = (which: number, key: string) => ask(which, "/features/leaving/going-board", { key });
  const made = await ask(0, `/organizations/${organizationId}/api-keys`, {
    key: owner.key,
    body: { scope: "EVALUATION" },
  });
  const keys = made.body["apiKeys"] as { id: string; key: string; scope: string }[];
  const fresh = keys.at(-1) ?? { id: "", key: "" };
  for (const which of [0, 1]) expect((await asked(which, fresh.key)).status).toBe(200);
  const removed = await ask(0, `/organizations/${organizationId}/api-keys/${fresh.id}`, {
    key: owner.key,
    method: "DELETE",
  });
  expect(removed.status).toBeLessThan(300);
  expect((await asked(0, fresh.key)).status).toBe(401);
  await untilSeen(async () => (await asked(1, fresh.key)).status === 401);

  for (const which of [0, 1]) expect((await asked(which, all.key)).status).toBe(200);
  expect((await ask(1, "/services/going", { key: all.key, method: "DELETE" })).status).toBeLessThan(300);
  expect((await asked(1, all.key)).body["eval"]).not.toBe(true);
  await untilSeen(async () => (await asked(0, all.key)).body["eval"] !== true);
});

test("consumption reads first while the other application counts too, and decides on what it cached when it counts alone", async () => {
  const { key } = api.callers.all;
  await upload(api, key, tasker({ name: "Counting", maxTasks: 1000 }));
  await contract(api, key, "read-first", {
    contractedServices: { counting: "1.0.0" },
    subscriptionPlans: { counting: "PRO" },
    subscriptionAddOns: {},
  });
  const consume = async (which: number) => {
    const body = { "counting-maxTasks": 1 };
    const answer = await ask(which, "/features/read-first/counting-board", { key, body });
    expect(answer).toMatchObject({ status: 200, body: { eval: true } });
  };
  /** Statements per consumption, by kind. */
  const statementsOf = async (applications: readonly number[]) => {
    for (const { statements } of opened) statements.length = 0;
    for (const which of applications) await consume(which);
    const all = opened.flatMap(({ statements }) => statements);
    const per = (name: RegExp) => all.filter((one) => name.test(one)).length / applications.length;
    return { reads: per(/faregate_balances\(|from usage_levels u/), writes: per(/faregate_consume(_one)?\(/) };
  };
  const inTurn = Array.from({ length: 20 }, (_, i) => i % 2);
  const alone = Array.from({ length: 20 }, () => 0);
  for (const { changes } of opened) await changes.invalidationsApplied();
  for (const which of [1, 0]) await consume(which);
  expect(await statementsOf(alone)).toEqual({ reads: 0, writes: 1 });
  expect(await statementsOf([1, 0])).toEqual({ reads: 1, writes: 2 });
  for (let i = 0; i < 40; i += 1) await consume(i % 2);
  expect(await statementsOf(inTurn)).toEqual({ reads: 1, writes: 1 });
  for (let i = 0; i < 60; i += 1) await consume(0);
  expect(await statementsOf(alone)).toEqual({ reads: 0, writes: 1 });
  await expectBalancesMatchLedger(api.database);
});

describe("a hold that one application took", () => {
  const amounts = (amount: number, service = "tasker") => ({ [`${service}-maxTasks`]: amount });
  const hold = async (userId: string, service = "tasker") => {
    const path = `/features/${userId}/${service}-board?hold=PT10M`;
    const { body } = await ask(0, path, { key: api.callers.all.key, body: amounts(2, service) });
    expect(body).toMatchObject({ eval: true, hold: { id: expect.any(String) } });
    return (body["hold"] as { id: string }).id;
  };
  const settle = (which: number, id: string, body: object = amounts(1)) =>
    ask(which, `/holds/${id}`, { key: api.callers.all.key, body });
  const readsOfHolds = () => opened[0]?.statements.filter((statement) => /\bfrom "?holds\b/.test(statement));

  beforeAll(() => contract(api, api.callers.all.key, "holder", toPro));

  test("is settled there without reading it, and once", async () => {
    const id = await hold("holder");
    for (const { statements } of opened) statements.length = 0;
    expect(await settle(0, id)).toMatchObject({ status: 200, body: { eval: true, hold: { state: "settled" } } });
    expect(readsOfHolds()).toEqual([]);
    for (const which of [0, 1]) expect(await settle(which, id)).toMatchObject({ status: 409 });
    expect(readsOfHolds()).not.toEqual([]);
  });

  test("is judged as it is after the other has extended, released or settled it", async () => {
    const { key } = api.callers.all;
    const extended = await hold("holder");
    const { body } = await ask(1, `/holds/${extended}?extend=PT1H`, { key });
    expect((await settle(0, extended)).body).toMatchObject({ eval: true, hold: { until: body["until"] } });
    const released = await hold("holder");
    expect((await ask(1, `/holds/${released}`, { key, method: "DELETE" })).status).toBe(204);
    expect(await settle(0, released)).toMatchObject({
      status: 409,
      body: { error: expect.stringMatching("was released") },
    });
    const settled = await hold("holder");
    expect(await settle(1, settled)).toMatchObject({ status: 200 });
    expect(await settle(0, settled)).toMatchObject({
      status: 409,
      body: { error: expect.stringMatching("was settled") },
    });
    await expectBalancesMatchLedger(api.database);
  });

  test("is settled by the new name after the other has renamed the service", async () => {
    const { key } = api.callers.all;
    await upload(api, key, tasker({ name: "Renamed" }));
    await contract(api, key, "follower", {
      contractedServices: { renamed: "1.0.0" },
      subscriptionPlans: { renamed: "PRO" },
      subscriptionAddOns: {},
    });
    const [first, second] = [await hold("follower", "renamed"), await hold("follower", "renamed")];
    expect((await ask(1, "/services/renamed", { key, method: "PUT", body: { name: "Later" } })).status).toBe(200);
    expect(await settle(0, first, amounts(1, "later"))).toMatchObject({ status: 200, body: { eval: true } });
    await untilSeen(async () => (await ask(0, "/features/follower/later-board", { key })).body["eval"] === true);
    expect(await settle(0, second, amounts(1, "renamed"))).toMatchObject({ status: 422 });
    expect(await settle(0, second, amounts(1, "later"))).toMatchObject({ status: 200, body: { eval: true } });
    const { usageLevels } = await show(api, key, "follower");
    expect(usageLevels["later"]?.["maxTasks"]).toEqual({ consumed: 2, resetTimeStamp: expect.any(String) });
  });
});

test("without a listener nothing is kept, and a change is seen by the very next call", async () => {
  const key = api.callers.all.key;
  await contract(api, key, "deaf", basic);
  expect((await theme(1, "deaf")).body).toMatchObject({ eval: false });
  await opened[1]?.changes.close();
  expect((await theme(1, "deaf")).body).toMatchObject({ eval: false });
  await ask(0, "/contracts/deaf", { key, method: "PUT", body: toPro });
  expect((await theme(1, "deaf")).body).toMatchObject({ eval: true });
  const { statements } = opened[1] ?? { statements: [] };
  statements.length = 0;
  await theme(1, "deaf");
  expect(statements.length).toBeGreaterThan(0);
});

test("consumption through both is counted exactly, with what each remembers of the balance out of date all the time", async () => {
  const key = api.callers.all.key;
  await contract(api, key, "shared");
  const results = [];
  for (let unit = 0; unit < 30; unit += 1) {
    const answer = await ask(unit % 2, "/features/shared/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
    results.push(answer.body["used"]);
  }
  expect(results.slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, i) => ({ "tasker-maxTasks": i + 1 })));
  expect(await consumed(api, key, "shared")).toBe(20);
  await ask(0, "/features/shared/tasker-board?revert=true", { key });
  const again = await ask(1, "/features/shared/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
  expect(again.body).toMatchObject({ eval: true, used: { "tasker-maxTasks": 1 } });
  await expectBalancesMatchLedger(api.database);
});

test("fractions that a double cannot hold are summed by the database, whatever is remembered", async () => {
  const key = api.callers.all.key;
  await contract(api, key, "fractions");
  for (let i = 0; i < 12; i += 1) {
    await ask(0, "/features/fractions/tasker-board", { key, body: { "tasker-maxTasks": 0.1 } });
  }
  expect(await consumed(api, key, "fractions")).toBe(1.2);
  await expectBalancesMatchLedger(api.database);
});

test("a group of which some are counted before the rest loses to another transaction counts nobody twice", async () => {
  const { key } = api.callers.all;
  // Large enough that both batches in progress contain some of them.
  const users = Array.from({ length: 16 }, (_, i) => `grouped-${i}`);
  const consumeAll = (which: number, of: readonly string[]) =>
    Promise.all(
      of.map((user) => ask(which, `/features/${user}/tasker-board`, { key, body: { "tasker-maxTasks": 1 } })),
    );
  for (const user of users) await contract(api, key, user);
  await consumeAll(0, users);
  // The other application consumes, which makes half of the first one's cache stale without a notification.
  const stale = users.filter((_, i) => i % 4 < 2);
  await consumeAll(1, stale);
  const { client } = api.database.connection;
  await client.unsafe(`
    create sequence losses;
    create function lose_first() returns trigger language plpgsql as $$ begin
      if (select user_id from contracts where id = new.contract_id) in (${stale.map((user) => `'${user}'`).join()})
        and nextval('losses') <= 2
      then raise exception using errcode = '40001', message = 'lost to another transaction'; end if;
      return new;
    end $$;
    create trigger lose_first before insert on usage_ledger for each row execute function lose_first();
  `);
  for (const { status } of await consumeAll(0, users)) expect(status).toBe(200);
  const [lost] = await client<{ n: number }[]>`select last_value::integer as n from losses`;
  expect(lost?.n).toBeGreaterThan(1);
  await client.unsafe("drop trigger lose_first on usage_ledger");
  for (const user of users) expect(await consumed(api, key, user)).toBe(stale.includes(user) ? 3 : 2);
  await expectBalancesMatchLedger(api.database);
});
