import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, tasker, upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Cases 21 to 30 of contract tokens-and-leases §10, by their numbers. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const RESET = "2025-07-15T10:00:00.000Z";

interface Lease {
  id: string;
  state: string;
  granted: Record<string, number>;
  spent: Record<string, number>;
  until: string;
}
interface LeaseAnswer {
  eval: boolean;
  limit: Record<string, number> | null;
  used: Record<string, number> | null;
  remaining: Record<string, number> | null;
  resetAt: Record<string, string> | null;
  now: string;
  lease: Lease | null;
  /** The sentence of a failure, or the error of an evaluation. */
  error: unknown;
}

let api: TestApi;
let key: string;
let now = START;
const setNow = (moment: number) => api.setNow(new Date((now = moment)));
const iso = (moment: number) => new Date(moment).toISOString();

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
});
afterAll(() => api.close());

let users = 0;
let ada: string;
beforeEach(async () => {
  setNow(START);
  ada = await subscribed();
});
afterEach(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});

/** A contract of plan PRO with `extraTasks` 1: the limit is 300. */
async function subscribed(more: object = {}, given = key): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, given, userId, {
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
    billingPeriod: { autoRenew: true, renewalDays: 60 },
    ...more,
  });
  return userId;
}

const tasks = (amount: number) => ({ "tasker-maxTasks": amount });
const open = (body: unknown, { feature = "board", query = "", userId = ada, given = key, headers = {} } = {}) =>
  api.call<LeaseAnswer>("POST", `/features/${userId}/tasker-${feature}/leases${query}`, { key: given, body, headers });
/** Opens a lease and returns its id. */
async function leased(amount: number, duration = "PT30S", userId = ada): Promise<string> {
  const { status, body } = await open({ for: duration, amounts: tasks(amount) }, { userId });
  expect({ status, body }).toMatchObject({ status: 201, body: { eval: true, lease: { id: expect.any(String) } } });
  return body.lease?.id ?? "";
}
const report = (id: string, body: unknown, given = key) =>
  api.call<LeaseAnswer>("POST", `/leases/${id}`, { key: given, body });
const spend = (id: string, spent: number, amounts?: number, duration?: string) =>
  report(id, { spent: tasks(spent), amounts: amounts === undefined ? null : tasks(amounts), for: duration ?? null });
const end = (id: string, given = key) => api.call<LeaseAnswer>("DELETE", `/leases/${id}`, { key: given });
const evaluate = async (query = "", body: object = {}, userId = ada) =>
  (await api.call<LeaseAnswer>("POST", `/features/${userId}/tasker-board${query}`, { key, body })).body;
const level = async (userId = ada) => (await show(api, key, userId)).usageLevels["tasker"]?.["maxTasks"];
const failed = (status: number, error: string) => ({ status, body: { error } });
interface Movement {
  kind: string;
  operation: string;
  delta: number;
  at: string;
}
const movements = async (userId = ada): Promise<Movement[]> =>
  api.database.connection.client<Movement[]>`
    select l.kind, l.operation_id as operation, l.delta::float8 as delta,
      to_char(l.created_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at
    from usage_ledger l join contracts c on c.id = l.contract_id where c.user_id = ${userId} order by l.id`;
const moved = async (userId = ada) => (await movements(userId)).map(({ kind, delta }) => [kind, delta]);

describe("opening", () => {
  test("21: what is leased is usage for everybody else", async () => {
    await evaluate("", tasks(3));
    const { status, body } = await open({ for: "PT30S", amounts: tasks(100) });
    expect(status).toBe(201);
    expect(body).toEqual({
      eval: true,
      limit: tasks(300),
      used: tasks(3),
      error: null,
      remaining: tasks(197),
      resetAt: { "tasker-maxTasks": RESET },
      now: iso(START),
      lease: {
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        userId: ada,
        featureId: "tasker-board",
        server: false,
        state: "open",
        granted: tasks(100),
        spent: tasks(0),
        until: iso(START + 30_000),
      },
    });
    expect(Object.keys(body)).toEqual(["eval", "limit", "used", "error", "remaining", "resetAt", "now", "lease"]);
    expect(await evaluate()).toMatchObject({ eval: true, used: tasks(103) });
    expect(await level()).toEqual({ consumed: 3, held: 100, resetTimeStamp: RESET });
    const token = await api.call<{ pricingToken: string }>("POST", `/features/${ada}/pricing-token`, { key });
    const payload = JSON.parse(atob(token.body.pricingToken.split(".")[1] ?? ""));
    expect(payload.features["tasker-board"]).toMatchObject({ limit: 300, used: 103 });
    const flag = await api.call<{ metadata: object }>("POST", "/ofrep/v1/evaluate/flags/tasker-board", {
      key,
      body: { context: { targetingKey: ada } },
    });
    expect(flag.body.metadata).toMatchObject({ limitId: "tasker-maxTasks", used: 103, remaining: 197 });
  });

  test("22: only what is left is leased, and nothing of nothing", async () => {
    await leased(100);
    const rest = await open({ for: "PT30S", amounts: tasks(250) });
    expect(rest).toMatchObject({
      status: 201,
      body: { used: tasks(100), remaining: tasks(0), lease: { granted: tasks(200) } },
    });
    const { totals } = api.resources.callCounter;
    const before = { ...totals };
    const none = await open({ for: "PT30S", amounts: tasks(10) });
    expect(none).toMatchObject({
      status: 200,
      body: { eval: false, error: null, used: tasks(300), remaining: tasks(0), now: iso(START), lease: null },
    });
    expect(totals).toMatchObject({ denied: before.denied + 1, granted: before.granted });
  });

  test("a denied lease is one denial and one evaluation, a report is neither", async () => {
    const { organizationId, owner } = api.callers;
    const counts = async () => {
      const denials = await api.call<{ features: { featureId: string; limitReached: number }[] }>(
        "GET",
        `/organizations/${organizationId}/denials`,
        { key: owner.key },
      );
      const denied = denials.body.features.find(({ featureId }) => featureId === "tasker-board")?.limitReached ?? 0;
      return { denied, evaluations: api.resources.callCounter.totals.evaluations };
    };
    const id = await leased(300);
    const before = await counts();
    await open({ for: "PT30S", amounts: tasks(1) });
    await spend(id, 300, 10);
    await end(id);
    expect(await counts()).toEqual({ denied: before.denied + 1, evaluations: before.evaluations + 1 });
  });

  test("23: one Idempotency-Key opens one lease", async () => {
    const headers = { "idempotency-key": `k-${ada}` };
    const first = await open({ for: "PT30S", amounts: tasks(100) }, { headers });
    expect(first.status).toBe(201);
    const again = await open({ for: "PT30S", amounts: tasks(100) }, { headers });
    expect(again).toMatchObject({ status: 201, body: first.body });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(await level()).toMatchObject({ held: 100 });
    expect((await open({ for: "PT30S", amounts: tasks(10) }, { headers })).status).toBe(422);
  });

  test.each<[body: unknown, sentence: string]>([
    [{}, "The for field is required"],
    [{ for: null, amounts: 5 }, "The for field is required"],
    ...["PT0.5S", "PT11M", "30s", "PT10M0.001S", "", "P1W"].map((text): [object, string] => [
      { for: text, amounts: {} },
      "The for field must be a duration from PT1S to PT10M",
    ]),
    [{ for: 30 }, "The for field must be a duration from PT1S to PT10M"],
    [{ for: "PT30S" }, "The amounts field is required"],
    [{ for: "PT30S", amounts: null, x: 1 }, "The amounts field is required"],
    [{ for: "PT30S", amounts: [1] }, "The amounts field must be an object"],
    [{ for: "PT30S", amounts: "5" }, "The amounts field must be an object"],
    [{ for: "PT30S", amounts: tasks(-1) }, "All values in amounts must be non-negative finite numbers"],
    [{ for: "PT30S", amounts: { a: "1" } }, "All values in amounts must be non-negative finite numbers"],
    [{ for: "PT30S", amounts: { a: null } }, "All values in amounts must be non-negative finite numbers"],
    ['{ "for": "PT30S", "amounts": { "a": 1e999 } }', "All values in amounts must be non-negative finite numbers"],
    [{ for: "PT30S", amounts: tasks(2 ** 53) }, "All values must be at most 9007199254740991"],
    [{ for: "PT30S", amounts: { a: 1e308, b: -1 } }, "All values in amounts must be non-negative finite numbers"],
    [{ for: "PT30S", amounts: {} }, "The amounts field must have a number above 0"],
    [{ for: "PT30S", amounts: tasks(0), x: 1 }, "The amounts field must have a number above 0"],
    [{ for: "PT30S", amounts: tasks(1), x: 1 }, "Unknown field: x"],
    [{ for: "PT30S", amounts: { "tasker-maxTasks": 1, x: 1 } }, "Unknown limit in amounts: x"],
    [[], "The body must be an object"],
  ])("29: %j is answered with 422 %j", async (body, sentence) => {
    const headers = { "content-type": "application/json" };
    expect(await open(body, { headers })).toMatchObject(failed(422, sentence));
    expect(await level()).toEqual({ consumed: 0, resetTimeStamp: RESET });
  });

  test.each(["PT1S", "PT10M", "P0DT10M", "PT0.999S", "PT9M60S"])("the duration %s", async (duration) => {
    const { status } = await open({ for: duration, amounts: tasks(1) });
    expect(status).toBe(duration === "PT0.999S" ? 422 : 201);
  });

  test("30: unknown features, and amounts for a feature without limits", async () => {
    expect(await open({ for: "PT30S", amounts: tasks(1) }, { feature: "nope" })).toMatchObject({
      status: 200,
      body: { eval: false, limit: null, used: null, error: { code: "FLAG_NOT_FOUND" }, remaining: null, lease: null },
    });
    expect(await open({ for: "PT30S", amounts: tasks(1) }, { feature: "darkMode" })).toMatchObject(
      failed(422, "Unknown limit in amounts: tasker-maxTasks"),
    );
  });

  test("refusals come before the feature", async () => {
    const body = { for: "PT30S", amounts: { x: 1 } };
    expect(await open(body, { userId: "nobody" })).toMatchObject(failed(404, "Contract with userId nobody not found"));
    ada = await subscribed({ billingPeriod: { autoRenew: false, renewalDays: 30 } });
    setNow(START + 31 * DAY);
    expect(await open(body)).toMatchObject({ status: 400, body: { error: expect.stringContaining("expired") } });
  });

  test("what is due is applied first: the contract renews, and the period restarts", async () => {
    await evaluate("", tasks(300));
    setNow(START + 61 * DAY);
    expect(await open({ for: "PT30S", amounts: tasks(300) })).toMatchObject({
      status: 201,
      body: { used: tasks(0), lease: { granted: tasks(300) } },
    });
  });

  test("100 leases can be open, whatever holds there are", async () => {
    await evaluate("?hold=PT10M", tasks(1));
    const ids: string[] = [];
    for (let opened = 0; opened < 100; opened += 1) ids.push(await leased(1));
    expect(await open({ for: "PT30S", amounts: tasks(1) })).toMatchObject(
      failed(409, `CONFLICT: The contract of ${ada} has 100 open leases`),
    );
    expect((await evaluate("?hold=PT10M", tasks(1))).eval).toBe(true);
    expect((await end(ids[0] ?? "")).status).toBe(204);
    await leased(1);
  });

  test("28: a lease ends when its limit resets, and the next period begins at zero", async () => {
    const reset = Date.parse(RESET);
    setNow(reset - 3000);
    const { body } = await open({ for: "PT30S", amounts: tasks(100) });
    expect(body.lease?.until).toBe(RESET);
    setNow(reset + 1);
    expect(await evaluate()).toMatchObject({ used: tasks(0) });
    expect(await moved()).toEqual([
      ["consume", 100],
      ["renew", -100],
    ]);
    setNow(reset);
    expect(await open({ for: "PT30S", amounts: tasks(1) })).toMatchObject({ status: 201 });
  });

  test("a lease that would end at once is none", async () => {
    setNow(Date.parse(RESET));
    expect(await open({ for: "PT30S", amounts: tasks(1) })).toMatchObject({
      status: 200,
      body: { eval: true, used: tasks(0), remaining: tasks(300), lease: null },
    });
  });

  test("a lease ends at the end of the contract, and before custom terms begin and end", async () => {
    ada = await subscribed({ billingPeriod: { autoRenew: true, renewalDays: 20 } });
    setNow(START + 20 * DAY - 5000);
    const untilOf = async () => (await open({ for: "PT10M", amounts: tasks(1) })).body.lease?.until;
    expect(await untilOf()).toBe(iso(START + 20 * DAY));
    const override = (from: number, until: number) =>
      api.call("PUT", `/contracts/${ada}/overrides/tasker/usageLimits/maxTasks`, {
        key,
        body: { mode: "add", value: 5, reason: "Agreed", from: iso(from), until: iso(until) },
      });
    expect((await override(now + 2000, now + 4000)).status).toBe(200);
    expect(await untilOf()).toBe(iso(now + 1999));
    setNow(now + 3000);
    expect(await untilOf()).toBe(iso(now + 999));
  });

  test("server=true asks the server expression, in every call about the lease", async () => {
    await leased(300);
    const asked = { for: "PT30S", amounts: tasks(1) };
    expect((await open(asked, { query: "?server=true" })).body).toMatchObject({ eval: false, used: tasks(300) });
    const bob = await subscribed();
    const { body } = await open(
      { for: "PT30S", amounts: tasks(300) },
      { query: "?server=true&strict=maybe&at=x", userId: bob },
    );
    expect(body.lease).toMatchObject({ server: true });
    expect((await spend(body.lease?.id ?? "", 300)).body).toMatchObject({ eval: true, used: tasks(0) });
    expect((await open(asked, { query: "?server=true&server=true" })).status).toBe(400);
  });
});

describe("reporting", () => {
  test("24: what is spent is consumed, and what lacks is added", async () => {
    const id = await leased(100);
    setNow(START + 10_000);
    const first = await spend(id, 60, 100);
    expect(first).toMatchObject({
      status: 200,
      body: {
        eval: true,
        limit: tasks(300),
        used: tasks(0),
        error: null,
        remaining: tasks(140),
        resetAt: { "tasker-maxTasks": RESET },
        now: iso(START + 10_000),
        lease: { id, state: "open", granted: tasks(160), spent: tasks(60), until: iso(START + 30_000) },
      },
    });
    expect(await level()).toEqual({ consumed: 60, held: 100, resetTimeStamp: RESET });
    expect((await spend(id, 60, 100)).body).toEqual(first.body);
    expect((await spend(id, 60, 10)).body).toEqual(first.body);
    expect((await spend(id, 60)).body).toEqual(first.body);
    expect(await spend(id, 40, 100)).toMatchObject(
      failed(409, `CONFLICT: Lease ${id} has 60 of tasker-maxTasks reported already, and 40 are reported`),
    );
    expect(await spend(id, 500, 100)).toMatchObject(
      failed(409, `CONFLICT: Lease ${id} was granted 160 of tasker-maxTasks, and 500 are reported`),
    );
    expect(await level()).toMatchObject({ consumed: 60, held: 100 });
    const [movement, ...others] = await movements();
    expect(others).toEqual([]);
    expect(movement).toMatchObject({ kind: "consume", delta: 60, at: iso(START + 10_000) });
    expect(movement?.operation).not.toBe(id);
  });

  test("what lacks is added as far as there is, and the holder of the whole rest goes on", async () => {
    const id = await leased(250);
    const other = await leased(20);
    expect((await spend(id, 240, 100)).body).toMatchObject({
      eval: true,
      used: tasks(20),
      remaining: tasks(0),
      lease: { granted: tasks(280), spent: tasks(240) },
    });
    expect((await spend(id, 279, 5)).body).toMatchObject({ eval: true, lease: { granted: tasks(280) } });
    expect((await end(other)).status).toBe(204);
    expect((await spend(id, 280, 500)).body).toMatchObject({ eval: true, lease: { granted: tasks(300) } });
    expect((await spend(id, 300, 1)).body).toMatchObject({
      eval: false,
      used: tasks(0),
      remaining: tasks(0),
      lease: { state: "open", granted: tasks(300), spent: tasks(300) },
    });
    expect(await level()).toMatchObject({ consumed: 300 });
  });

  test("for sets another end, and every end is bounded as the first one", async () => {
    const id = await leased(100);
    setNow(START + 10_000);
    expect((await spend(id, 0, undefined, "PT1M")).body.lease?.until).toBe(iso(START + 70_000));
    expect((await spend(id, 0, undefined, "PT2S")).body.lease?.until).toBe(iso(START + 12_000));
    setNow(START + 12_000);
    expect((await evaluate()).used).toEqual(tasks(100));
    expect(await movements()).toMatchObject([{ delta: 100, at: iso(START + 12_000) }]);
    expect(await spend(id, 0, undefined, "PT1M")).toMatchObject(
      failed(409, `CONFLICT: Lease ${id} ended at ${iso(START + 12_000)}`),
    );
    const reset = Date.parse(RESET);
    setNow(reset - 5000);
    const last = await leased(10, "PT1S");
    expect((await spend(last, 0, undefined, "PT10M")).body.lease?.until).toBe(RESET);
  });

  test.each<[body: unknown, sentence: string]>([
    [{}, "The spent field is required"],
    [{ spent: null }, "The spent field is required"],
    [{ spent: [] }, "The spent field must be an object"],
    [{ spent: tasks(-1), amounts: 1 }, "All values in spent must be non-negative finite numbers"],
    [{ spent: tasks(1e308) }, "All values must be at most 9007199254740991"],
    [{ spent: {} }, "The spent.tasker-maxTasks field is required"],
    [{ spent: { ...tasks(1), x: 1 } }, "Unknown limit in spent: x"],
    [{ spent: tasks(1), amounts: 5 }, "The amounts field must be an object"],
    [{ spent: tasks(1), amounts: tasks(-1) }, "All values in amounts must be non-negative finite numbers"],
    [{ spent: tasks(1), amounts: {} }, "The amounts.tasker-maxTasks field is required"],
    [{ spent: tasks(1), amounts: { ...tasks(1), y: 0 } }, "Unknown limit in amounts: y"],
    [{ spent: tasks(1), for: "PT11M" }, "The for field must be a duration from PT1S to PT10M"],
    [{ spent: tasks(1), foo: 1 }, "Unknown field: foo"],
    ["[]", "The body must be an object"],
  ])("a report %j is answered with 422 %j", async (body, sentence) => {
    const id = await leased(10);
    const headers = { "content-type": "application/json" };
    expect(await api.call("POST", `/leases/${id}`, { key, body, headers })).toMatchObject(failed(422, sentence));
    expect(await level()).toMatchObject({ consumed: 0, held: 10 });
  });

  test("25: an end by its holder frees the rest at once", async () => {
    const id = await leased(100);
    setNow(START + 5000);
    const ended = await spend(id, 60, 0);
    expect(ended.body).toMatchObject({
      eval: true,
      used: tasks(0),
      remaining: tasks(240),
      lease: { state: "ended", granted: tasks(60), spent: tasks(60), until: iso(START + 5000) },
    });
    expect(await level()).toEqual({ consumed: 60, resetTimeStamp: RESET });
    expect((await spend(id, 60, 0)).body).toEqual(ended.body);
    expect((await end(id)).status).toBe(204);
    expect((await end(id)).status).toBe(204);
    const over = `CONFLICT: Lease ${id} was granted 60 of tasker-maxTasks, and 70 are reported`;
    expect(await spend(id, 70, 0)).toMatchObject(failed(409, over));
    expect(await spend(id, 70, 5)).toMatchObject(failed(409, `CONFLICT: Lease ${id} ended at ${iso(START + 5000)}`));
    expect(await moved()).toEqual([["consume", 60]]);
  });

  test("DELETE frees what was not reported", async () => {
    const id = await leased(100);
    await spend(id, 25);
    expect((await end(id)).status).toBe(204);
    expect(await level()).toEqual({ consumed: 25, resetTimeStamp: RESET });
  });

  test("30: leases of others and unknown ones", async () => {
    const id = await leased(10);
    const other = await api.newOrganization(api.callers.owner, `Other ${ada}`);
    for (const [lease, given] of [
      [id, other.key],
      ["x", key],
      ["f".repeat(24), key],
      [id.toUpperCase(), key],
    ] as const) {
      const answer = failed(404, `Lease ${lease} not found`);
      expect(await report(lease, { spent: tasks(0) }, given)).toMatchObject(answer);
      expect(await end(lease, given)).toMatchObject(answer);
    }
    expect((await report(id, { spent: tasks(1) }, api.callers.evaluation.key)).status).toBe(200);
  });

  test("a lease is no hold, and a hold no lease", async () => {
    const id = await leased(10);
    const held = await api.call<{ hold: { id: string } }>("POST", `/features/${ada}/tasker-board?hold=PT1M`, {
      key,
      body: tasks(5),
    });
    const holdId = held.body.hold.id;
    expect(await api.call("POST", `/holds/${id}`, { key, body: tasks(1) })).toMatchObject(
      failed(404, `Hold ${id} not found`),
    );
    expect((await api.call("POST", `/holds/${id}?extend=PT1M`, { key })).status).toBe(404);
    expect((await api.call("DELETE", `/holds/${id}`, { key })).status).toBe(404);
    expect((await spend(holdId, 0)).status).toBe(404);
    expect((await end(holdId)).status).toBe(404);
    const listed = await api.call<{ data: { id: string }[] }>("GET", `/contracts/${ada}/holds?state=all`, { key });
    expect(listed.body.data.map((hold) => hold.id)).toEqual([holdId]);
  });

  test("a report raises the events of any consumption", async () => {
    const id = await leased(300);
    const events = await allEventsDuring(api, async () => {
      await spend(id, 200);
      await spend(id, 250);
      await spend(id, 300);
      await spend(id, 300, 0);
    });
    expect(events.map(({ code, details }) => [code, details.consumed])).toEqual([
      ["USAGE_THRESHOLD_REACHED", 250],
      ["USAGE_LIMIT_REACHED", 300],
      ["USAGE_THRESHOLD_REACHED", 300],
    ]);
  });

  test("a revert undoes what was reported in the last two minutes", async () => {
    const id = await leased(100);
    await spend(id, 30);
    await spend(id, 50);
    const revert = (query: string) => api.call("POST", `/features/${ada}/tasker-board?revert=true${query}`, { key });
    expect((await revert("&latest=true")).status).toBe(204);
    expect(await level()).toMatchObject({ consumed: 30, held: 50 });
    expect((await spend(id, 60)).body).toMatchObject({
      used: tasks(0),
      lease: { spent: tasks(60), granted: tasks(100) },
    });
    expect((await revert("")).status).toBe(204);
    expect(await level()).toEqual({ consumed: 0, held: 40, resetTimeStamp: RESET });
  });

  test("fractions are exact", async () => {
    const id = await leased(0.3);
    expect((await spend(id, 0.1, 0.7)).body).toMatchObject({
      remaining: tasks(299.2),
      lease: { granted: tasks(0.8), spent: tasks(0.1) },
    });
    expect((await spend(id, 0.8, 0)).body).toMatchObject({ remaining: tasks(299.2), lease: { granted: tasks(0.8) } });
    expect(await level()).toMatchObject({ consumed: 0.8 });
  });
});

describe("the end at until", () => {
  test("26: what is left is consumed, and what was not spent comes back with a late end", async () => {
    const id = await leased(100, "PT1S");
    setNow(START + 2000);
    expect((await evaluate()).used).toEqual(tasks(100));
    expect(await level()).toEqual({ consumed: 100, resetTimeStamp: RESET });
    expect(await movements()).toEqual([{ kind: "consume", operation: id, delta: 100, at: iso(START + 1000) }]);
    expect(await spend(id, 30, 70)).toMatchObject(failed(409, `CONFLICT: Lease ${id} ended at ${iso(START + 1000)}`));
    expect(await spend(id, 500, 70)).toMatchObject(failed(409, `CONFLICT: Lease ${id} ended at ${iso(START + 1000)}`));
    expect(await spend(id, 101, 0)).toMatchObject(
      failed(409, `CONFLICT: Lease ${id} was granted 100 of tasker-maxTasks, and 101 are reported`),
    );
    const late = await spend(id, 30, 0);
    expect(late.body).toMatchObject({
      eval: true,
      used: tasks(0),
      remaining: tasks(270),
      lease: { state: "ended", granted: tasks(30), spent: tasks(30), until: iso(START + 1000) },
    });
    expect((await spend(id, 30, 0)).body).toEqual(late.body);
    expect(await level()).toEqual({ consumed: 30, resetTimeStamp: RESET });
    expect(await moved()).toEqual([
      ["consume", 100],
      ["revert", -70],
    ]);
  });

  test("a lease of which a part was reported ends with the rest", async () => {
    const id = await leased(100, "PT1S");
    await spend(id, 40);
    setNow(START + 2000);
    expect((await end(id)).status).toBe(204);
    expect((await end(id)).status).toBe(204);
    expect(await moved()).toEqual([
      ["consume", 40],
      ["consume", 60],
      ["revert", -60],
    ]);
  });

  test("27: nothing is taken back after a reset", async () => {
    const id = await leased(100, "PT1S");
    setNow(START + 2000);
    await api.call("PUT", `/contracts/${ada}/usageLevels?reset=true`, { key, body: {} });
    await evaluate("", tasks(50));
    expect((await spend(id, 30, 0)).body).toMatchObject({ lease: { state: "ended", spent: tasks(30) } });
    expect(await level()).toMatchObject({ consumed: 50 });
  });

  test("nothing is taken back that a revert took back, and a revert takes what a late end left", async () => {
    const revert = () => api.call("POST", `/features/${ada}/tasker-board?revert=true`, { key });
    const first = await leased(100, "PT1S");
    setNow(START + 2000);
    await revert();
    await evaluate("", tasks(50));
    await spend(first, 30, 0);
    expect(await level()).toMatchObject({ consumed: 50 });
    const second = await leased(100, "PT1S");
    setNow(START + 4000);
    await spend(second, 30, 0);
    expect(await level()).toMatchObject({ consumed: 80 });
    await revert();
    expect(await level()).toMatchObject({ consumed: 0 });
    expect(await moved()).toEqual([
      ["consume", 100],
      ["revert", -100],
      ["consume", 50],
      ["consume", 100],
      ["revert", -70],
      ["revert", -80],
    ]);
  });

  test("24 hours after its end a lease is gone", async () => {
    const [expired, ended, open] = [await leased(10, "PT1S"), await leased(10), await leased(10, "PT10M")];
    await end(ended);
    setNow(START + DAY);
    expect(await end(ended)).toMatchObject(failed(404, `Lease ${ended} not found`));
    setNow(START + DAY + 999);
    expect((await end(expired)).status).toBe(204);
    setNow(START + DAY + 1000);
    expect((await end(expired)).status).toBe(404);
    expect(await spend(expired, 0, 0)).toMatchObject(failed(404, `Lease ${expired} not found`));
    expect((await end(open)).status).toBe(204);
    expect(await level()).toMatchObject({ consumed: 0 });
  });

  test("an expiry raises the events of any consumption, at the next call that counts", async () => {
    await leased(300, "PT1S");
    setNow(START + 1000);
    const events = await allEventsDuring(api, () => open({ for: "PT1S", amounts: tasks(1) }));
    expect(events.map(({ code, details }) => [code, details.consumed])).toEqual([
      ["USAGE_LIMIT_REACHED", 300],
      ["USAGE_THRESHOLD_REACHED", 300],
      ["USAGE_THRESHOLD_REACHED", 300],
    ]);
  });

  test("a past moment shows what was reported by then, and nothing of what was leased", async () => {
    const id = await leased(100, "PT1M");
    setNow(START + 10_000);
    await spend(id, 30);
    setNow(START + HOUR);
    await spend(id, 45, 0);
    setNow(START + 2 * HOUR);
    const at = async (moment: number) => (await evaluate(`?at=${iso(moment)}`)).used;
    expect(await at(START + 5000)).toEqual(tasks(0));
    expect(await at(START + 10_000)).toEqual(tasks(30));
    expect(await at(START + MINUTE - 1)).toEqual(tasks(30));
    expect(await at(START + MINUTE)).toEqual(tasks(100));
    expect(await at(START + HOUR)).toEqual(tasks(45));
    const past = await api.call<Awaited<ReturnType<typeof show>>>("GET", `/contracts/${ada}?at=${iso(START + 5000)}`, {
      key,
    });
    expect(past.body.usageLevels["tasker"]?.["maxTasks"]).toEqual({ consumed: 0, resetTimeStamp: RESET });
  });
});

describe("meanwhile", () => {
  test("a reset leaves what is left, which counts in the new period when it is spent", async () => {
    const id = await leased(100);
    await spend(id, 40);
    await api.call("PUT", `/contracts/${ada}/usageLevels?reset=true`, { key, body: {} });
    expect(await level()).toMatchObject({ consumed: 0, held: 60 });
    expect((await spend(id, 50, 100)).body).toMatchObject({
      used: tasks(0),
      remaining: tasks(190),
      lease: { granted: tasks(150) },
    });
    expect(await level()).toMatchObject({ consumed: 10, held: 100 });
  });

  test("a billing period that ends refuses the user: spent is counted, ending works, nothing is added", async () => {
    const id = await leased(100, "PT10M");
    await api.call("PUT", `/contracts/${ada}/billingPeriod`, {
      key,
      body: { endDate: iso(START + 1000), autoRenew: false },
    });
    setNow(START + 2000);
    expect((await spend(id, 10, 200, "PT5M")).body).toMatchObject({
      eval: false,
      limit: tasks(300),
      error: null,
      lease: { state: "open", granted: tasks(100), spent: tasks(10), until: iso(START + 10 * MINUTE) },
    });
    expect((await spend(id, 20, 0)).body).toMatchObject({ eval: false, lease: { state: "ended", granted: tasks(20) } });
    expect(await level()).toMatchObject({ consumed: 20 });
  });

  test("a billing period that renews changes nothing", async () => {
    const id = await leased(100, "PT10M");
    await api.call("PUT", `/contracts/${ada}/billingPeriod`, {
      key,
      body: { endDate: iso(START + 1000), autoRenew: true, renewalDays: 30 },
    });
    setNow(START + 2000);
    expect((await spend(id, 10, 200, "PT5M")).body).toMatchObject({
      eval: true,
      lease: { granted: tasks(210), until: iso(START + 2000 + 5 * MINUTE) },
    });
  });

  test("a lease stays above a lower limit, and gets no more", async () => {
    const id = await leased(100);
    const novated = await api.call("PUT", `/contracts/${ada}`, {
      key,
      body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: {} },
    });
    expect(novated.status).toBe(200);
    const { body } = await spend(id, 90, 200);
    expect(body).toMatchObject({ lease: { granted: tasks(100), spent: tasks(90) }, remaining: tasks(0) });
    expect(body.eval).toBe(false);
    expect(await level()).toMatchObject({ held: 10 });
  });
});

describe("changes of the service", () => {
  let from: { id: string; key: string };
  let other: { id: string; key: string };
  const BOTH = { for: "PT10M", amounts: { "tasker-maxTasks": 5, "tasker-maxExports": 2 } };
  const spentOf = (maxTasks: number, maxExports: number) => ({
    "tasker-maxTasks": maxTasks,
    "tasker-maxExports": maxExports,
  });
  beforeEach(async () => {
    from = await api.newOrganization(api.callers.owner, `Origin ${ada}`);
    other = await api.newOrganization(api.callers.owner, `Target ${ada}`);
    await upload(api, from.key, tasker());
    await contract(api, from.key, "ada");
  });
  const call = <T = LeaseAnswer>(
    method: "GET" | "POST" | "PUT" | "DELETE",
    path: string,
    body?: object,
    given = from.key,
  ) => api.call<T>(method, path, { key: given, body });
  const lease = async (body: object = BOTH) => {
    const opened = await open(body, { feature: "bulk", userId: "ada", given: from.key });
    expect(opened.status).toBe(201);
    return opened.body.lease?.id ?? "";
  };

  test("a lease of two limits is bounded by each, and needs both", async () => {
    await call("POST", "/features/ada/tasker-bulk", spentOf(0, 9));
    const opened = await open(BOTH, { feature: "bulk", userId: "ada", given: from.key });
    expect(opened.body.lease).toMatchObject({ granted: spentOf(5, 1) });
    expect(opened.body.resetAt).toEqual({ "tasker-maxTasks": RESET, "tasker-maxExports": null });
    const missing = await open({ for: "PT1M", amounts: tasks(1) }, { feature: "bulk", userId: "ada", given: from.key });
    expect(missing).toMatchObject({
      status: 200,
      body: { eval: false, error: { code: "INVALID_EXPECTED_CONSUMPTION" }, lease: null },
    });
    const none = await open(
      { for: "PT1M", amounts: spentOf(1, 1) },
      { feature: "bulk", userId: "ada", given: from.key },
    );
    expect(none).toMatchObject({ status: 200, body: { eval: false, lease: null, used: spentOf(5, 10) } });
    const id = opened.body.lease?.id ?? "";
    expect((await report(id, { spent: tasks(1) }, from.key)).body.error).toBe(
      "The spent.tasker-maxExports field is required",
    );
    await report(id, { spent: spentOf(2, 1) }, from.key);
    await report(id, { spent: spentOf(3, 1) }, from.key);
    const rows = await api.database.connection.client<{ limit: string; delta: string; operation: string }[]>`
      select l.limit_name as limit, l.delta::text, l.operation_id as operation from usage_ledger l
      join contracts c on c.id = l.contract_id where c.organization_id = ${from.id} order by l.id desc limit 3`;
    expect(rows.map(({ limit, delta }) => `${limit} ${delta}`).toSorted()).toEqual([
      "maxExports 1",
      "maxTasks 1",
      "maxTasks 2",
    ]);
    expect(new Set(rows.map(({ operation }) => operation)).size).toBe(2);
  });

  test("a lease keeps the ids that it was granted with when its service is renamed", async () => {
    const id = await lease();
    const expiring = await lease({ ...BOTH, for: "PT1M" });
    expect((await call("PUT", "/services/Tasker", { name: "Planner" })).status).toBe(200);
    const reported = await report(id, { spent: spentOf(3, 1), amounts: spentOf(4, 1), for: "PT10M" }, from.key);
    expect(reported.body).toMatchObject({
      eval: true,
      limit: spentOf(20, 10),
      used: spentOf(5, 2),
      remaining: spentOf(8, 6),
      lease: { featureId: "tasker-bulk", granted: spentOf(7, 2), spent: spentOf(3, 1) },
    });
    const revert = () => call("POST", "/features/ada/planner-bulk?revert=true");
    expect((await revert()).status).toBe(204);
    setNow(START + MINUTE);
    expect((await call("POST", "/features/ada/planner-bulk")).body).toMatchObject({
      used: { "planner-maxTasks": 9, "planner-maxExports": 3 },
    });
    expect((await report(expiring, { spent: spentOf(1, 1), amounts: spentOf(0, 0) }, from.key)).body).toMatchObject({
      lease: { granted: spentOf(1, 1) },
    });
    expect((await revert()).status).toBe(204);
    const levels = (await show(api, from.key, "ada")).usageLevels["planner"];
    expect(levels).toMatchObject({ maxTasks: { consumed: 0, held: 4 }, maxExports: { consumed: 0, held: 1 } });
  });

  test("a lease is gone with one of its limits, and stays while they are tracked", async () => {
    const id = await lease();
    const untracked = tasker({ version: "2.0.0", maxTasks: 7 }).replace(", trackable: true", "");
    await upload(api, from.key, tasker({ version: "1.5.0", maxTasks: 7 }), untracked);
    const novate = (version: string) =>
      call("PUT", "/contracts/ada", {
        contractedServices: { tasker: version },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      });
    expect((await novate("1.5.0")).status).toBe(200);
    expect((await report(id, { spent: spentOf(1, 1), amounts: spentOf(9, 9) }, from.key)).body).toMatchObject({
      lease: { granted: spentOf(7, 10), spent: spentOf(1, 1) },
    });
    expect((await novate("2.0.0")).status).toBe(200);
    expect((await report(id, { spent: spentOf(2, 1) }, from.key)).body.error).toBe(`Lease ${id} not found`);
    expect((await end(id, from.key)).status).toBe(404);
    expect((await novate("1.5.0")).status).toBe(200);
    expect((await end(id, from.key)).status).toBe(404);
    expect((await show(api, from.key, "ada")).usageLevels["tasker"]?.["maxTasks"]).not.toHaveProperty("held");
  });

  test("a disabled service takes its leases along", async () => {
    const id = await lease();
    expect((await call("DELETE", "/services/Tasker")).status).toBe(204);
    expect((await end(id, from.key)).status).toBe(404);
  });

  test("a moved service takes its leases along", async () => {
    const id = await lease();
    expect((await call("PUT", "/services/Tasker", { organizationId: other.id })).status).toBe(200);
    expect((await end(id, from.key)).status).toBe(404);
    expect((await report(id, { spent: spentOf(1, 1) }, other.key)).body).toMatchObject({ eval: true });
  });

  test("a deleted contract, and a deleted organization, have no leases", async () => {
    const id = await lease();
    expect((await call("DELETE", "/contracts/ada")).status).toBe(204);
    expect((await end(id, from.key)).status).toBe(404);
    await contract(api, from.key, "ada");
    const second = await lease();
    await api.call("DELETE", `/organizations/${from.id}`, { key: api.callers.owner.key });
    const rows = await api.database.connection.client`select 1 from holds where id in (${id}, ${second})`;
    expect(rows).toHaveLength(0);
  });
});
