import { io } from "socket.io-client";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { createTestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { HANDSHAKE } from "./in-process.ts";
import { openPricings, until } from "./raw-client.ts";
import { openReceiver } from "./webhook-receiver.ts";

/* Two event processes share one database. An event that one sends reaches the sockets of the other. */

let api: TestApi;
let servers: RunningServer[];
let theirs: TestOrganization;
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  const database = await createTestDatabase();
  api = await createTestApi({ database, resources: { keyring: await testKeyring() } });
  theirs = await api.newOrganization(api.callers.outsider, "Theirs");
  const settings = { WEBHOOK_ALLOWED_HOSTS: "127.0.0.1" };
  servers = await Promise.all([startEventServer(database.url, settings), startEventServer(database.url, settings)]);
});
afterAll(async () => {
  for (const close of closing) await close();
  await Promise.all(servers.map((server) => server.stop()));
  await api.close();
});

const at = (place: number) => servers[place]?.url ?? "";
const send = (key: string, body: object, { place = 0, query = "" } = {}) =>
  fetch(`${at(place)}/api/v1/events/test-event${query}`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
const event = (serviceName: string) => ({ serviceName, pricingVersion: "1.0.0" });
/** Returns the number of rows of a table. */
const rows = async (table: string) =>
  (await api.database.connection.client.unsafe(`select count(*)::int as n from ${table}`))[0]?.["n"] as number;

/** Joins with this `auth`. `all` holds every message, including the position. */
async function join(place: number, auth: Record<string, unknown>) {
  const all: unknown[] = [];
  const socket = io(`${at(place)}/pricings`, { path: "/events/", transports: ["websocket"], forceNew: true, auth });
  closing.push(() => socket.disconnect());
  socket.on("message", (message: unknown) => all.push(message));
  const positioned = new Promise<number>((resolve) => socket.on("position", ({ id }: { id: number }) => resolve(id)));
  return { all, position: await positioned, socket };
}
const plain = async (place: number) => {
  const client = await openPricings(at(place).replace("http", "ws") + HANDSHAKE);
  closing.push(client.close);
  return client;
};

it("a test event reaches connected plain sockets and the sender's organization, and no other organization's", async () => {
  const { all: mine, owner, organizationId, platformAdmin } = api.callers;
  const sockets = await Promise.all([0, 1].map(plain));
  const ours = await join(1, { lastEventId: null, organizationKey: mine.key });
  const others = await join(1, { lastEventId: null, organizationKey: theirs.key });
  const mirror = await join(1, { lastEventId: null });
  expect((await send(mine.key, event("Ours"))).status).toBe(200);
  expect((await send(theirs.key, event("Theirs"))).status).toBe(200);
  expect((await send(platformAdmin.key, event("Nobody's"))).status).toBe(200);
  const named = { query: `?organizationId=${organizationId}` };
  expect((await send(platformAdmin.key, event("Named"), named)).status).toBe(200);
  for (const unknown of ["x", "ffffffffffffffffffffffff"]) {
    expect((await send(platformAdmin.key, event("Lost"), { query: `?organizationId=${unknown}` })).status).toBe(404);
  }
  expect((await send(owner.key, event("Lost"), named)).status).toBe(404);

  const frame = (serviceName: string) =>
    `42/pricings,["message",{"code":"PRICING_ARCHIVED","details":{"serviceName":"${serviceName}","pricingVersion":"1.0.0"}}]`;
  await until(() => sockets.every(({ frames }) => frames.length === 6), "four messages at both plain sockets");
  for (const { frames } of sockets) {
    expect(frames.slice(2)).toEqual(["Ours", "Theirs", "Nobody's", "Named"].map(frame));
  }
  const numbered = (serviceName: string, id: number) => ({
    code: "PRICING_ARCHIVED",
    details: event(serviceName),
    id,
  });
  await until(() => ours.all.length === 2 && others.all.length === 1, "the organizations' own messages");
  // The id is that of the previous event, so a client that resumes from it misses nothing.
  expect(ours.all).toEqual([numbered("Ours", ours.position), numbered("Named", ours.position)]);
  expect(others.all).toEqual([numbered("Theirs", others.position)]);
  expect(mirror.all).toEqual([]);
});

it("a test event is kept in no log, stream or webhook", async () => {
  const key = theirs.key;
  const receiver = await openReceiver();
  closing.push(receiver.close);
  const call = async (path: string, body: object) =>
    fetch(`${at(0)}/api/v1${path}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  expect((await call("/webhooks", { url: receiver.url })).status).toBe(201);
  const stream = await fetch(`${at(1)}/api/v1/events/stream`, { headers: { "x-api-key": key } });
  let streamed = "";
  const reader = stream.body?.getReader();
  void (async () => {
    for (;;) {
      const piece = await reader?.read().catch(() => undefined);
      if (piece?.value === undefined) return;
      streamed += new TextDecoder().decode(piece.value);
    }
  })();
  closing.push(() => reader?.cancel());
  const before = await rows("outbox");
  const socket = await plain(1);
  expect((await send(key, event("Fleeting"))).status).toBe(200);
  await socket.frame(2);
  // A contract creates a real event, and events arrive in order.
  const made = await api.database.connection.client`
    with bumped as (update outbox_counter set last_id = last_id + 1 returning last_id)
    insert into outbox (id, organization_id, code, details)
    select last_id, ${theirs.id}, 'SERVICE_DISABLED', '{"serviceName":"Real"}' from bumped returning id`;
  await until(() => receiver.received.length === 1 && streamed.includes("Real"), "the real event");
  expect(receiver.received.map(({ body }) => JSON.parse(body).data)).toEqual([{ serviceName: "Real" }]);
  expect(streamed).not.toContain("Fleeting");
  expect(await rows("outbox")).toBe(before + 1);
  const late = await join(0, { lastEventId: Number(made[0]?.["id"]) - 1, organizationKey: key });
  await until(() => late.all.length === 1, "the replay");
  expect(JSON.stringify(late.all)).not.toContain("Fleeting");
});

it("an organization sends ten test events per minute over all processes, whatever its keys; others have their own ten", async () => {
  const [mine, other] = [await api.newUser(), await api.newUser()];
  const ours = await api.newOrganization(mine, "Busy");
  const calm = await api.newOrganization(other, "Calm");
  const path = `/organizations/${ours.id}/api-keys`;
  const made = await api.call<{ apiKeys: { key: string }[] }>("POST", path, { key: mine.key, body: { scope: "ALL" } });
  const keys = [ours.key, made.body.apiKeys.at(-1)?.key ?? ""];
  // A new minute may start between two calls and reset the count, so up to twice ten may pass.
  const statuses: number[] = [];
  let refused: Response | undefined;
  for (let turn = 0; turn < 21; turn += 1) {
    const answer = await send(keys[turn % 2] ?? "", event(`Busy ${turn}`), { place: turn % 2 });
    statuses.push(answer.status);
    if (answer.status === 429) refused ??= answer;
  }
  expect(statuses.slice(0, 10)).toEqual(Array.from({ length: 10 }, () => 200));
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(20);
  expect(await refused?.json()).toEqual({ error: "Too many test events. Please try again later" });
  expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(Number(refused?.headers.get("retry-after"))).toBeLessThanOrEqual(60);
  expect((await send(calm.key, event("Calm"))).status).toBe(200);
});

it.each([
  ["of 255 characters that are escaped", "\u0001".repeat(255), 200],
  ["of 255 characters of three bytes", "語".repeat(255), 200],
  ["of 256 characters", "x".repeat(256), 400],
  ["of 0.9 MB", "x".repeat(900_000), 400],
])("a text %s", async (_, text, status) => {
  const sender = await api.newOrganization(await api.newUser(), "Long");
  const socket = await plain(1);
  const answers = [
    await send(sender.key, { serviceName: text, pricingVersion: text }),
    await send(sender.key, { serviceName: "x", pricingVersion: text }),
  ];
  expect(answers.map((answer) => answer.status)).toEqual([status, status]);
  if (status === 200) {
    const [, message] = JSON.parse((await socket.frame(2)).slice("42/pricings,".length)) as [string, object];
    expect(message).toEqual({ code: "PRICING_ARCHIVED", details: { serviceName: text, pricingVersion: text } });
  } else {
    expect(await answers[0]?.json()).toEqual({ error: "The fields serviceName and pricingVersion are required" });
  }
});
