import { CompactSign, importJWK } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createTokenVerifier, type TokenVerifierOptions } from "../../src/client/verify.ts";
import { contextOf } from "../../src/operations/context.ts";
import { revokeTokenKeys, rotateTokenKey } from "../../src/operations/token-keys.ts";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

/* `faregate/verify` over the server. Source: contract tokens-and-leases §3 and cases 11 to 13. */

const NOW = new Date("2025-06-15T12:00:00.000Z");
const URL_OF_KEYS = "http://faregate.test/.well-known/jwks.json";
/** The key of RFC 8037 A.1 and A.2, with its thumbprint of A.3. */
const RFC_KEY = {
  kty: "OKP",
  crv: "Ed25519",
  kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
  x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
};
const RFC_PRIVATE = { ...RFC_KEY, d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A" };
const CLAIMS = { features: { a: { eval: true } }, iat: 1, exp: 4_000_000_000, sub: "ada", iss: "urn:x", aud: "org" };

let api: TestApi;
let b: TestOrganization;
let moment = NOW.getTime();
let requests: { status: number; init: RequestInit | undefined }[] = [];
let isDown = false;

beforeAll(async () => {
  api = await createTestApi();
  b = await api.newOrganization(await api.newUser("stranger"), "Stranger");
  for (const key of [api.callers.all.key, b.key]) {
    await upload(api, key, tasker());
    await contract(api, key, "ada");
  }
});
afterAll(() => api.close());
beforeEach(() => {
  setTime(NOW.getTime());
  requests = [];
  isDown = false;
});

function setTime(milliseconds: number): void {
  moment = milliseconds;
  api.setNow(new Date(milliseconds));
}

const send: typeof fetch = async (input, init) => {
  if (isDown) throw new TypeError("fetch failed");
  const answer = await api.app.request(String(input).slice("http://faregate.test".length), init);
  requests.push({ status: answer.status, init });
  return answer;
};
const verifierOf = (options: Partial<TokenVerifierOptions> = {}) =>
  createTokenVerifier({
    organizationId: api.callers.organizationId,
    ...(options.jwks === undefined ? { jwksUrl: URL_OF_KEYS } : {}),
    fetch: send,
    now: () => moment,
    ...options,
  });

async function token(query = "?signature=EdDSA", key = api.callers.all.key): Promise<string> {
  const path = `/features/ada/pricing-token${query}`;
  return (await api.call<{ pricingToken: string }>("POST", path, { key })).body.pricingToken;
}

const sign = async (claims: object | string, header: object = {}) =>
  new CompactSign(new TextEncoder().encode(typeof claims === "string" ? claims : JSON.stringify(claims)))
    .setProtectedHeader({ alg: "EdDSA", kid: RFC_KEY.kid, ...header })
    .sign(await importJWK(RFC_PRIVATE, "EdDSA"));
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const refused = (reason: string, message: string) => ({ ok: false, reason, message });

it("returns the frozen claims of a token of its organization, after one request", async () => {
  const verifier = verifierOf();
  const own = await token();
  const [verdict, again] = await Promise.all([verifier.verify(own), verifier.verify(own)]);
  if (!verdict.ok) throw new Error(verdict.message);
  expect(again.ok).toBe(true);
  expect(verdict.payload).toMatchObject({ sub: "ada", aud: api.callers.organizationId });
  expect(verdict.kid).toBe(JSON.parse(atob(own.split(".")[0] ?? "")).kid);
  expect([verdict.payload, verdict.payload.features].every(Object.isFrozen)).toBe(true);
  expect(requests).toMatchObject([{ status: 200, init: { redirect: "manual" } }]);
});

it("refuses other organizations, issuers and algorithms, and a changed bit", async () => {
  const verifier = verifierOf();
  const own = await token();
  const [header = "", payload = "", signature = ""] = own.split(".");
  const jwks = (await (await send(URL_OF_KEYS)).json()) as { keys: { x: string }[] };
  const hmacKey = Buffer.from(jwks.keys[0]?.x ?? "", "base64url");
  const hmac = await crypto.subtle.importKey("raw", hmacKey, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const forged = Buffer.from(
    await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(`${header}.${payload}`)),
  ).toString("base64url");
  const algorithm = refused("algorithm", "The token is not signed with EdDSA");
  const wrong = refused("signature", "The signature does not fit the token");
  const flipped = `${signature[0] === "A" ? "B" : "A"}${signature.slice(1)}`;
  expect(await verifier.verify(await token("?signature=EdDSA", b.key))).toEqual(
    refused("audience", "The token is of another organization"),
  );
  expect(await verifier.verify(await token("?signature=HS256"))).toEqual(algorithm);
  expect(await verifier.verify(`${encoded({ alg: "none" })}.${payload}.`)).toEqual(algorithm);
  expect(await verifier.verify(`${encoded({ alg: "EdDSA" })}.${payload}.${signature}`)).toEqual(algorithm);
  expect(await verifier.verify(`${header}.${payload}.${forged}`)).toEqual(wrong);
  expect(await verifier.verify(`${header}.${payload}.${flipped}`)).toEqual(wrong);
  expect(await verifier.verify(`${header}.${payload}.`)).toEqual(wrong);
  expect(await verifierOf({ issuer: "urn:other" }).verify(own)).toEqual(
    refused("issuer", "The token is of another issuer"),
  );
  expect(await verifierOf({ issuer: JSON.parse(atob(payload)).iss }).verify(own)).toMatchObject({ ok: true });
  const { exp } = JSON.parse(atob(payload)) as { exp: number };
  moment = exp * 1000;
  expect(await verifier.verify(own)).toEqual(refused("expired", "The token has expired"));
  moment -= 1;
  expect(await verifier.verify(own)).toMatchObject({ ok: true });
});

describe("with keys that are given", () => {
  it("accepts the key of RFC 8037, and reads nothing", async () => {
    const verifier = verifierOf({ jwks: { keys: [RFC_KEY] }, organizationId: "org" });
    expect(await verifier.verify(await sign(CLAIMS))).toMatchObject({ ok: true, kid: RFC_KEY.kid, payload: CLAIMS });
    expect(await verifier.verify(await sign({ ...CLAIMS, aud: ["org"] }))).toMatchObject({ reason: "audience" });
    const crit = `${encoded({ alg: "EdDSA", kid: RFC_KEY.kid, crit: ["b64"] })}.${encoded(CLAIMS)}.AAAA`;
    expect(await verifier.verify(crit)).toMatchObject({ reason: "algorithm" });
    expect(requests).toEqual([]);
  });

  it("does not reject where the keys are no list", async () => {
    const verifier = verifierOf({ jwks: JSON.parse('{"keys":{}}'), organizationId: "org" });
    expect(await verifier.verify(await sign(CLAIMS))).toMatchObject({ reason: "unavailable" });
  });

  it.each([
    ["no key", []],
    ["another key id", [{ ...RFC_KEY, kid: "x" }]],
    ["another curve", [{ ...RFC_KEY, crv: "X25519" }]],
    ["half a key", [{ ...RFC_KEY, x: "AAAA" }]],
  ])("knows no key of a token with %s", async (_, keys) => {
    const verifier = verifierOf({ jwks: { keys }, organizationId: "org" });
    expect(await verifier.verify(await sign(CLAIMS))).toEqual(refused("key", "The key of this token is not known"));
  });

  it.each([
    ["nothing", undefined],
    ["two segments", `${encoded({ alg: "EdDSA" })}.${encoded(CLAIMS)}`],
    ["four segments", `${encoded({})}.${encoded(CLAIMS)}.x.y`],
    ["a header that is a list", `${encoded([])}.${encoded(CLAIMS)}.AAAA`],
    ["a payload that is no JSON", `${encoded({})}.AAAA.AAAA`],
    ["a signature that is no base64url", `${encoded({})}.${encoded(CLAIMS)}.A`],
    ["a space at its end", `${encoded({})}.${encoded(CLAIMS)}.AAAA `],
    ["no exp", `${encoded({})}.${encoded({ ...CLAIMS, exp: undefined })}.AAAA`],
    ["no sub", `${encoded({})}.${encoded({ ...CLAIMS, sub: 1 })}.AAAA`],
    ["features in a list", `${encoded({})}.${encoded({ ...CLAIMS, features: [] })}.AAAA`],
  ])("finds a token with %s malformed", async (_, given) => {
    const verifier = verifierOf({ jwks: { keys: [RFC_KEY] } });
    expect(await verifier.verify(given)).toEqual(refused("malformed", "This is no pricing token"));
  });
});

describe("keys of the server", () => {
  const process = () => contextOf(api.resources, { kind: "anonymous" });

  it("are read again for an unknown key, once, at most every 10 s", async () => {
    const verifier = verifierOf();
    await verifier.verify(await token());
    await revokeTokenKeys(process());
    await api.resources.invalidationsApplied?.();
    const renewed = await token();
    expect(await verifier.verify(renewed)).toMatchObject({ reason: "key" });
    expect(requests).toHaveLength(1);
    setTime(moment + 10_000);
    const verdicts = await Promise.all([verifier.verify(renewed), verifier.verify(renewed)]);
    expect(verdicts.map(({ ok }) => ok)).toEqual([true, true]);
    expect(requests).toHaveLength(2);
    expect(await verifier.verify(await sign(CLAIMS))).toMatchObject({ reason: "key" });
    expect(requests).toHaveLength(2);
  });

  it("are read again after max-age, with If-None-Match, and show a key before it signs", async () => {
    const verifier = verifierOf();
    await verifier.verify(await token());
    setTime(moment + 300_001);
    await verifier.verify(await token());
    expect(requests.map(({ status }) => status)).toEqual([200, 304]);
    await rotateTokenKey(process(), { leadMs: 600_000 });
    await api.resources.invalidationsApplied?.();
    setTime(moment + 300_001);
    await verifier.verify(await token());
    setTime(moment + 299_999);
    expect(await verifier.verify(await token())).toMatchObject({ ok: true });
    expect(requests.map(({ status }) => status)).toEqual([200, 304, 200]);
  });

  it("outlive the server by an hour beyond max-age, and are unavailable before the first answer", async () => {
    const verifier = verifierOf();
    isDown = true;
    const unavailable = refused("unavailable", "The public keys cannot be read");
    expect(await verifier.verify(await token())).toEqual(unavailable);
    isDown = false;
    expect(await verifier.verify(await token())).toMatchObject({ ok: true });
    isDown = true;
    setTime(moment + 600_000);
    expect(await verifier.verify(await token())).toMatchObject({ ok: true });
    setTime(NOW.getTime() + 300_000 + 3_600_000);
    expect(await verifier.verify(await token())).toMatchObject({ ok: true });
    setTime(moment + 1);
    expect(await verifier.verify(await token())).toEqual(unavailable);
    isDown = false;
    expect(await verifier.verify(await token())).toMatchObject({ ok: true });
  });

  it("are not taken from a redirect or from another document", async () => {
    for (const answer of [
      () => new Response(null, { status: 302, headers: { location: URL_OF_KEYS } }),
      () => new Response("<html>"),
      () => Response.json({ keys: "none" }),
      () => Response.json(null),
      () => new Response("{}", { status: 500 }),
    ]) {
      const verifier = verifierOf({ fetch: async () => answer() });
      expect(await verifier.verify(await token())).toMatchObject({ reason: "unavailable" });
    }
  });
});

it("needs an organization, and exactly one source of keys", () => {
  const jwks = { keys: [] };
  for (const organizationId of ["", undefined, 5]) {
    expect(() => createTokenVerifier({ organizationId: organizationId as string, jwks })).toThrow(
      "organizationId must be a non-empty string",
    );
  }
  const sentence = "Exactly one of jwksUrl and jwks must be given";
  expect(() => createTokenVerifier({ organizationId: "org" })).toThrow(sentence);
  expect(() => createTokenVerifier({ organizationId: "org", jwks, jwksUrl: URL_OF_KEYS })).toThrow(sentence);
});
