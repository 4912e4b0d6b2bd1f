import { calculateJwkThumbprint, compactVerify, importJWK } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requireTokenSigner } from "../../src/entries/process/resources.ts";
import { contextOf, type Resources } from "../../src/operations/context.ts";
import { createKeyring } from "../../src/operations/credentials.ts";
import { createResources } from "../../src/operations/resources.ts";
import { reencryptKeys } from "../../src/operations/accounts/reseal.ts";
import {
  createFirstTokenKey,
  currentTokenKeys,
  revokeTokenKeys,
  rotateTokenKey,
} from "../../src/operations/token-keys.ts";
import { createTestApi, type TestApi, type TestOrganization, type TestUser } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { createTestDatabase } from "../support/database.ts";
import { testKeyring } from "../support/event-server.ts";

/* Keys of the instance that sign EdDSA tokens. Source: contract tokens-and-leases §2.2 to §2.4 and cases 1 to 10. */

let api: TestApi;
let a: string;
let b: TestOrganization;
let stranger: TestUser;

const NOW = new Date("2025-06-15T12:00:00.000Z");
const JWKS = "/.well-known/jwks.json";
const VALID = { valid: true, reason: null };
const refused = (reason: string) => ({ valid: false, reason });
const FOREIGN = refused("The token is of another organization");
const NOT_OURS = refused("The signature is not of this server");
const DAY_MS = 86_400_000;
const HOSTILE = "ñ?~";

interface Jwk {
  kty: string;
  crv: string;
  kid: string;
  x: string;
}

beforeAll(async () => {
  api = await createTestApi({
    settings: { tokenLifetimeSeconds: 90 },
    http: { allowedOrigins: ["https://own.example"] },
  });
  api.setNow(NOW);
  a = api.callers.all.key;
  stranger = await api.newUser("stranger");
  b = await api.newOrganization(stranger, "Stranger");
  for (const key of [a, b.key]) {
    await upload(api, key, tasker());
    await contract(api, key, "ada");
    await contract(api, key, HOSTILE);
  }
});
afterAll(() => api.close());

const asNobody = (resources: Resources) => contextOf(resources, { kind: "anonymous" });
const keySet = async () => (await api.call<{ keys: Jwk[] }>("GET", JWKS)).body.keys;
const kids = async () => (await keySet()).map(({ kid }) => kid);

const tokenAnswer = (key: string, query: string, user = "ada") =>
  api.call<{ pricingToken: string }>("POST", `/features/${encodeURIComponent(user)}/pricing-token${query}`, { key });

async function token(key: string, query = "?signature=EdDSA", user = "ada"): Promise<string> {
  const { status, body } = await tokenAnswer(key, query, user);
  expect(status).toBe(200);
  return body.pricingToken;
}

const part = (text: string, index: number) =>
  JSON.parse(atob((text.split(".")[index] ?? "").replaceAll("-", "+").replaceAll("_", "/"))) as Record<string, unknown>;
const kidOf = (text: string) => part(text, 0)["kid"];

const verdict = async (key: string, text: string) =>
  (await api.call("POST", "/pricing-tokens/verify", { key, body: { token: text } })).body;

const auditOf = (action: string) =>
  api.database.connection.client<
    { organization_id: string | null; actor_kind: string; target: string; before: unknown; after: unknown }[]
  >`select organization_id, actor_kind, target, before, after from audit_log where action = ${action} order by id desc`;

/** Resources as another process has them, which caches nothing. */
const otherProcess = async (overrides: { secret?: string; previous?: string } = {}) =>
  createResources(api.database.connection, {
    keyring: await createKeyring({
      jwtSecret: "jwt secret of the tests, 32 bytes or more",
      jwtSalt: "jwt salt of the tests",
      apiKeysSecret: overrides.secret ?? "api keys secret of the tests, 32 bytes or more",
      previousApiKeysSecret: overrides.previous,
    }),
    settings: api.resources.settings,
    now: api.resources.now,
  });

describe("signature", () => {
  test("HS256 is the default, and EdDSA signs the same claims with the published key", async () => {
    const hs256 = await token(a, "", HOSTILE);
    const edDsa = await token(a, "?signature=EdDSA", HOSTILE);
    expect(hs256.split(".")[0]).toBe("eyJhbGciOiJIUzI1NiJ9");
    expect(await token(a, "?signature=HS256", HOSTILE)).toBe(hs256);
    expect(edDsa.split(".")[1]).toBe(hs256.split(".")[1]);
    // Published clients decode the payload with atob.
    expect(JSON.parse(atob(edDsa.split(".")[1] ?? ""))).toMatchObject({
      sub: HOSTILE,
      aud: api.callers.organizationId,
    });
    const [jwk] = await keySet();
    expect(Object.keys(jwk ?? {})).toEqual(["kty", "crv", "use", "alg", "kid", "x"]);
    expect(Object.entries(part(edDsa, 0))).toEqual([
      ["alg", "EdDSA"],
      ["kid", jwk?.kid],
    ]);
    expect(await calculateJwkThumbprint({ kty: "OKP", crv: "Ed25519", x: jwk?.x ?? "" })).toBe(jwk?.kid);
    await compactVerify(edDsa, await importJWK({ ...jwk }, "EdDSA"), { algorithms: ["EdDSA"] });
    expect(await token(a, "?signature=EdDSA", HOSTILE)).toBe(edDsa);
  });

  test("other signatures are refused, after `at` and before the contract is looked for", async () => {
    const error = "INVALID DATA: signature must be EdDSA or HS256";
    for (const query of ["?signature=RS256", "?signature=", "?signature=eddsa"]) {
      expect(await tokenAnswer(a, query, "nobody"), query).toMatchObject({ status: 400, body: { error } });
    }
    expect(await tokenAnswer(a, "?signature=EdDSA&signature=EdDSA")).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: Query parameter signature must be given once" },
    });
    expect(await tokenAnswer(a, "?signature=x&at=2025-01-01T00:00:00Z")).toMatchObject({
      body: { error: "INVALID DATA: A pricing token cannot be issued for a moment in the past" },
    });
  });

  test("TOKEN_SIGNATURE decides where the call names none", async () => {
    api.resources.settings.tokenSignature = "EdDSA";
    try {
      expect(part(await token(a, ""), 0)["alg"]).toBe("EdDSA");
      expect(part(await token(a, "?signature=HS256"), 0)).toEqual({ alg: "HS256" });
    } finally {
      delete api.resources.settings.tokenSignature;
    }
  });
});

describe("verification", () => {
  test("a token of another organization is valid only for those who are in it, and for a platform ADMIN", async () => {
    const ofB = await token(b.key);
    const { owner, platformAdmin } = api.callers;
    expect(await verdict(a, ofB)).toEqual(FOREIGN);
    expect(await verdict(b.key, ofB)).toEqual(VALID);
    expect(await verdict(owner.key, ofB)).toEqual(FOREIGN);
    expect(await verdict(stranger.key, ofB)).toEqual(VALID);
    expect(await verdict(platformAdmin.key, ofB)).toEqual(VALID);
    expect(await verdict(a, await token(a))).toEqual(VALID);
  });

  test("an expired token of another organization is refused as foreign, one's own as expired", async () => {
    const [ofA, ofB] = [await token(a), await token(b.key)];
    api.setNow(new Date(NOW.getTime() + 90_000));
    expect(await verdict(a, ofB)).toEqual(FOREIGN);
    expect(await verdict(a, ofA)).toEqual(refused("The token has expired"));
    api.setNow(NOW);
  });

  test("an algorithm cannot be passed off as the other one, and every bit counts", async () => {
    const own = await token(a);
    const [header = "", payload = "", signature = ""] = own.split(".");
    const hs256 = await token(a, "");
    const flipped = `${signature[0] === "A" ? "B" : "A"}${signature.slice(1)}`;
    const unnamed = btoa(JSON.stringify({ alg: "EdDSA" })).replaceAll("=", "");
    const [jwk] = await keySet();
    const hmacKey = await crypto.subtle.importKey(
      "raw",
      Buffer.from(jwk?.x ?? "", "base64url"),
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign"],
    );
    const hmac = async (head: string) => {
      const bytes = await crypto.subtle.sign("HMAC", hmacKey, new TextEncoder().encode(`${head}.${payload}`));
      return `${head}.${payload}.${Buffer.from(bytes).toString("base64url")}`;
    };
    for (const forged of [
      `${header}.${payload}.${flipped}`,
      `${header}.${payload}.`,
      `${unnamed}.${payload}.${signature}`,
      `${hs256.split(".")[0]}.${payload}.${signature}`,
      `${header}.${payload}.${hs256.split(".")[2]}`,
      await hmac(header),
      await hmac(hs256.split(".")[0] ?? ""),
    ]) {
      expect(await verdict(a, forged), forged).toEqual(NOT_OURS);
    }
  });
});

describe("public keys", () => {
  test("are for every page, cacheable and conditional, under the sub-path too, whatever key is sent", async () => {
    const shown = await api.call("GET", JWKS, { headers: { origin: "https://foreign.example", "x-api-key": "wrong" } });
    expect(shown.status).toBe(200);
    expect(shown.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(shown.headers.get("cache-control")).toBe("public, max-age=300");
    expect(shown.headers.get("access-control-allow-origin")).toBe("*");
    expect(shown.headers.get("access-control-allow-credentials")).toBeNull();
    expect(shown.headers.get("vary")).toBeNull();
    const etag = shown.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[^"]+"$/);
    for (const tag of [etag, "*"]) {
      const same = await api.app.request(JWKS, { headers: { "if-none-match": tag } });
      expect({ status: same.status, body: await same.text() }).toEqual({ status: 304, body: "" });
      expect(same.headers.get("etag")).toBe(etag);
      expect(same.headers.get("cache-control")).toBe("public, max-age=300");
    }
    const head = await api.app.request(JWKS, { method: "HEAD" });
    expect({ status: head.status, etag: head.headers.get("etag"), body: await head.text() }).toEqual({
      status: 200,
      etag,
      body: "",
    });
    for (const method of ["POST", "PUT", "DELETE"] as const) {
      expect((await api.call(method, JWKS, { key: a })).status).toBe(403);
    }
    const preflight = await api.app.request(JWKS, {
      method: "OPTIONS",
      headers: { origin: "https://foreign.example", "access-control-request-method": "GET" },
    });
    expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
  });

  test("are under BASE_URL_PATH and at the root", async () => {
    const own = await createTestApi({ http: { baseUrlPath: "/space" } });
    try {
      const texts = await Promise.all(
        [JWKS, `/space${JWKS}`].map(async (path) => (await own.app.request(path)).text()),
      );
      expect(texts[0]).toBe(texts[1]);
      expect(JSON.parse(texts[0] ?? "")).toMatchObject({ keys: [{ alg: "EdDSA" }] });
    } finally {
      await own.close();
    }
  });
});

describe("first key", () => {
  test("is one, however many processes find none at once", async () => {
    const database = await createTestDatabase();
    try {
      const keyring = await testKeyring();
      const processes = Array.from({ length: 4 }, () =>
        createResources(database.connection, { keyring, settings: api.resources.settings, now: () => NOW }),
      );
      const found = await Promise.all(
        processes.map((resources, i) =>
          i % 2 === 0 ? createFirstTokenKey(asNobody(resources)) : currentTokenKeys(asNobody(resources)),
        ),
      );
      expect(new Set(found.flat().map(({ kid }) => kid)).size).toBe(1);
      const { client } = database.connection;
      const rows = await client`select organization_id, target from audit_log where action = 'token-key.create'`;
      expect([...rows]).toEqual([{ organization_id: "", target: found[0]?.[0]?.kid }]);
      expect(await client`select 1 from token_keys`).toHaveLength(1);
    } finally {
      await database.drop();
    }
  });

  test("is carried to a new API_KEYS_SECRET by reseal, and signs on", async () => {
    const [before] = await kids();
    const fresh = "another secret of the tests, 32 bytes or more";
    const old = "api keys secret of the tests, 32 bytes or more";
    const after = await otherProcess({ secret: fresh });
    // Until then the new secret alone reads nothing: EdDSA calls are 503, and everything else goes on.
    await expect(requireTokenSigner(after)).rejects.toThrow(/API_KEYS_SECRET/);
    const keyring = api.resources.keyring;
    try {
      await reencryptKeys(await otherProcess({ secret: fresh, previous: old }));
      await requireTokenSigner(after);
      await expect(requireTokenSigner(await otherProcess())).rejects.toThrow(/API_KEYS_SECRET/);
      expect(await kids()).toEqual([before]);
    } finally {
      await reencryptKeys(await otherProcess({ secret: old, previous: fresh }));
      api.resources.keyring = keyring;
    }
    await api.resources.invalidationsApplied?.();
    expect(kidOf(await token(a))).toBe(before);
  });

  test("that cannot be read makes EdDSA calls 503, while HS256, the key set and verification go on", async () => {
    const ofA = await token(a);
    const { client } = api.database.connection;
    const [row] = await client<{ private_sealed: string }[]>`select private_sealed from token_keys`;
    await client`update token_keys set private_sealed = 'v1$AAAA$AAAA'`;
    try {
      await api.resources.invalidationsApplied?.();
      expect(await tokenAnswer(a, "?signature=EdDSA")).toMatchObject({
        status: 503,
        body: { error: "The token key cannot be read. Please try again later" },
      });
      expect((await tokenAnswer(a, "")).status).toBe(200);
      expect(await kids()).toEqual([kidOf(ofA)]);
      expect(await verdict(a, ofA)).toEqual(VALID);
    } finally {
      await client`update token_keys set private_sealed = ${row?.private_sealed ?? ""}`;
      await api.resources.invalidationsApplied?.();
    }
    expect((await tokenAnswer(a, "?signature=EdDSA")).status).toBe(200);
  });
});

describe("rotation", () => {
  test("publishes the new key before it signs, keeps the old one while its tokens are valid, and then forgets it", async () => {
    const [first] = await kids();
    const other = asNobody(await otherProcess());
    const rotated = await rotateTokenKey(other, { leadMs: 3000 });
    if (!rotated.isDone) throw new Error("not rotated");
    const second = rotated.key.kid;
    const signsFrom = new Date(NOW.getTime() + 3000);
    const until = new Date(signsFrom.getTime() + DAY_MS + 600_000);
    expect(rotated).toMatchObject({ key: { signsFrom }, previous: { kid: first, publishedUntil: until } });
    expect((await auditOf("token-key.rotate"))[0]).toEqual({
      organization_id: "",
      actor_kind: "anonymous",
      target: second,
      before: { kid: first },
      after: { kid: second, signsFrom: signsFrom.toISOString(), publishedUntil: null },
    });
    await api.resources.invalidationsApplied?.();
    expect(await kids()).toEqual([first, second]);
    const byFirst = await token(a);
    expect(kidOf(byFirst)).toBe(first);
    expect(await rotateTokenKey(other, { leadMs: 3000 })).toMatchObject({ isDone: false, next: { kid: second } });
    expect(await kids()).toEqual([first, second]);

    api.setNow(signsFrom);
    const bySecond = await token(a);
    expect(kidOf(bySecond)).toBe(second);
    expect(await verdict(a, byFirst)).toEqual(VALID);
    expect(await verdict(a, bySecond)).toEqual(VALID);
    api.setNow(new Date(until.getTime() - 1));
    expect(await verdict(a, byFirst)).toEqual(refused("The token has expired"));
    api.setNow(until);
    expect(await kids()).toEqual([second]);
    expect(await verdict(a, byFirst)).toEqual(NOT_OURS);
    await rotateTokenKey(other, { leadMs: 1000 });
    await api.resources.invalidationsApplied?.();
    expect(await api.database.connection.client`select kid from token_keys where kid = ${first ?? ""}`).toHaveLength(0);
    api.setNow(new Date(until.getTime() + 1000));
  });

  test("with --revoke withdraws every other key at once, also one that does not sign yet", async () => {
    const now = api.resources.now();
    const earlier = await token(a);
    const hs256 = await token(a, "");
    const other = asNobody(await otherProcess());
    await rotateTokenKey(other, { leadMs: 600_000 });
    await api.resources.invalidationsApplied?.();
    const before = await keySet();
    const { key, withdrawn } = await revokeTokenKeys(other);
    expect(withdrawn).toBe(before.length);
    expect(withdrawn).toBeGreaterThan(1);
    await api.resources.invalidationsApplied?.();
    expect(await kids()).toEqual([key.kid]);
    expect(await verdict(a, earlier)).toEqual(NOT_OURS);
    expect(await verdict(a, hs256)).toEqual(VALID);
    // Within the same second too: a token of a withdrawn key is not given out again.
    expect(kidOf(await token(a))).toBe(key.kid);
    expect((await auditOf("token-key.revoke"))[0]).toMatchObject({
      organization_id: "",
      target: key.kid,
      before: { kid: kidOf(earlier) },
      after: { kid: key.kid, signsFrom: now.toISOString(), publishedUntil: null },
    });
  });
});
