import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, expect, it, test, vi } from "vitest";
import { createApp } from "../../src/http/app.ts";
import type { ConnectionView } from "../../src/operations/billing/connections.ts";
import type { MessageView } from "../../src/operations/billing/messages.ts";
import { createMessageQueue } from "../../src/operations/state/message-queue.ts";
import { createTestApi, type TestApi, type TestOrganization, type TestUser } from "../support/api.ts";
import {
  connectProvider,
  eventOf,
  PRICES,
  seconds,
  signStripe,
  STRIPE_SECRET,
  subscriptionOf,
  type TestConnection,
} from "../support/billing.ts";
import { type ContractBody, upload } from "../support/contracting.ts";
import { type Statement, statementPrototype } from "../support/driver-statements.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Connections, messages and their effects. Numbers of cases are those of the contract's chapter on billing. */

const TASKER = readFileSync("src/samples/tasker.yml", "utf8");
type Billed = ContractBody & {
  billing?: object;
  scheduled?: { at: string; subscriptionPlans: object };
  billingPeriod: { renewalPeriod?: object };
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
const later = (days: number, milliseconds = 0) => new Date(START.getTime() + days * DAY_MS + milliseconds);
beforeEach(async () => {
  api.setNow(START);
  await api.call("DELETE", "/contracts", { key: api.callers.all.key });
  const path = `/organizations/${api.callers.organizationId}/billing/stripe`;
  await api.call("DELETE", path, { key: api.callers.owner.key });
  stripe = await connectProvider(api);
});

const show = async (userId = "ada") => {
  const { body, status } = await api.call<Billed>("GET", `/contracts/${userId}`, { key: api.callers.all.key });
  return status === 404 ? undefined : body;
};
const path = (tail = "") => `/organizations/${api.callers.organizationId}/billing/stripe${tail}`;
const asOwner = <T>(method: "GET" | "PUT" | "POST" | "DELETE", tail = "", body?: object) =>
  api.call<T>(method, path(tail), { key: api.callers.owner.key, ...(body === undefined ? {} : { body }) });

test("a message that finds the queue full is refused with a moment to try again, and applied when it is repeated", async () => {
  const { messages } = api.resources;
  const queue = createMessageQueue({ concurrency: 1, maxWaiting: 0 });
  api.resources.messages = queue;
  let finish = () => {};
  const other = queue.run(
    "another connection",
    null,
    () => new Promise<null[]>((resolve) => (finish = () => resolve([null]))),
  );
  const event = eventOf("customer.subscription.created", subscriptionOf(), START);
  const refused = await stripe.send(event);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
  expect(await show()).toBeUndefined();
  finish();
  await other;
  expect((await stripe.send(event)).body).toEqual({ outcome: "applied", reason: null });
  api.resources.messages = messages;
});

test("a connection is created, shown, replaced and deleted; its secret is in no answer", async () => {
  await asOwner("DELETE");
  expect((await asOwner("GET")).body).toEqual({ error: "The organization has no connection to stripe" });
  const none = await api.call("GET", path().replace("/stripe", ""), { key: api.callers.owner.key });
  expect(none.body).toEqual([]);
  const body = { secret: STRIPE_SECRET, prices: { price_pro: { service: "Tasker", plan: "PRO" } } };
  const created = await asOwner<ConnectionView>("PUT", "", body);
  expect(created.status).toBe(201);
  expect(created.body).toMatchObject({
    provider: "stripe",
    secret: "whsec_…ghij",
    userId: "metadata.userId",
    ended: {},
    graceDays: 7,
    previousSecretUntil: null,
  });
  expect(created.body.problems.map(({ message }) => message)).toEqual([
    "Plan BUSINESS of Tasker has a price and no price id",
    "Add-on extraTasks of Tasker has a price and no price id",
  ]);
  expect((await asOwner("GET")).body).toEqual(created.body);
  const all = `/organizations/${api.callers.organizationId}/billing`;
  expect((await api.call("GET", all, { key: api.callers.owner.key })).body).toEqual([created.body]);
  const replaced = await asOwner<ConnectionView>("PUT", "", {
    prices: PRICES,
    graceDays: 3,
    ended: { Tasker: "FREE" },
  });
  expect(replaced).toMatchObject({ status: 200, body: { graceDays: 3, ended: { tasker: "FREE" }, problems: [] } });
  expect(replaced.body.secret).toBe("whsec_…ghij");
  expect((await asOwner("DELETE")).status).toBe(204);
  expect((await asOwner("GET")).status).toBe(404);
  const audited = await api.call<unknown[]>("GET", `/organizations/${api.callers.organizationId}/audit-log`, {
    key: api.callers.owner.key,
  });
  for (const text of [JSON.stringify(created.body), JSON.stringify(audited.body), JSON.stringify(api.logged)]) {
    expect(text).not.toContain(STRIPE_SECRET.slice(6, 18));
  }
  expect(JSON.stringify(audited.body)).toContain("billing.connect");
});

test("a connection's address is the one that the proxy was asked for", async () => {
  const settings = { allowedOrigins: [], baseUrlPath: "", trustedProxies: 1 };
  const app = createApp({ open: () => api.resources, settings });
  const headers = {
    "x-api-key": api.callers.owner.key,
    "x-forwarded-proto": "https",
    "x-forwarded-host": "pay.example",
  };
  const answer = await app.request(`/api/v1${path()}`, { headers });
  expect(await answer.json()).toMatchObject({ url: `https://pay.example/api/v1/billing/${stripe.id}` });
});

test("a replaced secret is accepted for a day", async () => {
  await asOwner("PUT", "", { secret: "whsec_another_secret", prices: PRICES });
  const event = () => eventOf("customer.subscription.created", subscriptionOf(), api.resources.now());
  expect((await stripe.send(event())).status).toBe(200);
  expect((await stripe.send(event(), "whsec_another_secret")).status).toBe(200);
  api.setNow(later(1, 1));
  expect((await stripe.send(event())).status).toBe(400);
  expect((await stripe.send(event(), "whsec_another_secret")).status).toBe(200);
});

it.each([
  [{}, "The prices field is required"],
  [{ secret: "sk_live_1" }, "The secret field must be a text of 7 to 255 characters that begins with whsec_"],
  [{ secret: STRIPE_SECRET }, "The prices field is required"],
  [{ secret: STRIPE_SECRET, prices: [] }, "The prices field must be an object"],
  [
    { secret: STRIPE_SECRET, prices: { price_1: { service: "Tasker" } } },
    "Each value in prices must be {service, plan}, {service, addOn, quantity} or {service, limit, amount, expiresInDays}",
  ],
  [
    {
      secret: STRIPE_SECRET,
      prices: Object.fromEntries(Array.from({ length: 501 }, (_, i) => [`p${i}`, PRICES.price_pro])),
    },
    "The prices field must not have more than 500 entries",
  ],
  [
    { secret: STRIPE_SECRET, prices: {}, userId: "email" },
    "The userId field must be metadata.<key>, customer or client_reference_id",
  ],
  [
    { secret: STRIPE_SECRET, prices: {}, ended: { tasker: 1 } },
    "The ended field must be an object where keys are service names and values are plan names or null",
  ],
  [{ secret: STRIPE_SECRET, prices: {}, graceDays: 61 }, "The graceDays field must be a whole number from 0 to 60"],
  [{ secret: STRIPE_SECRET, prices: {}, price: 1 }, "Unknown field: price"],
  ["[]", "The body must be an object"],
])("a wrong connection %j is refused", async (body, error) => {
  await asOwner("DELETE");
  const answer = await api.call("PUT", path(), { key: api.callers.owner.key, body });
  expect(answer).toMatchObject({ status: 422, body: { error } });
});

test("a connection without a secret is only changed, and one of Standard Webhooks has a key in base64", async () => {
  await asOwner("DELETE");
  expect((await asOwner("PUT", "", { prices: {} })).body).toEqual({ error: "The secret field is required" });
  const standard = `/organizations/${api.callers.organizationId}/billing/standard`;
  const answer = await api.call("PUT", standard, {
    key: api.callers.owner.key,
    body: { secret: "whsec_!", prices: {} },
  });
  expect(answer).toMatchObject({ status: 422, body: { error: "The secret field must be whsec_ and a key in base64" } });
  const other = await api.call("GET", `/organizations/${api.callers.organizationId}/billing/paddle`, {
    key: api.callers.owner.key,
  });
  expect(other.body["error"]).toMatch(/^Cannot GET \/api\/v1\/organizations\/.*\/billing\/paddle$/);
});

test("members see a connection by their roles, and nobody else finds it (11)", async () => {
  const { owner, organizationAdmin, manager, evaluator, outsider, platformAdmin, all } = api.callers;
  const statuses = async (method: "GET" | "PUT" | "DELETE", callers: readonly { key: string }[]) => {
    const answers = [];
    for (const { key } of callers) {
      const body = method === "PUT" ? { body: { secret: STRIPE_SECRET, prices: PRICES } } : {};
      answers.push((await api.call(method, path(), { key, ...body })).status);
    }
    return answers;
  };
  const everybody = [owner, organizationAdmin, manager, evaluator, outsider, platformAdmin, all];
  expect(await statuses("GET", everybody)).toEqual([200, 200, 200, 403, 404, 200, 403]);
  expect(await statuses("PUT", everybody)).toEqual([200, 200, 403, 403, 404, 200, 403]);
  for (const tail of ["", "/messages"]) {
    const hidden = await api.call("GET", path(tail), { key: outsider.key });
    expect(hidden.body).toEqual({ error: `Organization with ID ${api.callers.organizationId} not found` });
    expect((await api.call("GET", path().replace("/stripe", ""), { key: outsider.key })).body).toEqual(hidden.body);
  }
  const replay = await api.call("POST", path("/messages/evt_1/replay"), { key: outsider.key });
  expect(replay.status).toBe(404);
  const others: TestUser = await api.newUser();
  const theirs: TestOrganization = await api.newOrganization(others);
  await stripe.send(eventOf("customer.subscription.created", subscriptionOf(), START, "evt_theirs"));
  const at = `/organizations/${theirs.id}/billing/stripe`;
  await api.call("PUT", at, { key: others.key, body: { secret: STRIPE_SECRET, prices: PRICES } });
  expect((await api.call<{ data: [] }>("GET", `${at}/messages`, { key: others.key })).body.data).toEqual([]);
  const foreign = await api.call("POST", `${at}/messages/evt_theirs/replay`, { key: others.key });
  expect(foreign).toMatchObject({ status: 404, body: { error: "Message evt_theirs not found" } });
});

test("a wrong, foreign or old signature is refused, and the second of two may fit (7)", async () => {
  const body = JSON.stringify(eventOf("customer.subscription.created", subscriptionOf(), START));
  const post = (text: string, signature?: string) =>
    api.call("POST", `/billing/${stripe.id}`, {
      body: text,
      headers: signature === undefined ? {} : { "stripe-signature": signature },
    });
  const right = await signStripe(body, START);
  const refused = { status: 400, body: { error: "The signature is not valid" } };
  expect(await post(body.replace("evt_", "evt-"), right)).toMatchObject(refused);
  expect(await post(body, await signStripe(body, START, "whsec_other"))).toMatchObject(refused);
  expect(await post(body)).toMatchObject(refused);
  expect(await post(body, "t=1,v1=zz")).toMatchObject(refused);
  api.setNow(later(0, 301_000));
  expect(await post(body, right)).toMatchObject(refused);
  expect((await asOwner<{ data: [] }>("GET", "/messages")).body.data).toEqual([]);
  api.setNow(later(0, 299_000));
  const [time, v1] = right.split(",");
  expect((await post(body, `${time},v1=${"0".repeat(64)},${v1}`)).status).toBe(200);
  const unknown = await api.call("POST", `/billing/${"0".repeat(24)}`, { body });
  expect(unknown).toMatchObject({ status: 404 });
});

test("a message with a text that cannot be stored fails alone", async () => {
  const unstorable = /contains a character that cannot be stored$/;
  const standard = await connectProvider(
    api,
    { prices: { block: { service: "Tasker", limit: "tasker-tasks", amount: 5 } } },
    "standard",
  );
  for (const bad of ["a\u0000b", "\ud800"]) {
    const sent = [
      eventOf("customer.subscription.created", subscriptionOf({ id: bad }), START),
      eventOf("customer.subscription.created", subscriptionOf({ metadata: { userId: bad } }), START),
      eventOf("customer.subscription.created", subscriptionOf({ items: [bad] }), START),
      eventOf("customer.subscription.created", subscriptionOf(), START, bad),
      eventOf(bad as never, subscriptionOf(), START),
      eventOf("charge.refunded", { payment_intent: bad, refunded: true }, START),
    ];
    for (const event of sent) {
      const answer = await stripe.send(event);
      expect([answer.status, answer.body]).toEqual([
        200,
        { outcome: "failed", reason: expect.stringMatching(unstorable) },
      ]);
    }
    const refund = { id: `msg ${sent.length}`, type: "refund", createdAt: START, data: { payment: bad } };
    expect((await standard.sendStandard(refund as never)).body.outcome).toBe("failed");
  }
  // Stored messages are searched by each payment.
  const data = { payment: "p", userId: "ada", price: "block", quantity: 1 };
  const paid = await standard.sendStandard({ id: "paid", type: "payment", createdAt: START, data } as never);
  expect([paid.status, paid.body]).toEqual([
    200,
    { outcome: "failed", reason: expect.stringMatching(/^Contract .*not found/) },
  ]);
});

test("a message without a price is refused by the name of the field", async () => {
  const standard = await connectProvider(api, { prices: {} }, "standard");
  const send = async (id: string, type: string, data: object) =>
    (await standard.sendStandard({ id, type, createdAt: START, data } as never)).body;
  const rule = "must be a text of 1 to 255 characters";
  const subscription = {
    subscription: "s",
    userId: "ada",
    status: "active",
    periodStart: START,
    periodEnd: new Date(START.getTime() + 86_400_000),
  };
  for (const [index, item] of [{ price: null }, {}, 7, { price: "x".repeat(256) }].entries()) {
    const bought = { ...subscription, items: [{ price: "other" }, item] };
    expect(await send(`priceless ${index}`, "subscription", bought)).toEqual({
      outcome: "failed",
      reason: `items[1].price ${rule}`,
    });
  }
  expect(await send("priceless payment", "payment", { payment: "p", userId: "ada", price: null })).toEqual({
    outcome: "failed",
    reason: `The price of a payment ${rule}`,
  });
});

test("a message to a connection that is deleted meanwhile finds none", async () => {
  const { client } = api.database.connection;
  let sent: ReturnType<TestConnection["send"]> | undefined;
  await client.begin(async (tx) => {
    await tx`delete from billing_connections where id = ${stripe.id}`;
    sent = stripe.send(eventOf("customer.subscription.created", subscriptionOf(), START));
    await expect
      .poll(
        () => client`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      .toHaveLength(1);
  });
  const answer = await sent;
  expect([answer?.status, answer?.body]).toEqual([404, { error: `Billing connection ${stripe.id} not found` }]);
  expect(await show()).toBeUndefined();
});

test("a connection that is deleted waits for a message in flight, and cancels what it schedules", async () => {
  const { client } = api.database.connection;
  const waits = async (count: number) => {
    await expect
      .poll(
        () => client`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      .toHaveLength(count);
  };
  await asOwner("PUT", "", { prices: PRICES, ended: { tasker: "FREE" } });
  const { asked } = await client.begin(async (tx) => {
    await tx`select 1 from services for update`;
    const cancelled = subscriptionOf({ cancel_at: seconds(START) + 3600 });
    const sent = stripe.send(eventOf("customer.subscription.created", cancelled, START));
    await waits(1);
    const deleted = asOwner("DELETE");
    await waits(2);
    return { asked: [sent, deleted] };
  });
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 204]);
  const contract = await show();
  expect(contract).toMatchObject({ subscriptionPlans: { tasker: "PRO" } });
  expect([contract?.billing, contract?.scheduled]).toEqual([undefined, undefined]);
});

test("a subscription creates, moves and ends a contract", async () => {
  const at = (hours: number) => new Date(START.getTime() + hours * 3_600_000);
  api.setNow(at(1));
  const created = await allEventsDuring(api, async () => {
    const { body } = await stripe.send(eventOf("customer.subscription.created", subscriptionOf(), START, "evt_a"));
    expect(body).toEqual({ outcome: "applied", reason: null });
  });
  expect(created.map(({ code }) => code)).toEqual(["CONTRACT_CREATED"]);
  expect(created[0]?.details).toMatchObject({
    billing: { provider: "stripe", subscription: "sub_1", message: "evt_a" },
  });
  expect(await show()).toMatchObject({
    userContact: { userId: "ada", username: "ada" },
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    billingPeriod: {
      startDate: "2025-06-15T10:00:00.000Z",
      endDate: "2025-07-15T10:00:00.000Z",
      autoRenew: true,
      renewalDays: 30,
      renewalPeriod: { value: 1, unit: "MONTH" },
    },
    billing: {
      provider: "stripe",
      subscription: "sub_1",
      customer: "cus_1",
      status: "active",
      since: START.toISOString(),
    },
  });
  const items = ["price_business", { price: "price_tasks", quantity: 2 }];
  const updated = eventOf("customer.subscription.updated", subscriptionOf({ items }), at(1));
  expect((await stripe.send(updated)).body).toEqual({ outcome: "applied", reason: null });
  expect((await stripe.send(updated)).body).toEqual({ outcome: "applied", reason: null });
  const novated = await show();
  expect(novated).toMatchObject({
    subscriptionPlans: { tasker: "BUSINESS" },
    subscriptionAddOns: { tasker: { extraTasks: 2 } },
  });
  expect(novated?.history).toHaveLength(1);
  const deleted = subscriptionOf({ items, status: "canceled", ended_at: at(1).getTime() / 1000 });
  expect((await stripe.send(eventOf("customer.subscription.deleted", deleted, at(1)))).body.outcome).toBe("applied");
  const ended = await show();
  expect(ended).toMatchObject({ billingPeriod: { endDate: at(1).toISOString(), autoRenew: false } });
  expect(ended?.billing).toBeUndefined();
  const { body } = await asOwner<{ data: MessageView[] }>("GET", "/messages?user=ada");
  expect(body.data.map(({ type, outcome }) => [type.split(".").at(-1), outcome])).toEqual([
    ["deleted", "applied"],
    ["updated", "applied"],
    ["created", "applied"],
  ]);
});

test("messages that arrive together share the look-up of their connection, and let requests go first between their contracts", async () => {
  const { handle } = statementPrototype;
  let turn = 0;
  const sent = new Map<object, { text: string; turn: number }>();
  const spy = vi.spyOn(statementPrototype, "handle").mockImplementation(function (this: Statement) {
    if (!sent.has(this)) sent.set(this, { text: this.strings.join("").trim(), turn });
    return handle.call(this);
  });
  let isOver = false;
  const count = () => {
    turn += 1;
    if (!isOver) setImmediate(count);
  };
  count();
  const users = Array.from({ length: 6 }, (_, i) => `user-${i}`);
  const answers = await Promise.all(
    users.map((userId) => {
      const fields = { id: `sub_${userId}`, customer: `cus_${userId}`, metadata: { userId } };
      return stripe.send(eventOf("customer.subscription.created", subscriptionOf(fields), START));
    }),
  );
  isOver = true;
  spy.mockRestore();
  expect(answers.map(({ body }) => body.outcome)).toEqual(users.map(() => "applied"));
  const turnsOf = (pattern: RegExp) =>
    [...sent.values()].flatMap((each) => (pattern.test(each.text) ? [each.turn] : []));
  expect(turnsOf(/^select .* from "billing_connections"/).length).toBeLessThan(users.length);
  const created = turnsOf(/^insert into contracts /);
  expect(created).toHaveLength(users.length);
  expect(new Set(created).size).toBe(users.length);
});

test("an author of audit entries is the connection", async () => {
  await stripe.send(eventOf("customer.subscription.created", subscriptionOf(), START));
  const log = await api.call<{ data: { action: string; actor: object }[] }>(
    "GET",
    `/organizations/${api.callers.organizationId}/audit-log?action=contract.create`,
    { key: api.callers.owner.key },
  );
  expect(log.body.data[0]?.actor).toEqual({ kind: "billing", id: stripe.id, name: "stripe" });
});
