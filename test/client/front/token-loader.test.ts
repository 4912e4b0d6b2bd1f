import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ServiceRequestError } from "../../../src/client/service-request-error.ts";
import { createTestToken } from "../../../src/client/front/test-token.ts";
import { TokenLoader } from "../../../src/client/front/token-loader.ts";
import { TokenService } from "../../../src/client/front/token-service.ts";

/* Source: contract clients §3.3: refresh before exp, on focus, clock-skew tolerance. */

const HOUR = 3_600_000;
const MINUTE = 60_000;
let tokens: TokenService;
let loader: TokenLoader;
let errors: Error[];
let wake: () => void;
/** Answers in turn; without one, a token for an hour. */
let answers: (string | Error)[];
let asked: number;
let serverTimeMs: number;

const token = (lifeMs = HOUR, claims: object = {}) =>
  createTestToken({ features: { "zoom-a": true }, exp: Math.floor((Date.now() + lifeMs) / 1000), ...claims });

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const listeners = new Set<() => void>();
  wake = () => listeners.forEach((listener) => listener());
  vi.stubGlobal("addEventListener", (_type: string, listener: () => void) => listeners.add(listener));
  vi.stubGlobal("removeEventListener", (_type: string, listener: () => void) => listeners.delete(listener));
  errors = [];
  answers = [];
  asked = 0;
  serverTimeMs = 0;
  tokens = new TokenService();
  loader = new TokenLoader(tokens, (error) => errors.push(error));
  loader.use(async () => {
    asked += 1;
    const answer = answers.shift() ?? token();
    if (typeof answer !== "string") throw answer;
    return { token: answer, serverTimeMs };
  });
  loader.start();
});
afterEach(() => {
  loader.stop();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);
const setHidden = (hidden: boolean) => {
  vi.stubGlobal("document", { hidden });
  wake();
};

test("refreshes between 70 and 80 % of the life that is left, again and again", async () => {
  await loader.fetchNow();
  await pass(0.75 * HOUR - 1000);
  expect(asked).toBe(1);
  await pass(2000);
  expect(asked).toBe(2);
  await pass(0.75 * HOUR);
  expect(asked).toBe(3);
});

test("never sooner than after five seconds", async () => {
  answers = [token(4000)];
  await loader.fetchNow();
  await pass(4900);
  expect(asked).toBe(1);
  await pass(200);
  expect(asked).toBe(2);
});

test("a token for longer than 32 bits of milliseconds is not refreshed at once", async () => {
  answers = [token(100 * 24 * HOUR), token(200 * 24 * HOUR)];
  await loader.fetchNow();
  await pass(74 * 24 * HOUR);
  expect(asked).toBe(1);
  await pass(2 * 24 * HOUR);
  expect(asked).toBe(2);
});

test("a token that arrives expired is asked for again with growing delays, not in a loop", async () => {
  answers = Array.from({ length: 50 }, () => token(-HOUR, { iat: 1 }));
  await loader.fetchNow();
  await pass(10 * MINUTE);
  expect(asked).toBeGreaterThan(2);
  expect(asked).toBeLessThan(12);
});

test("a failed refresh is told, tried again later, and leaves the token until it expires", async () => {
  await loader.fetchNow();
  answers = [
    new ServiceRequestError("NETWORK", "gone"),
    new ServiceRequestError("HTTP", "busy", { status: 503, body: "" }),
  ];
  await pass(0.75 * HOUR + 1000);
  expect(errors).toMatchObject([{ code: "NETWORK" }]);
  expect(tokens.status).toBe("valid");
  await pass(2 * MINUTE);
  expect(errors).toHaveLength(2);
  expect(asked).toBe(4);
});

test("after the expiry, further failing tries do not make features load again and again", async () => {
  const statuses: string[] = [];
  tokens.subscribe(() => statuses.push(tokens.status));
  await loader.fetchNow();
  statuses.length = 0;
  answers = Array.from({ length: 100 }, () => new ServiceRequestError("NETWORK", "gone"));
  await pass(HOUR + 5 * MINUTE);
  expect(errors.length).toBeGreaterThan(10);
  expect(statuses).toEqual(["expired"]);
  answers = [];
  await pass(2 * MINUTE);
  expect(statuses).toEqual(["expired", "valid"]);
  tokens.clear();
});

test("a refusal is not tried again", async () => {
  await loader.fetchNow();
  answers = [new ServiceRequestError("HTTP", "no", { status: 403, body: "" })];
  await pass(0.75 * HOUR + 1000);
  expect(errors).toMatchObject([{ status: 403 }]);
  await pass(HOUR);
  expect(asked).toBe(2);
});

test("a hidden page waits, and makes up for it when shown", async () => {
  await loader.fetchNow();
  setHidden(true);
  await pass(2 * HOUR);
  expect(asked).toBe(1);
  setHidden(false);
  await pass(0);
  expect(asked).toBe(2);
});

test("shown again after more than a minute it refreshes, after less it does not", async () => {
  await loader.fetchNow();
  setHidden(true);
  await pass(50_000);
  setHidden(false);
  await pass(0);
  expect(asked).toBe(1);
  setHidden(true);
  await pass(61_000);
  setHidden(false);
  await pass(0);
  expect(asked).toBe(2);
});

test("refreshSoon asks once within three seconds, however often it is called", async () => {
  await loader.fetchNow();
  loader.refreshSoon();
  await pass(500);
  loader.refreshSoon();
  await pass(2600);
  expect(asked).toBe(2);
  await pass(MINUTE);
  expect(asked).toBe(2);
});

test("a sign-out cancels the scheduled refresh and the user's origin, also after a long absence", async () => {
  await loader.fetchNow();
  tokens.clear();
  setHidden(true);
  await pass(2 * HOUR);
  setHidden(false);
  loader.refreshSoon();
  await pass(HOUR);
  await loader.load();
  expect([asked, tokens.status]).toEqual([1, "none"]);
});

test("a sign-out cancels the scheduled refresh of a token source, which load still calls", async () => {
  const source = vi.fn(async () => ({ token: token(), serverTimeMs: 0 }));
  loader.use(source, source);
  await loader.fetchNow();
  tokens.clear();
  await pass(2 * HOUR);
  expect(source).toHaveBeenCalledTimes(1);
  await loader.load();
  expect(tokens.status).toBe("valid");
});

test("stopped it aborts and does nothing more; started again it goes on", async () => {
  await loader.fetchNow();
  loader.stop();
  loader.refreshSoon();
  await pass(2 * HOUR);
  expect(asked).toBe(1);
  loader.start();
  await pass(30_000);
  expect(asked).toBe(2);
});

test("a request that never ends is given up by stopping: nothing loads any more, and the next one is requested again", async () => {
  loader.use(() => new Promise(() => {}));
  void loader.fetchNow();
  expect([loader.isLoading, tokens.status]).toEqual([true, "loading"]);
  loader.stop();
  expect([loader.isLoading, tokens.status]).toEqual([false, "none"]);
  loader.use(async () => ({ token: token(), serverTimeMs: 0 }));
  await loader.load();
  expect(tokens.status).toBe("valid");
});

test("answers of an origin that ignores the abort are not stored: neither after a later origin, nor after stopping", async () => {
  const wait = (milliseconds: number, sub: string) => async () => {
    await new Promise((done) => setTimeout(done, milliseconds));
    return { token: token(HOUR, { sub }), serverTimeMs: 0 };
  };
  loader.use(wait(100, "ada"));
  const first = loader.fetchNow();
  await pass(10);
  loader.use(wait(10, "bob"));
  const second = loader.fetchNow();
  await pass(50);
  expect(tokens.getKey("sub")).toBe("bob");
  await pass(100);
  await Promise.all([first, second]);
  expect(tokens.getKey("sub")).toBe("bob");
  loader.use(wait(100, "eve"));
  const third = loader.fetchNow().catch((error: unknown) => error);
  await pass(10);
  loader.stop();
  await pass(100);
  expect(await third).toMatchObject({ code: "ABORTED" });
  expect(tokens.getKey("sub")).toBe("bob");
});

test("a slow local clock is corrected by iat, a fast one by the answer's date; small differences are left", async () => {
  const ahead = Date.now() + 10 * MINUTE;
  answers = [token(10 * MINUTE + HOUR, { iat: Math.floor(ahead / 1000) })];
  await loader.fetchNow();
  expect(tokens.lifeLeftMs).toBe(HOUR);
  serverTimeMs = Date.now() - 2 * HOUR;
  answers = [token(-HOUR)];
  await loader.fetchNow();
  expect(tokens.status).toBe("valid");
  expect(tokens.lifeLeftMs).toBe(HOUR);
  serverTimeMs = Date.now() + 20_000;
  await loader.fetchNow();
  expect(tokens.lifeLeftMs).toBe(HOUR);
  serverTimeMs = 0;
  answers = [token(HOUR / 2, { iat: Math.floor((Date.now() - HOUR / 2) / 1000) })];
  await loader.fetchNow();
  expect(tokens.lifeLeftMs).toBe(HOUR / 2);
});

test.each([
  ["2 hours fast", 2 * HOUR],
  ["half an hour fast", HOUR / 2],
  ["2 hours slow", -2 * HOUR],
])("a clock that is %s calls no fetched token expired, without the time of the answer", async (_, fastMs) => {
  const issued = (life: number) => {
    const iat = Math.floor((Date.now() - fastMs) / 1000);
    return createTestToken({ features: { "zoom-a": true }, iat, exp: iat + life / 1000 });
  };
  answers = [issued(HOUR)];
  await loader.fetchNow();
  expect(tokens.status).toBe("valid");
  expect(tokens.evaluateFeature("zoom-a")).toBe(true);
  // The next refresh comes at 75 % of the life that is left by the corrected clock.
  const left = tokens.lifeLeftMs ?? 0;
  answers = [issued(HOUR)];
  await pass(0.75 * left - 1000);
  expect(asked).toBe(1);
  answers = [issued(HOUR)];
  await pass(2000);
  expect(asked).toBe(2);
  expect(tokens.status).toBe("valid");
});

test("a token that is received again expires when it does, however wrong the clock is", async () => {
  const iat = Math.floor((Date.now() - 2 * HOUR) / 1000);
  const same = createTestToken({ features: { "zoom-a": true }, iat, exp: iat + 3600 });
  answers = Array.from({ length: 200 }, () => same);
  await loader.fetchNow();
  expect(tokens.status).toBe("valid");
  await pass(HOUR + 1000);
  expect(tokens.status).toBe("expired");
});

test("a token that another part of the page stores is read by the corrected clock", async () => {
  const iat = Math.floor((Date.now() - 2 * HOUR) / 1000);
  answers = [createTestToken({ features: { "zoom-a": true }, iat, exp: iat + 3600 })];
  await loader.fetchNow();
  tokens.update(createTestToken({ features: { "zoom-a": false }, iat: iat + 60, exp: iat + 3660 }));
  expect(tokens.status).toBe("valid");
  expect(tokens.evaluateFeature("zoom-a")).toBe(false);
});
