import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";
import { CREDITS as LIMIT, creditsOf, movementsOf, scribePricing, subscribe, subscription } from "../support/scribe.ts";

/* Reports of open holds: `POST /holds/{id}?keep=true`. */

const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;
const iso = (moment: number) => new Date(moment).toISOString();
const PRICING = scribePricing(10);

let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, PRICING, PRICING.replace("1.0.0", "2.0.0").replaceAll("credits", "points"));
});
beforeEach(() => api.setNow(new Date(START)));
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

let users = 0;
async function subscribed(): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await subscribe(api, userId);
  return userId;
}

interface Hold {
  id: string;
  amounts: Record<string, number>;
  counted: Record<string, number> | null;
  state: string;
  until: string;
}
interface Answer {
  eval: boolean;
  used: Record<string, number>;
  remaining: Record<string, number>;
  amounts?: Record<string, number>;
  budget?: { name: string };
  hold: Hold;
  error?: string;
}
const post = <T = Answer>(path: string, body: object, given = key) => api.call<T>("POST", path, { key: given, body });
async function take(userId: string, amount: unknown, query = ""): Promise<string> {
  const path = `/features/${userId}/scribe-write?hold=PT10M${query}`;
  const { body } = await post<{ hold: { id: string } | null }>(path, { [LIMIT]: amount });
  if (body.hold === null) throw new Error(JSON.stringify(body));
  return body.hold.id;
}
const keep = (id: string, body: object, query = "") => post(`/holds/${id}?keep=true${query}`, body);
const settle = (id: string, amount: unknown, query = "") => post(`/holds/${id}${query}`, { [LIMIT]: amount });
const spent = (amount: unknown, more: object = {}) => ({ spent: { [LIMIT]: amount }, ...more });
const level = (userId: string) => creditsOf(api, userId);
const movements = (userId: string) => movementsOf(api, userId);

describe("a report", () => {
  test("counts what is new, and keeps holding the rest", async () => {
    const userId = await subscribed();
    const id = await take(userId, 8);
    const first = await keep(id, spent(3));
    expect(first).toMatchObject({
      status: 200,
      body: { eval: true, used: { [LIMIT]: 8 }, remaining: { [LIMIT]: 2 }, error: null },
    });
    expect(first.body.hold).toMatchObject({
      state: "open",
      amounts: { [LIMIT]: 5 },
      counted: { [LIMIT]: 3 },
      until: iso(START + 600_000),
    });
    expect(await level(userId)).toEqual([3, 5]);
    await keep(id, spent(4));
    expect(await level(userId)).toEqual([4, 4]);
    expect(await movements(userId)).toMatchObject([
      { kind: "consume", amount: 3, operation: id },
      { kind: "consume", amount: 1, operation: id },
    ]);
  });

  test("is safe to repeat, and to arrive late", async () => {
    const userId = await subscribed();
    const id = await take(userId, 8);
    await keep(id, spent(3, { amounts: { [LIMIT]: 2 } }));
    await keep(id, spent(3, { amounts: { [LIMIT]: 2 } }));
    expect(await level(userId)).toEqual([3, 2]);
    const late = await keep(id, spent(1, { amounts: { [LIMIT]: 7 }, for: "PT1H" }));
    expect(late).toMatchObject({ status: 200, body: { eval: true, hold: { counted: { [LIMIT]: 3 } } } });
    expect(late.body.hold.until).toBe(iso(START + 600_000));
    expect(await level(userId)).toEqual([3, 2]);
  });

  test("shrinks freely, and grows as far as it fits", async () => {
    const userId = await subscribed();
    const other = await take(userId, 3);
    const id = await take(userId, 4);
    expect((await keep(id, spent(1, { amounts: { [LIMIT]: 0 } }))).body.hold.amounts).toEqual({ [LIMIT]: 0 });
    expect((await keep(id, spent(1, { amounts: { [LIMIT]: 50 } }))).body).toMatchObject({
      eval: true,
      used: { [LIMIT]: 10 },
      remaining: { [LIMIT]: 0 },
      hold: { amounts: { [LIMIT]: 6 } },
    });
    await settle(other, 0);
    expect((await keep(id, spent(2, { amounts: { [LIMIT]: 7 } }))).body.hold.amounts).toEqual({ [LIMIT]: 7 });
    expect(await level(userId)).toEqual([2, 7]);
  });

  test("of more than is held counts within the limit, or changes nothing", async () => {
    const userId = await subscribed();
    const other = await take(userId, 4);
    const id = await take(userId, 4);
    expect((await keep(id, spent(6))).body).toMatchObject({ eval: true, hold: { amounts: { [LIMIT]: 0 } } });
    const refused = await keep(id, spent(7));
    expect(refused.body).toMatchObject({ eval: false, used: { [LIMIT]: 11 }, hold: { counted: { [LIMIT]: 6 } } });
    expect(await level(userId)).toEqual([6, 4]);
    await settle(other, 0);
    expect((await keep(id, spent(7))).body.eval).toBe(true);
  });

  test("extends the hold, at most to 24 hours", async () => {
    const id = await take(await subscribed(), 2);
    expect((await keep(id, spent(0, { for: "PT1H" }))).body.hold.until).toBe(iso(START + 3_600_000));
    expect((await keep(id, spent(0, { for: "PT1M" }))).body.hold.until).toBe(iso(START + 3_600_000));
    api.setNow(new Date(START + 1_800_000));
    expect((await keep(id, spent(0, { for: "PT24H" }))).body.hold.until).toBe(iso(START + DAY));
  });

  test("may name units, at the rates with which the hold was taken", async () => {
    const userId = await subscribed();
    const id = await take(userId, { in: 2, out: 3 });
    expect((await keep(id, spent({ in: 2, out: 1 }))).body).toMatchObject({ amounts: { [LIMIT]: 4 } });
    expect(await level(userId)).toEqual([4, 4]);
    expect((await keep(id, spent({ in: 2, out: 1 }, { amounts: { [LIMIT]: { out: 1 } } }))).body.hold.amounts).toEqual({
      [LIMIT]: 2,
    });
    expect((await keep(id, spent({ in: 2, pages: 1 }))).body).toMatchObject({
      error: `Unknown unit of ${LIMIT}: pages`,
    });
  });

  test("in units says which are new: in the history, and at the budgets of these units", async () => {
    const userId = await subscribed();
    await api.call("PUT", `/contracts/${userId}/budgets/output`, {
      key,
      body: { limit: LIMIT, unit: "out", amount: 5, window: "life" },
    });
    const id = await take(userId, { in: 4, out: 2 });
    await keep(id, spent({ in: 3 }));
    await keep(id, spent({ in: 3, out: 1 }));
    // Less of one unit than known is late, whatever the total.
    const late = await keep(id, spent({ in: 1, out: 2 }));
    expect(late.body.hold.counted).toEqual({ [LIMIT]: 5 });
    await settle(id, { in: 4, out: 2 });
    const units = await api.call<{ data: { unit: string; units: number; counted: number }[] }>(
      "GET",
      `/contracts/${userId}/usage?by=unit`,
      { key },
    );
    expect(units.body.data.map((row) => [row.unit, row.units, row.counted])).toEqual([
      ["in", 4, 4],
      ["out", 2, 4],
    ]);
    const budget = await api.call<{ balances: { used: number; held: number }[] }>(
      "GET",
      `/contracts/${userId}/budgets/output`,
      { key },
    );
    expect(budget.body.balances).toMatchObject([{ used: 4, held: 0 }]);
    expect(await level(userId)).toEqual([8, 0]);
  });

  test("in units after one of a plain amount counts the amount that is new", async () => {
    const userId = await subscribed();
    const id = await take(userId, 8);
    await keep(id, spent(3));
    await keep(id, spent({ in: 2, out: 1 }));
    await settle(id, { in: 2, out: 2 });
    expect((await movements(userId)).map(({ amount }) => amount)).toEqual([3, 1, 2]);
    const { body } = await api.call<{ data: object[] }>("GET", `/contracts/${userId}/usage?by=unit`, { key });
    expect(body.data).toMatchObject([{ unit: "out", units: 1, counted: 2 }]);
  });

  test.each<[object, string]>([
    [{}, "The spent field is required"],
    [{ spent: 5 }, "The spent field must be an object"],
    [{ spent: { [LIMIT]: -1 } }, "All values in spent must be non-negative finite numbers, or objects of them"],
    [{ spent: {} }, `The spent.${LIMIT} field is required`],
    [{ spent: { [LIMIT]: 1, x: 1 } }, "Unknown limit in spent: x"],
    [{ spent: { [LIMIT]: 1 }, amounts: {} }, `The amounts.${LIMIT} field is required`],
    [{ spent: { [LIMIT]: 1 }, amounts: { [LIMIT]: 1, x: 1 } }, "Unknown limit in amounts: x"],
    [{ spent: { [LIMIT]: 1 }, for: "PT25H" }, "The for field must be a duration from PT1S to PT24H"],
    [{ spent: { [LIMIT]: 1 }, x: 1 }, "Unknown field: x"],
  ])("with %j is refused", async (body, error) => {
    const id = await take(await subscribed(), 2);
    expect(await keep(id, body)).toMatchObject({ status: 422, body: { error } });
  });

  test("of a hold that has ended, or of another organization, is refused", async () => {
    const id = await take(await subscribed(), 2);
    const other = await api.newOrganization(api.callers.owner, "Other");
    expect(await post(`/holds/${id}?keep=true`, spent(1), other.key)).toMatchObject({ status: 404 });
    expect(await keep(id, spent(1), "&extend=PT1M")).toMatchObject({ status: 400 });
    await settle(id, 1);
    expect(await keep(id, spent(1))).toMatchObject({
      status: 409,
      body: { error: `CONFLICT: Hold ${id} was settled at ${iso(START)}` },
    });
  });
});

describe("the end of a kept hold", () => {
  test.each([
    [5, 5, [{ amount: 3 }, { amount: 2 }]],
    [3, 3, [{ amount: 3 }]],
    [1, 1, [{ amount: 3 }, { kind: "revert", amount: -2 }]],
    [9, 9, [{ amount: 3 }, { amount: 6 }]],
  ])("settled with %i counts %i in all", async (total, consumed, expected) => {
    const userId = await subscribed();
    const id = await take(userId, 6);
    await keep(id, spent(3));
    expect((await settle(id, total)).body).toMatchObject({
      eval: true,
      used: { [LIMIT]: consumed },
      hold: { state: "settled", counted: { [LIMIT]: total } },
    });
    expect(await level(userId)).toEqual([consumed, 0]);
    expect(await movements(userId)).toMatchObject(expected.map((one) => ({ operation: id, ...one })));
  });

  test("settled with more than fits stays open", async () => {
    const userId = await subscribed();
    const id = await take(userId, 6);
    await keep(id, spent(3));
    expect((await settle(id, 11)).body).toMatchObject({
      eval: false,
      hold: { state: "open", amounts: { [LIMIT]: 3 } },
    });
    expect(await level(userId)).toEqual([3, 3]);
  });

  test("settled after a reset takes nothing back from the new period", async () => {
    const userId = await subscribed();
    const id = await take(userId, 6);
    await keep(id, spent(3));
    api.setNow(new Date(START + 1000));
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    await settle(id, 1);
    expect(await level(userId)).toEqual([0, 0]);
  });

  test("released or expired gives back the rest alone", async () => {
    const userId = await subscribed();
    const [released, expired, consumed] = [
      await take(userId, 2),
      await take(userId, 2),
      await take(userId, 2, "&onExpiry=consume"),
    ];
    for (const id of [released, expired, consumed]) await keep(id, spent(1));
    expect(await api.call("DELETE", `/holds/${released}`, { key })).toMatchObject({ status: 204 });
    api.setNow(new Date(START + 600_000));
    await post(`/features/${userId}/scribe-write`, { [LIMIT]: 0 });
    expect(await level(userId)).toEqual([4, 0]);
    expect(await api.call("DELETE", `/holds/${released}`, { key })).toMatchObject({ status: 204 });
    expect(await api.call("DELETE", `/holds/${expired}`, { key })).toMatchObject({ status: 204 });
    expect(await api.call("DELETE", `/holds/${consumed}`, { key })).toMatchObject({ status: 409 });
    const { body } = await api.call<{ data: Hold[] }>("GET", `/contracts/${userId}/holds?state=all`, { key });
    const counted = new Map(body.data.map((hold) => [hold.id, [hold.state, hold.counted]]));
    expect(counted.get(released)).toEqual(["released", { [LIMIT]: 1 }]);
    expect(counted.get(expired)).toEqual(["expired", { [LIMIT]: 1 }]);
    expect(counted.get(consumed)).toEqual(["expired", { [LIMIT]: 2 }]);
  });

  test("movements of an estimated report or settlement say so", async () => {
    const userId = await subscribed();
    const [first, second] = [await take(userId, 4), await take(userId, 4)];
    await settle(first, 2, "?estimated=true");
    await keep(second, spent(1), "&estimated=true");
    await settle(second, 2);
    expect(await movements(userId)).toMatchObject([
      { amount: 2, estimated: true },
      { amount: 1, estimated: true },
      { amount: 1 },
    ]);
    expect((await movements(userId)).at(-1)).not.toHaveProperty("estimated");
  });

  test("follows its level: a version without the limit releases it", async () => {
    const userId = await subscribed();
    const id = await take(userId, 4);
    await keep(id, spent(1));
    await api.call("PUT", `/contracts/${userId}`, { key, body: subscription("2.0.0") });
    expect(await keep(id, spent(2))).toMatchObject({ status: 409 });
  });
});

describe("beside others", () => {
  test("alerts are raised once, and nothing passes the limit", async () => {
    const userId = await subscribed();
    const id = await take(userId, 10);
    const events = await allEventsDuring(api, async () => {
      await keep(id, spent(8));
      await keep(id, spent(8));
      await keep(id, spent(10));
    });
    expect(events.map(({ code }) => code)).toEqual([
      "USAGE_THRESHOLD_REACHED",
      "USAGE_LIMIT_REACHED",
      "USAGE_THRESHOLD_REACHED",
    ]);
  });

  test("many reports at once keep the sums", async () => {
    const userId = await subscribed();
    const ids = [await take(userId, 3), await take(userId, 3), await take(userId, 3)];
    await Promise.all(
      ids.flatMap((id) =>
        [1, 2, 3, 2, 1].map((amount) => keep(id, spent(amount, { amounts: { [LIMIT]: 3 - amount } }))),
      ),
    );
    expect(await level(userId)).toEqual([9, 0]);
    await Promise.all(ids.map((id) => settle(id, 2)));
    expect(await level(userId)).toEqual([6, 0]);
  });

  test("budgets move with what a hold counts and holds", async () => {
    const userId = await subscribed();
    await api.call("PUT", `/contracts/${userId}/budgets/daily`, {
      key,
      body: { limit: LIMIT, spender: "*", amount: 5, window: "period" },
    });
    const id = await take(userId, 4, "&spender=ada");
    const left = async () => {
      const path = `/features/${userId}/scribe-write?spender=ada&explain=true`;
      const { body } = await post<{ budgets: { used: number }[] }>(path, {});
      return body.budgets.map(({ used }) => used);
    };
    expect(await left()).toEqual([4]);
    await keep(id, spent(2, { amounts: { [LIMIT]: 1 } }));
    expect(await left()).toEqual([3]);
    expect((await keep(id, spent(2, { amounts: { [LIMIT]: 9 } }))).body.hold.amounts).toEqual({ [LIMIT]: 3 });
    expect((await keep(id, spent(6))).body).toMatchObject({ eval: false, budget: { name: "daily" } });
    const shown = await api.call("GET", `/contracts/${userId}/budgets/daily`, { key });
    expect(shown.body).toMatchObject({ denied: { spender: "ada", amount: 4 } });
    expect(await left()).toEqual([5]);
    await settle(id, 1);
    expect(await left()).toEqual([1]);
  });
});

describe("a partial hold", () => {
  interface Taken {
    eval: boolean;
    used: Record<string, number>;
    amounts?: Record<string, number>;
    hold: { id: string; amounts: Record<string, number> } | null;
  }
  const partly = async (userId: string, amount: unknown, query = "") =>
    (await post<Taken>(`/features/${userId}/scribe-write?hold=PT10M&partial=true${query}`, { [LIMIT]: amount })).body;

  test("holds as much as limit and budgets leave", async () => {
    const userId = await subscribed();
    expect(await partly(userId, 4)).toMatchObject({ eval: true, hold: { amounts: { [LIMIT]: 4 } } });
    await api.call("PUT", `/contracts/${userId}/budgets/run`, {
      key,
      body: { limit: LIMIT, spender: "*", amount: 2, window: "life" },
    });
    expect(await partly(userId, 5, "&spender=ada")).toMatchObject({ eval: true, hold: { amounts: { [LIMIT]: 2 } } });
    expect(await partly(userId, { in: 1, out: 5 })).toMatchObject({
      eval: true,
      amounts: { [LIMIT]: 11 },
      used: { [LIMIT]: 10 },
      hold: { amounts: { [LIMIT]: 4 } },
    });
    expect(await partly(userId, 1)).toMatchObject({ eval: false, hold: null });
    expect(await level(userId)).toEqual([0, 10]);
  });
});
