import { jwtVerify } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { contextOf } from "../../src/operations/context.ts";
import { deriveTokenKey } from "../../src/operations/credentials.ts";
import { createKeyring } from "../../src/operations/credentials.ts";
import { verifyPricingToken } from "../../src/operations/evaluation/pricing-tokens.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, tasker, upload } from "../support/contracting.ts";

let api: TestApi;
let key: string;
let tokenKey: CryptoKey | Uint8Array;

const NOW = new Date("2025-06-15T12:00:00.789Z");

const NAMES = `
saasName: "Añejo"
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  size: { valueType: TEXT, defaultValue: "a > b ? ~c : 日本", type: DOMAIN, expression: "pricingContext['features']['size'] !== ''" }
plans:
  ONLY: { price: 0, unit: user/month, features: {} }
`;

beforeAll(async () => {
  api = await createTestApi({ settings: { tokenLifetimeSeconds: 90 } });
  key = api.callers.all.key;
  tokenKey = await deriveTokenKey("jwt secret of the tests, 32 bytes or more", "jwt salt of the tests");
  await upload(api, key, tasker(), NAMES);
});
afterAll(() => api.close());
beforeEach(() => api.setNow(NOW));

async function token(userId: string, query = "", as = key): Promise<string> {
  const answer = await api.call("POST", `/features/${encodeURIComponent(userId)}/pricing-token${query}`, {
    key: as,
    body: {},
  });
  expect(answer).toMatchObject({ status: 200 });
  expect(Object.keys(answer.body)).toEqual(["pricingToken"]);
  return String(answer.body["pricingToken"]);
}

/** Decodes as the published React client does: atob without base64url conversion. */
const read = (text: string) => JSON.parse(atob(text.split(".")[1] ?? "")) as Claims;

interface Claims {
  features: Record<string, { eval: boolean; limit: number | null; used: number | null; error: unknown }>;
  pricingContext: { features: Record<string, unknown>; usageLimits: Record<string, unknown> };
  subscriptionContext: Record<string, number>;
  sub: string;
}

test("a token is a signed JWS with the claims in order, whole seconds, and the configured life", async () => {
  await contract(api, key, "plain");
  const issued = await token("plain");
  expect(atob(issued.split(".")[0] ?? "")).toBe('{"alg":"HS256"}');
  const { payload } = await jwtVerify(issued, tokenKey, { algorithms: ["HS256"], currentDate: NOW });
  expect(Object.keys(payload)).toEqual([
    "features",
    "pricingContext",
    "subscriptionContext",
    "iat",
    "exp",
    "sub",
    "iss",
    "aud",
  ]);
  expect(payload).toEqual(read(issued));
  expect(payload).toMatchObject({
    iat: 1_749_988_800,
    exp: 1_749_988_890,
    sub: "plain",
    aud: api.callers.organizationId,
  });
  expect(Object.keys(payload["pricingContext"] as object)).toEqual(["features", "usageLimits"]);
  expect(payload["pricingContext"]).toEqual({
    features: {
      "tasker-board": true,
      "tasker-bulk": true,
      "tasker-darkMode": true,
      "tasker-sla": "99.9%",
      "tasker-silent": true,
    },
    usageLimits: { "tasker-maxTasks": 20, "tasker-maxExports": 10, "tasker-maxSeats": 3 },
  });
  expect(payload["subscriptionContext"]).toEqual({ "tasker-maxTasks": 0, "tasker-maxExports": 0 });
  await expect(jwtVerify(issued, tokenKey, { currentDate: new Date(NOW.getTime() + 91_000) })).rejects.toThrow("exp");
});

test("limit and used are the tightest limit's numbers, and null where no limit is involved", async () => {
  await contract(api, key, "scalars");
  await consume(api, key, "scalars", { "tasker-maxTasks": 4, "tasker-maxExports": 1 }, "tasker-bulk");
  const { features } = read(await token("scalars"));
  expect(JSON.stringify(features)).toBe(
    JSON.stringify({
      "tasker-board": { eval: true, limit: 20, used: 4, error: null },
      "tasker-bulk": { eval: true, limit: 10, used: 1, error: null },
      "tasker-darkMode": { eval: true, limit: null, used: null, error: null },
      "tasker-sla": { eval: true, limit: null, used: null, error: null },
    }),
  );
});

test("the server flag asks the server's expressions, and the two never mix", async () => {
  await contract(api, key, "flagged");
  await consume(api, key, "flagged", { "tasker-maxTasks": 20 });
  for (const [query, on] of [
    ["", false],
    ["?server=true", true],
    ["?server=TRUE", false],
    ["?server=true", true],
    ["", false],
  ] as const) {
    expect(read(await token("flagged", query)).features["tasker-board"]).toEqual({
      eval: on,
      limit: 20,
      used: 20,
      error: null,
    });
  }
});

test("each token is fresh: after use, reset, novation and a moment later", async () => {
  await contract(api, key, "fresh");
  const balance = async () => read(await token("fresh")).subscriptionContext["tasker-maxTasks"];
  expect(await balance()).toBe(0);
  await consume(api, key, "fresh", { "tasker-maxTasks": 4 });
  expect(await balance()).toBe(4);
  await api.call("PUT", "/contracts/fresh/usageLevels?reset=true", { key, body: {} });
  expect(await balance()).toBe(0);
  const maps = {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "BASIC" },
    subscriptionAddOns: {},
  };
  await api.call("PUT", "/contracts/fresh", { key, body: maps });
  expect(read(await token("fresh")).pricingContext.usageLimits["tasker-maxTasks"]).toBe(5);
  api.setNow(new Date(NOW.getTime() + 60_000));
  expect(read(await token("fresh"))).toMatchObject({ iat: 1_749_988_860, exp: 1_749_988_950 });
});

test("asking for a token counts nothing, renews what is due, and an EVALUATION key may", async () => {
  await contract(api, key, "renewing", { billingPeriod: { autoRenew: true, renewalDays: 30 } });
  await consume(api, key, "renewing", { "tasker-maxTasks": 4 });
  api.setNow(new Date("2025-08-01T00:00:00.000Z"));
  expect(read(await token("renewing", "", api.callers.evaluation.key)).subscriptionContext).toEqual({
    "tasker-maxTasks": 0,
    "tasker-maxExports": 0,
  });
});

describe("every token survives plain atob:", () => {
  test.each(["ünïcode", "日本語", "👩‍🚀", "a>b?c~d", "a\u007f\u0001b", '\\"', "</script>", "ÿÿÿ", "ﾟ･✿"])(
    "sub %j",
    async (userId) => {
      await contract(api, key, userId, {
        contractedServices: { añejo: "1.0.0" },
        subscriptionPlans: { añejo: "ONLY" },
      });
      const issued = await token(userId);
      expect(issued.split(".")[1]).not.toMatch(/[-_]/);
      const claims = read(issued);
      expect(claims.sub).toBe(userId);
      expect(claims.pricingContext).toEqual({ features: { "añejo-size": "a > b ? ~c : 日本" }, usageLimits: {} });
      const { payload } = await jwtVerify(issued, tokenKey, { currentDate: NOW });
      expect(payload).toEqual(claims);
    },
  );
});

test("a token of one organization has nothing of another one's contract of the same userId", async () => {
  const other = await api.newOrganization(api.callers.outsider, "Other");
  await upload(api, other.key, tasker({ maxTasks: 7 }));
  await contract(api, other.key, "plain");
  await consume(api, other.key, "plain", { "tasker-maxTasks": 2 });
  expect(read(await token("plain")).features["tasker-board"]).toMatchObject({ limit: 20, used: 0 });
  expect(read(await token("plain", "", other.key)).features["tasker-board"]).toMatchObject({ limit: 7, used: 2 });
});

test.each([
  [404, "nobody", "Contract with userId nobody not found"],
  [
    400,
    "planless",
    "Invalid subscription: No plan found in user subscription for service tasker, whose pricing do have plans",
  ],
])("is refused with %i for %s", async (status, userId, error) => {
  if (userId === "planless") await contract(api, key, userId, { subscriptionPlans: {} });
  expect(await api.call("POST", `/features/${userId}/pricing-token`, { key })).toMatchObject({
    status,
    body: { error },
  });
});

test("a token is verified: one of this server, one that has ended, one that somebody else signed, and what is none", async () => {
  await contract(api, key, "verified");
  const verdict = async (body: object) => (await api.call("POST", "/pricing-tokens/verify", { key, body })).body;
  const good = await token("verified");
  expect(await verdict({ token: good })).toEqual({ valid: true, reason: null });
  api.setNow(new Date(NOW.getTime() + 91_000));
  expect(await verdict({ token: good })).toEqual({ valid: false, reason: "The token has expired" });
  const [head, payload, signature = ""] = good.split(".");
  const forged = `${head}.${payload}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
  expect(await verdict({ token: forged })).toEqual({ valid: false, reason: "The signature is not of this server" });
  expect(await verdict({ token: "none" })).toEqual({ valid: false, reason: "This is no pricing token" });
  expect(await verdict({})).toEqual({ error: "The token field is required" });
});

test("a token that the secret before this one signed is still this server's, while that one is known", async () => {
  await contract(api, key, "rotating");
  const old = await token("rotating");
  const secrets = {
    apiKeysSecret: "k".repeat(32),
    jwtSecret: "the next jwt secret of the tests",
    jwtSalt: "jwt salt of the tests",
  };
  const verdict = async (previousJwtSecret?: string) => {
    const keyring = await createKeyring({ ...secrets, previousJwtSecret });
    const caller = { kind: "user", id: "", username: "", role: "ADMIN" } as const;
    return (await verifyPricingToken(contextOf({ ...api.resources, keyring }, caller), old)).valid;
  };
  expect(await verdict()).toBe(false);
  expect(await verdict("jwt secret of the tests, 32 bytes or more")).toBe(true);
});
