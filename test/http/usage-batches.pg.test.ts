import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { pruneUsageKeys } from "../../src/db/queries/retention.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Batches of usage. Source: contract usage-records §4 and its cases in §13, by their numbers. */

const START = Date.parse("2025-06-15T12:00:00.000Z");
const DAY = 86_400_000;

let api: TestApi;
let key: string;
let now = START;
let users = 0;
let userId: string;
const setNow = (moment: number) => api.setNow(new Date((now = moment)));
const iso = (moment: number) => new Date(moment).toISOString();

interface Item {
  key: string;
  verdict: string;
  reason?: string;
  error?: string;
}
interface Recorded {
  counts: Record<string, number>;
  items: Item[];
}

const item = (itemKey: string, amount = 1, more: object = {}) => ({
  userId,
  featureId: "tasker-board",
  amounts: { "tasker-maxTasks": amount },
  key: `${userId}-${itemKey}`,
  ...more,
});
const record = (items: unknown, query = "", as = key) =>
  api.call<Recorded & { error?: string }>("POST", `/usage${query}`, { key: as, body: items as object });
/** Verdict and reason of each item, in one text. */
const verdicts = async (items: unknown[], query = "") => {
  const { status, body } = await record(items, query);
  expect(status, JSON.stringify(body)).toBe(200);
  const counts: Record<string, number> = { counted: 0, duplicate: 0, refused: 0, unknown: 0, late: 0 };
  for (const { verdict } of body.items) counts[verdict] = (counts[verdict] ?? 0) + 1;
  expect(body.counts).toEqual(counts);
  return body.items.map(({ verdict, reason }) => (reason === undefined ? verdict : `${verdict} ${reason}`));
};
const movements = async () => {
  const rows = await api.database.connection.client<Record<string, unknown>[]>`
    select l.kind, l.delta::float as delta, l.late_amount::float as late, l.used_at, l.created_at, l.operation_id,
      l.feature_id
    from usage_ledger l join contracts c on c.id = l.contract_id where c.user_id = ${userId} order by l.id`;
  const momentOf = (value: unknown) => (value === null ? null : iso(Date.parse(String(value))));
  return rows.map((row) => ({ ...row, used_at: momentOf(row["used_at"]), created_at: momentOf(row["created_at"]) }));
};
/** A movement of a counted or late item. */
type Movement = Awaited<ReturnType<typeof movements>>[number] & { kind?: string };

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker({ maxTasks: 10 }));
});
afterAll(() => api.close());
beforeEach(async () => {
  setNow(START);
  userId = `batch-${(users += 1)}`;
  await contract(api, key, userId);
  return () => expectBalancesMatchLedger(api.database);
});

describe("each item counts once", () => {
  test("17: repeated keys are duplicates, and another item under one is refused", async () => {
    const items = [item("a"), item("b"), item("a"), item("a", 2)];
    expect(await verdicts(items)).toEqual(["counted", "counted", "duplicate", "refused KEY_REUSED"]);
    expect(await verdicts(items)).toEqual(["duplicate", "duplicate", "duplicate", "refused KEY_REUSED"]);
    expect(await consumed(api, key, userId)).toBe(2);
  });

  test("18: a refused item may come again, and is decided again", async () => {
    const items = [item("x", 6), item("y", 6), item("z", 1)];
    expect(await verdicts(items, "?strict=true")).toEqual(["counted", "refused LIMIT_REACHED", "counted"]);
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    expect(await verdicts(items, "?strict=true")).toEqual(["duplicate", "counted", "duplicate"]);
    expect(await consumed(api, key, userId)).toBe(6);
  });

  test("without strict the last item may pass the limit, and USAGE_LIMIT_REACHED is raised as for a consumption", async () => {
    const events = await allEventsDuring(api, async () => {
      const decided = await verdicts([item("a", 6), item("b", 6), item("c", 1)]);
      expect(decided).toEqual(["counted", "counted", "refused LIMIT_REACHED"]);
    });
    expect(events.map(({ code, details }) => [code, details["consumed"], details["threshold"]])).toEqual([
      ["USAGE_LIMIT_REACHED", 12, undefined],
      ["USAGE_THRESHOLD_REACHED", 12, 80],
      ["USAGE_THRESHOLD_REACHED", 12, 100],
    ]);
  });

  test("amounts in another order and another spelling of the moment are the same item", async () => {
    const both = { "tasker-maxTasks": 1, "tasker-maxExports": 2 };
    const reversed = { "tasker-maxExports": 2, "tasker-maxTasks": 1 };
    const bulk = (amounts: object, at: string) => [{ ...item("bulk"), featureId: "tasker-bulk", amounts, at }];
    expect(await verdicts(bulk(both, iso(now)))).toEqual(["counted"]);
    expect(await verdicts(bulk(reversed, "2025-06-15T14:00:00+02:00"))).toEqual(["duplicate"]);
    expect(await verdicts([{ ...item("bulk"), featureId: "tasker-bulk", amounts: both }])).toEqual([
      "refused KEY_REUSED",
    ]);
  });

  test("a batch sent three times at once, in different orders, counts once", async () => {
    const others = Array.from({ length: 9 }, (_, i) => `${userId}-${i}`);
    for (const other of others) await contract(api, key, other);
    const items = Array.from({ length: 300 }, (_, i) => ({
      ...item(`${i}`, 0.01),
      userId: others[i % others.length],
    }));
    const shuffled = [items, items.toReversed(), [...items.slice(150), ...items.slice(0, 150)]];
    const answers = await Promise.all(shuffled.map((one) => record(one)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const counted = answers.reduce((sum, { body }) => sum + (body.counts["counted"] ?? 0), 0);
    const duplicate = answers.reduce((sum, { body }) => sum + (body.counts["duplicate"] ?? 0), 0);
    expect([counted, duplicate]).toEqual([300, 600]);
    const all = await Promise.all(others.map((other) => consumed(api, key, other)));
    expect(all.reduce((sum, one) => sum + one, 0)).toBeCloseTo(3, 10);
  });

  test("one key for two end users at once is taken by one of them", async () => {
    const other = `${userId}-other`;
    await contract(api, key, other);
    const items = Array.from({ length: 40 }, (_, i) => item(`shared-${i}`, 0.01));
    const theirs = items.map((one) => ({ ...one, userId: other })).toReversed();
    const answers = await Promise.all([record(items), record(theirs)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(answers.reduce((sum, { body }) => sum + (body.counts["counted"] ?? 0), 0)).toBe(40);
  });

  test("keys are the organization's, stay taken for 35 days, and outlive the contract", async () => {
    expect(await verdicts([item("kept")])).toEqual(["counted"]);
    await api.call("DELETE", `/contracts/${userId}`, { key });
    expect(await verdicts([item("kept"), item("kept", 2)])).toEqual(["duplicate", "refused KEY_REUSED"]);
    await contract(api, key, userId);
    setNow(START + 35 * DAY - 1);
    expect(await verdicts([item("kept")])).toEqual(["duplicate"]);
    setNow(START + 35 * DAY);
    await contract(api, key, `${userId}-later`);
    const again = { ...item("kept", 2), userId: `${userId}-later` };
    expect(await verdicts([again, again])).toEqual(["counted", "duplicate"]);
    setNow(START + 71 * DAY);
    await pruneUsageKeys(api.database.connection.db, new Date(now));
    const [left] = await api.database.connection.client`select count(*)::int as keys from usage_keys`;
    expect(left).toEqual({ keys: 0 });
    const stranger = await api.newOrganization(api.callers.outsider, "Elsewhere");
    await api.call("POST", "/usage", { key: stranger.key, body: [item("kept", 2)] });
  });
});

describe("moments", () => {
  test("19: five minutes ahead count as now, one millisecond more is refused", async () => {
    const items = [item("a", 1, { at: iso(now + 300_000) }), item("b", 1, { at: iso(now + 300_001) })];
    expect(await verdicts(items)).toEqual(["counted", "refused FUTURE"]);
    expect(await movements()).toMatchObject([{ kind: "consume", delta: 1, used_at: null, created_at: iso(now) }]);
  });

  test("20: usage before a reset is late, and counts as of now with late=count", async () => {
    setNow(START + 1000);
    const reset = now;
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    setNow(reset + 5000);
    expect(await verdicts([item("at", 1, { at: iso(reset) })])).toEqual(["counted"]);
    expect(await verdicts([item("before", 2, { at: iso(reset - 1) })])).toEqual(["late"]);
    expect(await verdicts([item("before", 2, { at: iso(reset - 1) })])).toEqual(["duplicate"]);
    expect(await consumed(api, key, userId)).toBe(1);
    expect(await verdicts([item("again", 3, { at: iso(reset - 1) })], "?late=count")).toEqual(["counted"]);
    expect(await consumed(api, key, userId)).toBe(4);
    const written = (await movements()).filter(({ kind }: Movement) => kind !== "reset");
    expect(written).toMatchObject([
      { kind: "consume", used_at: iso(reset), operation_id: `${userId}-at` },
      { kind: "late", delta: 0, late: 2, used_at: iso(reset - 1), feature_id: "tasker-board" },
      { kind: "consume", delta: 3, used_at: null },
    ]);
  });

  test("a period that ended long ago without anybody noticing: the running one starts 1 ms after its last boundary", async () => {
    await api.call("PUT", `/contracts/${userId}/billingPeriod`, { key, body: { autoRenew: true, renewalDays: 3650 } });
    const first = Date.parse("2025-07-15T12:00:00.000Z");
    const second = Date.parse("2025-08-15T12:00:00.000Z");
    setNow(second + 10 * DAY);
    const at = (moment: number, name: string) => item(name, 1, { at: iso(moment) });
    expect(
      await verdicts([at(second, "on"), at(second + 1, "after"), at(first + 1, "first"), at(now - 1, "newest")]),
    ).toEqual(["late", "counted", "late", "counted"]);
    expect(await consumed(api, key, userId)).toBe(2);
  });

  test("levels from before this version: the newest reset or boundary on record, else the contract's creation", async () => {
    const forget = () => api.database.connection.client`update usage_levels set running_since = null`;
    await forget();
    setNow(START + 10_000);
    expect(await verdicts([item("a", 1, { at: iso(START - 60_000) })])).toEqual(["late"]);
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    await forget();
    setNow(START + 20_000);
    expect(
      await verdicts([item("b", 1, { at: iso(START + 9_999) }), item("c", 1, { at: iso(START + 10_000) })]),
    ).toEqual(["late", "counted"]);
  });

  test("24: what a batch adds later changes no answer about a moment before it came", async () => {
    setNow(START + 5000);
    expect(await verdicts([item("a", 4, { at: iso(START + 1000) })])).toEqual(["counted"]);
    const asOf = async (moment: number) =>
      (
        await api.call<{ used: Record<string, number> }>(
          "POST",
          `/features/${userId}/tasker-board?at=${encodeURIComponent(iso(moment))}`,
          { key, body: {} },
        )
      ).body.used["tasker-maxTasks"];
    expect([await asOf(START + 2000), await asOf(START + 5000)]).toEqual([0, 4]);
  });

  test("a key named like compacted sums is none of them", async () => {
    expect(await verdicts([{ ...item("x", 3), key: "carried" }])).toEqual(["counted"]);
    const shown = await api.call<{ used: Record<string, number> }>(
      "POST",
      `/features/${userId}/tasker-board?at=${encodeURIComponent(iso(now))}`,
      { key, body: {} },
    );
    expect(shown.body.used).toEqual({ "tasker-maxTasks": 3 });
  });
});

describe("what cannot be counted", () => {
  test("22: each item has its own reason, and the sentence of the single call", async () => {
    const expired = `${userId}-expired`;
    await contract(api, key, expired, { billingPeriod: { autoRenew: false, renewalDays: 1 } });
    setNow(START + 2 * DAY);
    const { body } = await record([
      { ...item("1"), userId: "nobody" },
      { ...item("2"), featureId: "tasker-none" },
      { ...item("3"), userId: expired },
      { ...item("4"), amounts: { "tasker-maxTasks": 1, "tasker-maxExports": 1 } },
      { ...item("5"), featureId: "tasker-bulk" },
      { ...item("6"), featureId: "tasker-darkMode" },
    ]);
    const single = async (user: string, feature: string, amounts = { "tasker-maxTasks": 1 }) => {
      const answer = await api.call<{ error: string | { message: string } }>("POST", `/features/${user}/${feature}`, {
        key,
        body: amounts,
      });
      return typeof answer.body.error === "string" ? answer.body.error : answer.body.error.message;
    };
    expect(body.items.map(({ verdict, reason, error }) => ({ verdict, reason, error }))).toEqual([
      { verdict: "unknown", reason: "CONTRACT_NOT_FOUND", error: await single("nobody", "tasker-board") },
      { verdict: "unknown", reason: "FLAG_NOT_FOUND", error: await single(userId, "tasker-none") },
      { verdict: "refused", reason: "CONTRACT_EXPIRED", error: await single(expired, "tasker-board") },
      { verdict: "refused", reason: "UNKNOWN_LIMIT", error: "Feature tasker-board has no limit tasker-maxExports" },
      { verdict: "refused", reason: "INVALID_EXPECTED_CONSUMPTION", error: await single(userId, "tasker-bulk") },
      { verdict: "refused", reason: "UNKNOWN_LIMIT", error: "Feature tasker-darkMode has no limit tasker-maxTasks" },
    ]);
    expect(body.counts).toEqual({ counted: 0, duplicate: 0, refused: 4, unknown: 2, late: 0 });
  });

  test("items of expired and of renewed contracts are decided in one call", async () => {
    const renewing = `${userId}-renewing`;
    await contract(api, key, renewing, { billingPeriod: { autoRenew: true, renewalDays: 1 } });
    setNow(START + 3 * DAY);
    expect(await verdicts([{ ...item("a"), userId: renewing }, item("b"), { ...item("c"), userId: renewing }])).toEqual(
      ["counted", "counted", "counted"],
    );
  });

  test("21: the call is checked before anything counts", async () => {
    const sentence = async (body: unknown, query = "") => {
      const answer = await record(body, query);
      return `${answer.status} ${answer.body.error}`;
    };
    const many = Array.from({ length: 1001 }, (_, i) => item(`${i}`));
    expect(await sentence(many)).toBe("422 A batch has at most 1000 items");
    expect(await sentence({})).toBe("422 The body must be a list of usage items");
    expect(await sentence({}, "?late=never")).toBe("400 INVALID DATA: late must be record or count");
    const bad: [unknown, string][] = [
      [5, "An item must be an object"],
      [null, "An item must be an object"],
      [[], "An item must be an object"],
      [{}, "The userId field must be a string of 1 to 512 characters"],
      [item("x", 1, { userId: "u".repeat(513) }), "The userId field must be a string of 1 to 512 characters"],
      [item("x", 1, { userId: "a\0b" }), "The userId field must be a string of 1 to 512 characters"],
      [item("x", 1, { featureId: 3 }), "The featureId field must be a string of 1 to 512 characters"],
      [item("x", 1, { amounts: {} }), "The amounts field must be an object with at least one amount"],
      [item("x", 1, { amounts: [1] }), "The amounts field must be an object with at least one amount"],
      [item("x", 1, { amounts: { a: "1" } }), "All values must be numbers"],
      [item("x", 1, { amounts: { a: -1 } }), "All values must be non-negative finite numbers"],
      [item("x", 1, { amounts: { a: -1, b: "x" } }), "All values must be numbers"],
      [item("x", 1, { amounts: { a: 1e308, b: -1 } }), "All values must be non-negative finite numbers"],
      [item("x", 1, { amounts: { a: 2 ** 53 } }), "All values must be at most 9007199254740991"],
      [item("x", 1, { key: undefined }), "The key field must be a string of 1 to 255 characters"],
      [item("x", 1, { key: "" }), "The key field must be a string of 1 to 255 characters"],
      [item("x", 1, { at: "yesterday" }), "The at field must be an ISO 8601 date"],
      [item("x", 1, { at: null }), "The at field must be an ISO 8601 date"],
      [item("x", 1, { amount: 1 }), "Unknown field: amount"],
      [item("x", 1, { amount: 1, at: 5 }), "The at field must be an ISO 8601 date"],
    ];
    for (const [value, why] of bad) {
      expect(await sentence([item("0"), item("1"), value, {}])).toBe(`422 Item 2: ${why}`);
    }
    expect(await consumed(api, key, userId)).toBe(0);
    expect(await verdicts([])).toEqual([]);
  });

  test("one item per line: blank lines are skipped, and a broken one is named", async () => {
    const lines = (text: string, path = "/usage") =>
      api.app.request(`/api/v1${path}`, {
        method: "POST",
        headers: { "x-api-key": key, "content-type": "application/x-ndjson; charset=utf-8" },
        body: text,
      });
    const broken = await lines(`${JSON.stringify(item("a"))}\n\n{"userId":\n`);
    expect([broken.status, await broken.json()]).toEqual([400, { error: "INVALID DATA: Line 3 is not valid JSON" }]);
    expect(await consumed(api, key, userId)).toBe(0);
    const good = await lines(`${JSON.stringify(item("a"))}\r\n\n${JSON.stringify(item("b"))}\n`);
    expect(await good.json()).toMatchObject({ counts: { counted: 2 } });
    const empty = await lines("");
    expect([empty.status, await empty.json()]).toMatchObject([200, { items: [] }]);
    const elsewhere = await lines("{", "/contracts");
    expect(elsewhere.status).toBe(422);
  });
});

test("a contract that stays locked is a 503, and the same call is safe once it is free", async () => {
  const other = `${userId}-free`;
  await contract(api, key, other);
  const items = [item("a"), { ...item("b"), userId: other }];
  const { client } = api.database.connection;
  const locked = await client.reserve();
  await locked`begin`;
  await locked`select 1 from contracts where user_id = ${userId} for update`;
  const answer = await record(items);
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
  await locked`rollback`;
  locked.release();
  expect(await verdicts(items)).toEqual(["counted", "duplicate"]);
});

test("contracts that were locked are counted together once they are free", async () => {
  const others = Array.from({ length: 12 }, (_, i) => `${userId}-${i}`);
  for (const other of others) await contract(api, key, other);
  const items = others.map((other) => ({ ...item(other), userId: other }));
  const { client } = api.database.connection;
  const options = client.options as { debug?: unknown };
  const locked = await client.reserve();
  await locked`begin`;
  await locked`select 1 from contracts where user_id = any(${others}) for update`;
  let transactions = 0;
  options.debug = (_: unknown, query: string) => {
    if (/^begin/i.test(query)) transactions += 1;
  };
  try {
    const answering = verdicts(items);
    // The batch has found every contract locked, and waits for the first.
    await expect.poll(() => transactions).toBe(2);
    await locked`rollback`;
    locked.release();
    expect(new Set(await answering)).toEqual(new Set(["counted"]));
  } finally {
    options.debug = false;
  }
  // One that found them all locked, one that waited for the first and counted them all.
  expect(transactions).toBe(2);
});

test("denials and metrics count items as they count single calls", async () => {
  const { totals } = api.resources.callCounter;
  const before = { ...totals };
  await verdicts([item("a", 6), item("b", 6), item("b", 6), item("c")], "?strict=true");
  expect(totals.granted - before.granted).toBe(2);
  expect(totals.denied - before.denied).toBe(2);
});
