import { OpenFeature, ProviderEvents } from "@openfeature/server-sdk";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import {
  FaregateLocalProvider,
  type FaregateLocalProviderOptions,
  withUnlockPlan,
} from "../../src/openfeature/local.ts";
import { type Backend, startBackend } from "./backend.ts";

/* The provider that evaluates in memory, against the real server process. Its answers are those of conformance. */

const soon = { timeout: 15_000, interval: 20 };
const ada = { targetingKey: "ada" };
let backend: Backend;
let domains = 0;
let requests: string[] = [];
/** Refuses streams of changes, as a Worker does. */
let isWorker = false;

beforeAll(async () => {
  backend = await startBackend();
  for (const userId of ["ada", "bob"]) await backend.contract(userId);
});
beforeEach(() => {
  requests = [];
  isWorker = false;
});
afterEach(() => OpenFeature.clearProviders());
afterAll(() => backend.close());

const counting: typeof fetch = async (input, init) => {
  const { pathname } = new URL(String(input));
  requests.push(pathname.replace("/fare", ""));
  if (isWorker && pathname.endsWith("/stream"))
    return Response.json({ error: "Changes cannot be followed here" }, { status: 503 });
  return fetch(input, init);
};

/** Registers a provider, and records the events of its client. */
function register(options: Partial<FaregateLocalProviderOptions> = {}) {
  const provider = new FaregateLocalProvider({ url: backend.url, apiKey: backend.key, fetch: counting, ...options });
  const domain = `local ${(domains += 1)}`;
  const client = OpenFeature.getClient(domain);
  const events: string[] = [];
  const registered = OpenFeature.setProviderAndWait(domain, provider);
  // The previous no-op provider emits READY while handlers are added.
  for (const event of Object.values(ProviderEvents)) provider.events.addHandler(event, () => void events.push(event));
  return { provider, client, events, registered };
}

test("features without limits are answered without a request, those with limits by the service", async () => {
  const { client, registered } = register();
  await registered;
  expect(await client.getBooleanDetails("boolean-flag", false, ada)).toMatchObject({
    value: true,
    variant: "on",
    reason: "TARGETING_MATCH",
    flagMetadata: {},
  });
  requests = [];
  for (let times = 0; times < 100; times += 1) await client.getBooleanValue("boolean-flag", false, ada);
  expect(await client.getBooleanDetails("boolean-zero-flag", true, ada)).toMatchObject({
    value: false,
    flagMetadata: { reason: "NOT_GRANTED" },
  });
  expect(await client.getBooleanDetails("boolean-none", true, ada)).toMatchObject({ errorCode: "FLAG_NOT_FOUND" });
  expect(requests).toEqual([]);
  await backend.use("bob", 10);
  expect(await client.getBooleanDetails("boolean-limited-flag", true, { targetingKey: "bob" })).toMatchObject({
    value: false,
    reason: "TARGETING_MATCH",
    flagMetadata: { limitId: "boolean-tasks", limit: 10, used: 10, remaining: 0, reason: "LIMIT_REACHED" },
  });
  expect(requests).toContain("/api/v1/features/bob/boolean-limited-flag");
});

test("the budgets of the spender in the context decide", async () => {
  const { client, registered } = register();
  await registered;
  const { call, callers } = backend.api;
  const { key } = callers.all;
  const budget = { limit: "boolean-tasks", spender: "*", amount: 0 };
  expect((await call("PUT", "/contracts/ada/budgets/none", { key, body: budget })).status).toBe(201);
  const details = (spender: string | number) =>
    client.getBooleanDetails("boolean-limited-flag", true, { ...ada, spender });
  expect(await details("grace")).toMatchObject({ value: false, flagMetadata: { reason: "BUDGET_REACHED" } });
  for (const wrong of ["a//b", 3])
    expect(await details(wrong)).toMatchObject({ value: true, errorCode: "INVALID_CONTEXT" });
  expect(await client.getBooleanValue("boolean-limited-flag", false, ada)).toBe(true);
  expect((await call("DELETE", "/contracts/ada/budgets/none", { key })).status).toBe(204);
});

test("a spender who is no member is an INVALID_CONTEXT", async () => {
  const { client, registered } = register();
  await registered;
  const { call, callers } = backend.api;
  const { key } = callers.all;
  expect((await call("PUT", "/contracts/ada/members/grace", { key, body: {} })).status).toBe(201);
  for (const flag of ["boolean-flag", "boolean-limited-flag"]) {
    expect(await client.getBooleanDetails(flag, true, { ...ada, spender: "nobody" })).toMatchObject({
      value: true,
      errorCode: "INVALID_CONTEXT",
      errorMessage: "Member nobody of ada not found",
    });
    expect(await client.getBooleanValue(flag, false, { ...ada, spender: "grace" })).toBe(true);
  }
  expect((await call("DELETE", "/contracts/ada/members/grace", { key })).status).toBe(204);
});

test("a targeting key that no user can have is an INVALID_CONTEXT, and null is no spender", async () => {
  const { client, registered } = register();
  await registered;
  for (const targetingKey of [" ", "..", "\ud800"]) {
    const details = await client.getBooleanDetails("boolean-flag", false, { targetingKey });
    expect(details).toMatchObject({ value: false, errorCode: "INVALID_CONTEXT" });
  }
  expect(await client.getBooleanValue("boolean-flag", false, { ...ada, spender: null })).toBe(true);
});

test("an archived pricing is announced, and the next answer has it", async () => {
  const { client, events, registered } = register();
  await registered;
  const changing = () => client.getBooleanValue("boolean-changing-flag", true, ada);
  expect(await changing()).toBe(true);
  events.length = 0;
  await backend.succeed(2, false);
  await vi.waitFor(() => expect(events).toContain(ProviderEvents.ConfigurationChanged), soon);
  expect(await changing()).toBe(false);
});

test("a lost line makes it stale with its last answers, and a mended one ready with current ones", async () => {
  const { client, events, registered } = register({ retries: 0 });
  await registered;
  const changing = () => client.getBooleanDetails("boolean-changing-flag", true, ada);
  expect(await changing()).toMatchObject({ value: false, reason: "TARGETING_MATCH" });
  events.length = 0;
  await backend.line.cut();
  await vi.waitFor(() => expect(client.providerStatus).toBe("STALE"), soon);
  await vi.waitFor(async () => expect(await changing()).toMatchObject({ value: false, reason: "STALE" }), soon);
  expect(await client.getBooleanDetails("boolean-flag", false, ada)).toMatchObject({ value: true, reason: "STALE" });
  for (const [flag, context] of [
    ["boolean-limited-flag", ada],
    ["boolean-flag", { targetingKey: "unseen" }],
  ] as const) {
    expect(await client.getBooleanDetails(flag, false, context)).toMatchObject({
      value: false,
      errorCode: "GENERAL",
      errorMessage: "The service cannot be reached or is broken.",
    });
  }
  expect(events).toEqual([ProviderEvents.Stale]);
  await backend.succeed(3, true);
  await backend.line.mend();
  await vi.waitFor(() => expect(client.providerStatus).toBe("READY"), soon);
  await vi.waitFor(
    async () => expect(await changing()).toMatchObject({ value: true, reason: "TARGETING_MATCH" }),
    soon,
  );
  expect(events.slice(0, 3)).toEqual([ProviderEvents.Stale, ProviderEvents.Ready, ProviderEvents.ConfigurationChanged]);
});

test("it becomes ready by itself when the service was unreachable at startup", async () => {
  await backend.line.cut();
  const { client, registered } = register({ retries: 0 });
  await expect(registered).rejects.toThrow("could not be reached");
  expect(client.providerStatus).toBe("ERROR");
  await backend.line.mend();
  await vi.waitFor(() => expect(client.providerStatus).toBe("READY"), soon);
  expect(await client.getBooleanValue("boolean-flag", false, ada)).toBe(true);
});

test("it starts stale where changes cannot be followed, and answers all the same", async () => {
  isWorker = true;
  const { client, registered } = register();
  await registered;
  await vi.waitFor(() => expect(client.providerStatus).toBe("STALE"), soon);
  expect(await client.getBooleanValue("boolean-flag", false, ada)).toBe(true);
});

test("a key that is refused is fatal, and nothing goes on", async () => {
  const { client, registered } = register({ apiKey: "org_wrong" });
  await expect(registered).rejects.toThrow("Invalid Organization API Key");
  expect(client.providerStatus).toBe("FATAL");
  expect(requests).toEqual(["/ofrep/v1/evaluate/flags"]);
});

test("closed, it disconnects and asks nothing", async () => {
  const { provider, registered } = register();
  await registered;
  await provider.onClose();
  requests = [];
  expect(await provider.resolveBooleanEvaluation("boolean-flag", true, ada)).toMatchObject({
    value: true,
    errorCode: "PROVIDER_NOT_READY",
  });
  expect(requests).toEqual([]);
});

test.each<[what: string, options: Partial<FaregateLocalProviderOptions>]>([
  ["config.url", { url: "localhost:3000" }],
  ["config.apiKey", { apiKey: "" }],
])("a wrong %s is refused at once", (name, options) => {
  const given = { url: backend.url, apiKey: backend.key, ...options };
  expect(() => new FaregateLocalProvider(given)).toThrow(name);
});

test("a wrong maxStaleMs is refused when it starts", async () => {
  await expect(register({ maxStaleMs: 1 }).registered).rejects.toThrow("maxStaleMs");
});

test("withUnlockPlan names the plan that turns a feature on", async () => {
  const { provider, registered } = register();
  await registered;
  withUnlockPlan(provider, async () => "PRO");
  expect(await provider.resolveBooleanEvaluation("boolean-zero-flag", true, ada)).toMatchObject({
    flagMetadata: { reason: "NOT_GRANTED", unlockPlan: "PRO" },
  });
});
