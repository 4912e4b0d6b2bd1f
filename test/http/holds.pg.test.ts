import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";

/* Cases of contract usage-records §13, by their numbers. */

const START = Date.parse("2025-06-15T10:00:00.000Z");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const meter = (version: string, limits: string) => `
saasName: Meter
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-01-0${version[0]}"
currency: EUR
features:
  call:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls']
  always: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['always']" }
  both:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls'] && subscriptionContext['bytes'] < pricingContext['usageLimits']['bytes']
usageLimits:
${limits}
plans:
  ALL: { price: 0, features: null }
`;
const CALLS = (limit: number, tracked = true) =>
  tracked
    ? `  calls: { valueType: NUMERIC, defaultValue: ${limit}, unit: call, type: RENEWABLE, period: { value: 1, unit: MONTH } }`
    : `  calls: { valueType: NUMERIC, defaultValue: ${limit}, unit: call, type: NON_RENEWABLE }`;
const BYTES = "  bytes: { valueType: NUMERIC, defaultValue: 100, unit: byte, type: NON_RENEWABLE, trackable: true }";

interface Hold {
  id: string;
  state: string;
  amounts: Record<string, number>;
  counted: Record<string, number> | null;
  until: string;
  endedAt: string | null;
  featureId: string;
}
interface Answer {
  eval: boolean;
  used: Record<string, number> | null;
  remaining: Record<string, number>;
  hold: Hold | null;
  error: string;
  held?: object;
  reason?: string;
  sources?: object | null;
}

let api: TestApi;
let key: string;
let now = START;
const setNow = (moment: number) => api.setNow(new Date((now = moment)));
const iso = (moment: number) => new Date(moment).toISOString();

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(
    api,
    key,
    meter("1.0.0", `${CALLS(10)}\n${BYTES}`),
    meter("2.0.0", `${CALLS(3)}\n${BYTES}`),
    meter("3.0.0", `${CALLS(3, false)}\n${BYTES}`),
  );
});
afterAll(() => api.close());

let users = 0;
let ada: string;
beforeEach(async () => {
  setNow(START);
  ada = `user-${(users += 1)}`;
  await subscribe(ada);
});
afterEach(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});

const METERED = { contractedServices: { meter: "1.0.0" }, subscriptionPlans: { meter: "ALL" }, subscriptionAddOns: {} };
const subscribe = (userId: string) =>
  contract(api, key, userId, { ...METERED, billingPeriod: { autoRenew: true, renewalDays: 30 } });

const calls = (amount: number) => ({ "meter-calls": amount });
const ask = (query: string, body: object = {}, feature = "call", userId = ada, headers: Record<string, string> = {}) =>
  api.call<Answer>("POST", `/features/${userId}/meter-${feature}${query}`, { key, body, headers });
/** Takes a hold and returns its id. */
const take = async (amount: number, query = "hold=PT10M") => {
  const { status, body } = await ask(`?${query}`, calls(amount));
  expect({ status, body }).toMatchObject({ status: 200, body: { eval: true, hold: { id: expect.any(String) } } });
  return body.hold?.id ?? "";
};
const settle = (id: string, body: object | string, headers: Record<string, string> = {}, given = key) =>
  api.call<Answer>("POST", `/holds/${id}`, { key: given, body, headers });
const release = (id: string) => api.call<Answer>("DELETE", `/holds/${id}`, { key });
const extend = (id: string, duration: string, body?: object) =>
  api.call<Hold & { error: string }>("POST", `/holds/${id}?extend=${duration}`, { key, body });
const list = async (query = "?state=all", userId = ada) =>
  (
    await api.call<{ data: Hold[]; next: string | null; error: string }>("GET", `/contracts/${userId}/holds${query}`, {
      key,
    })
  ).body;
/** Consumed and held amounts of the contract's calls. */
const level = async (userId = ada) => (await show(api, key, userId)).usageLevels["meter"]?.["calls"];
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
const conflict = (id: string, how: string) => ({ status: 409, body: { error: `CONFLICT: Hold ${id} ${how}` } });

describe("taking", () => {
  test("1: holds never pass the limit", async () => {
    await take(4);
    await take(6);
    expect((await ask("?hold=PT10M", calls(1))).body).toEqual({
      eval: false,
      limit: calls(10),
      used: calls(11),
      error: null,
      remaining: calls(0),
      resetAt: { "meter-calls": "2025-07-15T10:00:00.000Z" },
      hold: null,
    });
  });

  test("2: what is held is usage, and not consumed", async () => {
    await take(4);
    expect((await ask("")).body).toMatchObject({ eval: true, used: calls(4) });
    expect((await ask("?explain=true")).body).toMatchObject({ used: calls(4), held: calls(4), reason: "GRANTED" });
    expect(await level()).toEqual({ consumed: 0, held: 4, resetTimeStamp: "2025-07-15T10:00:00.000Z" });
    const all = await api.call<Record<string, Answer>>("POST", `/features/${ada}?details=true`, { key });
    expect(all.body["meter-call"]).toMatchObject({ used: calls(4) });
    const token = await api.call<{ pricingToken: string }>("POST", `/features/${ada}/pricing-token`, { key });
    const payload = JSON.parse(atob(token.body.pricingToken.split(".")[1] ?? ""));
    expect(payload).toMatchObject({ subscriptionContext: calls(4), features: { "meter-call": { used: 4 } } });
  });

  test("3: plain consumption decides over usage, and may pass into what is held", async () => {
    await take(10);
    expect((await ask("", calls(1))).body).toMatchObject({ eval: false, used: calls(11) });
    expect((await level())?.consumed).toBe(0);
    const bob = `user-${(users += 1)}`;
    await subscribe(bob);
    const held = (await ask("?hold=PT1M", calls(5), "call", bob)).body.hold?.id ?? "";
    expect((await ask("", calls(7), "call", bob)).body).toMatchObject({ eval: true, used: calls(12) });
    expect((await settle(held, calls(5))).body).toMatchObject({ eval: true, used: calls(12), remaining: calls(0) });
    expect((await level(bob))?.consumed).toBe(12);
  });

  test.each(["PT0.999S", "PT24H0.001S", "P1M", "pt5m", "PT0.5H", "10", "", "P", "PT", "P1DT", "P1W", "PT1.0001S"])(
    "8: %j is no duration",
    async (duration) => {
      const { status, body } = await ask(`?hold=${duration}`, calls(1));
      expect({ status, body }).toEqual({
        status: 400,
        body: { error: "INVALID DATA: hold must be an ISO 8601 duration from PT1S to PT24H" },
      });
    },
  );

  test.each([
    ["PT1S", 1000],
    ["P1D", 24 * HOUR],
    ["PT24H", 24 * HOUR],
    ["PT1M0.5S", MINUTE + 500],
  ])("8: %s is taken", async (duration, milliseconds) => {
    const { body } = await ask(`?hold=${duration}`, calls(1));
    expect(body.hold).toEqual({ id: expect.stringMatching(/^[0-9a-f]{24}$/), until: iso(START + milliseconds) });
  });

  test("9: a hold is strict, for now, and of amounts", async () => {
    expect(await ask("?hold=PT5M&dryRun=true", calls(1))).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: hold cannot be combined with revert, dryRun or at" },
    });
    expect((await ask("?hold=PT5M&onExpiry=keep", calls(1))).body.error).toBe(
      "INVALID DATA: onExpiry must be release or consume",
    );
    expect((await ask("?onExpiry=keep", calls(1))).status).toBe(200);
    expect(await ask("?hold=PT5M", {})).toMatchObject({
      status: 422,
      body: { error: "A hold needs amounts for the limits of the feature" },
    });
    expect((await ask("?hold=PT5M", { "meter-calls": -1 })).status).toBe(422);
  });

  test("a feature without limits, an unknown one, and missing amounts hold nothing", async () => {
    expect((await ask("?hold=PT5M", calls(1), "always")).body).toMatchObject({ eval: true, used: null, hold: null });
    expect((await ask("?hold=PT5M", calls(1), "nope")).body).toMatchObject({ eval: false, hold: null });
    expect((await ask("?hold=PT5M", calls(1), "both")).body).toMatchObject({
      eval: false,
      error: { code: "INVALID_EXPECTED_CONSUMPTION" },
      hold: null,
    });
    expect((await list()).data).toEqual([]);
  });

  test("a hold of zero amounts is taken and can be settled", async () => {
    const id = await take(0);
    expect((await settle(id, calls(3))).body).toMatchObject({ eval: true, used: calls(3), hold: { state: "settled" } });
  });

  test("1,000 holds can be open", async () => {
    await api.call("PUT", `/contracts/${ada}/overrides/meter/usageLimits/calls`, {
      key,
      body: { mode: "set", value: 5000, reason: "Many holds" },
    });
    const taken = await Promise.all(Array.from({ length: 1003 }, () => ask("?hold=PT10M", calls(1))));
    const refused = taken.filter(({ status }) => status === 409);
    expect(refused).toHaveLength(3);
    expect(refused[0]?.body.error).toBe("CONFLICT: The contract has 1000 open holds: settle or release some first");
    expect(await level()).toMatchObject({ consumed: 0, held: 1000 });
    const granted = taken.find(({ status }) => status === 200)?.body.hold?.id ?? "";
    expect((await release(granted)).status).toBe(204);
    await take(1);
  });
});

describe("settling", () => {
  test("4: what the work took is counted, the rest given back", async () => {
    const id = await take(5);
    setNow(START + 3 * MINUTE);
    expect((await settle(id, calls(3))).body).toEqual({
      eval: true,
      limit: calls(10),
      used: calls(3),
      error: null,
      remaining: calls(7),
      resetAt: { "meter-calls": "2025-07-15T10:00:00.000Z" },
      hold: {
        id,
        userId: ada,
        featureId: "meter-call",
        amounts: calls(5),
        state: "settled",
        onExpiry: "release",
        createdAt: iso(START),
        until: iso(START + 10 * MINUTE),
        endedAt: iso(START + 3 * MINUTE),
        counted: calls(3),
      },
    });
    expect(await level()).toEqual({ consumed: 3, resetTimeStamp: "2025-07-15T10:00:00.000Z" });
    expect(await movements()).toEqual([{ kind: "consume", operation: id, delta: 3, at: iso(now) }]);
  });

  test("5: more than is held must fit", async () => {
    const id = await take(5);
    expect((await settle(id, calls(11))).body).toMatchObject({
      eval: false,
      used: calls(11),
      remaining: calls(5),
      hold: { state: "open", endedAt: null, counted: null },
    });
    expect(await level()).toMatchObject({ consumed: 0, held: 5 });
    expect((await settle(id, calls(10))).body).toMatchObject({ eval: true, used: calls(10), remaining: calls(0) });
    expect((await level())?.consumed).toBe(10);
  });

  test("6: nothing counted is a release", async () => {
    const id = await take(5);
    expect((await settle(id, calls(0))).body).toMatchObject({ eval: true, hold: { state: "released", counted: null } });
    expect(await settle(id, calls(5))).toMatchObject(conflict(id, `was released at ${iso(now)}`));
    expect((await release(id)).status).toBe(204);
    expect(await movements()).toEqual([]);
  });

  test("7: a hold is settled once, and a repetition with its key answers the same", async () => {
    const id = await take(5);
    const headers = { "idempotency-key": "k7" };
    const first = await settle(id, calls(5), headers);
    expect(first.status).toBe(200);
    const again = await settle(id, calls(5), headers);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(await settle(id, calls(5))).toMatchObject(conflict(id, `was settled at ${iso(now)}`));
    expect(await release(id)).toMatchObject(conflict(id, `was settled at ${iso(now)}`));
    expect((await level())?.consumed).toBe(5);
  });

  test("many settlements of one hold at once count once", async () => {
    const id = await take(5);
    const answers = await Promise.all(Array.from({ length: 20 }, () => settle(id, calls(4))));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
    expect(await level()).toMatchObject({ consumed: 4 });
  });

  test("10: a hold can be settled until just before its end", async () => {
    const [first, second] = [await take(3), await take(3)];
    setNow(START + 10 * MINUTE - 1);
    expect((await settle(first, calls(3))).status).toBe(200);
    setNow(START + 10 * MINUTE);
    expect(await settle(second, calls(3))).toMatchObject(conflict(second, `expired at ${iso(now)}`));
    expect((await release(second)).status).toBe(204);
  });

  test("the checks of the body come around those of the hold", async () => {
    const id = await take(5);
    expect(await settle(id, "[]")).toMatchObject({ status: 422, body: { error: "Body must be an object" } });
    expect((await settle(id, { "meter-calls": "5" })).body.error).toBe("All values must be numbers");
    expect((await settle(id, { "meter-calls": 1e308 })).body.error).toBe("All values must be at most 9007199254740991");
    expect((await settle("x", calls(5))).body.error).toBe("Hold x not found");
    expect((await settle(id, {})).body.error).toBe("The meter-calls field is required");
    expect((await settle(id, { other: 1 })).body.error).toBe("The meter-calls field is required");
    expect(await settle(id, { other: 1, ...calls(5) })).toMatchObject({
      status: 422,
      body: { error: "Unknown field: other" },
    });
  });

  test("a settlement can be reverted like a consumption, and one of two limits may be zero", async () => {
    const taken = await ask("?hold=PT1M", { "meter-calls": 2, "meter-bytes": 30 }, "both");
    await settle(taken.body.hold?.id ?? "", { "meter-calls": 0, "meter-bytes": 20 });
    expect((await movements()).map(({ delta }) => delta)).toEqual([20]);
    expect((await ask("?revert=true", {}, "both")).status).toBe(204);
    expect((await show(api, key, ada)).usageLevels["meter"]).toMatchObject({
      calls: { consumed: 0 },
      bytes: { consumed: 0 },
    });
  });

  test("16: a hold belongs to its organization and its contract", async () => {
    const id = await take(5);
    const other = await api.newOrganization(api.callers.owner, "Other");
    const notFound = { status: 404, body: { error: `Hold ${id} not found` } };
    expect(await settle(id, calls(5), {}, other.key)).toMatchObject(notFound);
    expect((await settle(id, calls(1), {}, api.callers.evaluation.key)).status).toBe(200);
    const second = await take(1);
    await api.call("DELETE", `/contracts/${ada}`, { key });
    expect(await settle(second, calls(1))).toMatchObject({
      status: 404,
      body: { error: `Hold ${second} not found` },
    });
  });
});

describe("time", () => {
  test("11: an expiry counts what is held, once, in every read", async () => {
    const id = await take(5, "hold=PT10M&onExpiry=consume");
    const end = START + 10 * MINUTE;
    setNow(end + HOUR);
    expect((await list()).data).toEqual([
      expect.objectContaining({ id, state: "expired", endedAt: iso(end), counted: calls(5) }),
    ]);
    expect((await ask("")).body).toMatchObject({ used: calls(5) });
    expect((await list("?state=expired")).data).toHaveLength(1);
    expect((await list("")).data).toEqual([]);
    await ask("", calls(0));
    expect(await level()).toEqual({ consumed: 5, resetTimeStamp: "2025-07-15T10:00:00.000Z" });
    const consumes = (await movements()).filter(({ delta }) => delta !== 0);
    expect(consumes).toEqual([{ kind: "consume", operation: id, delta: 5, at: iso(end) }]);
    expect(await release(id)).toMatchObject(conflict(id, `expired at ${iso(end)}`));
  });

  test("11: a contract shows an expiry that nobody has written", async () => {
    await take(5, "hold=PT10M&onExpiry=consume");
    await take(2);
    setNow(START + 10 * MINUTE);
    expect(await level()).toEqual({ consumed: 5, resetTimeStamp: "2025-07-15T10:00:00.000Z" });
  });

  test("12: an expiry at the boundary belongs to the period that ends there", async () => {
    const reset = Date.parse("2025-07-15T10:00:00.000Z");
    setNow(reset - 10 * MINUTE);
    await take(5, "hold=PT10M&onExpiry=consume");
    setNow(reset + 1);
    await ask("", calls(0));
    expect((await movements()).map(({ kind, delta }) => [kind, delta])).toEqual([
      ["consume", 5],
      ["renew", -5],
      ["consume", 0],
    ]);
    expect((await level())?.consumed).toBe(0);
  });

  test("an expiry after the boundary belongs to the new period", async () => {
    const reset = Date.parse("2025-07-15T10:00:00.000Z");
    setNow(reset - 10 * MINUTE);
    await ask("", calls(2));
    await take(5, "hold=PT11M&onExpiry=consume");
    setNow(reset + HOUR);
    expect((await ask("")).body).toMatchObject({ used: calls(5) });
    expect((await movements()).map(({ kind, delta }) => [kind, delta])).toEqual([
      ["consume", 2],
      ["renew", -2],
      ["consume", 5],
    ]);
  });

  test("13: a hold that is open over a reset counts in the new period", async () => {
    setNow(Date.parse("2025-07-15T09:59:59.000Z"));
    await ask("", calls(1));
    const id = await take(5);
    setNow(Date.parse("2025-07-15T10:00:01.000Z"));
    expect((await settle(id, calls(5))).body).toMatchObject({ eval: true, used: calls(5) });
    expect(await level()).toEqual({ consumed: 5, resetTimeStamp: "2025-08-15T10:00:00.000Z" });
  });

  test("14: extending never shortens, and ends 24 hours from the creation", async () => {
    const id = await take(5, "hold=PT2H");
    expect((await extend(id, "PT1M")).body).toMatchObject({ id, state: "open", until: iso(START + 2 * HOUR) });
    setNow(START + HOUR);
    expect((await extend(id, "PT24H", {})).body.until).toBe(iso(START + 24 * HOUR));
    expect((await extend(id, "1h")).body.error).toBe(
      "INVALID DATA: extend must be an ISO 8601 duration from PT1S to PT24H",
    );
    expect((await extend(id, "PT1H", calls(1))).body.error).toBe(
      "INVALID DATA: extend cannot be combined with amounts",
    );
    setNow(START + 3 * HOUR);
    expect((await ask("")).body).toMatchObject({ used: calls(5) });
    setNow(START + 24 * HOUR);
    expect(await extend(id, "PT1H")).toMatchObject(conflict(id, `expired at ${iso(now)}`));
    expect((await extend("f".repeat(24), "PT1H")).status).toBe(404);
  });

  test("a past moment shows what was held then", async () => {
    const id = await take(5);
    setNow(START + MINUTE);
    await settle(id, calls(3));
    await take(1, "hold=PT1M&onExpiry=consume");
    setNow(START + HOUR);
    const at = async (moment: number) =>
      (await api.call<Awaited<ReturnType<typeof show>>>("GET", `/contracts/${ada}?at=${iso(moment)}`, { key })).body
        .usageLevels["meter"]?.["calls"];
    expect(await at(START)).toMatchObject({ consumed: 0, held: 5 });
    expect(await at(START + MINUTE - 1)).toMatchObject({ consumed: 0, held: 5 });
    expect(await at(START + MINUTE)).toMatchObject({ consumed: 3, held: 1 });
    expect(await at(START + 2 * MINUTE)).toEqual({ consumed: 4, resetTimeStamp: "2025-07-15T10:00:00.000Z" });
    const past = await ask(`?at=${iso(START + MINUTE)}`);
    expect(past.body).toMatchObject({ used: calls(4), remaining: calls(6) });
    expect(past.body).not.toHaveProperty("held");
    expect((await ask(`?at=${iso(START + MINUTE)}&explain=true`)).body).toMatchObject({ held: calls(1) });
  });
});

describe("changes of the contract", () => {
  const novate = (version: string) =>
    api.call("PUT", `/contracts/${ada}`, { key, body: { ...METERED, contractedServices: { meter: version } } });

  test("15: a hold stays while its limits are tracked, even above a lower limit", async () => {
    const id = await take(5);
    expect((await novate("2.0.0")).status).toBe(200);
    expect((await settle(id, calls(5))).body).toMatchObject({ eval: true, used: calls(5), limit: calls(3) });
    expect((await level())?.consumed).toBe(5);
  });

  test("15: a hold is released with its limit", async () => {
    const id = await take(5);
    const both = await ask("?hold=PT10M", { "meter-calls": 1, "meter-bytes": 30 }, "both");
    setNow(START + MINUTE);
    expect((await novate("3.0.0")).status).toBe(200);
    expect(await settle(id, calls(5))).toMatchObject(conflict(id, `was released at ${iso(now)}`));
    expect((await show(api, key, ada)).usageLevels["meter"]).toEqual({ bytes: { consumed: 0 } });
    expect((await list("?state=released")).data.map((hold) => hold.id)).toEqual([both.body.hold?.id, id]);
  });

  test("a scheduled change meets holds as of its moment, however late it is noticed", async () => {
    const schedule = async (version: string, at: number) => {
      const body = { ...METERED, contractedServices: { meter: version }, at: iso(at) };
      const scheduled = await api.call("POST", `/contracts/${ada}/scheduled`, { key, body });
      expect(scheduled.status).toBe(201);
    };
    await take(1, "hold=PT30M&onExpiry=consume");
    const [short, long] = [await take(2, "hold=PT90M"), await take(5, "hold=P1D")];
    await schedule("2.0.0", START + HOUR);
    setNow(START + 2 * HOUR);
    expect(await settle(short, calls(1))).toMatchObject(conflict(short, `expired at ${iso(START + 90 * MINUTE)}`));
    expect((await ask("?explain=true")).body).toMatchObject({ limit: calls(3), held: calls(5) });
    expect((await movements())[0]).toMatchObject({ kind: "consume", delta: 1, at: iso(START + 30 * MINUTE) });
    await schedule("3.0.0", START + 3 * HOUR);
    setNow(START + 4 * HOUR);
    expect(await settle(long, calls(5))).toMatchObject(conflict(long, `was released at ${iso(START + 3 * HOUR)}`));
  });

  test("a reset and an increment leave holds, and write expiries first", async () => {
    await take(5, "hold=PT10M&onExpiry=consume");
    setNow(START + HOUR);
    const id = await take(2);
    const changed = await api.call("PUT", `/contracts/${ada}/usageLevels?reset=true`, { key, body: {} });
    expect(changed.status).toBe(200);
    expect(await level()).toMatchObject({ consumed: 0, held: 2 });
    expect((await movements()).map(({ kind, delta }) => [kind, delta])).toEqual([
      ["consume", 5],
      ["reset", -5],
    ]);
    await settle(id, calls(1));
    expect((await level())?.consumed).toBe(1);
  });

  test("an expired contract settles, extends and releases, and takes no more", async () => {
    const taken = [await take(1, "hold=P1D"), await take(2, "hold=P1D")];
    await api.call("PUT", `/contracts/${ada}/billingPeriod`, {
      key,
      body: { endDate: iso(START + MINUTE), autoRenew: false },
    });
    setNow(START + HOUR);
    expect((await ask("?hold=PT1M", calls(1))).status).toBe(400);
    expect((await extend(taken[0] ?? "", "PT24H")).status).toBe(200);
    expect((await settle(taken[0] ?? "", calls(1))).body).toMatchObject({ eval: true });
    expect((await release(taken[1] ?? "")).status).toBe(204);
    expect(await level()).toMatchObject({ consumed: 1 });
  });
});

describe("changes of the service", () => {
  let other: { id: string; key: string };
  let from: { id: string; key: string };
  beforeEach(async () => {
    from = await api.newOrganization(api.callers.owner, "Origin");
    other = await api.newOrganization(api.callers.owner, "Target");
    await upload(api, from.key, meter("1.0.0", `${CALLS(10)}\n${BYTES}`));
    await contract(api, from.key, "ada", METERED);
  });
  const call = <T = Answer>(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object, given = from.key) =>
    api.call<T>(method, path, { key: given, body });
  const hold = async (amount: number) =>
    (await call("POST", "/features/ada/meter-call?hold=PT1H", calls(amount))).body.hold?.id ?? "";

  test("an open hold takes the new name of its service, an ended one keeps the old", async () => {
    const [open, ended] = [await hold(5), await hold(1)];
    await call("DELETE", `/holds/${ended}`);
    expect((await call("PUT", "/services/Meter", { name: "Counter" })).status).toBe(200);
    const listed = await call<{ data: Hold[] }>("GET", "/contracts/ada/holds?state=all");
    expect(listed.body.data).toMatchObject([
      { id: ended, featureId: "meter-call", amounts: calls(1) },
      { id: open, featureId: "counter-call", amounts: { "counter-calls": 5 } },
    ]);
    expect((await call("POST", `/holds/${open}`, calls(3))).body.error).toBe("The counter-calls field is required");
    expect((await call("POST", `/holds/${open}`, { "counter-calls": 3 })).body).toMatchObject({
      eval: true,
      used: { "counter-calls": 3 },
    });
  });

  test("a disabled service releases its holds", async () => {
    const id = await hold(5);
    expect((await call("DELETE", "/services/Meter")).status).toBe(204);
    expect(await call("POST", `/holds/${id}`, calls(5))).toMatchObject(conflict(id, `was released at ${iso(now)}`));
  });

  test("a service that moves takes a contract of its own with its holds, and leaves others without", async () => {
    const id = await hold(5);
    const move = () => call("PUT", "/services/Meter", { organizationId: other.id });
    await upload(api, from.key, meter("1.0.0", `${CALLS(10)}\n${BYTES}`).replace("saasName: Meter", "saasName: Gauge"));
    await contract(api, from.key, "bob", {
      contractedServices: { meter: "1.0.0", gauge: "1.0.0" },
      subscriptionPlans: { meter: "ALL", gauge: "ALL" },
    });
    const take = (feature: string, body: object) =>
      call("POST", `/features/bob/${feature}?hold=PT1H`, body).then(({ body }) => body.hold?.id ?? "");
    const leaving = await take("meter-call", calls(2));
    const staying = await take("gauge-call", { "gauge-calls": 3 });
    expect((await move()).status).toBe(200);
    expect((await call("POST", `/holds/${id}`, calls(5))).status).toBe(404);
    expect((await call("POST", `/holds/${id}`, calls(5), other.key)).body).toMatchObject({ eval: true });
    expect(await call("DELETE", `/holds/${leaving}`)).toMatchObject({ status: 204 });
    expect((await call("POST", `/holds/${leaving}`, calls(1))).body.error).toContain("was released at");
    expect((await call("POST", `/holds/${staying}`, { "gauge-calls": 3 })).body).toMatchObject({ eval: true });
  });

  test("archiving with a fallback restarts balances, and keeps holds of limits that are tracked", async () => {
    const id = await hold(5);
    await call("POST", "/features/ada/meter-call", calls(2));
    await upload(api, from.key, meter("2.0.0", `${CALLS(3)}\n${BYTES}`));
    const archived = await call("PUT", "/services/Meter/pricings/1.0.0?availability=archived", {
      subscriptionPlan: "ALL",
    });
    expect(archived.status).toBe(200);
    const level = (await show(api, from.key, "ada")).usageLevels["meter"]?.["calls"];
    expect(level).toMatchObject({ consumed: 0, held: 5 });
    expect((await call("POST", `/holds/${id}`, calls(5))).body).toMatchObject({ eval: true, used: calls(5) });
  });

  test("a deleted organization takes its holds along", async () => {
    const id = await hold(5);
    await api.call("DELETE", `/organizations/${from.id}`, { key: api.callers.owner.key });
    const rows = await api.database.connection.client`select 1 from holds where id = ${id}`;
    expect(rows).toHaveLength(0);
  });
});

describe("reasons", () => {
  const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
  const tasks = (amount: number) => ({ "tasker-maxTasks": amount });
  const explain = async (feature: string, query = "", body: object = {}) =>
    (await api.call<Answer>("POST", `/features/${ada}/tasker-${feature}?explain=true${query}`, { key, body })).body;

  beforeAll(() => upload(api, key, SAMPLE));
  beforeEach(async () => {
    ada = `user-${(users += 1)}`;
    await contract(api, key, ada, {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: { tasker: { extraTasks: 1 } },
    });
  });
  const STEPS = [
    { from: "plan", name: "PRO", value: 200 },
    { from: "addOn", name: "extraTasks", quantity: 1, adds: 100 },
  ];

  test("32: an exhausted limit is the reason, with the steps that make it", async () => {
    await explain("board", "", tasks(300));
    const answer = await explain("board");
    expect(answer).toMatchObject({ eval: false, reason: "LIMIT_REACHED", sources: { "tasker-maxTasks": STEPS } });
    expect(Object.keys(answer).slice(-5)).toEqual(["remaining", "resetAt", "reason", "held", "sources"]);
    expect(await explain("export")).toMatchObject({ reason: "NOT_GRANTED", sources: null, held: null });
    expect(await explain("nope")).toMatchObject({ reason: "FLAG_NOT_FOUND", sources: null });
    expect(await explain("darkMode")).toMatchObject({ reason: "GRANTED" });
  });

  test("amounts that do not fit are a limit reached, also held ones", async () => {
    expect(await explain("board", "&strict=true", tasks(301))).toMatchObject({ eval: false, reason: "LIMIT_REACHED" });
    const taken = await explain("board", "&hold=PT1M", tasks(300));
    expect(taken).toMatchObject({ eval: true, reason: "GRANTED", held: tasks(300) });
    expect(Object.keys(taken).at(-1)).toBe("hold");
    expect(await explain("board")).toMatchObject({ eval: false, reason: "LIMIT_REACHED", held: tasks(300) });
  });

  test("an override is the last step", async () => {
    const set = (body: object) =>
      api.call("PUT", `/contracts/${ada}/overrides/tasker/usageLimits/maxTasks`, {
        key,
        body: { reason: "Agreed", ...body },
      });
    await set({ mode: "add", value: 50 });
    expect(await explain("board")).toMatchObject({
      limit: tasks(350),
      sources: { "tasker-maxTasks": [...STEPS, { from: "override", adds: 50 }] },
    });
    await set({ mode: "set", value: 7 });
    expect(await explain("board")).toMatchObject({
      limit: tasks(7),
      sources: { "tasker-maxTasks": [...STEPS, { from: "override", value: 7 }] },
    });
  });
});

describe("lists and refusals", () => {
  test("holds are listed newest first, page by page", async () => {
    const ids = [await take(1), await take(1), await take(1)].toReversed();
    const first = await list("?limit=2");
    expect(first).toMatchObject({ data: [{ id: ids[0] }, { id: ids[1] }], next: ids[1] });
    expect(await list(`?limit=2&before=${first.next}`)).toMatchObject({ data: [{ id: ids[2] }], next: null });
    const failure = async (query: string) => (await list(query)).error;
    expect(await failure("?state=gone")).toBe("INVALID DATA: state must be open, settled, released, expired or all");
    expect(await failure("?limit=0")).toBe("INVALID DATA: Limit must be between 1 and 100");
    expect(await failure("?before=1")).toBe("INVALID DATA: before must be the id of a hold");
    expect((await list("", "nobody")).error).toBe("Contract with userId nobody not found");
  });

  test("26: evaluation keys end holds, and only managers list them", async () => {
    const { evaluation, manager, evaluator, outsider, organizationId } = api.callers;
    expect((await api.call("POST", "/holds/x", { key: evaluation.key, body: {} })).status).toBe(404);
    expect((await api.call("GET", `/contracts/${ada}/holds`, { key: evaluation.key })).status).toBe(403);
    expect((await api.call("POST", "/holds/x", { key: manager.key, body: {} })).status).toBe(403);
    const inside = `/organizations/${organizationId}/contracts/${ada}/holds`;
    expect((await api.call("GET", inside, { key: evaluator.key })).status).toBe(200);
    expect((await api.call("GET", inside, { key: outsider.key })).status).toBe(403);
    expect((await api.call("GET", inside, { key })).status).toBe(403);
  });

  test("what a hold is refused for is a denial, and settlements are consumptions", async () => {
    const { totals } = api.resources.callCounter;
    const before = { ...totals };
    const id = await take(10);
    await ask("?hold=PT1M", calls(1));
    await settle(id, calls(11));
    await settle(id, calls(10));
    expect(totals).toMatchObject({ granted: before.granted + 1, denied: before.denied + 2 });
  });
});
