import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, statuses, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

let api: TestApi;
let key: string;
let users = 0;
let userId: string;

const START = new Date("2025-06-15T12:00:00.000Z");

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker({ maxTasks: 1000 }));
});
afterAll(() => api.close());
beforeEach(async () => {
  api.setNow(START);
  userId = `once-${(users += 1)}`;
  await contract(api, key, userId);
});
afterEach(() => expectBalancesMatchLedger(api.database));

const headers = (idempotencyKey: string) => ({ "idempotency-key": idempotencyKey });
const take = (idempotencyKey: string, body: unknown = { "tasker-maxTasks": 1 }, query = "", as = key) =>
  api.call("POST", `/features/${userId}/tasker-board${query}`, { key: as, body, headers: headers(idempotencyKey) });
const put = (idempotencyKey: string, body: unknown, query = "", as = key) =>
  api.call("PUT", `/contracts/${userId}/usageLevels${query}`, { key: as, body, headers: headers(idempotencyKey) });
const replayed = (answer: { headers: Headers }) => answer.headers.get("idempotent-replayed");

describe("with an Idempotency-Key", () => {
  test("a consumption sent again counts once and gets the first answer, whatever happened since", async () => {
    const first = await take("a");
    await take("b");
    const again = await take("a");
    expect(again).toMatchObject({ status: 200, body: first.body });
    expect(again.headers.get("content-type")).toBe(first.headers.get("content-type"));
    expect([replayed(first), replayed(again)]).toEqual([null, "true"]);
    expect(await consumed(api, key, userId)).toBe(2);
  });

  test("64 callers at once count once and all get the same answer, one of them for the first time", async () => {
    const answers = await Promise.all(Array.from({ length: 64 }, () => take("crowd", { "tasker-maxTasks": 3 })));
    expect(statuses(answers)).toEqual({ 200: 64 });
    expect(new Set(answers.map((answer) => JSON.stringify(answer.body))).size).toBe(1);
    expect(answers.filter((answer) => replayed(answer) === null)).toHaveLength(1);
    expect(await consumed(api, key, userId)).toBe(3);
  });

  test("a revert sent again undoes nothing more", async () => {
    for (const name of ["x", "y"]) await take(name);
    const revert = () => take("undo", {}, "?revert=true&latest=true");
    expect([await revert(), await revert()]).toMatchObject([{ status: 204 }, { status: 204, body: undefined }]);
    expect(await consumed(api, key, userId)).toBe(1);
  });

  test("usage levels are changed once", async () => {
    const first = await put("levels", { tasker: { maxTasks: 4 } });
    await take("more");
    expect(await put("levels", { tasker: { maxTasks: 4 } })).toMatchObject({ status: 200, body: first.body });
    expect(await consumed(api, key, userId)).toBe(5);
    await put("reset", {}, "?reset=true");
    await take("after");
    expect(replayed(await put("reset", {}, "?reset=true"))).toBe("true");
    expect(await consumed(api, key, userId)).toBe(1);
  });

  test("a refusal is an answer too and is given again, although there is room by then", async () => {
    await put("full", { tasker: { maxTasks: 1000 } });
    const first = await take("refused");
    expect(first.body).toMatchObject({ eval: false });
    await put("room", {}, "?reset=true");
    expect((await take("refused")).body).toEqual(first.body);
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("a failure stores nothing: the same call works as soon as it can", async () => {
    const early = () =>
      api.call("POST", `/features/${userId}-late/tasker-board`, {
        key,
        body: { "tasker-maxTasks": 1 },
        headers: headers("early"),
      });
    expect((await early()).status).toBe(404);
    await contract(api, key, `${userId}-late`);
    const worked = await early();
    expect([worked.status, replayed(worked)]).toEqual([200, null]);
    expect(await consumed(api, key, `${userId}-late`)).toBe(1);
  });

  test.each<[difference: string, again: () => Promise<{ status: number; body: unknown }>]>([
    ["body", () => take("same", { "tasker-maxTasks": 2 })],
    ["query", () => take("same", { "tasker-maxTasks": 1 }, "?server=true")],
    ["route", () => put("same", { tasker: { maxTasks: 1 } })],
    [
      "user",
      () =>
        api.call("POST", `/features/${userId}x/tasker-board`, {
          key,
          body: { "tasker-maxTasks": 1 },
          headers: headers("same"),
        }),
    ],
  ])("another %s is refused with 422 and counts nothing", async (_, again) => {
    await api.database.connection.client`delete from idempotency_keys`;
    await take("same");
    expect(await again()).toMatchObject({
      status: 422,
      body: { error: "This Idempotency-Key was already used for a different request" },
    });
    expect(await consumed(api, key, userId)).toBe(1);
  });

  test("keys are the organization's own, and the same for all keys of it", async () => {
    const other = await api.newOrganization(api.callers.outsider, `Other ${users}`);
    await upload(api, other.key, tasker());
    await contract(api, other.key, userId);
    await take("shared");
    const foreign = await take("shared", { "tasker-maxTasks": 1 }, "", other.key);
    expect(replayed(foreign)).toBeNull();
    expect(await consumed(api, other.key, userId)).toBe(1);
    expect(replayed(await take("shared", { "tasker-maxTasks": 1 }, "", api.callers.evaluation.key))).toBe("true");
  });

  test("is worth 24 hours; later keys take old ones away", async () => {
    await take("day");
    for (let i = 0; i < 7; i += 1) await take(`old-${i}`);
    api.setNow(new Date(START.getTime() + 24 * 3_600_000 - 1));
    expect(replayed(await take("day"))).toBe("true");
    api.setNow(new Date(START.getTime() + 24 * 3_600_000));
    expect(replayed(await take("day"))).toBeNull();
    expect(replayed(await take("day"))).toBe("true");
    await api.database.connection
      .client`delete from idempotency_keys where created_at < '2025-06-15' or key not like 'old%'`;
    for (let i = 0; i < 3; i += 1) await take(`new-${i}`);
    const left = await api.database.connection.client`select 1 from idempotency_keys where key like 'old%'`;
    expect(left).toHaveLength(0);
    expect(await consumed(api, key, userId)).toBe(12);
  });

  test.each(["", " ", "x".repeat(256)])("that is empty or too long is refused with 400: %j", async (idempotencyKey) => {
    expect(await take(idempotencyKey)).toMatchObject({ status: 400 });
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("works for a platform ADMIN's change of usage levels", async () => {
    const admin = api.callers.platformAdmin.key;
    await put("admin", { tasker: { maxTasks: 4 } }, "", admin);
    expect(replayed(await put("admin", { tasker: { maxTasks: 4 } }, "", admin))).toBe("true");
    expect(await consumed(api, key, userId)).toBe(4);
  });
});

describe("npm run check:ledger", () => {
  const run = async () => {
    const child = spawn(process.execPath, ["dist/server/check-ledger.js"], {
      cwd: resolve(import.meta.dirname, "../.."),
      env: { ...process.env, DATABASE_URL: api.database.url },
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const code = await new Promise((done) => child.once("exit", done));
    return { code, output };
  };

  test("says how much agrees, and names each balance that its movements do not explain", async () => {
    await take("z", { "tasker-maxTasks": 7 });
    expect(await run()).toEqual({
      code: 0,
      output: expect.stringMatching(/^\d+ balances, \d+ movements: all agree\.\n$/),
    });
    const { client } = api.database.connection;
    await client`update usage_levels set consumed = consumed + 1 where consumed = 7`;
    const broken = await run();
    await client`update usage_levels set consumed = consumed - 1 where consumed = 8`;
    expect(broken.code).toBe(1);
    expect(broken.output).toMatch(
      /Violated: each balance equals the sum of its movements\. Contract [0-9a-f]{24}, service [0-9a-f]{24}, limit maxTasks: balance 8, movements 7\.\n/,
    );
    expect(broken.output).toMatch(/: 1 disagree\.\n/);
  });
});
