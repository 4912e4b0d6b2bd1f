import { get } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createHttpServer } from "../../src/entries/platform/http-server.ts";
import { createApp } from "../../src/http/app.ts";
import type { HttpSettings } from "../../src/http/context.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

let api: TestApi;
const closing: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  api = await createTestApi();
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => api.close());

/** Creates an application behind one proxy, so that each request can choose its address. */
const application = (settings: Partial<HttpSettings> = {}) =>
  createApp({
    open: () => api.resources,
    settings: { allowedOrigins: [], baseUrlPath: "", trustedProxies: 1, ...settings },
  });
type App = ReturnType<typeof application>;

/** Opens this many streams. Accepted ones stay open until `close`. */
async function open(
  app: App,
  count: number,
  { from = "", key = "" },
): Promise<{ responses: Response[]; statuses: object }> {
  const headers = { "x-forwarded-for": from, ...(key === "" ? {} : { "x-api-key": key }) };
  const responses: Response[] = [];
  const statuses: Record<number, number> = {};
  for (let i = 0; i < count; i += 1) {
    const response = await app.request("/api/v1/events/stream", { headers });
    responses.push(response);
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
    if (response.status === 200) closing.push(async () => response.body?.cancel());
  }
  return { responses, statuses };
}
const refusal = async (response: Response | undefined) => ({
  status: response?.status,
  retryAfter: response?.headers.get("retry-after"),
  body: await response?.json(),
});

it("one address gets 50 streams without a key, and others still get theirs, with and without one", async () => {
  const app = application();
  const { responses, statuses } = await open(app, 60, { from: "192.0.2.1" });
  expect(statuses).toEqual({ 200: 50, 429: 10 });
  expect(await refusal(responses.at(-1))).toEqual({
    status: 429,
    retryAfter: "5",
    body: { error: "Too many event streams are open from this address. Please try again later" },
  });
  expect((await open(app, 1, { from: "192.0.2.2" })).statuses).toEqual({ 200: 1 });
  // Clients of one office share an address, and use keys.
  const { all, owner } = api.callers;
  for (const { key } of [all, owner])
    expect((await open(app, 5, { from: "192.0.2.1", key })).statuses).toEqual({ 200: 5 });
  await responses[0]?.body?.cancel();
  expect((await open(app, 2, { from: "192.0.2.1" })).statuses).toEqual({ 200: 1, 429: 1 });
});

it("an IPv6 network of 64 bits counts as one address", async () => {
  const app = application({ maxStreamsPerAddress: 3 });
  expect((await open(app, 2, { from: "2001:db8:1:2::1" })).statuses).toEqual({ 200: 2 });
  expect((await open(app, 2, { from: "2001:db8:1:2:ffff::9" })).statuses).toEqual({ 200: 1, 429: 1 });
  expect((await open(app, 1, { from: "2001:db8:1:3::1" })).statuses).toEqual({ 200: 1 });
});

it("streams without a key take half of the places from however many addresses, the other half is for keys", async () => {
  const app = application({ maxStreams: 20 });
  const statuses: number[] = [];
  for (let i = 0; i < 20; i += 1) {
    const { responses } = await open(app, 1, { from: `192.0.2.${i}` });
    statuses.push(responses[0]?.status ?? 0);
  }
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), ...Array.from({ length: 10 }, () => 503)]);
  const refused = await open(app, 1, { from: "192.0.2.99" });
  expect(await refusal(refused.responses[0])).toEqual({
    status: 503,
    retryAfter: "5",
    body: { error: "Too many event streams are open. Please try again" },
  });
  expect((await open(app, 4, { from: "192.0.2.1", key: api.callers.all.key })).statuses).toEqual({ 200: 4 });
});

it("a key gets 100 streams, and the keys of one account together a quarter of all places", async () => {
  const app = application();
  const account = await api.newUser();
  const first = await api.newOrganization(account, "First");
  const second = await api.newOrganization(account, "Second");
  const other = await api.newOrganization(await api.newUser(), "Other");
  const taken = await open(app, 101, { key: first.key });
  expect(taken.statuses).toEqual({ 200: 100, 429: 1 });
  expect(await refusal(taken.responses.at(-1))).toMatchObject({
    retryAfter: "5",
    body: { error: "Too many event streams are open with this API key. Please try again later" },
  });
  expect((await open(app, 100, { key: second.key })).statuses).toEqual({ 200: 100 });
  const rest = await open(app, 51, { key: account.key });
  expect(rest.statuses).toEqual({ 200: 50, 429: 1 });
  expect(await refusal(rest.responses.at(-1))).toMatchObject({
    body: { error: "Too many event streams are open for this account. Please try again later" },
  });
  expect((await open(app, 100, { key: other.key })).statuses).toEqual({ 200: 100 });
});

it("a HEAD request, a refused stream and a client that hangs up at once leave no place taken", async () => {
  const app = application({ maxStreams: 4 });
  for (let i = 0; i < 6; i += 1) {
    expect((await app.request("/api/v1/events/stream", { method: "HEAD" })).status).toBe(200);
  }
  for (let i = 0; i < 6; i += 1) {
    const query = "?organizationId=ffffffffffffffffffffffff";
    const headers = { "x-api-key": api.callers.owner.key };
    expect((await app.request(`/api/v1/events/stream${query}`, { headers })).status).toBe(404);
  }
  const server = createHttpServer((request, bindings) => app.fetch(request, bindings));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const path = "/api/v1/events/stream";
  for (let i = 0; i < 20; i += 1) {
    await new Promise<void>((resolve) => {
      const request = get({ port, host: "127.0.0.1", path, agent: false });
      request.on("error", () => {}).once("close", resolve);
      // Clients leave before the request is read, during the key lookup, and during the answer.
      request.once("socket", (socket) => socket.once("connect", () => setTimeout(() => request.destroy(), i % 5)));
    });
  }
  await expect
    .poll(
      async () => {
        const { statuses, responses } = await open(app, 2, { from: "192.0.2.1" });
        for (const { status, body } of responses) if (status === 200) await body?.cancel();
        return statuses;
      },
      { timeout: 30_000, interval: 200 },
    )
    .toEqual({ 200: 2 });
});
