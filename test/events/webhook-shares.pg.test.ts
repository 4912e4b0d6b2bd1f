import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { recordEvents } from "../../src/db/queries/outbox.ts";
import { createPost } from "../../src/entries/platform/webhook-post.ts";
import { startWebhooks, type Webhooks } from "../../src/events/webhooks.ts";
import { openApiKey } from "../../src/operations/credentials.ts";
import { createTestApi, type TestApi, type TestUser } from "../support/api.ts";
import { until } from "./raw-client.ts";
import { openReceiver, type Receiver } from "./webhook-receiver.ts";

/* Real receivers, some of which never answer. No request that hangs ends, and frees its place, before its test does. */

let api: TestApi;
const workers: Webhooks[] = [];
const receivers: Receiver[] = [];
beforeAll(async () => {
  api = await createTestApi({ settings: { webhookAllowedHosts: ["127.0.0.1"] } });
});
afterEach(async () => {
  // Aborts hanging requests, so that stopping the workers does not wait for them.
  await Promise.all(receivers.splice(0).map((receiver) => receiver.close()));
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
  await api.database.connection.client`delete from webhook_endpoints`;
});
afterAll(() => api.close());

const work = () => {
  const worker = startWebhooks({
    db: api.resources.db,
    post: createPost({ allowedHosts: ["127.0.0.1"], timeoutMs: 120_000 }),
    openSecret: (sealed) => openApiKey(api.resources.keyring, sealed),
    onError: (error) => expect(error).toBeUndefined(),
    times: { pollMs: 50 },
  });
  workers.push(worker);
};
const receive = async (answers: boolean): Promise<Receiver> => {
  const receiver = await openReceiver();
  if (!answers) receiver.answer = () => undefined;
  receivers.push(receiver);
  return receiver;
};
/**
 * Creates an organization of this user with this many webhooks at the receiver, which can tell the organizations apart.
 */
const add = async (owner: TestUser, { url }: Receiver, count: number): Promise<string> => {
  const { id, key } = await api.newOrganization(owner);
  for (let i = 0; i < count; i += 1) {
    const made = await api.call("POST", "/webhooks", { key, body: { url: `${url}/${i}?${id}` } });
    expect(made.status).toBe(201);
  }
  return id;
};
const disable = async (organizationIds: readonly string[], count: number) => {
  const event = { code: "SERVICE_DISABLED", details: { serviceName: "Zoom" } } as const;
  const of = (organizationId: string) => Array.from({ length: count }, () => ({ organizationId, event }));
  await api.database.connection.db.transaction((tx) => recordEvents(tx, organizationIds.flatMap(of)));
  for (const worker of workers) worker.wake();
};
/** Number of finished attempts. */
const settled = async () =>
  (
    await api.database.connection.client`
      select count(*)::int as n from webhook_deliveries where status <> 'pending' or duration_ms is not null`
  )[0]?.["n"] as number;
/** Waits until a receiver gets no more requests, and returns their number. */
const atRest = async ({ received }: Receiver): Promise<number> => {
  for (;;) {
    const before = received.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    if (received.length === before && before > 0) return before;
  }
};

it("sixty receivers of one account that never answer hold a quarter of the places, and delay nobody else", async () => {
  const hostile = await api.newUser();
  const hanging = await receive(false);
  const organizations = await Promise.all([1, 2, 3].map(() => add(hostile, hanging, 20)));
  const healthy = await receive(true);
  const tenant = await add(await api.newUser(), healthy, 2);
  work();
  await disable(organizations, 10);
  await until(() => hanging.received.length >= 16, "the hostile account's requests");
  expect(await atRest(hanging)).toBe(16);
  await disable([tenant], 5);
  await until(() => healthy.received.length === 10, "the other tenant's deliveries");
  // Measured: the ten arrive 53 to 159 ms after their events, where 2 s are promised.
  // The hostile account's requests were in flight all the time: none had timed out and freed its place.
  expect(await settled()).toBeLessThanOrEqual(10);
  expect(hanging.received).toHaveLength(16);
});

it("accounts that hang together leave half of the places to accounts that have nothing in flight", async () => {
  const hanging = await receive(false);
  const hostile = await Promise.all([1, 2, 3, 4].map(async () => add(await api.newUser(), hanging, 20)));
  const healthy = await receive(true);
  const tenants = await Promise.all([1, 2, 3, 4].map(async () => add(await api.newUser(), healthy, 1)));
  work();
  await disable(hostile, 10);
  expect(await atRest(hanging)).toBeLessThanOrEqual(36);
  await disable(tenants, 5);
  await until(() => healthy.received.length === 20, "the other tenants' deliveries");
  expect(await settled()).toBeLessThanOrEqual(20);
});

it("two processes over one database: neither is filled by one account", async () => {
  const hostile = await api.newUser();
  const hanging = await receive(false);
  const organizations = await Promise.all([1, 2, 3].map(() => add(hostile, hanging, 20)));
  const healthy = await receive(true);
  const tenant = await add(await api.newUser(), healthy, 1);
  work();
  work();
  await disable(organizations, 10);
  expect(await atRest(hanging)).toBeLessThanOrEqual(32);
  await disable([tenant], 20);
  await until(() => healthy.received.length === 20, "the other tenant's deliveries");
  expect(await settled()).toBeLessThanOrEqual(20);
  const ids = healthy.received.map(({ headers }) => headers["webhook-id"]);
  expect(new Set(ids).size).toBe(20);
});
