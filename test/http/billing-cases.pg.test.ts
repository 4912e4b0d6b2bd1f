import { readFileSync } from "node:fs";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, expect, it, test } from "vitest";
import type { Stripe } from "stripe";
import type { MessageView } from "../../src/operations/billing/messages.ts";
import { pruneBillingMessages } from "../../src/db/queries/retention.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import {
  connectProvider,
  eventOf,
  PRICES,
  signStripe,
  type SubscriptionFields,
  subscriptionOf,
  type TestConnection,
} from "../support/billing.ts";
import { type ContractBody, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* The cases of the contract's chapter on billing, with their numbers. */

const TASKER = readFileSync("src/samples/tasker.yml", "utf8");
type Billed = ContractBody & {
  billing?: { subscription: string; status: string };
  scheduled?: { at: string; subscriptionPlans: object; actor: object };
};

let api: TestApi;
let stripe: TestConnection;
beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, TASKER);
});
afterAll(() => api.close());

const START = new Date("2025-06-15T10:00:00.000Z");
const DAY_MS = 86_400_000;
const at = (days: number, milliseconds = 0) => new Date(START.getTime() + days * DAY_MS + milliseconds);
const BUSINESS = { items: ["price_business"] };

const path = (tail = "") => `/organizations/${api.callers.organizationId}/billing/stripe${tail}`;
const asOwner = <T>(method: "GET" | "PUT" | "POST" | "DELETE", tail = "", body?: object) =>
  api.call<T>(method, path(tail), { key: api.callers.owner.key, ...(body === undefined ? {} : { body }) });
const connect = async (choice: object = {}) => {
  await asOwner("DELETE");
  stripe = await connectProvider(api, choice);
};
beforeEach(async () => {
  api.setNow(START);
  await api.call("DELETE", "/contracts", { key: api.callers.all.key });
  await connect({ ended: { tasker: "FREE" } });
});

const show = async (userId = "ada") => {
  const { body, status } = await api.call<Billed>("GET", `/contracts/${userId}`, { key: api.callers.all.key });
  return status === 404 ? undefined : body;
};
const event = (what: string, fields: SubscriptionFields, created: Date, id?: string): Stripe.Event =>
  eventOf(`customer.subscription.${what}` as Stripe.Event["type"], subscriptionOf(fields), created, id);
const send = async (what: string, fields: SubscriptionFields, created: Date, id?: string) =>
  (await stripe.send(event(what, fields, created, id))).body;
const messages = async (query = "") => (await asOwner<{ data: MessageView[] }>("GET", `/messages${query}`)).body.data;
/** Uses tasks, so that something can be kept. */
const consume = (userId: string, amount: number) =>
  api.call("POST", `/features/${userId}/tasker-board`, {
    key: api.callers.all.key,
    body: { "tasker-maxTasks": amount },
  });
const audited = async (userId: string) => (await auditedIn(userId)).filter(({ target }) => target === userId);
const auditedIn = async (users: string) => {
  const log = await api.call<{ data: { action: string; target: string; after: object; requestId: string }[] }>(
    "GET",
    `/organizations/${api.callers.organizationId}/audit-log?limit=100`,
    { key: api.callers.owner.key },
  );
  return log.body.data.filter(({ action, target }) => target.startsWith(users) && action.startsWith("contract."));
};

const permutations = <T>(items: readonly T[]): T[][] =>
  items.length <= 1
    ? [[...items]]
    : items.flatMap((item, index) =>
        permutations(items.filter((_, other) => other !== index)).map((rest) => [item, ...rest]),
      );

it.each([[{ tasker: "FREE" }], [{}]])(
  "all 24 orders of four messages, each twice, four at a time, end in one contract: ended %j (1)",
  async (ended) => {
    await connect({ ended });
    const end = at(3).getTime() / 1000;
    const life = (userId: string) => {
      const fields = { id: `sub_${userId}`, customer: `cus_${userId}`, metadata: { userId } };
      return [
        event("created", { ...fields }, at(0)),
        event("updated", { ...fields, ...BUSINESS }, at(1)),
        event("updated", { ...fields, ...BUSINESS, cancel_at_period_end: true }, at(2)),
        event("deleted", { ...fields, ...BUSINESS, status: "canceled", ended_at: end }, at(3)),
      ];
    };
    api.setNow(at(4));
    const states = [];
    for (const [index, order] of permutations([0, 1, 2, 3]).entries()) {
      const userId = `${Object.keys(ended).length}-${index}`;
      const mine = life(userId);
      const sent = order.flatMap((message) => mine[message] ?? []).flatMap((message) => [message, message]);
      for (let from = 0; from < sent.length; from += 4) {
        const answers = await Promise.all(sent.slice(from, from + 4).map((message) => stripe.send(message)));
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      }
      const contract = await show(userId);
      const { contractedServices, subscriptionPlans, subscriptionAddOns, billingPeriod, billing, scheduled } =
        contract ?? {};
      states.push({ contractedServices, subscriptionPlans, subscriptionAddOns, billingPeriod, billing, scheduled });
      const changes = await audited(userId);
      expect(new Set(changes.map(({ after }) => JSON.stringify(after))).size).toBe(changes.length);
      expect(changes.filter(({ action }) => action === "contract.create")).toHaveLength(1);
      expect(changes.length).toBeLessThanOrEqual(4);
    }
    for (const state of states) expect(state).toEqual(states[0]);
    expect(states[0]).toMatchObject(
      "tasker" in ended
        ? { subscriptionPlans: { tasker: "FREE" }, billingPeriod: { startDate: at(3).toISOString(), autoRenew: true } }
        : {
            subscriptionPlans: { tasker: "BUSINESS" },
            billingPeriod: { endDate: at(3).toISOString(), autoRenew: false },
          },
    );
    await expectBalancesMatchLedger(api.database);
  },
  120_000,
);

test("an ended subscription never comes back, also within its second (2)", async () => {
  await send("created", {}, at(0));
  api.setNow(at(1));
  expect((await send("deleted", { status: "canceled" }, at(1))).outcome).toBe("applied");
  expect((await send("updated", {}, at(1))).outcome).toBe("stale");
  expect(await show()).toMatchObject({ subscriptionPlans: { tasker: "FREE" } });
});

test("a price of no map changes nothing, and is applied by a replay once it is mapped (3)", async () => {
  await send("created", {}, at(0));
  const before = await show();
  const unmapped = await send("updated", { items: ["price_new", "price_tasks"] }, at(0, 1000), "evt_new");
  expect(unmapped).toEqual({ outcome: "unmapped", reason: "The price price_new is in no map" });
  expect(await show()).toEqual(before);
  const unapplied = async () => {
    const overview = `/organizations/${api.callers.organizationId}/overview`;
    const { body } = await api.call<{ billing: object }>("GET", overview, { key: api.callers.manager.key });
    return body.billing;
  };
  expect(await unapplied()).toEqual({ unapplied: 1 });
  await asOwner("PUT", "", { prices: { ...PRICES, price_new: PRICES.price_business }, ended: { tasker: "FREE" } });
  const replayed = await asOwner<MessageView>("POST", "/messages/evt_new/replay");
  expect(replayed.body).toMatchObject({ id: "evt_new", outcome: "applied", reason: null, userId: "ada" });
  expect(await unapplied()).toEqual({ unapplied: 0 });
  expect(await show()).toMatchObject({
    subscriptionPlans: { tasker: "BUSINESS" },
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
  });
  expect((await asOwner("POST", "/messages/evt_none/replay")).body).toEqual({ error: "Message evt_none not found" });
});

test("all unmapped messages are repeated, oldest first", async () => {
  const fields = (userId: string) => ({ id: `sub_${userId}`, metadata: { userId }, items: ["price_new"] });
  for (const userId of ["bo", "cy"]) await send("created", fields(userId), at(0));
  await asOwner("PUT", "", { prices: { ...PRICES, price_new: PRICES.price_pro } });
  expect((await asOwner("POST", "/replay?outcome=unmapped")).body).toEqual({
    replayed: 2,
    outcomes: { applied: 2 },
    remaining: 0,
  });
  expect(await show("cy")).toMatchObject({ subscriptionPlans: { tasker: "PRO" } });
  const wrong = await asOwner("POST", "/replay?outcome=applied");
  expect(wrong).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: Outcome must be one of unmapped, failed, waiting" },
  });
});

test("a message names every user whom a contract can have", async () => {
  const userId = "u".repeat(512);
  expect(await send("created", { metadata: { userId } }, at(0))).toEqual({ outcome: "applied", reason: null });
  expect(await show(userId)).toMatchObject({ subscriptionPlans: { tasker: "PRO" } });
});

test("a message that is repeated is no later arrival than it was", async () => {
  api.setNow(at(1));
  expect(await send("created", { items: ["price_new"] }, at(0), "evt_first")).toMatchObject({ outcome: "unmapped" });
  api.setNow(at(2));
  expect(await send("updated", BUSINESS, at(0), "evt_second")).toMatchObject({ outcome: "applied" });
  api.setNow(at(3));
  await asOwner("PUT", "", { prices: { ...PRICES, price_new: PRICES.price_pro } });
  const replay = (id: string) => asOwner<MessageView>("POST", `/messages/${id}/replay`);
  expect((await replay("evt_first")).body).toMatchObject({ outcome: "stale" });
  expect(await show()).toMatchObject({ subscriptionPlans: { tasker: "BUSINESS" } });
  expect((await replay("evt_second")).body).toMatchObject({ outcome: "unchanged" });
  // A message of the same second that arrives only now is the newest.
  expect(await send("updated", {}, at(0))).toMatchObject({ outcome: "applied" });
});

test("a message without user waits for the checkout that names the user (4)", async () => {
  const waiting = await send("created", { metadata: {} }, at(0), "evt_waits");
  expect(waiting).toEqual({ outcome: "waiting", reason: "No message has named the user of sub_1 yet" });
  expect((await messages("?outcome=waiting")).map(({ id }) => id)).toEqual(["evt_waits"]);
  const session = {
    id: "cs_1",
    mode: "subscription",
    subscription: "sub_1",
    customer: "cus_1",
    client_reference_id: "eve",
  };
  const checkout = await stripe.send(eventOf("checkout.session.completed", session, at(0)));
  expect(checkout.body).toEqual({ outcome: "applied", reason: null });
  expect(await messages("?user=eve")).toMatchObject([{}, { id: "evt_waits", outcome: "applied", userId: "eve" }]);
  expect(await show("eve")).toMatchObject({ billing: { subscription: "sub_1" } });
  // Another subscription of the same customer needs no checkout.
  expect((await send("created", { id: "sub_2", metadata: {}, ...BUSINESS }, at(0, 5000))).outcome).toBe("applied");
});

test("a message without user waits for one of its subscription that names the user, too", async () => {
  await send("updated", { status: "past_due", metadata: {} }, at(0), "evt_before");
  await send("updated", { id: "sub_2", metadata: {} }, at(0), "evt_other");
  api.setNow(at(5));
  expect(await send("updated", { status: "past_due" }, at(5))).toEqual({ outcome: "applied", reason: null });
  expect(await messages("?outcome=waiting")).toMatchObject([{ id: "evt_other" }]);
  expect(await messages("?outcome=stale")).toMatchObject([{ id: "evt_before", userId: "ada" }]);
  // The days of grace count from the first message, as in every other order.
  expect((await show())?.scheduled).toMatchObject({ at: at(7).toISOString() });
});

test("of two subscriptions of one service the newer is followed throughout (5)", async () => {
  await send("created", { id: "sub_old" }, at(0));
  await send("created", { id: "sub_new", ...BUSINESS, created: at(0).getTime() / 1000 + 60 }, at(0, 60_000));
  expect(await show()).toMatchObject({
    billing: { subscription: "sub_new" },
    subscriptionPlans: { tasker: "BUSINESS" },
  });
  const before = await show();
  const deleted = await send("deleted", { id: "sub_old", status: "canceled" }, at(0, 120_000));
  expect(deleted).toEqual({ outcome: "stale", reason: "The contract follows sub_new, which is newer" });
  expect(await show()).toEqual(before);
});

it.each([[{ tasker: "FREE" }], [{}]])("days of grace keep everything, then end it: ended %j (6)", async (ended) => {
  await connect({ ended });
  const long = { end: "2025-12-15T10:00:00Z" };
  await send("created", long, at(0));
  await consume("ada", 20);
  const before = await show();
  api.setNow(at(1));
  expect((await send("updated", { ...long, status: "past_due" }, at(1))).outcome).toBe("applied");
  const due = await show();
  expect(due).toMatchObject({ subscriptionPlans: { tasker: "PRO" }, billing: { status: "past_due" } });
  expect(due?.billingPeriod).toEqual(before?.billingPeriod);
  expect(due?.scheduled).toMatchObject({
    at: at(8).toISOString(),
    actor: { kind: "billing", id: stripe.id, name: "stripe" },
  });
  api.setNow(at(7));
  await send("updated", long, at(7));
  const paid = await show();
  expect(paid?.scheduled).toBeUndefined();
  expect(paid).toMatchObject({ subscriptionPlans: { tasker: "PRO" }, billing: { status: "active" } });
  await send("updated", { ...long, status: "past_due" }, at(7, 1000));
  api.setNow(at(14, 999));
  expect((await consume("ada", 1)).status).toBe(200);
  api.setNow(at(14, 1001));
  const ends = at(14, 1000).toISOString();
  const used = await consume("ada", 1);
  if ("tasker" in ended) {
    expect(await show()).toMatchObject({
      subscriptionPlans: { tasker: "FREE" },
      billingPeriod: { startDate: ends, autoRenew: true },
      usageLevels: { tasker: { maxTasks: { consumed: 21 } } },
    });
  } else {
    expect(used.body).toMatchObject({ error: expect.stringContaining("has expired") });
    expect(await show()).toMatchObject({ billingPeriod: { endDate: ends, autoRenew: false } });
  }
  // Stripe gives up later: nothing changes.
  api.setNow(at(20));
  const settled = await show();
  await send("deleted", { ...long, status: "canceled", ended_at: at(20).getTime() / 1000 }, at(20));
  expect((await show())?.billingPeriod).toEqual(settled?.billingPeriod);
  await expectBalancesMatchLedger(api.database);
});

test("a cancellation at the end of the period schedules what is left, and its withdrawal cancels that", async () => {
  await send("created", {}, at(0));
  const events = await allEventsDuring(api, () => send("updated", { cancel_at_period_end: true }, at(0, 1000)));
  expect(events.map(({ code }) => code)).toEqual(["CONTRACT_UPDATED", "CHANGE_SCHEDULED"]);
  expect(events[0]?.details).toMatchObject({ changed: ["billingPeriod"], billing: { subscription: "sub_1" } });
  expect(await show()).toMatchObject({
    billingPeriod: { autoRenew: false, endDate: "2025-07-15T10:00:00.000Z" },
    scheduled: { at: "2025-07-15T10:00:00.000Z", subscriptionPlans: { tasker: "FREE" } },
  });
  await send("updated", {}, at(0, 2000));
  expect((await show())?.scheduled).toBeUndefined();
  await send("updated", { cancel_at_period_end: true }, at(0, 3000));
  api.setNow(at(31));
  expect(await show()).toMatchObject({
    subscriptionPlans: { tasker: "FREE" },
    billingPeriod: { startDate: "2025-07-15T10:00:00.000Z", autoRenew: true },
  });
});

test("a map of a version that is archived is a problem, and its messages fail with a sentence (8)", async () => {
  const prices = { price_gold: { service: "tasker", plan: "GOLD" }, price_x: { service: "Chat", plan: "TEAM" } };
  const put = await asOwner<{ problems: { message: string; price: string }[] }>("PUT", "", { prices });
  expect(put.status).toBe(200);
  expect(put.body.problems.slice(0, 2)).toMatchObject([
    { price: "price_gold", message: "Plan GOLD is not in version 1.0.0 of tasker" },
    { price: "price_x", message: "Service Chat has no active version" },
  ]);
  const gold = await send("created", { items: ["price_gold"] }, at(0));
  expect(gold.outcome).toBe("failed");
  expect(gold.reason).toMatch(/^Invalid subscription: Error: Plan GOLD for service tasker not found/);
  const chat = await send("created", { id: "sub_2", items: ["price_x"] }, at(0));
  expect(chat).toEqual({ outcome: "failed", reason: "Invalid contract: Services not found: chat" });
  expect(await show()).toBeUndefined();
});

it.each([
  [{ metadata: { userId: "x".repeat(513) } }, /^The id of the user must have 1 to 512 characters/],
  [{ metadata: { userId: ".." } }, /^The id of the user must have/],
  [{ start: "2025-06-15T10:00:00Z", end: "2025-06-14T10:00:00Z" }, /^The period ends before it starts$/],
  [{ items: ["price_pro", { price: "price_tasks", quantity: 0 }] }, /^The quantity of price_tasks must be/],
  [{ items: ["price_pro", { price: "price_tasks", quantity: 1e9 }] }, /^The quantity of price_tasks must be/],
  [
    { items: ["price_pro", { price: "price_tasks", quantity: 9 }] },
    /^Invalid subscription: Error: Add-on extraTasks quantity 9/,
  ],
  [{ items: ["price_free", "price_tasks"] }, /is not available for plan FREE/],
])("what cannot be is an outcome with a sentence, and nothing is half done: %j", async (fields, reason) => {
  const answer = await stripe.send(event("created", fields as SubscriptionFields, at(0)));
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({ outcome: "failed", reason: expect.stringMatching(reason) });
  expect(await show()).toBeUndefined();
  const [row] = await api.database.connection.client`select count(*)::integer as count from billing_subscriptions`;
  expect(row?.["count"]).toBe(0);
});

test("a body that cannot be read, or is too large, is answered with a sentence", async () => {
  for (const body of ["", "[]", "{", '{"id": 5}', `{"id": "evt_deep", "type": ${"[".repeat(5000)}`]) {
    const headers = { "stripe-signature": await signStripe(body, START) };
    const answer = await api.call("POST", `/billing/${stripe.id}`, { body, headers });
    expect(answer).toMatchObject({ status: 200, body: { outcome: "failed", reason: expect.any(String) } });
  }
  const large = await api.call("POST", `/billing/${stripe.id}`, { body: "x".repeat(512 * 1024 + 1) });
  expect(large).toMatchObject({ status: 413, body: { error: "The request body is larger than 512 KB" } });
});

test("a payment buys one block however often its message arrives, and a refund takes what is left of it (12)", async () => {
  await connect({ prices: { ...PRICES, price_credits: { service: "tasker", limit: "maxTasks", amount: 100 } } });
  await send("created", {}, at(0));
  const session = (id: string, payment: string, metadata: object = { price: "price_credits" }) =>
    eventOf(
      "checkout.session.completed",
      {
        id: "cs_1",
        mode: "payment",
        payment_status: "paid",
        payment_intent: payment,
        customer: "cus_1",
        client_reference_id: "ada",
        metadata,
      },
      at(0),
      id,
    );
  const blocks = async () => {
    const path = "/contracts/ada/blocks";
    const answer = await api.call<{ data: object[] } | object[]>("GET", path, { key: api.callers.all.key });
    return "data" in answer.body ? answer.body.data : answer.body;
  };
  const paid = await Promise.all(["evt_p", "evt_p", "evt_q"].map((id) => stripe.send(session(id, "pi_1"))));
  const [first, again, other] = paid.map(({ body }) => body.outcome);
  expect(again, "a message that is repeated has the outcome of the first time").toBe(first);
  expect([first, other].toSorted(), "either message may come first").toEqual(["applied", "unchanged"]);
  expect(await blocks()).toMatchObject([
    { amount: 100, origin: "billing", actor: { kind: "billing", name: "stripe" } },
  ]);
  await consume("ada", 230);
  expect(await blocks()).toMatchObject([{ used: 30, remaining: 70 }]);
  const refunded = (payment: string) =>
    stripe.send(eventOf("charge.refunded", { id: "ch_1", payment_intent: payment, refunded: true }, at(0)));
  expect((await refunded("pi_1")).body).toEqual({ outcome: "applied", reason: null });
  expect(await blocks()).toMatchObject([{ state: "revoked", used: 30 }]);
  expect((await refunded("pi_1")).body.outcome).toBe("unchanged");
  // In the other order.
  expect((await refunded("pi_2")).body).toEqual({ outcome: "waiting", reason: "No message of pi_2 was applied yet" });
  expect((await stripe.send(session("evt_r", "pi_2"))).body.outcome).toBe("applied");
  expect(await blocks()).toMatchObject([{ state: "revoked", used: 0 }, { state: "revoked" }]);
  const plan = await stripe.send(session("evt_s", "pi_3", { price: "price_pro" }));
  expect(plan.body).toEqual({ outcome: "failed", reason: "price_pro is no block, which a payment can only buy" });
  await expectBalancesMatchLedger(api.database);
});

test("a payment without user is that of the one user whom subscriptions of its customer name, in any order", async () => {
  await connect({ prices: { ...PRICES, price_credits: { service: "tasker", limit: "maxTasks", amount: 100 } } });
  const pay = async (payment: string) => {
    const session = {
      id: `cs_${payment}`,
      mode: "payment",
      payment_status: "paid",
      payment_intent: payment,
      customer: "cus_1",
      metadata: { price: "price_credits" },
    };
    return (await stripe.send(eventOf("checkout.session.completed", session, at(0), `evt_${payment}`))).body;
  };
  const blocks = async (userId: string) =>
    (await api.call<{ data: object[] }>("GET", `/contracts/${userId}/blocks`, { key: api.callers.all.key })).body.data;
  expect(await pay("before")).toEqual({ outcome: "waiting", reason: "No message has named the user of before yet" });
  await send("created", { id: "sub_other", customer: "cus_2", metadata: { userId: "bea" } }, at(0));
  expect(await messages("?outcome=waiting")).toHaveLength(1);
  expect((await send("created", {}, at(0))).outcome).toBe("applied");
  expect(await pay("after")).toEqual({ outcome: "applied", reason: null });
  expect(await blocks("ada")).toMatchObject([{ reason: "Payment after" }, { reason: "Payment before" }]);
  expect(await messages("?user=ada")).toMatchObject([
    { id: "evt_after" },
    {},
    { id: "evt_before", outcome: "applied" },
  ]);
  // Of two users of one customer, nobody knows who has paid.
  await send("created", { id: "sub_2", metadata: { userId: "bea" } }, at(0));
  expect((await pay("unclear")).outcome).toBe("waiting");
  expect(await blocks("bea")).toEqual([]);
  await expectBalancesMatchLedger(api.database);
});

test("a refund takes nothing from a payment whose id begins alike", async () => {
  const standard = await connectProvider(
    api,
    { prices: { ...PRICES, credits: { service: "tasker", limit: "maxTasks", amount: 100 } } },
    "standard",
  );
  await send("created", {}, at(0));
  const pay = (payment: string, type = "payment") =>
    standard.sendStandard({
      id: `${type} of ${payment}`,
      type,
      createdAt: at(0).toISOString(),
      data: { payment, userId: "ada", price: "credits", quantity: 1 },
    } as { id: string });
  for (const payment of ["order 1", "order 1 0", "order 1 extra"]) await pay(payment);
  expect((await pay("order 1", "refund")).body.outcome).toBe("applied");
  const blocks = await api.call<{ data: object[] }>("GET", "/contracts/ada/blocks", { key: api.callers.all.key });
  expect(blocks.body.data).toMatchObject([
    { reason: "Payment order 1 extra", state: "open" },
    { reason: "Payment order 1 0", state: "open" },
    { reason: "Payment order 1", state: "revoked" },
  ]);
  const { organizationId, owner } = api.callers;
  await api.call("DELETE", `/organizations/${organizationId}/billing/standard`, { key: owner.key });
});

test("offers and unlock name what a checkout has to buy, for keys alone", async () => {
  const yearly = {
    price_pro_year: PRICES.price_pro,
    price_pack: { service: "tasker", addOn: "extraTasks", quantity: 2 },
  };
  await connect({ prices: { price_pro: PRICES.price_pro, ...yearly } });
  await send("created", {}, at(0));
  const key = api.callers.all.key;
  const offer = await api.call<{ plans: { name: string; billing?: object }[]; addOns: { billing?: object }[] }>(
    "GET",
    "/services/tasker/offer",
    { key },
  );
  expect(offer.body.plans.map(({ name, billing }) => [name, billing])).toEqual([
    ["FREE", undefined],
    ["PRO", { stripe: [{ price: "price_pro", quantity: 1 }] }],
    ["BUSINESS", undefined],
  ]);
  await consume("ada", 200);
  const unlock = await api.call<{ target: { addOns: object }; billing?: object }>(
    "POST",
    "/features/ada/tasker-board/unlock",
    { key, body: { amounts: { "tasker-maxTasks": 200 } } },
  );
  expect(unlock.body.target.addOns).toEqual({ extraTasks: 2 });
  expect(unlock.body.billing).toEqual({
    stripe: [
      { price: "price_pro", quantity: 1 },
      { price: "price_pack", quantity: 1 },
    ],
  });
  const published = `/organizations/${api.callers.organizationId}/public-offer`;
  await api.call("PUT", published, { key: api.callers.owner.key, body: { services: ["Tasker"] } });
  const open = await api.call("GET", `/public-offers/${api.callers.organizationId}/tasker`);
  expect(JSON.stringify(open.body)).not.toContain("price_pro");
});

test("a renamed service keeps its prices and what subscriptions bought", async () => {
  await send("created", {}, at(0));
  const key = api.callers.all.key;
  await api.call("PUT", "/services/Tasker", { key, body: { name: "Jobber" } });
  const updated = await send("updated", BUSINESS, at(0, 1000));
  await api.call("PUT", "/services/Jobber", { key, body: { name: "Tasker" } });
  expect(updated.outcome).toBe("applied");
  expect(await show()).toMatchObject({
    subscriptionPlans: { tasker: "BUSINESS" },
    contractedServices: { tasker: "1.0.0" },
  });
});

test("messages are kept for 90 days", async () => {
  await send("created", {}, at(0));
  expect(await pruneBillingMessages(api.resources.db, at(89))).toBe(0);
  expect(await pruneBillingMessages(api.resources.db, at(91))).toBe(1);
  expect(await messages()).toEqual([]);
});

test("a change by hand lasts until items change, and is warned of; a detached contract moves no more", async () => {
  await send("created", {}, at(0));
  const body = {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "FREE" },
    subscriptionAddOns: {},
  };
  const changed = await api.call("PUT", "/contracts/ada", { key: api.callers.all.key, body });
  expect(changed.headers.get("x-faregate-billing")).toBe("followed");
  expect(await show()).toMatchObject({ subscriptionPlans: { tasker: "FREE" }, billing: { subscription: "sub_1" } });
  await send(
    "updated",
    { start: "2025-07-15T10:00:00Z", end: "2025-08-15T10:00:00Z", created: at(0).getTime() / 1000 },
    at(0, 1000),
  );
  expect(await show()).toMatchObject({
    subscriptionPlans: { tasker: "FREE" },
    billingPeriod: { endDate: "2025-08-15T10:00:00.000Z" },
  });
  await send("updated", BUSINESS, at(0, 2000));
  expect(await show()).toMatchObject({ subscriptionPlans: { tasker: "BUSINESS" } });
  const key = api.callers.all.key;
  expect((await api.call("DELETE", "/contracts/ada/billing", { key: api.callers.management.key })).status).toBe(403);
  expect((await api.call("DELETE", "/contracts/ada/billing", { key })).status).toBe(204);
  expect((await api.call("DELETE", "/contracts/ada/billing", { key })).body).toEqual({
    error: "Contract of user ada follows no subscription",
  });
  expect((await send("updated", {}, at(0, 3000))).outcome).toBe("ignored");
  expect(await show()).toMatchObject({ subscriptionPlans: { tasker: "BUSINESS" } });
  const again = await api.call("PUT", "/contracts/ada", { key, body });
  expect(again.headers.get("x-faregate-billing")).toBeNull();
});

test("a new period changes no usage, and a service that nobody maps stays", async () => {
  const extras = TASKER.replaceAll("Tasker", "Extras");
  await upload(api, api.callers.all.key, extras);
  const both = { contractedServices: { tasker: "1.0.0", extras: "1.0.0" }, subscriptionAddOns: {} };
  await api.call("POST", "/contracts", {
    key: api.callers.all.key,
    body: {
      ...both,
      userContact: { userId: "ada", username: "Ada" },
      subscriptionPlans: { tasker: "FREE", extras: "PRO" },
    },
  });
  await consume("ada", 5);
  await send("created", {}, at(0));
  await send("updated", { start: "2025-07-15T10:00:00Z", end: "2025-08-15T10:00:00Z" }, at(0, 1000));
  expect(await show()).toMatchObject({
    userContact: { username: "Ada" },
    subscriptionPlans: { tasker: "PRO", extras: "PRO" },
    usageLevels: { tasker: { maxTasks: { consumed: 5 } } },
  });
  await connect({});
  await send("created", { id: "sub_2" }, at(0, 2000));
  await send("deleted", { id: "sub_2", status: "canceled" }, at(0, 3000));
  expect((await show())?.contractedServices).toEqual({ extras: "1.0.0" });
});

test("messages of two connections and many users at once leave a contract each", async () => {
  const standard = await connectProvider(api, { prices: { p: PRICES.price_pro } }, "standard");
  const users = Array.from({ length: 12 }, (_, index) => `user-${index % 4}`);
  const answers = await Promise.all(
    users.map((userId, index) =>
      index % 2 === 0
        ? stripe.send(event("created", { id: `sub_${index}`, customer: `cus_${index}`, metadata: { userId } }, at(0)))
        : standard.sendStandard({
            id: `msg_${index}`,
            type: "subscription",
            createdAt: at(0).toISOString(),
            data: {
              subscription: `s_${index}`,
              userId,
              status: "active",
              items: [{ price: "p", quantity: 1 }],
              periodStart: at(0).toISOString(),
              periodEnd: at(30).toISOString(),
              endsAt: null,
            },
          } as { id: string }),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(users.map(() => 200));
  expect(new Set(answers.map(({ body }) => body.outcome))).toEqual(new Set(["applied", "unchanged"]));
  for (const userId of new Set(users))
    expect(await show(userId)).toMatchObject({ subscriptionPlans: { tasker: "PRO" } });
});

test("messages that wait share transactions, and one that is refused or repeated changes nothing for the others", async () => {
  const users = Array.from({ length: 14 }, (_, index) => `shared-${index}`);
  const sent = users.map((userId, index) =>
    event(
      "created",
      {
        id: `sub_${userId}`,
        customer: `cus_${userId}`,
        metadata: { userId },
        // One has an add-on that its plan excludes, one a price of no map.
        ...(index === 3 ? { items: ["price_free", "price_tasks"] } : {}),
        ...(index === 4 ? { items: ["price_new"] } : {}),
      },
      at(0),
      `evt_${userId}`,
    ),
  );
  const repeated = sent[0];
  const moved = event("updated", { id: "sub_shared-1", metadata: { userId: "shared-1" }, ...BUSINESS }, at(0, 2000));
  const answers = await Promise.all(
    [...sent, ...(repeated === undefined ? [] : [repeated]), moved].map((each) => stripe.send(each)),
  );
  const outcomes = answers.map(({ body }) => body.outcome);
  const expected = users.map((_, index) => ({ 3: "failed", 4: "unmapped" })[index] ?? "applied");
  // The two messages of one subscription may arrive in either order.
  expect(outcomes.toSpliced(1, 1)).toEqual([...expected.toSpliced(1, 1), "applied", "applied"]);
  const log = await auditedIn("shared-");
  for (const [index, userId] of users.entries()) {
    const plan = index === 1 ? "BUSINESS" : "PRO";
    const contract = await show(userId);
    if (expected[index] === "applied") expect(contract).toMatchObject({ subscriptionPlans: { tasker: plan } });
    else expect(contract).toBeUndefined();
    const entries = expected[index] === "applied" ? ["contract.create"] : [];
    if (index !== 1) expect(log.filter(({ target }) => target === userId).map(({ action }) => action)).toEqual(entries);
  }
  // Each entry names the request of its message.
  expect(new Set(log.map(({ requestId }) => requestId)).size).toBe(log.length);
  expect(await messages("?limit=100")).toHaveLength(15);
  const [stored] = await api.resources.db.execute<{ transactions: number }>(
    sql`select count(distinct xmin::text)::integer as transactions from billing_messages where subscription like 'sub_shared-%'`,
  );
  expect(stored?.transactions).toBeLessThan(15);
});

test("the periods of the calendar renew from the start: 31 January, 28 February, 31 March, in one event (10)", async () => {
  api.setNow(new Date("2025-01-31T10:00:00.000Z"));
  const key = api.callers.all.key;
  const renewalPeriod = { value: 1, unit: "MONTH" };
  const made = await api.call<Billed>("POST", "/contracts", {
    key,
    body: {
      userContact: { userId: "ada", username: "ada" },
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
      billingPeriod: { autoRenew: true, renewalPeriod },
    },
  });
  expect(made.body.billingPeriod).toMatchObject({
    endDate: "2025-02-28T10:00:00.000Z",
    renewalDays: 28,
    renewalPeriod,
  });
  api.setNow(new Date("2025-03-10T10:00:00.000Z"));
  const renewed = await allEventsDuring(api, () => consume("ada", 1));
  expect(renewed.map(({ code }) => code)).toEqual(["CONTRACT_RENEWED"]);
  expect((await show())?.billingPeriod).toMatchObject({
    startDate: "2025-01-31T10:00:00.000Z",
    endDate: "2025-03-31T10:00:00.000Z",
    renewalDays: 31,
  });
  const days = await api.call<Billed>("PUT", "/contracts/ada/billingPeriod", { key, body: { renewalDays: 10 } });
  expect(days.body.billingPeriod).not.toHaveProperty("renewalPeriod");
  const back = await api.call<Billed>("PUT", "/contracts/ada/billingPeriod", {
    key,
    body: { renewalPeriod: { value: 1, unit: "YEAR" } },
  });
  expect(back.body.billingPeriod).toMatchObject({ endDate: "2026-01-31T10:00:00.000Z", renewalDays: 365 });
  const novated = await api.call<Billed>("PUT", "/contracts/ada", {
    key,
    body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: {} },
  });
  expect(novated.body.billingPeriod).toMatchObject({
    startDate: "2025-03-10T10:00:00.000Z",
    endDate: "2026-03-10T10:00:00.000Z",
    renewalPeriod: { value: 1, unit: "YEAR" },
  });
  const past = await api.call<Billed>("GET", "/contracts/ada?at=2025-03-10T10:00:00.000Z", { key });
  expect(past.status).toBe(200);
});

test("renewalDays is the length of a subscription's month from 28 February to 31 March", async () => {
  const [start, end] = ["2026-02-28T10:00:00Z", "2026-03-31T10:00:00Z"];
  api.setNow(new Date(start));
  expect(await send("created", { start, end }, new Date(start))).toEqual({ outcome: "applied", reason: null });
  expect((await show())?.billingPeriod).toEqual({
    startDate: "2026-02-28T10:00:00.000Z",
    endDate: "2026-03-31T10:00:00.000Z",
    autoRenew: true,
    renewalDays: 31,
    renewalPeriod: { value: 1, unit: "MONTH" },
  });
});

it.each([
  [{ renewalPeriod: { value: 0, unit: "DAY" } }],
  [{ renewalPeriod: { value: 121, unit: "DAY" } }],
  [{ renewalPeriod: { value: 1, unit: "WEEK" } }],
  [{ renewalPeriod: { value: 1.5, unit: "MONTH" } }],
  [{ renewalPeriod: "month" }],
])("a wrong period %j is refused", async (billingPeriod) => {
  const answer = await api.call("POST", "/contracts", {
    key: api.callers.all.key,
    body: {
      userContact: { userId: "ada", username: "ada" },
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
      billingPeriod,
    },
  });
  expect(answer).toMatchObject({
    status: 422,
    body: { error: "billingPeriod.renewalPeriod must have a value from 1 to 120 and the unit DAY, MONTH or YEAR" },
  });
  const both = await api.call("PUT", "/contracts/ada/billingPeriod", {
    key: api.callers.all.key,
    body: { renewalDays: 3, renewalPeriod: { value: 1, unit: "DAY" } },
  });
  expect(both).toMatchObject({
    status: 422,
    body: { error: "billingPeriod takes renewalDays or renewalPeriod, not both" },
  });
});
