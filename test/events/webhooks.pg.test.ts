import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { recordEvents } from "../../src/db/queries/outbox.ts";
import { createPost } from "../../src/entries/platform/webhook-post.ts";
import { claimDeliveries } from "../../src/events/webhook-claims.ts";
import { makeDeliveries, pruneDeliveries } from "../../src/events/webhook-rows.ts";
import { startWebhooks, type Webhooks, type WebhookTimes } from "../../src/events/webhooks.ts";
import { pruneOutbox } from "../../src/events/retention.ts";
import { openApiKey } from "../../src/operations/credentials.ts";
import type { DeliveryView } from "../../src/operations/messaging/deliveries.ts";
import type { WebhookView } from "../../src/operations/messaging/webhooks.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { until } from "./raw-client.ts";
import { openReceiver, type Received, type Receiver } from "./webhook-receiver.ts";

let api: TestApi;
let receiver: Receiver;
const running: Webhooks[] = [];

beforeAll(async () => {
  api = await createTestApi({ settings: { webhookAllowedHosts: ["127.0.0.1"] } });
});
afterAll(() => api.close());
beforeEach(async () => {
  receiver = await openReceiver();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.stop()));
  await receiver.close();
  await api.database.connection.client`delete from webhook_endpoints`;
});

/** Creates a worker like an event server's, with short delays. A request may take as long as on a busy machine. */
function work(times: Partial<WebhookTimes> = {}, allowedHosts = ["127.0.0.1"], timeoutMs = 20_000): Webhooks {
  const worker = startWebhooks({
    db: api.resources.db,
    post: createPost({ allowedHosts, timeoutMs }),
    openSecret: (sealed) => openApiKey(api.resources.keyring, sealed),
    onError: (error) => expect(error).toBeUndefined(),
    times: { pollMs: 20, retryFirstMs: 20, retryMaxMs: 50, attempts: 4, ...times },
  });
  running.push(worker);
  return worker;
}

const key = () => api.callers.all.key;
const add = async (body: object = {}): Promise<WebhookView & { secret: string }> => {
  const answer = await api.call<WebhookView & { secret: string }>("POST", "/webhooks", {
    key: key(),
    body: { url: receiver.url, ...body },
  });
  expect(answer.status).toBe(201);
  return answer.body;
};
const show = async (id: string) => (await api.call<WebhookView>("GET", `/webhooks/${id}`, { key: key() })).body;
const deliveries = async (id: string) =>
  (await api.call<DeliveryView[]>("GET", `/webhooks/${id}/deliveries?limit=100`, { key: key() })).body;

const names = (count: number) => Array.from({ length: count }, (_, i) => `S${i}`);
/** Records an event and notifies the workers, as the feed of an event server does. */
const disable = async (serviceNames: readonly string[], organizationId: string | null = api.callers.organizationId) => {
  const event = (serviceName: string) => ({ code: "SERVICE_DISABLED", details: { serviceName } }) as const;
  await api.database.connection.db.transaction((tx) =>
    recordEvents(
      tx,
      serviceNames.map((serviceName) => ({ organizationId, event: event(serviceName) })),
    ),
  );
  for (const worker of running) worker.wake();
};

it("an event arrives as JSON under the headers of Standard Webhooks, with a signature that its library accepts", async () => {
  const { id, secret } = await add();
  work();
  await disable(["Zoom"]);
  await until(() => receiver.received.length === 1, "the request");
  const { headers = {}, body = "" }: Partial<Received> = receiver.received[0] ?? {};
  expect(headers).toMatchObject({ "content-type": "application/json; charset=utf-8", "user-agent": "faregate" });
  const verified = new Webhook(secret).verify(body, headers as Record<string, string>);
  expect(verified).toEqual({
    type: "SERVICE_DISABLED",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    id: expect.any(Number),
    data: { serviceName: "Zoom" },
  });
  const [logged] = await until2(
    () => deliveries(id),
    ([one]) => one?.status === "delivered",
  );
  expect(logged).toMatchObject({ attempts: 1, responseStatus: 204, error: null, webhookId: headers["webhook-id"] });
  expect(() => new Webhook("whsec_AAAA").verify(body, headers as Record<string, string>)).toThrow(
    "No matching signature",
  );
});

/** Polls until the answer matches. */
async function until2<T>(ask: () => Promise<T>, wished: (answer: T) => boolean): Promise<T> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    const answer = await ask();
    if (wished(answer)) return answer;
    if (Date.now() > deadline) throw new Error(`waited in vain; at last there was ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

it("an endpoint gets its own organization's events with the codes it chose, from its creation on", async () => {
  await disable(["before"]);
  await add({ codes: ["PRICING_CREATED"] });
  const all = await openReceiver();
  await add({ url: all.url });
  await disable(["theirs"], "ffffffffffffffffffffffff");
  await disable(["instance"], null);
  await disable(["mine"]);
  await api.database.connection.db.transaction((tx) =>
    recordEvents(tx, [
      {
        organizationId: api.callers.organizationId,
        event: { code: "PRICING_CREATED", details: { serviceName: "Zoom", pricingVersion: "1" } },
      },
    ]),
  );
  work();
  await until(() => all.received.length === 2 && receiver.received.length === 1, "the requests");
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(all.received.map(({ body }) => JSON.parse(body).data.serviceName).sort()).toEqual(["Zoom", "mine"]);
  expect(receiver.received.map(({ body }) => JSON.parse(body).type)).toEqual(["PRICING_CREATED"]);
  await all.close();
});

it("an endpoint that is created disabled gets the events from when it is enabled on", async () => {
  const { id, state } = await add({ enabled: false });
  expect(state).toBe("disabled");
  await disable(["before"]);
  await api.call("PUT", `/webhooks/${id}`, { key: key(), body: { enabled: true } });
  await disable(["after"]);
  // Only now is there a worker, which reads both.
  work();
  await until(() => receiver.received.length > 0, "the request");
  expect(receiver.received.map(({ body }) => JSON.parse(body).data.serviceName)).toEqual(["after"]);
});

it("what fails is tried again, later and later, with the same id and body, and then given up and sent again on demand", async () => {
  const { id } = await add();
  receiver.answer = () => ({ status: 500 });
  work({ retryFirstMs: 60, retryMaxMs: 1000 });
  await disable(["Zoom"]);
  const [failed] = await until2(
    () => deliveries(id),
    ([one]) => one?.status === "failed",
  );
  expect(failed).toMatchObject({
    attempts: 4,
    responseStatus: 500,
    error: "The endpoint answered 500",
    nextAttemptAt: null,
  });
  const { received } = receiver;
  expect(received).toHaveLength(4);
  expect(new Set(received.map(({ headers, body }) => `${headers["webhook-id"]} ${body}`)).size).toBe(1);
  const pauses = received.slice(1).map(({ at }, i) => at - (received[i]?.at ?? 0));
  for (const [i, least] of [48, 192, 768].entries()) expect(pauses[i]).toBeGreaterThanOrEqual(least);
  await until2(
    () => show(id),
    ({ state, failures }) => state === "enabled" && failures === 4,
  );

  receiver.answer = () => ({ status: 200 });
  const resent = await api.call("POST", `/webhooks/${id}/deliveries/${failed?.id}/resend`, { key: key() });
  expect(resent).toMatchObject({ status: 202, body: { status: "pending", webhookId: failed?.webhookId } });
  await until(() => received.length === 5, "the request");
  expect(received[4]?.headers["webhook-id"]).toBe(failed?.webhookId);
  await until2(
    () => show(id),
    ({ failures }) => failures === 0,
  );
});

it("no answer, no connection, a redirect, and a wish to wait are failures that the log tells apart", async () => {
  const { id } = await add();
  const expected = ["No answer within 0.5 s", "The endpoint answered 302", "The endpoint answered 503"];
  let turn = 0;
  receiver.answer = () =>
    [undefined, { status: 302, headers: { location: receiver.url } }, { status: 503, headers: { "retry-after": "1" } }][
      turn
    ];
  work({ retryFirstMs: 100, retryMaxMs: 1000, attempts: 100 }, ["127.0.0.1"], 500);
  await disable(["Zoom"]);
  const errors = new Set<string>();
  const [waits] = await until2(
    () => deliveries(id),
    ([one]) => {
      if (one?.error != null) errors.add(one.error);
      // Each is answered until the log has shown it.
      if (one?.error === expected[turn]) turn += 1;
      return turn === expected.length;
    },
  );
  expect([...errors]).toEqual(expected);
  expect(Date.parse(String(waits?.nextAttemptAt)) - Date.parse(String(waits?.lastAttemptAt))).toBeGreaterThanOrEqual(
    900,
  );
  await receiver.close();
  await until2(
    () => deliveries(id),
    ([one]) => one?.error?.includes("ECONNREFUSED") === true,
  );
});

it("an endpoint where nothing arrives any more is suspended, visibly, until it is enabled again; what waited then goes out", async () => {
  const { id } = await add();
  receiver.answer = () => ({ status: 500 });
  work({ suspendAfter: 5, suspendOverMs: 100, attempts: 50 });
  await disable(["one", "two"]);
  const suspended = await until2(
    () => show(id),
    ({ state }) => state === "suspended",
  );
  expect(suspended.suspendedReason).toBe(
    "5 or more attempts in a row failed, the last with: The endpoint answered 500",
  );
  expect(suspended.suspendedAt).not.toBeNull();
  // For what was in flight.
  await new Promise((resolve) => setTimeout(resolve, 500));
  const before = receiver.received.length;
  await disable(["three"]);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(receiver.received).toHaveLength(before);
  const [waiting] = await deliveries(id);
  const resend = await api.call("POST", `/webhooks/${id}/deliveries/${waiting?.id}/resend`, { key: key() });
  expect(resend).toMatchObject({ status: 409, body: { error: "CONFLICT: The webhook is suspended: enable it first" } });

  receiver.answer = () => ({ status: 200 });
  await api.call("PUT", `/webhooks/${id}`, { key: key(), body: { enabled: true } });
  await until(() => receiver.received.length === before + 2, "what waited");
  expect(await show(id)).toMatchObject({ state: "enabled", suspendedReason: null, suspendedAt: null });
});

it("an endpoint that answers 410 is suspended at once", async () => {
  const { id } = await add();
  receiver.answer = () => ({ status: 410 });
  work();
  await disable(["Zoom"]);
  const { suspendedReason } = await until2(
    () => show(id),
    ({ state }) => state === "suspended",
  );
  expect(suspendedReason).toBe("The endpoint answered 410: it is gone");
  expect(receiver.received).toHaveLength(1);
});

it("after a rotation both secrets sign, the old one for a day", async () => {
  const { id, secret } = await add();
  const rotated = await api.call<{ secret: string }>("POST", `/webhooks/${id}/secret`, { key: key() });
  expect(rotated.body.secret).not.toBe(secret);
  // The server's clock is in the past, the database's is not.
  await api.database.connection.client`update webhook_endpoints set previous_secret_until = now() + interval '1 hour'`;
  work();
  await disable(["one"]);
  await until(() => receiver.received.length === 1, "the request");
  await api.database.connection.client`update webhook_endpoints set previous_secret_until = now()`;
  await disable(["two"]);
  await until(() => receiver.received.length === 2, "the second request");
  const [first, second] = receiver.received;
  const verify = (by: string, one: typeof first) => new Webhook(by).verify(one?.body ?? "", one?.headers as never);
  for (const by of [secret, rotated.body.secret]) expect(verify(by, first)).toBeTruthy();
  expect(verify(rotated.body.secret, second)).toBeTruthy();
  expect(() => verify(secret, second)).toThrow("No matching signature");
});

it.each([
  ["https://127.0.0.1/", "127.0.0.1 is not an address of the public internet"],
  ["https://[::1]/", "::1 is not an address of the public internet"],
  ["https://169.254.169.254/latest/meta-data", "169.254.169.254 is not an address of the public internet"],
  ["https://0x7f.1/", "127.0.0.1 is not an address of the public internet"],
  ["https://localhost/", "Invalid URL: localhost is not an address of the public internet"],
])("nothing is sent to %s: the log says why", async (url, error) => {
  const { id } = await add({ url });
  work({ attempts: 1 }, []);
  await disable(["Zoom"]);
  const [failed] = await until2(
    () => deliveries(id),
    ([one]) => one?.status === "failed",
  );
  expect(failed).toMatchObject({ error, responseStatus: null });
});

it("several processes share the work: every delivery is sent once, by more than one of them", async () => {
  const { id } = await add();
  // An answer that a busy machine delays is no failure.
  for (let i = 0; i < 3; i += 1) work({}, ["127.0.0.1"], 120_000);
  for (let turn = 0; turn < 10; turn += 1) {
    await disable(names(20));
  }
  await until(() => receiver.received.length >= 200, "two hundred requests", 60_000);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  expect(ids).toHaveLength(200);
  expect(new Set(ids).size).toBe(200);
  const [counted] = await api.database.connection.client`
    select count(*)::int as all, count(*) filter (where status = 'delivered' and attempts = 1)::int as once
    from webhook_deliveries where endpoint_id = ${id}`;
  expect(counted).toEqual({ all: 200, once: 200 });
});

it("two who claim at the same moment never get the same delivery, and what a dead one had taken is due after its lease", async () => {
  await add();
  for (let i = 0; i < 9; i += 1) await add({ url: `${receiver.url}/${i}` });
  await disable(names(4));
  while ((await makeDeliveries(api.resources.db)) === undefined);
  const claims = await Promise.all(
    Array.from({ length: 4 }, () => claimDeliveries(api.resources.db, { limit: 10, busy: [] })),
  );
  const taken = claims.flat().map((claim) => claim.id);
  expect(taken.length).toBeGreaterThan(10);
  expect(new Set(taken).size).toBe(taken.length);
  const left = await claimDeliveries(api.resources.db, { limit: 100, busy: [] });
  expect(left.length + taken.length).toBe(40);
  expect(await claimDeliveries(api.resources.db, { limit: 100, busy: [] })).toEqual([]);
  await api.database.connection
    .client`update webhook_deliveries set next_attempt_at = next_attempt_at - interval '31 s'`;
  const again = await claimDeliveries(api.resources.db, { limit: 100, busy: [] });
  expect(again).toHaveLength(40);
  expect(new Set(again.map((claim) => claim.attempt))).toEqual(new Set([2]));
});

it("an endpoint that hangs does not hold up the others", async () => {
  const hanging = await openReceiver();
  hanging.answer = () => undefined;
  await add({ url: hanging.url });
  await add();
  // No request that hangs ends before the test does.
  work({ attempts: 2 }, ["127.0.0.1"], 120_000);
  await disable(names(50));
  await until(() => receiver.received.length === 50, "everything at the healthy one", 20_000);
  await hanging.close();
});

it("the log is bounded, and events that have not become deliveries are not pruned", async () => {
  const { id } = await add();
  await disable(names(30));
  await api.database.connection.client`update outbox set created_at = now() - interval '30 days'`;
  const before = await pruneOutbox(api.resources.db, new Date(), { days: 7, keepEvents: 0 });
  const [kept] = await api.database.connection.client`select count(*)::int as n from outbox`;
  expect(kept?.["n"]).toBe(30);
  expect(before).toBeGreaterThan(0);
  work();
  await until2(
    () => deliveries(id),
    (all) => all.length === 30 && all.every(({ status }) => status === "delivered"),
  );
  expect(await pruneOutbox(api.resources.db, new Date(), { days: 7, keepEvents: 0 })).toBe(30);
  await pruneDeliveries(api.resources.db, { days: 7, keep: 10 });
  const left = await deliveries(id);
  expect(left).toHaveLength(10);
  await api.database.connection.client`update webhook_deliveries set created_at = now() - interval '8 days'`;
  await pruneDeliveries(api.resources.db, { days: 7, keep: 10 });
  expect(await deliveries(id)).toEqual([]);
});
