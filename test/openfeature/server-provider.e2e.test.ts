import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ProviderEvents } from "@openfeature/server-sdk";
import { FaregateProvider, type FaregateProviderOptions, withUnlockPlan } from "../../src/openfeature/server.ts";

/* A stub HTTP server sends responses of proxies or overloaded servers, which the real server never sends. */

let server: Server;
let url: string;
let calls: { path: string; key: unknown; body: unknown }[];
let answer: (response: ServerResponse) => void;
let events: string[];

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
const ON = json(200, { key: "s-a", value: true, metadata: { used: 1, odd: null, deep: {} } });

function provider(options: Partial<FaregateProviderOptions> = {}): FaregateProvider {
  const made = new FaregateProvider({ url, apiKey: "org_key", timeoutMs: 20_000, ...options });
  for (const event of Object.values(ProviderEvents)) made.events.addHandler(event, () => void events.push(event));
  return made;
}
const ask = (one: FaregateProvider, userId = "ada", key = "s-a") =>
  one.resolveBooleanEvaluation(key, false, { targetingKey: userId, secret: "stays here" });

beforeEach(async () => {
  calls = [];
  events = [];
  answer = ON;
  server = createServer((request: IncomingMessage, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      calls.push({ path: request.url ?? "", key: request.headers["x-api-key"], body: JSON.parse(text) });
      answer(response);
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/fare/`;
});
afterEach(async () => {
  vi.useRealTimers();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

test("the provider sends requests below the sub-path with the key, and only the targeting key of the context", async () => {
  expect(await ask(provider(), "ada", "s-ä/b")).toMatchObject({ value: true, flagMetadata: { used: 1 } });
  await ask(provider({ server: true }));
  expect(calls).toEqual([
    { path: "/fare/ofrep/v1/evaluate/flags/s-%C3%A4%2Fb", key: "org_key", body: { context: { targetingKey: "ada" } } },
    {
      path: "/fare/ofrep/v1/evaluate/flags/s-a?server=true",
      key: "org_key",
      body: { context: { targetingKey: "ada" } },
    },
  ]);
});

test.each<[what: string, broken: (response: ServerResponse) => void]>([
  ["a status of 500", json(500, { errorCode: "GENERAL" })],
  ["a status of 503", json(503, {})],
  ["a connection that breaks", (response) => response.destroy()],
  ["no answer in time", () => {}],
])("%s is an outage: the last answer, else the default, and one event", async (_, broken) => {
  vi.useFakeTimers({ toFake: ["performance"] });
  // Longer than an answer takes on a busy machine. Three calls wait for it in vain.
  const one = provider({ timeoutMs: 4000 });
  await ask(one);
  answer = broken;
  for (let times = 0; times < 2; times += 1) {
    expect(await ask(one)).toEqual({ value: true, variant: "on", reason: "STALE", flagMetadata: { used: 1 } });
  }
  const unknown = { value: false, reason: "ERROR", errorCode: "GENERAL" };
  expect(await ask(one, "bob")).toMatchObject(unknown);
  expect(events).toEqual([ProviderEvents.Stale]);
  // Three consecutive failures open the circuit: one request per second probes the server, all others are answered at
  // once.
  expect(calls).toHaveLength(4);
  for (let times = 0; times < 5; times += 1) expect((await ask(one)).reason).toBe("STALE");
  expect(await ask(one, "bob")).toMatchObject(unknown);
  expect(calls).toHaveLength(4);
  answer = ON;
  vi.advanceTimersByTime(1000);
  expect(await ask(one, "bob")).toMatchObject({ value: true, reason: "TARGETING_MATCH" });
  expect(events).toEqual([ProviderEvents.Stale, ProviderEvents.Ready]);
});

test("the spender of the context is sent, and has cached answers of its own", async () => {
  const one = provider({ lastKnownForMs: 60_000 });
  const spend = (spender: string) => one.resolveBooleanEvaluation("s-a", false, { targetingKey: "ada", spender });
  expect(await spend("ada/notes")).toMatchObject({ value: true });
  expect(calls.at(-1)?.body).toEqual({ context: { targetingKey: "ada", spender: "ada/notes" } });
  answer = (response) => response.destroy();
  expect(await spend("ada/notes")).toMatchObject({ value: true, reason: "STALE" });
  expect(await spend("ada/mail")).toMatchObject({ value: false, errorCode: "GENERAL" });
  expect(await ask(one)).toMatchObject({ value: false, errorCode: "GENERAL" });
});

test("cached answers expire after lastKnownForMs, and 0 disables the cache", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const one = provider({ lastKnownForMs: 60_000 });
  const never = provider({ lastKnownForMs: 0 });
  await ask(one);
  await ask(never);
  answer = json(500, {});
  vi.advanceTimersByTime(59_000);
  expect(await ask(one)).toMatchObject({ value: true, reason: "STALE" });
  vi.advanceTimersByTime(1000);
  expect(await ask(one)).toMatchObject({ value: false, errorCode: "GENERAL" });
  expect(await ask(never)).toMatchObject({ value: false, errorCode: "GENERAL" });
  expect(events).toEqual([ProviderEvents.Stale, ProviderEvents.Error]);
});

test("an error response or an invalid body is no outage, so the cached answer is not used", async () => {
  const one = provider();
  await ask(one);
  answer = json(401, { errorCode: "GENERAL", errorDetails: "Invalid Organization API Key" });
  expect(await ask(one)).toMatchObject({
    value: false,
    errorCode: "GENERAL",
    errorMessage: "Invalid Organization API Key",
  });
  for (const nonsense of [
    json(200, { key: "s-a" }),
    json(200, []),
    (response: ServerResponse) => response.end("<p>"),
  ]) {
    answer = nonsense;
    expect(await ask(one)).toMatchObject({ value: false, errorCode: "PARSE_ERROR" });
  }
  expect(events).toEqual([]);
});

test("the error for a deleted contract is cached and returned during an outage", async () => {
  const one = provider();
  await ask(one);
  answer = json(400, { key: "s-a", errorCode: "INVALID_CONTEXT", errorDetails: "Contract with userId ada not found" });
  expect(await ask(one)).toMatchObject({ value: false, errorCode: "INVALID_CONTEXT" });
  answer = json(500, {});
  expect(await ask(one)).toMatchObject({ value: false, errorCode: "INVALID_CONTEXT" });
});

test("the provider sends no request for invalid feature ids such as paths", async () => {
  for (const key of ["", "..", "nodash"]) {
    expect(await ask(provider(), "ada", key)).toMatchObject({ value: false, errorCode: "FLAG_NOT_FOUND" });
  }
  expect(calls).toEqual([]);
});

test("a server other than Faregate is a fatal error at startup", async () => {
  answer = json(404, { message: "no such page" });
  await expect(provider().initialize()).rejects.toMatchObject({ code: "PROVIDER_FATAL" });
  answer = json(503, {});
  const one = provider();
  await expect(one.initialize()).rejects.toMatchObject({ code: "GENERAL" });
  answer = ON;
  expect((await ask(one)).value).toBe(true);
  expect(events).toEqual([ProviderEvents.Ready]);
});

test.each<[what: string, options: Partial<FaregateProviderOptions>]>([
  ["config.url", { url: "localhost:3000" }],
  ["config.apiKey", { apiKey: "" }],
])("a wrong %s is refused at once", (name, options) => {
  expect(() => provider(options)).toThrow(name);
});

test("with unlockPlan, a feature that is off names the plan that turns it on, and nothing when that fails", async () => {
  const off = json(200, { key: "s-a", value: false, metadata: { reason: "NOT_GRANTED" } });
  const unlockPlan = vi.fn(async (userId: string): Promise<string | null> => {
    if (userId === "eve") throw new Error("down");
    return userId === "ada" ? "PRO" : null;
  });
  const one = withUnlockPlan(provider(), unlockPlan);
  expect((await ask(one)).flagMetadata).toEqual({ used: 1 });
  expect(unlockPlan).not.toHaveBeenCalled();
  answer = off;
  expect((await ask(one)).flagMetadata).toEqual({ reason: "NOT_GRANTED", unlockPlan: "PRO" });
  expect(unlockPlan).toHaveBeenCalledWith("ada", "s-a");
  for (const userId of ["bob", "eve"]) expect((await ask(one, userId)).flagMetadata).toEqual({ reason: "NOT_GRANTED" });
  const broken = withUnlockPlan(provider(), () => {
    throw new Error("no promise");
  });
  expect((await ask(broken)).flagMetadata).toEqual({ reason: "NOT_GRANTED" });
});
