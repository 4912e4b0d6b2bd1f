import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Cases of contract credits §6, by their numbers, and the rules of §1, §2 and §5. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;
const TASKS = "tasker-maxTasks";

let api: TestApi;
let key: string;
const setNow = (moment: number) => api.setNow(new Date(moment));
const iso = (moment: number) => new Date(moment).toISOString();

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
  await upload(api, key, SAMPLE.replace(/^version:.*$/m, "version: 2.0.0").replaceAll("maxTasks", "otherTasks"));
});
beforeEach(() => setNow(START));
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

let users = 0;
/** Contracts a new end user to PRO: 200 tasks a month. */
async function subscribed(plan = "PRO"): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, { subscriptionPlans: { tasker: plan }, billingPeriod: { renewalDays: 365 } });
  return userId;
}

interface Block {
  id: string;
  amount: number;
  used: number;
  remaining: number;
  state: string;
  expiresAt: string | null;
  endedAt: string | null;
  origin: string;
  error?: string;
}
const post = (userId: string, body: object, given = key) =>
  api.call<Block>("POST", `/contracts/${userId}/blocks`, { key: given, body });
const wanted = (amount: unknown, more: object = {}) => ({
  service: "tasker",
  limit: "maxTasks",
  amount,
  reason: "Agreed with support",
  ...more,
});
async function give(userId: string, amount: number, more: object = {}): Promise<Block> {
  const given = await post(userId, wanted(amount, more));
  expect(given).toMatchObject({ status: 201 });
  return given.body;
}
const list = async (userId: string, query = "") =>
  (await api.call<{ data: Block[]; next: string | null }>("GET", `/contracts/${userId}/blocks${query}`, { key })).body;
const blockOf = async (userId: string, id: string) => (await list(userId)).data.find((block) => block.id === id);

interface Answer {
  eval: boolean;
  used: Record<string, number>;
  limit: Record<string, number>;
  remaining: Record<string, number>;
  reason?: string;
  sources?: Record<string, object[]>;
  hold?: { id: string } | null;
}
const ask = async (userId: string, query = "?explain=true", body: object = {}) =>
  (await api.call<Answer>("POST", `/features/${userId}/tasker-board${query}`, { key, body })).body;
async function use(userId: string, amount: number): Promise<void> {
  expect((await ask(userId, "?strict=true", { [TASKS]: amount })).eval).toBe(true);
}
/** Limit, use and remaining amount. */
async function state(userId: string, query = ""): Promise<number[]> {
  const { limit, used, remaining } = await ask(userId, `?explain=true${query}`);
  return [limit[TASKS] ?? NaN, used[TASKS] ?? NaN, remaining[TASKS] ?? NaN];
}
const reset = (userId: string) => api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });

describe("the cases", () => {
  test("1 and 2: a block counts while it is open; its end takes what was not drawn", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100, { expiresAt: iso(START + DAY) });
    await use(userId, 250);
    expect(await state(userId)).toEqual([300, 250, 50]);
    expect(await blockOf(userId, id)).toMatchObject({ used: 50, remaining: 50, state: "open" });
    setNow(START + DAY);
    expect(await state(userId)).toEqual([250, 250, 0]);
    expect(await blockOf(userId, id)).toMatchObject({
      used: 50,
      remaining: 50,
      state: "expired",
      endedAt: iso(START + DAY),
    });
    setNow(START + DAY - 1);
    expect(await state(userId, `&at=${iso(START + DAY - 1)}`)).toEqual([300, 250, 50]);
  });

  test.each(["call", "boundary"])("3: a reset by %s takes what was drawn off the block", async (how) => {
    const userId = await subscribed();
    const { id } = await give(userId, 100);
    await use(userId, 250);
    if (how === "call") await reset(userId);
    else setNow(START + 31 * DAY);
    expect(await state(userId)).toEqual([250, 0, 250]);
    expect(await blockOf(userId, id)).toMatchObject({ used: 50, remaining: 50 });
  });

  test("4: an upgrade within the period gives the block back", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100);
    await use(userId, 250);
    await api.call("PUT", `/contracts/${userId}/overrides/tasker/usageLimits/maxTasks`, {
      key,
      body: { mode: "set", value: 500, reason: "Upgrade" },
    });
    expect(await state(userId)).toEqual([600, 250, 350]);
    expect(await blockOf(userId, id)).toMatchObject({ used: 0, remaining: 100 });
  });

  test("5: blocks are drawn by their end, those without one last", async () => {
    const userId = await subscribed();
    const ends = [START + 10 * DAY, START + 5 * DAY, null];
    const ids = [];
    for (const end of ends) ids.push((await give(userId, 10, { expiresAt: end === null ? null : iso(end) })).id);
    await use(userId, 215);
    const drawn = await Promise.all(ids.map(async (id) => (await blockOf(userId, id))?.used));
    expect(drawn).toEqual([5, 10, 0]);
  });

  test("8: a hold over the end of the block settles whole", async () => {
    const userId = await subscribed();
    await give(userId, 100, { expiresAt: iso(START + 60_000) });
    await use(userId, 200);
    const { hold } = await ask(userId, "?hold=PT10M", { [TASKS]: 80 });
    setNow(START + 120_000);
    const settled = await api.call<Answer>("POST", `/holds/${hold?.id}`, { key, body: { [TASKS]: 80 } });
    expect(settled.body).toMatchObject({ eval: true, remaining: { [TASKS]: 0 } });
    expect(await state(userId)).toEqual([280, 280, 0]);
  });

  test("11: one key gives one block, however often it is sent at once", async () => {
    const userId = await subscribed();
    const body = wanted(10, { key: "a", expiresAt: iso(START + DAY) });
    const answers = await Promise.all([1, 2, 3].map(() => post(userId, body)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 201]);
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    setNow(START + 2 * DAY);
    expect(await post(userId, body)).toMatchObject({ status: 200, body: { state: "expired" } });
    expect(await post(userId, { ...body, amount: 11 })).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: The key a was used for another block" },
    });
    expect((await list(userId)).data).toHaveLength(1);
  });
});

describe("the rules", () => {
  test("fields are checked one by one", async () => {
    const userId = await subscribed();
    const amount = "The amount field must be a number above 0 and up to 100000000";
    const end = "The expiresAt field must be after from and now";
    for (const [body, status, error] of [
      [wanted(0), 422, amount],
      [wanted("1"), 422, amount],
      [wanted(100_000_001), 422, amount],
      [wanted(1, { expiresAt: "soon" }), 422, "The expiresAt field must be an ISO 8601 date or null"],
      [wanted(1, { expiresAt: iso(START) }), 422, end],
      [wanted(1, { from: iso(START + DAY), expiresAt: iso(START + DAY) }), 422, end],
      [wanted(1, { reason: " " }), 422, "The reason field must be a text of 1 to 500 characters"],
      [wanted(1, { key: "" }), 422, "The key field must be a string of 1 to 255 characters"],
      [wanted(1, { foo: 1 }), 422, "Unknown field: foo"],
      [wanted(1, { service: "gone" }), 404, "Service gone not found in the contract"],
      [wanted(1, { limit: "nope" }), 404, "Usage limit nope not found in pricing version 1.0.0 of service tasker"],
    ] as const) {
      expect(await post(userId, body)).toMatchObject({ status, body: { error } });
    }
    expect(await post("nobody", wanted(1))).toMatchObject({ status: 404 });
    expect(await post(userId, wanted(1), api.callers.evaluation.key)).toMatchObject({ status: 403 });
  });

  test("at most 100 blocks have not ended", async () => {
    const userId = await subscribed();
    for (let i = 0; i < 100; i += 1) await give(userId, 1);
    expect(await post(userId, wanted(1))).toMatchObject({ status: 409 });
    await use(userId, 201);
    expect(await post(userId, wanted(1))).toMatchObject({ status: 201 });
  });

  test("a block from later counts from then on", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100, { from: iso(START + 1000) });
    expect(await blockOf(userId, id)).toMatchObject({ state: "upcoming" });
    expect(await state(userId)).toEqual([200, 0, 200]);
    setNow(START + 1000);
    expect(await state(userId)).toEqual([300, 0, 300]);
  });

  test("a revocation takes what is left, once", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100);
    await use(userId, 230);
    const path = `/contracts/${userId}/blocks/${id}`;
    const events = await allEventsDuring(api, async () => {
      expect(await api.call("DELETE", path, { key })).toMatchObject({ status: 204 });
    });
    expect(events).toMatchObject([
      { code: "BLOCK_ENDED", details: { userId, blockId: id, state: "revoked", used: 30, remaining: 70, amount: 100 } },
    ]);
    expect(await state(userId)).toEqual([230, 230, 0]);
    expect(await api.call("DELETE", path, { key })).toMatchObject({
      status: 409,
      body: { error: `CONFLICT: The block ${id} is revoked` },
    });
    expect(await api.call("DELETE", `/contracts/${userId}/blocks/x`, { key })).toMatchObject({ status: 404 });
    expect((await list(userId, "?state=open")).data).toEqual([]);
    expect((await list(userId, "?state=revoked")).data).toHaveLength(1);
  });

  test("each block is granted and ends with one event", async () => {
    const userId = await subscribed();
    const events = await allEventsDuring(api, async () => {
      await give(userId, 10);
      await give(userId, 10, { expiresAt: iso(START + DAY) });
      await use(userId, 220);
      setNow(START + 31 * DAY);
      await Promise.all([1, 2, 3].map(() => ask(userId)));
    });
    const codes = events
      .filter(({ code }) => code.startsWith("BLOCK"))
      .map(({ code, details }) => [code, details["state"]]);
    expect(codes).toEqual([
      ["BLOCK_GRANTED", undefined],
      ["BLOCK_GRANTED", undefined],
      ["BLOCK_ENDED", "spent"],
      ["BLOCK_ENDED", "spent"],
    ]);
  });

  test("blocks=false decides as if there were none", async () => {
    const userId = await subscribed();
    await give(userId, 100);
    await use(userId, 200);
    const amount = { [TASKS]: 1 };
    expect(await ask(userId, "?strict=true&explain=true&blocks=false", amount)).toMatchObject({
      eval: false,
      limit: { [TASKS]: 200 },
      reason: "BLOCKS_ONLY",
    });
    expect(await ask(userId, "?hold=PT1M&blocks=false", amount)).toMatchObject({ eval: false, hold: null });
    const item = { userId, featureId: "tasker-board", amounts: amount, key: `k-${userId}` };
    const record = (more: object) =>
      api.call<{ items: object[] }>("POST", "/usage?strict=true", { key, body: [{ ...item, ...more }] });
    expect((await record({ blocks: false })).body.items).toMatchObject([
      { verdict: "refused", reason: "LIMIT_REACHED" },
    ]);
    expect((await record({})).body.items).toMatchObject([{ verdict: "counted" }]);
    const { hold } = await ask(userId, "?hold=PT1M", amount);
    const settle = (query: string) =>
      api.call<Answer>("POST", `/holds/${hold?.id}${query}`, { key, body: { [TASKS]: 2 } });
    expect((await settle("?blocks=false")).body.eval).toBe(false);
    expect((await settle("")).body.eval).toBe(true);
    const { sources } = await ask(userId);
    expect(sources?.[TASKS]?.at(-1)).toEqual({ from: "blocks", adds: 100 });
  });

  test("tokens, all features and balances show the limit with blocks", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100);
    await use(userId, 250);
    const all = await api.call<Record<string, Answer>>("POST", `/features/${userId}?details=true`, { key, body: {} });
    expect(all.body["tasker-board"]?.limit).toEqual({ [TASKS]: 300 });
    const { body } = await api.call<{ pricingToken: string }>("POST", `/features/${userId}/pricing-token`, { key });
    const payload = JSON.parse(Buffer.from(body.pricingToken.split(".")[1] ?? "", "base64").toString("utf8")) as {
      pricingContext: { usageLimits: object };
    };
    expect(payload.pricingContext.usageLimits).toMatchObject({ [TASKS]: 300 });
    const balances = await api.call<object[]>("GET", `/contracts/${userId}/balances`, { key });
    expect(balances.body).toEqual([
      {
        service: "tasker",
        limit: "maxTasks",
        granted: 200,
        blocks: [{ id, remaining: 50, expiresAt: null, origin: "given" }],
        limitNow: 300,
        consumed: 250,
        held: 0,
        remaining: 50,
        resetAt: expect.any(String),
      },
    ]);
  });

  test("a lease ends before a block does, and is never granted beyond the limit", async () => {
    const userId = await subscribed();
    await give(userId, 100, { expiresAt: iso(START + 60_000) });
    const leased = await api.call<{ lease: { until: string; granted: object } }>(
      "POST",
      `/features/${userId}/tasker-board/leases`,
      { key, body: { for: "PT10M", amounts: { [TASKS]: 500 } } },
    );
    expect(leased.body.lease).toMatchObject({ until: iso(START + 60_000 - 1), granted: { [TASKS]: 300 } });
  });

  test("blocks rest while the version lacks the limit", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100);
    await use(userId, 250);
    const novate = (version: string) =>
      api.call("PUT", `/contracts/${userId}`, {
        key,
        body: { contractedServices: { tasker: version }, subscriptionPlans: { tasker: "PRO" }, subscriptionAddOns: {} },
      });
    expect(await novate("2.0.0")).toMatchObject({ status: 200 });
    expect(await blockOf(userId, id)).toMatchObject({ used: 50, remaining: 50, state: "open" });
    expect(await novate("1.0.0")).toMatchObject({ status: 200 });
    expect(await state(userId)).toEqual([250, 0, 250]);
  });

  test("the history by block says what each gave: in ended periods, at its end, and now", async () => {
    const userId = await subscribed();
    const first = await give(userId, 100, { expiresAt: iso(START + 40 * DAY) });
    const lasting = await give(userId, 50);
    await use(userId, 260);
    const drawn = async (query = "") => {
      const path = `/contracts/${userId}/usage?by=block${query}`;
      const { body } = await api.call<{ data: { blockId: string; drawn: number }[] }>("GET", path, { key });
      return body.data.map(({ blockId, drawn: amount }) => [blockId === first.id ? "first" : "lasting", amount]);
    };
    expect(await drawn()).toEqual([["first", 60]]);
    await reset(userId);
    await use(userId, 255);
    expect(await drawn()).toEqual([
      ["first", 100],
      ["lasting", 15],
    ]);
    const { organizationId, owner } = api.callers;
    const all = await api.call<{ data: object[] }>("GET", `/organizations/${organizationId}/usage?by=block&top=1000`, {
      key: owner.key,
    });
    expect(all.body.data).toContainEqual({
      service: "tasker",
      limit: "maxTasks",
      blockId: lasting.id,
      userId,
      origin: "given",
      drawn: 15,
    });
    setNow(START + 45 * DAY);
    expect(await drawn(`&from=${iso(START)}`)).toEqual([
      ["first", 100],
      ["lasting", 15],
    ]);
    // The reset moved the next one, so that the period runs on: only what it draws is left of the range.
    expect(await drawn(`&from=${iso(START + 44 * DAY)}`)).toEqual([["lasting", 15]]);
  });

  test("an organization lists blocks by state, end and origin, in pages", async () => {
    const [one, other] = [await subscribed(), await subscribed()];
    const ended = await give(one, 5, { expiresAt: iso(START + DAY) });
    const soon = await give(one, 10, { expiresAt: iso(START + 5 * DAY) });
    const lasting = await give(other, 20);
    const used = await give(other, 30, { expiresAt: iso(START + 20 * DAY) });
    await use(other, 230);
    setNow(START + 2 * DAY);
    const list = async (query: string) => {
      const { organizationId, owner } = api.callers;
      const { status, body } = await api.call<{ data: Block[]; next: string | null; error?: string }>(
        "GET",
        `/organizations/${organizationId}/blocks?${query}`,
        { key: owner.key },
      );
      expect(status, body.error).toBe(200);
      const own = new Set([ended, soon, lasting, used].map(({ id }) => id));
      return { ids: body.data.map(({ id }) => id).filter((id) => own.has(id)), next: body.next };
    };
    expect((await list("state=open&limit=100")).ids).toEqual([lasting.id, soon.id]);
    expect((await list("state=spent&limit=100")).ids).toEqual([used.id]);
    expect((await list(`state=open&limit=100&expiresBefore=${iso(START + 7 * DAY)}`)).ids).toEqual([soon.id]);
    expect((await list("origin=given&limit=100")).ids).toEqual([used.id, lasting.id, soon.id, ended.id]);
    expect((await list("origin=billing&limit=100")).ids).toEqual([]);
    const { next } = await list("state=open&limit=1");
    expect((await list(`state=open&limit=1&before=${next}`)).ids).toEqual([soon.id]);
    const wrong = await api.call("GET", `/organizations/${api.callers.organizationId}/blocks?origin=gift`, {
      key: api.callers.owner.key,
    });
    expect(wrong).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: origin must be one of given, rollover, billing" },
    });
  });

  test("a deleted contract revokes its blocks", async () => {
    const userId = await subscribed();
    const { id } = await give(userId, 100);
    await use(userId, 230);
    const events = await allEventsDuring(api, () => api.call("DELETE", `/contracts/${userId}`, { key }));
    expect(events).toMatchObject([
      { code: "BLOCK_ENDED", details: { blockId: id, state: "revoked", used: 30, remaining: 70 } },
      { code: "CONTRACT_DELETED" },
    ]);
  });

  test("past moments have the blocks of then", async () => {
    const userId = await subscribed();
    setNow(START + 1000);
    await give(userId, 100, { expiresAt: iso(START + DAY) });
    setNow(START + 2000);
    await use(userId, 250);
    setNow(START + 40 * DAY);
    const at = (moment: number) => state(userId, `&at=${iso(moment)}`);
    const past = async () => [
      await at(START + 500),
      await at(START + 1000),
      await at(START + 2000),
      await at(START + 2 * DAY),
    ];
    const expected = [
      [200, 0, 200],
      [300, 0, 300],
      [300, 250, 50],
      [250, 250, 0],
    ];
    expect(await past()).toEqual(expected);
    expect(await at(START + 39 * DAY)).toEqual([200, 0, 200]);
    expect(await past()).toEqual(expected);
  });

  test("lists of who is near a limit, and predictions of who loses a feature, go by the limit with blocks", async () => {
    const second = SAMPLE.replace("saasName: Tasker", "saasName: Second");
    const lower = second.replace(/^version:.*$/m, 'version: "2.0.0"').replace("value: 200", "value: 180");
    await upload(api, key, second, lower);
    const [given, plain] = ["given", "plain"];
    for (const userId of [given, plain]) {
      const services = { contractedServices: { second: "1.0.0" }, subscriptionPlans: { second: "PRO" } };
      await contract(api, key, userId, services);
      if (userId === given) await give(userId, 100, { service: "second" });
      const path = `/features/${userId}/second-board?strict=true`;
      await api.call("POST", path, { key, body: { "second-maxTasks": 195 } });
    }
    const near = await api.call<{ userContact: { userId: string } }[]>("GET", "/contracts?near=0.9&limit=100", { key });
    const users = near.body.map(({ userContact }) => userContact.userId);
    expect([users.includes(given), users.includes(plain)]).toEqual([false, true]);
    const impact = await api.call<{ counts: Record<string, number>; blocks?: object }>(
      "POST",
      "/services/second/impact",
      {
        key,
        body: { action: "novation", pricingVersion: "2.0.0", subscriptionPlan: "PRO", subscriptionAddOns: {} },
      },
    );
    expect(impact.body.counts).toMatchObject({ contracts: 2, turnedOff: 1 });
    expect(impact.body.blocks).toEqual({ contracts: 1, amount: 100 });
  });

  test("an unlock counts them, and names the smallest blocks that would do", async () => {
    interface Unlock {
      target: { addOns: Record<string, number> } | null;
      reason: string | null;
      missing?: Record<string, number>;
    }
    const unlock = async (userId: string, body: object = {}, query = "") =>
      (await api.call<Unlock>("POST", `/features/${userId}/tasker-board/unlock${query}`, { key, body })).body;
    const userId = await subscribed();
    await give(userId, 100);
    await use(userId, 250);
    const more = await unlock(userId, { amounts: { [TASKS]: 60.5 } });
    // Plan 200, one add-on of 100, and the block of 100.
    expect(more).toMatchObject({ target: { addOns: { extraTasks: 1 } }, reason: null, missing: { [TASKS]: 10.5 } });
    await give(userId, 10.5);
    expect(await ask(userId, "?strict=true&dryRun=true", { [TASKS]: 60.5 })).toMatchObject({ eval: true });
    await use(userId, 60.5);
    // A read demands that less than the limit is used; the server's expression does not.
    expect((await unlock(userId)).missing).toEqual({ [TASKS]: 1 });
    expect(await unlock(userId, {}, "?server=true")).toMatchObject({ reason: "ALREADY_ON" });
    await give(userId, 1);
    const on = await unlock(userId);
    expect(on.reason).toBe("ALREADY_ON");
    expect(on).not.toHaveProperty("missing");
    const path = `/features/${userId}/tasker-export/unlock`;
    expect((await api.call<Unlock>("POST", path, { key })).body).not.toHaveProperty("missing");
  });

  test("alerts go by the limit with blocks", async () => {
    const userId = await subscribed();
    await give(userId, 200);
    const events = await allEventsDuring(api, () => use(userId, 200));
    expect(events).toEqual([]);
    const later = await allEventsDuring(api, () => use(userId, 120));
    expect(later).toMatchObject([{ code: "USAGE_THRESHOLD_REACHED", details: { limit: 400, threshold: 80 } }]);
  });
});
