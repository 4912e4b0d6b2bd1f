import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { InvalidPricingTokenError } from "../../../src/client/invalid-pricing-token-error.ts";
import { usageOf } from "../../../src/client/feature-state.ts";
import { parsePricingToken } from "../../../src/client/pricing-token.ts";
import { createTestToken } from "../../../src/client/front/test-token.ts";
import { TokenService } from "../../../src/client/front/token-service.ts";
import { serializeTokenPayload } from "../../../src/core/pricing-token.ts";

/* Source: contract clients §1.7. */

const NOW = 1_800_000_000;

beforeEach(() => vi.useFakeTimers({ now: NOW * 1000 }));
afterEach(() => vi.useRealTimers());

const base64url = (text: string) => Buffer.from(text).toString("base64url");
const raw = (payload: unknown) => `header.${base64url(JSON.stringify(payload))}.signature`;
const good = (claims: object = {}) => raw({ exp: NOW + 60, features: { "zoom-a": { eval: true } }, ...claims });
const refusal = (token: unknown): unknown => {
  try {
    parsePricingToken(token as string);
    return undefined;
  } catch (error) {
    return error;
  }
};

describe("a token is accepted", () => {
  test.each([
    { what: "with white space around it", token: ` \n${good()}\t` },
    { what: "without a signature", token: good().slice(0, -".signature".length) },
    { what: "with an empty signature", token: `${good().slice(0, -"signature".length)}` },
    {
      what: "in padded plain base64",
      token: `h.${Buffer.from(JSON.stringify({ exp: NOW + 60, x: "??>>" })).toString("base64")}.s`,
    },
    { what: "that has expired (C9)", token: good({ exp: NOW - 60 }) },
    { what: "without features", token: raw({ exp: NOW + 60 }) },
    { what: "with null contexts", token: good({ pricingContext: null, subscriptionContext: 7 }) },
  ])("$what", ({ token }) => {
    expect(parsePricingToken(token)).toMatchObject({ exp: expect.any(Number), features: expect.any(Object) });
  });

  test("R9: with the characters of base64url, and with text beyond ASCII", () => {
    const text = "ñandú 日本 🎟 ???>>>~~~";
    const token = good({ sub: text });
    expect(token).toMatch(/[-_]/);
    expect(parsePricingToken(token).sub).toBe(text);
  });

  test("as the server writes it", () => {
    const features = { "zoom-a": { eval: true, limit: 5, used: 2, error: null } };
    const names = { sub: "ñ?~", iss: "https://pricing.example.com", aud: "67f0c0ffee0123456789aaaa" };
    const claims = { features, pricingContext: {}, subscriptionContext: {}, iat: NOW, exp: NOW + 3600, ...names };
    expect(parsePricingToken(`h.${base64url(serializeTokenPayload(claims))}.s`)).toEqual(claims);
  });
});

describe("a token is refused, by the step that found out", () => {
  test.each([
    [undefined, "type"],
    [7, "type"],
    ["", "type"],
    ["  ", "type"],
    ["one", "segments"],
    ["a.b.c.d", "segments"],
    ["a..c", "segments"],
    ["a.{}.c", "encoding"],
    ["a.abcde.c", "encoding"],
    [`a.${Buffer.from([0xff, 0xfe]).toString("base64url")}.c`, "encoding"],
    [`a.${base64url("no json")}.c`, "json"],
    [raw(null), "json"],
    [raw([1]), "json"],
    [raw(123), "json"],
    [raw("text"), "json"],
    [raw({}), "exp"],
    [raw({ exp: "1" }), "exp"],
    [raw({ exp: null }), "exp"],
    [raw({ exp: 1, features: null }), "features"],
    [raw({ exp: 1, features: [] }), "features"],
    [raw({ exp: 1, features: "x" }), "features"],
  ])("%j: %s", (token, reason) => {
    const error = refusal(token);
    expect(error).toBeInstanceOf(InvalidPricingTokenError);
    expect(error).toMatchObject({ code: "INVALID_TOKEN", reason, name: "InvalidPricingTokenError" });
  });

  test("R10: and then the token before it stays, nobody is notified, and the message does not contain it", () => {
    const tokens = new TokenService();
    tokens.update(good());
    const before = tokens.getPayload();
    const heard = vi.fn();
    tokens.subscribe(heard);
    for (const bad of [raw(null), raw(123), raw({}), "x.SECRETSECRET.y"]) {
      expect(() => tokens.update(bad)).toThrow(/^(?!.*SECRET)Invalid pricing token/);
    }
    expect(heard).not.toHaveBeenCalled();
    expect(tokens.getPayload()).toBe(before);
  });
});

describe("reading", () => {
  test("without a token and with an expired one everything is null", () => {
    const tokens = new TokenService();
    const nulls = () => [tokens.getPayload(), tokens.getKey("exp"), tokens.evaluateFeature("zoom-a")];
    expect([...nulls(), tokens.status]).toEqual([null, null, null, "none"]);
    tokens.update(good({ exp: NOW }));
    expect([...nulls(), tokens.status]).toEqual([null, null, null, "expired"]);
    tokens.update(good());
    expect(tokens.evaluateFeature("zoom-a")).toBe(true);
    vi.setSystemTime((NOW + 60) * 1000 - 1);
    expect(tokens.status).toBe("valid");
    vi.setSystemTime((NOW + 60) * 1000);
    expect([...nulls(), tokens.status]).toEqual([null, null, null, "expired"]);
  });

  test("R16: looks at own properties only, and never answers undefined", () => {
    const tokens = new TokenService();
    tokens.update(
      raw({ exp: NOW + 60, features: { "zoom-a": { eval: true }, "zoom-b": { eval: "yes" } }, sub: "ada" }),
    );
    expect(tokens.getKey("sub")).toBe("ada");
    for (const key of ["missing", "toString", "constructor", "__proto__"]) expect(tokens.getKey(key)).toBeNull();
    for (const id of ["constructor", "toString", "__proto__", "missing-one", "zoom-b"]) {
      expect(tokens.evaluateFeature(id)).toBeNull();
    }
  });

  test("R18: gives the same deeply frozen payload every time", () => {
    const tokens = new TokenService();
    tokens.update(good({ pricingContext: { deep: [{ er: 1 }] } }));
    const payload = tokens.getPayload<{
      features: Record<string, { eval: boolean }>;
      pricingContext: { deep: object[] };
    }>();
    expect(tokens.getPayload()).toBe(payload);
    expect(() => {
      if (payload?.features["zoom-a"]) payload.features["zoom-a"].eval = false;
    }).toThrow(TypeError);
    expect(() => payload?.pricingContext.deep.push({})).toThrow(TypeError);
  });

  test("an entry named __proto__ neither harms nor is found by inheritance", () => {
    const tokens = new TokenService();
    const token = `h.${base64url(`{"exp":${NOW + 60},"features":{"__proto__":{"eval":true},"a-b":{"eval":false}}}`)}.s`;
    tokens.update(token);
    tokens.update(token);
    expect(tokens.evaluateFeature("__proto__")).toBe(true);
    expect(tokens.evaluateFeature("eval")).toBeNull();
    expect(Object.getPrototypeOf(tokens.getPayload()?.features)).toBe(Object.prototype);
  });
});

describe("subscribers", () => {
  test("hear once of an update, before it returns, and can leave twice", () => {
    const tokens = new TokenService();
    const heard: unknown[] = [];
    const leave = tokens.subscribe(() => heard.push(tokens.evaluateFeature("zoom-a")));
    tokens.update(good());
    expect(heard).toEqual([true]);
    leave();
    leave();
    tokens.update(good());
    expect(heard).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("are not called when removed by one before them; one that throws stops no other", () => {
    const quiet = vi.spyOn(console, "error").mockReturnValue();
    const tokens = new TokenService();
    const heard: string[] = [];
    tokens.subscribe(() => {
      heard.push("first");
      leaveSecond();
      tokens.subscribe(() => heard.push("new"));
      throw new Error("first");
    });
    const leaveSecond = tokens.subscribe(() => heard.push("second"));
    tokens.subscribe(() => heard.push("third"));
    tokens.update(good());
    expect(heard).toEqual(["first", "third"]);
    expect(quiet).toHaveBeenCalledWith(expect.objectContaining({ message: "first" }));
    quiet.mockRestore();
  });

  test("R1: hear once of the expiry, and once of clearing", () => {
    const tokens = new TokenService();
    const heard = vi.fn();
    tokens.subscribe(heard);
    tokens.update(good({ exp: NOW + 10 }));
    heard.mockClear();
    vi.advanceTimersByTime(9_999);
    expect(heard).not.toHaveBeenCalled();
    vi.advanceTimersByTime(60_000);
    expect(heard).toHaveBeenCalledTimes(1);
    tokens.update(good({ exp: NOW + 600 }));
    heard.mockClear();
    tokens.clear();
    tokens.clear();
    expect(heard).toHaveBeenCalledTimes(1);
    expect(tokens.status).toBe("none");
  });

  test("hear of an expiry that is further away than 32 bits of milliseconds, and not before", () => {
    const tokens = new TokenService();
    const heard = vi.fn();
    tokens.subscribe(heard);
    const days = 86_400_000;
    tokens.update(good({ exp: NOW + 60 * 86_400 }));
    heard.mockClear();
    vi.advanceTimersByTime(60 * days - 1);
    expect(heard).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(heard).toHaveBeenCalledTimes(1);
  });

  test("hear of it at once when a sleeping page wakes up after the expiry", () => {
    const listeners = new Map<string, () => void>();
    vi.stubGlobal("addEventListener", (type: string, listener: () => void) => listeners.set(type, listener));
    vi.stubGlobal("removeEventListener", (type: string) => listeners.delete(type));
    const tokens = new TokenService();
    const heard = vi.fn();
    const leave = tokens.subscribe(heard);
    tokens.update(good());
    heard.mockClear();
    vi.setSystemTime((NOW + 100) * 1000);
    listeners.get("visibilitychange")?.();
    listeners.get("pageshow")?.();
    expect(heard).toHaveBeenCalledTimes(1);
    leave();
    expect([...listeners.keys()]).toEqual([]);
    vi.unstubAllGlobals();
  });

  test("hear of loading only where it shows", () => {
    const tokens = new TokenService();
    const heard: string[] = [];
    tokens.subscribe(() => heard.push(tokens.status));
    tokens.setLoading(true);
    tokens.setLoading(true);
    tokens.update(good());
    tokens.setLoading(true);
    vi.advanceTimersByTime(60_000);
    tokens.setLoading(false);
    expect(heard).toEqual(["loading", "valid", "loading", "expired"]);
  });

  test("the status is loading again when a token from elsewhere expires, and none after a sign-out", () => {
    const tokens = new TokenService();
    tokens.setLoading(true);
    tokens.update(good());
    expect(tokens.status).toBe("valid");
    tokens.update(good({ exp: NOW }));
    expect(tokens.getFeature("zoom-a").status).toBe("loading");
    tokens.clear();
    expect(tokens.status).toBe("none");
  });

  test("hear of nothing by themselves, and no timer runs, while whoever fills the service rests", () => {
    const tokens = new TokenService();
    const heard = vi.fn();
    tokens.update(good());
    tokens.subscribe(heard);
    tokens.suspend(true);
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(60_000);
    expect(heard).not.toHaveBeenCalled();
    tokens.suspend(false);
    expect(heard).toHaveBeenCalledTimes(1);
  });
});

test("R25: it keeps a token in memory and nowhere else", () => {
  const writes = vi.fn();
  for (const name of ["localStorage", "sessionStorage"]) vi.stubGlobal(name, { setItem: writes });
  const tokens = new TokenService();
  const before = Object.keys(globalThis).length;
  tokens.update(createTestToken({ features: { "zoom-a": true } }));
  expect(writes).not.toHaveBeenCalled();
  expect(Object.keys(globalThis)).toHaveLength(before);
  vi.unstubAllGlobals();
});

describe("usage", () => {
  test.each([
    { limit: 10, used: 4, usage: { limit: 10, used: 4, remaining: 6, ratio: 0.4, exceeded: false } },
    { limit: 10, used: 12, usage: { limit: 10, used: 12, remaining: 0, ratio: 1.2, exceeded: true } },
    { limit: 0, used: 0, usage: { limit: 0, used: 0, remaining: 0, ratio: 1, exceeded: true } },
    { limit: 1e8, used: 2e8, usage: { limit: 1e8, used: 2e8, remaining: 0, ratio: 2, exceeded: false } },
    { limit: null, used: null, usage: { limit: null, used: null, remaining: null, ratio: null, exceeded: false } },
    { limit: null, used: 3, usage: { limit: null, used: 3, remaining: null, ratio: null, exceeded: false } },
    {
      limit: { a: 10, b: 5, c: true },
      used: { a: 2, b: 4, c: false },
      usage: { limit: 5, used: 4, remaining: 1, ratio: 0.8, exceeded: false },
    },
  ])("of $used of $limit", ({ limit, used, usage }) => {
    expect(usageOf({ limit, used })).toEqual(usage);
  });
});
