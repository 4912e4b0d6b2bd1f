import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { newestEvent, recordEvents } from "../../src/db/queries/outbox.ts";
import { createLog } from "../../src/events/log.ts";
import { createApp } from "../../src/http/app.ts";
import type { RecordedEvent } from "../../src/core/event-messages.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { createdEvent } from "../support/private-events.ts";

let api: TestApi;
const streams: { close(): Promise<void> }[] = [];
beforeAll(async () => {
  api = await createTestApi();
});
afterEach(async () => {
  for (const stream of streams.splice(0)) await stream.close();
});
afterAll(() => api.close());

const newest = () => newestEvent(api.resources.db);

const pricing = (serviceName: string): RecordedEvent => ({
  code: "PRICING_CREATED",
  details: { serviceName, pricingVersion: "1.0" },
});

/** Records events for an organization in one transaction. Returns the id of the last one. */
async function record(organizationId: string | null, ...events: RecordedEvent[]): Promise<number> {
  await api.database.connection.db.transaction((tx) =>
    recordEvents(
      tx,
      events.map((event) => ({ organizationId, event })),
    ),
  );
  return newest();
}

interface Opened {
  response: Response;
  /** Text received so far. */
  text: () => string;
  /** Waits until the text contains this. */
  until(part: string): Promise<void>;
  /** Resolves when the server ends the stream. */
  ended: Promise<void>;
  close(): Promise<void>;
}

/** Opens a stream of an application. */
async function open(
  options: { key?: string; query?: string; lastEventId?: number | string; app?: TestApi["app"] } = {},
): Promise<Opened> {
  const headers = new Headers();
  if (options.key !== undefined) headers.set("x-api-key", options.key);
  if (options.lastEventId !== undefined) headers.set("last-event-id", String(options.lastEventId));
  const response = await (options.app ?? api.app).request(`/api/v1/events/stream${options.query ?? ""}`, { headers });
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const ended = (async () => {
    for (;;) {
      const piece = await reader?.read();
      if (piece === undefined || piece.done) return;
      text += decoder.decode(piece.value, { stream: true });
    }
  })();
  const stream: Opened = {
    response,
    text: () => text,
    ended,
    until: async (part) => {
      const deadline = Date.now() + 20_000;
      while (!text.includes(part)) {
        if (Date.now() > deadline) throw new Error(`waited in vain for ${part} in ${text}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    close: async () => {
      await reader?.cancel();
      await ended.catch(() => {});
    },
  };
  streams.push(stream);
  return stream;
}

/** Ids of the events in a stream's text, without those that have no data. */
const idsIn = (text: string) =>
  [...text.matchAll(/^id: (\d+)\ndata: (?!\{"id":\d+\})/gm)].map((match) => Number(match[1]));

it("an event is an id, and its code and details as JSON; the stream begins with where it stands", async () => {
  const before = await newest();
  const stream = await open();
  expect(stream.response.status).toBe(200);
  expect(stream.response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  expect(stream.response.headers.get("cache-control")).toBe("no-store");
  await stream.until("retry");
  expect(stream.text()).toBe(`retry: 1000\nid: ${before}\n\n`);
  const id = await record("o", pricing("Zoom"));
  await stream.until(`id: ${id}`);
  const data = /^data: (.*)$/m.exec(stream.text())?.[1] ?? "";
  expect(JSON.parse(data)).toEqual({
    id,
    code: "PRICING_CREATED",
    details: { serviceName: "Zoom", pricingVersion: "1.0" },
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
  });
});

it("Last-Event-ID, as a header or in the query, is where it goes on, in order and beyond one page", async () => {
  const before = await newest();
  const last = await record("o", ...Array.from({ length: 250 }, (_, i) => pricing(`S${i}`)));
  const expected = Array.from({ length: 250 }, (_, i) => before + 1 + i);
  for (const stream of [await open({ lastEventId: before }), await open({ query: `?lastEventId=${before}` })]) {
    await stream.until(`id: ${last}\ndata`);
    expect(idsIn(stream.text())).toEqual(expected);
  }
  expect((await open({ lastEventId: "x" })).response.status).toBe(400);
});

it("who may know what: the public, keys by their scope, members, and nobody else", async () => {
  const { organizationId, all, management, evaluation, evaluator, outsider, platformAdmin } = api.callers;
  const before = await newest();
  await record(organizationId, pricing("Mine"), createdEvent("u"));
  await record("ffffffffffffffffffffffff", pricing("Theirs"), createdEvent("v"));
  const last = await record(organizationId, pricing("End"));
  const inside = `?organizationId=${organizationId}`;
  const seen = async (options: Parameters<typeof open>[0]) => {
    const stream = await open({ lastEventId: before, ...options });
    await stream.until(`id: ${last}\ndata`);
    return idsIn(stream.text()).map((id) => id - before);
  };
  expect(await seen({})).toEqual([1, 3, 5]);
  expect(await seen({ key: all.key })).toEqual([1, 2, 5]);
  expect(await seen({ key: management.key })).toEqual([1, 2, 5]);
  expect(await seen({ key: evaluation.key })).toEqual([1, 5]);
  expect(await seen({ key: evaluator.key })).toEqual([1, 3, 5]);
  expect(await seen({ key: evaluator.key, query: inside })).toEqual([1, 2, 5]);
  expect(await seen({ key: platformAdmin.key, query: inside })).toEqual([1, 2, 5]);
  expect(await seen({ query: inside })).toEqual([1, 3, 5]);
  expect((await open({ key: outsider.key, query: inside })).response.status).toBe(403);
  expect((await open({ key: outsider.key, query: "?organizationId=x" })).response.status).toBe(404);
  expect((await open({ key: "org_unknown" })).response.status).toBe(401);
});

it("who asks for what is gone, or was never there, is told to resync from the newest", async () => {
  const last = await record("o", pricing("A"), pricing("B"), pricing("C"));
  await api.database.connection.client`delete from outbox where id < ${last - 1}`;
  for (const lastEventId of [last - 3, last + 1000]) {
    const stream = await open({ lastEventId });
    await stream.until("resync");
    expect(stream.text()).toContain(`event: resync\nid: ${last}\ndata: {"id":${last}}\n\n`);
    expect(idsIn(stream.text())).toEqual([]);
  }
  const kept = await open({ lastEventId: last - 2 });
  await kept.until(`id: ${last}\ndata`);
  expect(idsIn(kept.text())).toEqual([last - 1, last]);
});

it("a comment and the position come while nothing happens; a full process turns streams away until one ends", async () => {
  const app = createApp({
    open: () => api.resources,
    settings: { allowedOrigins: [], baseUrlPath: "" },
    // Half of the places are reserved for keys.
    streams: { maxStreams: 4, heartbeatMs: 50 },
  });
  const first = await open({ app, lastEventId: await newest() });
  // Events of other organizations, which the stream must skip without reading them again.
  const passed = await record("o", createdEvent("u"));
  await first.until(`:\nid: ${passed}\n\n`);
  await open({ app });
  const refused = await open({ app });
  expect(refused.response.status).toBe(503);
  expect(refused.response.headers.get("retry-after")).toBe("5");
  await first.close();
  expect((await open({ app })).response.status).toBe(200);
});

it("a stream that is not read for longer than the operator allows is given up", async () => {
  const app = createApp({
    open: () => api.resources,
    settings: { allowedOrigins: [], baseUrlPath: "", maxStreams: 1, maxStreamStallMs: 100 },
    streams: { heartbeatMs: 20 },
  });
  const stalled = (await app.request("/api/v1/events/stream")).body?.getReader();
  // The stream sends its position and a first heartbeat; then the client stops reading.
  for (let piece = 0; piece < 2; piece += 1) expect((await stalled?.read())?.done).toBe(false);
  await expect(stalled?.closed).rejects.toThrow("the client stopped reading its stream");
  expect((await open({ app })).response.status).toBe(200);
});

it("streams end when the process is about to, and those that come then at once", async () => {
  const stopping = new AbortController();
  const app = createApp({
    open: () => ({ ...api.resources, stopping: stopping.signal }),
    settings: { allowedOrigins: [], baseUrlPath: "" },
  });
  const stream = await open({ app });
  await stream.until("retry");
  stopping.abort();
  await stream.ended;
  await (
    await open({ app })
  ).ended;
});

it("where the log is followed, streams read from it and wake with it", async () => {
  const at = await newest();
  const log = createLog(api.database.connection.db, at);
  const app = createApp({
    open: () => ({ ...api.resources, eventLog: log }),
    settings: { allowedOrigins: [], baseUrlPath: "" },
  });
  const stream = await open({ app, lastEventId: at });
  const createdAt = new Date();
  for (const id of [at + 1, at + 2]) {
    log.append({ id, organizationId: null, code: "SERVICE_DISABLED", details: { serviceName: `S${id}` }, createdAt });
  }
  await stream.until(`id: ${at + 2}`);
  expect(idsIn(stream.text())).toEqual([at + 1, at + 2]);
});

it("a stream ends with the key that opened it, and what happens then is not told", async () => {
  const { owner, organizationId } = api.callers;
  const path = `/organizations/${organizationId}/api-keys`;
  const made = await api.call<{ apiKeys: { id: string; key: string }[] }>("POST", path, {
    key: owner.key,
    body: { scope: "MANAGEMENT" },
  });
  const { id, key } = made.body.apiKeys.at(-1) ?? { id: "", key: "" };
  const stream = await open({ key });
  await stream.until("retry");
  const told = await record(organizationId, createdEvent("before"));
  await stream.until(`id: ${told}\n`);
  expect((await api.call("DELETE", `${path}/${id}`, { key: owner.key })).status).toBe(200);
  await record(organizationId, createdEvent("afterwards"));
  await stream.ended;
  expect(stream.text()).toContain("before");
  expect(stream.text()).not.toContain("afterwards");
});

it.each([
  ["a member who is removed", false],
  ["a platform ADMIN who is made a USER", true],
])("a stream of %s ends, and what happens then is not told", async (_, isAdmin) => {
  const { owner, organizationId, platformAdmin } = api.callers;
  const reader = await api.newUser();
  const members = `/organizations/${organizationId}/members`;
  const changeRole = (role: string) =>
    api.call("PUT", `/users/${reader.username}`, { key: platformAdmin.key, body: { role } });
  if (isAdmin) expect((await changeRole("ADMIN")).status).toBe(200);
  else {
    const body = { username: reader.username, role: "MANAGER" };
    expect((await api.call("POST", members, { key: owner.key, body })).status).toBe(200);
  }
  const stream = await open({ key: reader.key, query: `?organizationId=${organizationId}` });
  await stream.until("retry");
  const told = await record(organizationId, createdEvent("before"));
  await stream.until(`id: ${told}\n`);
  const left = isAdmin
    ? await changeRole("USER")
    : await api.call("DELETE", `${members}/${reader.username}`, { key: owner.key });
  expect(left.status).toBe(200);
  await record(organizationId, createdEvent("afterwards"));
  await stream.ended;
  expect(stream.text()).toContain("before");
  expect(stream.text()).not.toContain("afterwards");
});

it("a stream in which nothing happens ends at its next heartbeat", async () => {
  const { owner, organizationId } = api.callers;
  const app = createApp({
    open: () => api.resources,
    settings: { allowedOrigins: [], baseUrlPath: "" },
    streams: { heartbeatMs: 100 },
  });
  const reader = await api.newUser();
  const members = `/organizations/${organizationId}/members`;
  await api.call("POST", members, { key: owner.key, body: { username: reader.username, role: "EVALUATOR" } });
  const stream = await open({ app, key: reader.key, query: `?organizationId=${organizationId}` });
  await stream.until("retry");
  await api.call("DELETE", `${members}/${reader.username}`, { key: owner.key });
  await stream.ended;
});
