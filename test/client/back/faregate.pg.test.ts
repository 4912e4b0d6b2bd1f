import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type Contract,
  Faregate,
  type NewContract,
  type NewTrial,
  novationTo,
  parsePricingToken,
  publicOffer,
  type Spender,
} from "../../../src/client/client.ts";
import { createTestApi, type TestApi } from "../../support/api.ts";
import { tasker, upload } from "../../support/contracting.ts";
import { expectBalancesMatchLedger } from "../../support/invariants.ts";

/* The client of back ends against the whole application, in process. */

const URL = "http://faregate.test";
let api: TestApi;
let faregate: Faregate;
let sent: { method: string; path: string; idempotencyKey: string | null }[];
/** Answers that the network loses after the service has done its work. */
let lost: number;
let users = 0;
let userId: string;

const send: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const { pathname, search } = new globalThis.URL(request.url);
  const idempotencyKey = request.headers.get("idempotency-key");
  sent.push({ method: request.method, path: pathname + search, idempotencyKey });
  const answer = await api.app.fetch(request);
  if (lost > 0) {
    lost -= 1;
    throw new TypeError("fetch failed");
  }
  return answer;
};

const contract = (overrides: Partial<NewContract> = {}): NewContract => ({
  userContact: { userId, username: userId },
  contractedServices: { Tasker: "1.0.0" },
  subscriptionPlans: { Tasker: "PRO" },
  subscriptionAddOns: {},
  ...overrides,
});
const ONE = { "tasker-maxTasks": 1 };
const usedOf = async () => (await faregate.contracts.get(userId)).usageLevels["tasker"]?.["maxTasks"]?.consumed;

beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: 40 }));
});
afterAll(() => api.close());
beforeEach(async () => {
  sent = [];
  lost = 0;
  userId = `user ${(users += 1)}/é`;
  faregate = new Faregate({ url: URL, apiKey: api.callers.all.key, fetch: send });
  await faregate.contracts.create(contract());
});
afterEach(() => expectBalancesMatchLedger(api.database));

describe("contracts", () => {
  test("are made, read, changed, novated and deleted", async () => {
    const shown: Contract = await faregate.contracts.get(userId);
    expect(shown).toMatchObject({
      userContact: { userId },
      contractedServices: { tasker: "1.0.0" },
      usageLevels: { tasker: { maxTasks: { consumed: 0 } } },
      history: [],
    });
    const { contracts } = faregate;
    expect(await contracts.updateContact(userId, { email: "a@b.org" })).toMatchObject({
      userContact: { userId, email: "a@b.org" },
    });
    expect(await contracts.updateBillingPeriod(userId, { autoRenew: true, renewalDays: 7 })).toMatchObject({
      billingPeriod: { autoRenew: true, renewalDays: 7 },
    });
    const novation = { ...contract({ contractedServices: { tasker: "2.0.0" } }), billingPeriod: { autoRenew: false } };
    expect(await contracts.novate(userId, novation)).toMatchObject({
      contractedServices: { tasker: "2.0.0" },
      billingPeriod: { autoRenew: false, renewalDays: 7 },
      history: [{ contractedServices: { tasker: "1.0.0" } }],
    });
    await contracts.delete(userId);
    await expect(contracts.get(userId)).rejects.toMatchObject({
      name: "ServiceRequestError",
      code: "HTTP",
      status: 404,
      message: `Contract with userId ${userId} not found`,
    });
  });

  test("have overrides, which the kept answers of their user follow", async () => {
    const { contracts, features } = faregate;
    const limit = { service: "Tasker", limit: "maxTasks" };
    const set = await contracts.setOverride(userId, limit, {
      mode: "add",
      value: 5,
      until: new Date("2030-01-01T00:00:00Z"),
      reason: "Agreed with support",
    });
    expect(set).toMatchObject({ state: "active", granted: 20, effective: 25, until: "2030-01-01T00:00:00.000Z" });
    expect(await contracts.override(userId, limit)).toEqual(set);
    expect(await contracts.overrides(userId)).toEqual([set]);
    expect((await contracts.get(userId)).overrides).toEqual([set]);
    expect((await features.evaluate(userId, "tasker-board")).limit).toEqual({ "tasker-maxTasks": 25 });
    const listed = await contracts.listOverrides({ state: "active", endsBefore: "2030-01-02T00:00:00Z", limit: 1 });
    expect(listed).toEqual({ overrides: [set], total: 1 });
    await contracts.removeOverride(userId, limit);
    expect((await features.evaluate(userId, "tasker-board")).limit).toEqual({ "tasker-maxTasks": 20 });
    const feature = { service: "tasker", feature: "darkMode" };
    expect(
      await contracts.setOverride(userId, feature, { mode: "set", value: false, reason: "Asked for" }),
    ).toMatchObject({ kind: "features", name: "darkMode", effective: false, until: null });
    await contracts.removeOverride(userId, feature);
    await expect(contracts.override(userId, feature)).rejects.toMatchObject({ status: 404 });
  });

  test("have changes scheduled, listed and cancelled", async () => {
    const { contracts } = faregate;
    const pro = {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    };
    const idempotencyKey = `schedule ${userId}`;
    const change = { ...pro, at: new Date("2099-01-01T00:00:00Z"), reason: "Asked for" };
    const pending = await contracts.schedule(userId, change, { idempotencyKey });
    expect(pending).toMatchObject({ state: "pending", at: "2099-01-01T00:00:00.000Z", ...pro });
    expect(await contracts.schedule(userId, change, { idempotencyKey })).toEqual(pending);
    expect((await contracts.get(userId)).scheduled).toEqual(pending);
    expect(await contracts.scheduled(userId)).toEqual([pending]);
    const listed = await contracts.listScheduled({ dueBefore: new Date("2099-01-02T00:00:00Z"), kind: "novation" });
    expect(listed).toEqual({ changes: [pending], total: 1 });
    await contracts.cancelScheduled(userId, pending.id);
    await expect(contracts.cancelScheduled(userId, pending.id)).rejects.toMatchObject({ status: 409 });
    await contracts.schedule(userId, { ...pro, at: "periodEnd" });
    expect((await contracts.novate(userId, pro)).scheduled?.atPeriodEnd).toBe(true);
    expect((await contracts.novate(userId, pro, { cancelScheduled: true })).scheduled).toBeUndefined();
  });

  test("begin with a trial", async () => {
    const { contracts } = faregate;
    const name = `${userId}-trial`;
    const then = { subscriptionPlans: { tasker: "BASIC" }, subscriptionAddOns: {} };
    const until = new Date("2025-06-20T00:00:00Z");
    const create = (trial: NewTrial) =>
      contracts.create(contract({ userContact: { userId: name, username: name }, trial }));
    expect((await create({ until, then })).trial).toEqual({ until: until.toISOString(), then });
    expect(await contracts.scheduled(name)).toMatchObject([{ kind: "trialEnd", then }]);
    await contracts.delete(name);
    await expect(create({ days: 3, then: "end" })).rejects.toMatchObject({ status: 409 });
    expect((await create({ days: 3, then: "end", again: true, remindDays: 0 })).trial?.then).toBe("end");
  });

  test("are listed by conditions with how many there are, and one by one over all pages", async () => {
    const groupId = `group-${users}`;
    const names = Array.from({ length: 103 }, (_, index) => `${groupId}-${String(index).padStart(3, "0")}`);
    const make = (name: string) => contract({ userContact: { userId: name, username: name }, groupId });
    await Promise.all(names.map((name) => faregate.contracts.create(make(name))));
    const page = await faregate.contracts.list({ groupId, page: 2, limit: 10, order: "desc" });
    expect(page.total).toBe(103);
    expect(page.contracts.map((one) => one.userContact.userId)).toEqual(names.toReversed().slice(10, 20));
    const unused = await faregate.contracts.list({ groupId, state: "active", near: 0.5 });
    expect(unused).toEqual({ contracts: [], total: 0 });
    const none = await faregate.contracts.list({ groupId, filters: { plans: { tasker: ["BASIC"] } } });
    expect(none).toEqual({ contracts: [], total: 0 });
    sent = [];
    const all: string[] = [];
    for await (const one of faregate.contracts.all({ groupId })) all.push(one.userContact.userId);
    expect(all.toSorted()).toEqual(names);
    expect(sent).toHaveLength(2);
    const sorted: string[] = [];
    for await (const one of faregate.contracts.all({ groupId, order: "desc" })) sorted.push(one.userContact.userId);
    expect(sorted).toEqual(names.toReversed());
    const first = await faregate.contracts.all({ groupId, sort: "username" }).next();
    expect(first.value?.userContact.userId).toBe(names[0]);
    // Deletes contracts of pages that have been read, and of those that have not.
    const read = new Set<string>();
    let count = 0;
    for await (const { userContact } of faregate.contracts.all({ groupId })) {
      expect(read.has(userContact.userId)).toBe(false);
      read.add(userContact.userId);
      count += 1;
      if (count === 100) for (const name of [...read].slice(0, 30)) await faregate.contracts.delete(name);
    }
    expect([...read].toSorted()).toEqual(names);
    await Promise.all([...read].slice(0, 30).map((name) => faregate.contracts.create(make(name))));

    const changed = await faregate.contracts.novateGroup(groupId, contract({ subscriptionPlans: { tasker: "BASIC" } }));
    expect(changed).toHaveLength(103);
    expect(changed[7]?.subscriptionPlans).toEqual({ tasker: "BASIC" });
    const billed = await faregate.contracts.updateGroupBillingPeriod(groupId, { renewalDays: 3 });
    expect(billed.map(({ billingPeriod }) => billingPeriod.renewalDays)).toEqual(names.map(() => 3));
    await expect(faregate.contracts.updateGroupBillingPeriod("", { renewalDays: 1 })).rejects.toThrow("groupId must");
  });

  test("a refusal has status, sentence and the field it names, and is not tried again", async () => {
    sent = [];
    const wrong = contract({ userContact: { userId: "", username: "x" } });
    await expect(faregate.contracts.create(wrong)).rejects.toMatchObject({
      status: 422,
      message: "The userContact.userId field cannot be empty",
      field: "userContact.userId",
    });
    await expect(faregate.contracts.create(contract({ billingPeriod: { autoRenew: true } }))).rejects.toMatchObject({
      status: 422,
      field: "billingPeriod.renewalDays",
    });
    await expect(faregate.contracts.create(contract())).rejects.toMatchObject({ status: 409, field: undefined });
    const foreign = new Faregate({ url: URL, apiKey: "org_nobody", fetch: send });
    const refused: unknown = await foreign.contracts.get(userId).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 401, response: { status: 401 } });
    expect(JSON.stringify(refused) + String(refused)).not.toContain("org_nobody");
    expect(sent).toHaveLength(4);
  });

  test("user ids that URLs cannot carry are refused before anything is sent", async () => {
    sent = [];
    for (const id of ["", " ", ".", "..", "\ud800"]) {
      await expect(faregate.contracts.get(id)).rejects.toThrow("userId must be");
      await expect(faregate.features.evaluate(id, "tasker-board")).rejects.toThrow("userId must be");
    }
    expect(sent).toEqual([]);
  });

  test("a missing id of a member or a budget is refused, instead of a call about all of them", async () => {
    // As plain JavaScript calls it.
    const none = undefined as unknown as string;
    const { members, budgets } = faregate.contracts;
    const budget = { limit: "tasker-maxTasks", amount: 1, window: "life" } as const;
    for (const call of [
      () => members.put("ada", none),
      () => members.get("ada", none),
      () => members.remove("ada", none),
      () => budgets.put("ada", none, budget),
      () => budgets.get("ada", none),
      () => budgets.remove("ada", none),
    ]) {
      await expect(async () => call()).rejects.toThrow(/^(memberId|name) must be a non-empty string/);
    }
  });

  test("a spender that is neither a text nor a list of texts is refused before anything is sent", async () => {
    sent = [];
    const options: { spender: Spender }[] = JSON.parse('[{"spender":5},{"spender":null},{"spender":["a",5]}]');
    for (const option of options) {
      for (const call of [
        faregate.features.evaluate(userId, "tasker-board", option),
        faregate.features.evaluateAll(userId, option),
        faregate.features.pricingToken(userId, option),
        faregate.usage.record([{ userId, featureId: "tasker-board", amounts: ONE, ...option }]),
      ]) {
        await expect(call).rejects.toThrow("spender must be a string, or a list of strings");
      }
    }
    expect(sent).toEqual([]);
  });
});

describe("features", () => {
  test("are evaluated one by one and together, for browsers and servers", async () => {
    const board = await faregate.features.evaluate(userId, "tasker-board");
    expect(board).toEqual({
      eval: true,
      limit: { "tasker-maxTasks": 20 },
      used: { "tasker-maxTasks": 0 },
      error: null,
      source: "service",
      stale: false,
      ageMs: 0,
      counted: false,
      idempotencyKey: null,
    });
    expect((await faregate.features.evaluate(userId, "tasker-nothing")).error?.code).toBe("FLAG_NOT_FOUND");
    const all = await faregate.features.evaluateAll(userId, { server: true });
    expect(all).toMatchObject({ features: { "tasker-board": true, "tasker-sla": true }, stale: false });
    expect([all.isEnabled("tasker-board"), all.isEnabled("toString"), all.isEnabled("x-y")]).toEqual([
      true,
      false,
      false,
    ]);
    expect(await faregate.features.explainAll(userId)).toMatchObject({
      "tasker-board": { limit: { "tasker-maxTasks": 20 } },
    });
    const text = await faregate.features.pricingToken(userId);
    const headerOf = (one: string) => JSON.parse(atob(one.split(".")[0] ?? "")) as object;
    expect(headerOf(text)).toEqual({ alg: "HS256" });
    expect(headerOf(await faregate.features.pricingToken(userId, { signature: "EdDSA" }))).toMatchObject({
      alg: "EdDSA",
    });
    const token = parsePricingToken(text);
    expect(token).toMatchObject({ sub: userId, features: { "tasker-board": { eval: true, limit: 20, used: 0 } } });
  });

  test("are listed with their expressions", async () => {
    const listed = await faregate.features.list({ serviceName: "tasker", pricingVersion: "2.0.0", limit: 100 });
    expect(listed.find(({ info }) => info.name === "board")).toMatchObject({
      service: "Tasker",
      pricingVersion: "2.0.0",
      info: { expression: expect.stringContaining("subscriptionContext"), valueType: "BOOLEAN" },
    });
  });

  test("N2: consumption is counted, said to be, and can be undone; dry runs and refusals are not", async () => {
    const consume = (amount: number, options = {}) =>
      faregate.features.evaluate(userId, "tasker-board", { consumption: { "tasker-maxTasks": amount }, ...options });
    expect(await consume(18)).toMatchObject({ eval: true, counted: true, used: { "tasker-maxTasks": 18 } });
    expect(await consume(1, { dryRun: true })).toMatchObject({
      eval: true,
      counted: false,
      idempotencyKey: null,
      remaining: { "tasker-maxTasks": 1 },
    });
    expect(await consume(3, { strict: true })).toMatchObject({ eval: false, counted: false });
    expect(await consume(2, { strict: true, explain: true })).toMatchObject({
      counted: true,
      remaining: { "tasker-maxTasks": 0 },
    });
    expect(await consume(1)).toMatchObject({ eval: false, counted: false });
    expect(await usedOf()).toBe(20);
    await faregate.features.revert(userId, "tasker-board", { latest: true });
    expect(await usedOf()).toBe(18);
    await faregate.features.revert(userId, "tasker-board");
    expect(await usedOf()).toBe(0);
  });

  test("without blocks, a call is decided by the plan alone, in an outage too", async () => {
    await faregate.contracts.blocks.give(userId, {
      service: "tasker",
      limit: "maxTasks",
      amount: 10,
      reason: "Bought",
    });
    await faregate.contracts.incrementUsage(userId, { tasker: { maxTasks: 20 } });
    let isDown = false;
    const fetch: typeof send = (...given) => (isDown ? Promise.reject(new TypeError("fetch failed")) : send(...given));
    const options = { url: URL, apiKey: api.callers.evaluation.key, fetch, retries: 0, lastKnownForMs: 60_000 };
    const { features } = new Faregate(options);
    const plain = { consumption: ONE, strict: true, explain: true, blocks: false };
    expect(await features.evaluate(userId, "tasker-board", plain)).toMatchObject({
      eval: false,
      limit: { "tasker-maxTasks": 20 },
      counted: false,
      reason: "BLOCKS_ONLY",
    });
    expect(await usedOf()).toBe(20);
    const ask = async (blocks?: boolean) => (await features.evaluate(userId, "tasker-board", { blocks })).eval;
    expect([await ask(), await ask(false)]).toEqual([true, false]);
    isDown = true;
    expect([await ask(), await ask(false)]).toEqual([true, false]);
  });

  test("N5, N7: while the service is there nothing is answered from memory", async () => {
    const remembering = new Faregate({ url: URL, apiKey: api.callers.all.key, fetch: send, lastKnownForMs: 60_000 });
    const limit = async () => (await remembering.features.evaluate(userId, "tasker-board")).limit?.["tasker-maxTasks"];
    const token = () => remembering.features.pricingToken(userId).then(parsePricingToken);
    expect([await limit(), (await token()).features["tasker-board"]?.limit]).toEqual([20, 20]);
    // Another client's change, of which this one cannot know.
    await faregate.contracts.novate(userId, contract({ contractedServices: { tasker: "2.0.0" } }));
    expect([await limit(), (await token()).features["tasker-board"]?.limit]).toEqual([40, 40]);
  });

  test("every call that moves usage has an idempotency key of its own, and no other call has one", async () => {
    sent = [];
    const consumption = { "tasker-maxTasks": 1 };
    const keys = [];
    for (let n = 0; n < 2; n += 1) {
      keys.push((await faregate.features.evaluate(userId, "tasker-board", { consumption })).idempotencyKey);
    }
    await faregate.features.revert(userId, "tasker-board");
    await faregate.contracts.incrementUsage(userId, { tasker: { maxTasks: 2 } });
    await faregate.contracts.resetUsage(userId);
    expect(sent.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      ...keys,
      expect.any(String),
      expect.any(String),
      expect.any(String),
    ]);
    expect(new Set(sent.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(5);
    sent = [];
    await faregate.features.evaluate(userId, "tasker-board");
    await faregate.features.evaluate(userId, "tasker-board", { consumption, dryRun: true });
    await faregate.contracts.updateContact(userId, { phone: "1" });
    expect(sent.map(({ idempotencyKey }) => idempotencyKey)).toEqual([null, null, null]);
  });

  test("answers that the network loses count once: each call is sent again with its key", async () => {
    const consumption = { "tasker-maxTasks": 3 };
    sent = [];
    lost = 2;
    const answer = await faregate.features.evaluate(userId, "tasker-board", { consumption });
    expect(answer).toMatchObject({ counted: true, used: { "tasker-maxTasks": 3 } });
    expect(sent.map(({ idempotencyKey }) => idempotencyKey)).toEqual(Array(3).fill(answer.idempotencyKey));
    lost = 1;
    await faregate.contracts.incrementUsage(userId, { tasker: { maxTasks: 4 } });
    expect(await usedOf()).toBe(7);
    lost = 1;
    await faregate.features.revert(userId, "tasker-board", { latest: true });
    expect(await usedOf()).toBe(4);
  });

  test("racing calls with one key, each losing answers, count once and agree", async () => {
    lost = 12;
    const answers = await Promise.all(
      Array.from({ length: 16 }, () =>
        faregate.features.evaluate(userId, "tasker-board", {
          consumption: { "tasker-maxTasks": 2 },
          idempotencyKey: `order-${users}`,
        }),
      ),
    );
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ counted: true, used: { "tasker-maxTasks": 2 } });
    expect(await usedOf()).toBe(2);
  });

  test("an error of a counted call has the key with which it can be sent again later, and counts once", async () => {
    lost = 4;
    const consumption = { "tasker-maxTasks": 5 };
    const failure: unknown = await faregate.features
      .evaluate(userId, "tasker-board", { consumption })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "NETWORK", idempotencyKey: expect.any(String) });
    const { idempotencyKey } = failure as { idempotencyKey: string };
    const again = await faregate.features.evaluate(userId, "tasker-board", { consumption, idempotencyKey });
    expect(again).toMatchObject({ counted: true, used: { "tasker-maxTasks": 5 } });
    expect(await usedOf()).toBe(5);
  });

  test("what cannot be repeated without harm is sent once: a contract whose answer is lost is not made twice", async () => {
    sent = [];
    lost = 1;
    await expect(faregate.contracts.novate(userId, contract())).rejects.toMatchObject({ code: "NETWORK" });
    expect(sent).toHaveLength(1);
    expect((await faregate.contracts.get(userId)).history).toHaveLength(1);
  });
});

describe("usage", () => {
  test("is incremented, given back, and reset by limit, where it renews, and everywhere", async () => {
    const { contracts } = faregate;
    const levels = ({ usageLevels }: Contract) => [
      usageLevels["tasker"]?.["maxTasks"]?.consumed,
      usageLevels["tasker"]?.["maxExports"]?.consumed,
    ];
    expect(levels(await contracts.incrementUsage(userId, { tasker: { maxTasks: 5, maxExports: 4 } }))).toEqual([5, 4]);
    expect(levels(await contracts.incrementUsage(userId, { tasker: { maxTasks: -2 } }))).toEqual([3, 4]);
    expect(levels(await contracts.resetUsage(userId))).toEqual([0, 4]);
    await contracts.incrementUsage(userId, { tasker: { maxTasks: 5 } });
    expect(levels(await contracts.resetUsage(userId, { limit: "maxExports" }))).toEqual([5, 0]);
    await contracts.incrementUsage(userId, { tasker: { maxExports: 1 } });
    expect(levels(await contracts.resetUsage(userId, { all: true }))).toEqual([0, 0]);
    await expect(contracts.resetUsage(userId, { limit: "nope" })).rejects.toMatchObject({ status: 404 });
  });
});

test("a contract and the answers about it are told as they were at a past moment, of which nothing is counted", async () => {
  const before = api.resources.now();
  await faregate.contracts.incrementUsage(userId, { tasker: { maxTasks: 19 } });
  try {
    api.setNow(new Date(before.getTime() + 3_600_000));
    await faregate.contracts.novate(userId, contract({ contractedServices: { tasker: "2.0.0" } }));
    await faregate.contracts.incrementUsage(userId, { tasker: { maxTasks: 11 } });
    const then = await faregate.contracts.getAt(userId, before);
    expect(then).toMatchObject({
      contractedServices: { tasker: "1.0.0" },
      usageLevels: { tasker: { maxTasks: { consumed: 19 } } },
      asOf: { at: before.toISOString(), cause: "creation", until: api.resources.now().toISOString() },
    });
    const consumption = { "tasker-maxTasks": 2 };
    const asked = await faregate.features.evaluateAt(userId, "tasker-board", before, { consumption, strict: true });
    expect(asked).toMatchObject({
      eval: false,
      limit: { "tasker-maxTasks": 20 },
      remaining: { "tasker-maxTasks": 1 },
      asOf: { contract: { contractedServices: { tasker: "1.0.0" } } },
    });
    const all = await faregate.features.evaluateAllAt(userId, before.toISOString(), { server: true });
    expect(all.features["tasker-board"]).toMatchObject({ eval: true, used: { "tasker-maxTasks": 19 } });
    expect(all.asOf.contract.usageLevels["tasker"]?.["maxTasks"]?.consumed).toBe(19);
    expect(await usedOf()).toBe(30);
    const early = new Date(before.getTime() - 1000);
    await expect(faregate.contracts.getAt(userId, early)).rejects.toMatchObject({ status: 404 });
    await expect(faregate.features.evaluateAt(userId, "tasker-board", "soon")).rejects.toMatchObject({ status: 400 });
  } finally {
    api.setNow(before);
  }
});

describe("services", () => {
  test("and their pricings are read", async () => {
    expect((await faregate.services.list({ name: "task" })).map(({ name }) => name)).toEqual(["Tasker"]);
    expect(Object.keys((await faregate.services.get("tasker")).activePricings)).toEqual(["1.0.0", "2.0.0"]);
    expect((await faregate.services.pricings("Tasker")).map(({ version }) => version)).toEqual(["1.0.0", "2.0.0"]);
    expect(await faregate.services.pricings("Tasker", { pricingStatus: "archived" })).toEqual([]);
    const pricing = await faregate.services.pricing("Tasker", "2.0.0");
    expect(pricing.usageLimits["maxTasks"]).toMatchObject({ type: "RENEWABLE" });
    expect(pricing.plans["PRO"]?.price).toBe(10);
    await expect(faregate.services.get("Nope")).rejects.toMatchObject({ status: 404 });
    const [first] = await faregate.services.versions("tasker");
    expect(first).toMatchObject({ pricingVersion: "1.0.0", state: "active", saasName: "Tasker", expectations: null });
    expect(await faregate.services.source("Tasker", "1.0.0")).toBe(tasker());
    await expect(faregate.services.source("Tasker", "9.9.9")).rejects.toMatchObject({ status: 404 });
    expect(await faregate.services.expectations("Tasker", "1.0.0")).toBeNull();
    await expect(faregate.services.expectations("Tasker", "9.9.9")).rejects.toMatchObject({ status: 404 });
    // JSON is YAML, too: the client must not parse it.
    const expectations = '{"expectations": [{"plan": "PRO", "features": {"darkMode": true}}]}';
    const path = "/services/Tasker/pricings/1.0.0/expectations";
    await api.call("PUT", path, { key: api.callers.all.key, body: { expectations } });
    expect(await faregate.services.expectations("Tasker", "1.0.0")).toBe(expectations);
  });
});

describe("offers", () => {
  test("an unlock is found, bought, and turns the feature on", async () => {
    await faregate.contracts.incrementUsage(userId, { tasker: { maxTasks: 20 } });
    const unlock = await faregate.features.unlock(userId, "tasker-board", { amounts: { "tasker-maxTasks": 3 } });
    expect(unlock).toMatchObject({ reason: null, target: { plan: "PRO", addOns: { extraTasks: 2 } } });
    expect(sent.at(-1)).toMatchObject({
      path: `/api/v1/features/${encodeURIComponent(userId)}/tasker-board/unlock`,
      idempotencyKey: null,
    });
    if (unlock.target === null) throw new Error("no target");
    const before = await faregate.contracts.get(userId);
    await faregate.contracts.novate(userId, novationTo(before, "Tasker", unlock.target));
    const { eval: isOn } = await faregate.features.evaluate(userId, "tasker-board", {
      consumption: { "tasker-maxTasks": 3 },
      strict: true,
    });
    expect(isOn).toBe(true);
  });

  test("the offer of a service is read for a user, for a version, and without a key", async () => {
    const offer = await faregate.services.offer("Tasker", { userId, pricingVersion: "2.0.0" });
    expect(offer).toMatchObject({ pricingVersion: "2.0.0", current: { pricingVersion: "1.0.0", plan: "PRO" } });
    const path = `/organizations/${api.callers.organizationId}/public-offer`;
    await api.call("PUT", path, { key: api.callers.owner.key, body: { services: ["Tasker"] } });
    const read = publicOffer({
      url: URL,
      organizationId: api.callers.organizationId,
      service: "tasker",
      fetch: send,
    });
    expect((await read()).plans.map(({ name }) => name)).toEqual(["BASIC", "PRO"]);
    await expect(
      publicOffer({ url: URL, organizationId: "x", service: "tasker", fetch: send })(),
    ).rejects.toMatchObject({
      status: 404,
    });
  });

  test("a novation to a configuration leaves other services alone", () => {
    const held = {
      contractedServices: { other: "3", tasker: "1.0.0" },
      subscriptionPlans: { other: "GOLD", tasker: "PRO" },
      subscriptionAddOns: { other: { x: 1 }, tasker: { extraTasks: 2 } },
    };
    expect(novationTo(held, "Tasker", { pricingVersion: "2.0.0", plan: null, addOns: {} })).toEqual({
      contractedServices: { other: "3", tasker: "2.0.0" },
      subscriptionPlans: { other: "GOLD" },
      subscriptionAddOns: { other: { x: 1 }, tasker: {} },
    });
  });
});

describe("holds", () => {
  const tasks = (amount: number) => ({ "tasker-maxTasks": amount });
  const hold = (amount: number, duration = "PT10M") =>
    faregate.usage.hold(userId, "tasker-board", { consumption: tasks(amount), duration });

  test("are taken, extended, settled and listed, each counted once though answers are lost", async () => {
    lost = 1;
    const taken = await hold(8);
    expect(taken).toMatchObject({ eval: true, used: tasks(8), hold: { id: expect.any(String) } });
    const id = taken.hold?.id ?? "";
    expect((await faregate.usage.extend(id, "PT1H")).state).toBe("open");
    lost = 1;
    const settled = await faregate.usage.settle(id, tasks(5));
    expect(settled).toMatchObject({ eval: true, used: tasks(5), hold: { state: "settled", counted: tasks(5) } });
    expect(await usedOf()).toBe(5);
    expect(await faregate.contracts.holds(userId, { state: "all" })).toMatchObject({
      data: [{ id, state: "settled" }],
      next: null,
    });
    await expect(faregate.usage.release(id)).rejects.toMatchObject({ status: 409 });
    expect(await hold(100)).toMatchObject({ eval: false, hold: null });
    expect(new Set(sent.filter(({ method }) => method !== "GET").map((call) => call.idempotencyKey)).size).toBe(6);
  });

  test("`await using` releases a hold that was not settled, and no other", async () => {
    const heldNow = async () => (await faregate.contracts.get(userId)).usageLevels["tasker"]?.["maxTasks"]?.held;
    const work = async () => {
      await using taken = await hold(8);
      expect(await heldNow()).toBe(8);
      throw new Error(`the work failed with ${taken.hold?.id}`);
    };
    await expect(work()).rejects.toThrow("the work failed");
    expect(await heldNow()).toBeUndefined();
    {
      await using taken = await hold(8);
      await faregate.usage.settle(taken.hold?.id ?? "", tasks(3));
      sent = [];
    }
    expect(sent).toEqual([]);
    expect(await usedOf()).toBe(3);
  });

  test("an older service, which counts instead, is a bad response", async () => {
    const older = new Faregate({
      url: URL,
      apiKey: api.callers.all.key,
      fetch: (input, init) => send(String(input).replace("hold=PT10M", ""), init),
    });
    const taken = older.usage.hold(userId, "tasker-board", { consumption: tasks(1), duration: "PT10M" });
    await expect(taken).rejects.toMatchObject({ code: "BAD_RESPONSE" });
  });
});

describe("leases", () => {
  const tasks = (amount: number) => ({ "tasker-maxTasks": amount });
  const open = (amount: number) =>
    faregate.leases.open(userId, "tasker-board", { amounts: tasks(amount), for: "PT30S" });
  const limits = async () => (await faregate.contracts.get(userId)).usageLevels["tasker"]?.["maxTasks"];

  test("are opened, reported and ended, each counted once though answers are lost", async () => {
    lost = 1;
    const opened = await open(8);
    const id = opened.lease?.id ?? "";
    expect(opened).toMatchObject({
      eval: true,
      used: tasks(0),
      remaining: tasks(12),
      lease: { userId, featureId: "tasker-board", server: false, state: "open", granted: tasks(8), spent: tasks(0) },
    });
    expect(Date.parse(opened.lease?.until ?? "") - Date.parse(opened.now)).toBe(30_000);
    expect(
      new Set(sent.flatMap(({ path, idempotencyKey }) => (path.endsWith("/leases") ? [idempotencyKey] : []))).size,
    ).toBe(1);
    lost = 2;
    const reported = await faregate.leases.report(id, { spent: tasks(5), amounts: tasks(8), for: "PT1M" });
    expect(reported).toMatchObject({ eval: true, remaining: tasks(7), lease: { granted: tasks(13), spent: tasks(5) } });
    expect(await limits()).toMatchObject({ consumed: 5, held: 8 });
    lost = 1;
    await faregate.leases.end(id);
    await faregate.leases.end(id);
    expect(await limits()).not.toHaveProperty("held");
    expect(await usedOf()).toBe(5);
    await expect(faregate.leases.report(id, { spent: tasks(6) })).rejects.toMatchObject({ status: 409 });
    await expect(faregate.leases.end("x")).rejects.toMatchObject({ status: 404 });
  });

  test("are null where nothing is available, and end with a report of nothing to be left", async () => {
    const { lease } = await open(100);
    expect(lease?.granted).toEqual(tasks(20));
    expect(await open(1)).toMatchObject({ eval: false, lease: null });
    const server = await faregate.leases.open(userId, "tasker-board", { amounts: tasks(1), for: "PT1S", server: true });
    expect(server).toMatchObject({ eval: false, lease: null });
    const ended = await faregate.leases.report(lease?.id ?? "", { spent: tasks(20), amounts: tasks(0) });
    expect(ended.lease).toMatchObject({ state: "ended", granted: tasks(20) });
    await expect(open(0)).rejects.toMatchObject({ status: 422 });
  });

  test("an answer to an evaluation in an outage is none from before the lease", async () => {
    const remembering = new Faregate({
      url: URL,
      apiKey: api.callers.all.key,
      fetch: send,
      lastKnownForMs: 60_000,
      retries: 0,
    });
    const ask = () => remembering.features.evaluate(userId, "tasker-board");
    expect((await ask()).eval).toBe(true);
    await remembering.leases.open(userId, "tasker-board", { amounts: tasks(20), for: "PT30S" });
    lost = 1;
    await expect(ask()).rejects.toMatchObject({ code: "NETWORK" });
  });
});
