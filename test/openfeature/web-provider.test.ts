import { type Client, OpenFeature, ProviderEvents } from "@openfeature/web-sdk";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createTestToken } from "../../src/client/front/test-token.ts";
import { FaregateWebProvider } from "../../src/openfeature/web.ts";

/* Token source only: the page has no key and no connection. Each test controls the responses of the page's back end. */

const HOUR = 3_600_000;
let domain = "";
let page: Client;
let events: string[];
let asked: unknown[];
/** The back end's response from now on. */
let answer: (userId: string | undefined) => Promise<string>;

const token = (features: Record<string, boolean | object> = { "zoom-a": true }, lifeMs = HOUR) =>
  createTestToken({ features, exp: Math.floor((Date.now() + lifeMs) / 1000) });
const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);
const start = async (context = {}) => {
  const provider = new FaregateWebProvider({
    tokenSource: (given) => {
      asked.push(given);
      return answer(given.targetingKey);
    },
  });
  const registered = OpenFeature.setProviderAndWait(domain, provider, context);
  registered.catch(() => {});
  await pass(10);
  await registered;
};

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  events = [];
  asked = [];
  answer = async () => token();
  domain = crypto.randomUUID();
  page = OpenFeature.getClient(domain);
  for (const event of Object.values(ProviderEvents)) page.addHandler(event, () => events.push(event));
  events.length = 0;
});
afterEach(async () => {
  await OpenFeature.clearProviders();
  await pass(10);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test.each<[what: string, options: object]>([
  ["nothing", {}],
  ["an address alone", { url: "http://localhost" }],
  ["an empty key", { url: "http://localhost", apiKey: "" }],
])("%s is not enough to get tokens", (_, options) => {
  expect(() => new FaregateWebProvider(options)).toThrow(/config\.tokenSource/);
});

test("the constructor rejects an invalid URL", () => {
  expect(() => new FaregateWebProvider({ url: "localhost", apiKey: "k" })).toThrow("config.url must be an absolute");
});

test("a targeting key that no user can have is an INVALID_CONTEXT, without a request", async () => {
  const fetch = vi.fn<typeof globalThis.fetch>();
  const provider = new FaregateWebProvider({ url: "http://localhost", apiKey: "k", fetch });
  const registered = OpenFeature.setProviderAndWait(domain, provider, { targetingKey: ".." });
  await expect(registered).rejects.toMatchObject({ code: "INVALID_CONTEXT" });
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: false, errorCode: "INVALID_CONTEXT" });
  expect(fetch).not.toHaveBeenCalled();
});

test("the provider calls the token source once with the context, and evaluates its token without a request", async () => {
  await start({ targetingKey: "ada", plan: "PRO" });
  expect(asked).toEqual([{ targetingKey: "ada", plan: "PRO" }]);
  expect(page.getBooleanValue("zoom-a", false)).toBe(true);
  expect(events).toEqual([ProviderEvents.Ready]);
});

test("a context change calls the source again, and a late response for the old context is ignored", async () => {
  await start({ targetingKey: "ada" });
  const late: ((token: string) => void)[] = [];
  answer = (userId) =>
    userId === "slow" ? new Promise((done) => late.push(done)) : Promise.resolve(token({ "zoom-b": true }));
  const first = OpenFeature.setContext(domain, { targetingKey: "slow" });
  await pass(10);
  expect(page.getBooleanDetails("zoom-a", false).errorCode).toBe("PROVIDER_NOT_READY");
  const second = OpenFeature.setContext(domain, { targetingKey: "bob" });
  await pass(10);
  late.forEach((done) => done(token({ "zoom-slow": true })));
  await pass(10);
  await Promise.all([first, second]);
  expect(asked.map((context) => (context as { targetingKey: string }).targetingKey)).toEqual(["ada", "slow", "bob"]);
  expect(page.getBooleanValue("zoom-b", false)).toBe(true);
  expect(page.getBooleanDetails("zoom-slow", false).errorCode).toBe("FLAG_NOT_FOUND");
  expect(page.providerStatus).toBe("READY");
});

test("a refresh emits the changed flags, and no event without changes", async () => {
  const changes: unknown[] = [];
  page.addHandler(ProviderEvents.ConfigurationChanged, (details) => changes.push(details?.flagsChanged));
  answer = async () => token({ "zoom-a": true, "zoom-gone": true, "zoom-same": { eval: true, limit: 3, used: 1 } });
  await start();
  answer = async () => token({ "zoom-a": false, "zoom-new": true, "zoom-same": { eval: true, limit: 3, used: 1 } });
  await pass(HOUR);
  expect(changes).toEqual([["zoom-a", "zoom-gone", "zoom-new"]]);
  await pass(HOUR);
  expect(changes).toHaveLength(1);
  expect(asked.length).toBeGreaterThan(2);
});

test("a failed refresh turns the provider stale, an expired token keeps it stale, and a new one makes it ready", async () => {
  await start();
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: true, reason: "CACHED" });
  answer = () => Promise.reject(new Error("no line"));
  await pass(0.8 * HOUR);
  expect(page.providerStatus).toBe("STALE");
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: true, reason: "STALE" });
  await pass(0.3 * HOUR);
  expect(page.providerStatus).toBe("STALE");
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: true, reason: "STALE" });
  answer = async () => token();
  await pass(60_000);
  expect(page.providerStatus).toBe("READY");
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: true, reason: "CACHED" });
  expect(events).toEqual([ProviderEvents.Ready, ProviderEvents.Stale, ProviderEvents.Ready]);
});

test("a token that expires during a refresh turns the provider stale, and another user never gets its answers", async () => {
  answer = async () => token({ "zoom-a": true }, 10_000);
  await start({ targetingKey: "ada" });
  answer = () => new Promise(() => {});
  await pass(11_000);
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: true, reason: "STALE" });
  answer = async () => token({ "zoom-a": true }, -10_000);
  void OpenFeature.setContext(domain, { targetingKey: "bob" });
  await pass(10);
  expect(page.getBooleanDetails("zoom-a", false)).toMatchObject({ value: false, errorCode: "PROVIDER_NOT_READY" });
});

test("a feature with a limit also resolves to a number", async () => {
  answer = async () =>
    token({
      "s-on": { eval: true, limit: 10, used: 3 },
      "s-off": { eval: false, limit: { "s-x": 5, "s-y": 9 }, used: { "s-x": 1, "s-y": 9 } },
      "s-plain": true,
    });
  await start();
  expect(page.getNumberDetails("s-on", -1)).toMatchObject({ value: 10, reason: "CACHED", flagMetadata: { used: 3 } });
  expect(page.getNumberValue("s-off", -1)).toBe(9);
  expect(page.getNumberDetails("s-plain", -1)).toMatchObject({ value: -1, errorCode: "TYPE_MISMATCH" });
  expect(page.getNumberDetails("s-none", -1)).toMatchObject({ value: -1, errorCode: "FLAG_NOT_FOUND" });
  expect(page.getObjectDetails("s-on", {})).toMatchObject({ errorCode: "TYPE_MISMATCH" });
});

test("a token source that fails at startup causes an error and is retried until it succeeds", async () => {
  answer = () => Promise.reject(new Error("no line"));
  await expect(start()).rejects.toThrow("no line");
  expect(page.providerStatus).toBe("ERROR");
  answer = async () => token();
  await pass(60_000);
  expect(page.providerStatus).toBe("READY");
  expect(page.getBooleanValue("zoom-a", false)).toBe(true);
});

test("a token's entry for a feature becomes resolution details", async () => {
  const error = (code: string) => ({ eval: false, error: { code, message: "why" } });
  const features = {
    "s-number": { eval: true, limit: 10, used: 12 },
    "s-maps": { eval: true, limit: { "s-x": 5, "s-y": 9 }, used: { "s-x": 1, "s-y": 8 } },
    "s-plain": { eval: false },
    "s-parse": error("PARSE_ERROR"),
    "s-type": error("TYPE_MISMATCH"),
    "s-evaluation": error("EVALUATION_ERROR"),
    "s-bad": { eval: "yes" },
  };
  answer = async () => token(features);
  await start();
  const details = (key: string) => page.getBooleanDetails(key, true);
  expect(details("s-number")).toMatchObject({ value: true, flagMetadata: { limit: 10, used: 12, remaining: 0 } });
  expect(details("s-maps").flagMetadata).toEqual({ limit: 9, used: 8, remaining: 1 });
  expect(details("s-plain")).toMatchObject({ value: false, variant: "off", flagMetadata: {} });
  expect(details("s-parse")).toMatchObject({ value: true, errorCode: "PARSE_ERROR", errorMessage: "why" });
  expect(details("s-type")).toMatchObject({ value: true, errorCode: "GENERAL" });
  expect(details("s-evaluation")).toMatchObject({ value: true, errorCode: "GENERAL" });
  expect(details("s-bad")).toMatchObject({ value: true, errorCode: "PARSE_ERROR" });
  expect(details("nodash")).toMatchObject({ value: true, errorCode: "FLAG_NOT_FOUND" });
  expect(details("s-constructor")).toMatchObject({ value: true, errorCode: "FLAG_NOT_FOUND" });
});
