import { CompactSign, type CompactJWSHeaderParameters, importJWK } from "jose";
import type { VerifierCase } from "./verifier-cases.ts";
import { type Area, ask, equal, PRICING, type Service, uploadFile, type World } from "./world.ts";

/*
 * Pricing tokens: what the service signs and publishes, and what it and `faregate/verify` accept. Source: contract
 * features-events §7, tokens-and-leases §2 and §3.
 */

/** The key of RFC 8037 A.1 and A.2, with its thumbprint of A.3. */
const RFC_KEY = {
  kty: "OKP",
  crv: "Ed25519",
  kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
  x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
};
const RFC_PRIVATE = { ...RFC_KEY, d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A" };
/** Order of Ed25519's group. A signature whose second half is larger must be refused. Source: RFC 8032 §5.1.7. */
const GROUP_ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const SIGNATURES = ["HS256", "EdDSA"] as const;

export const TOKEN_AREAS: Readonly<Record<string, Area>> = {
  "pricing token": async (world) => {
    for (const signature of [...SIGNATURES, undefined]) {
      const { header, claims, head, body, last } = parts(await issue(world, world.evaluationKey, signature));
      equal([claims["sub"], claims["aud"]], ["ada", world.organizationId], "whom and which organization it is for");
      equal(Number(claims["exp"]) - Number(claims["iat"]), 3600, "how long");
      equal(String(claims["iss"]).startsWith("urn:faregate:"), true, "whose it is");
      const feature = (claims["features"] as Record<string, unknown>)["tasker-board"];
      equal(feature, { eval: true, limit: 5, used: 0, error: null }, "a feature");
      equal(/[-_]/.test(body), false, "atob reads it");
      if (signature === "EdDSA") {
        const [jwk] = await publicKeys(world);
        equal(header, { alg: "EdDSA", kid: jwk?.kid }, "the header names the published key");
      } else {
        equal(header, { alg: "HS256" }, "the header");
        equal(last, parts(await signHs256(world, claims, `${head}.${body}`)).last, "the signature");
      }
    }
    const keys = await world.fetch("/.well-known/jwks.json");
    const again = await world.fetch(`${world.basePath}/.well-known/jwks.json`, {
      headers: { "if-none-match": keys.headers.get("etag") ?? "" },
    });
    equal([again.status, await again.text()], [304, ""], "the keys, below the sub-path, if they are known");
    equal(again.headers.get("access-control-allow-origin"), "*", "for every page");
  },

  "token verification by the service": async (world) => {
    const verdict = async (key: string, token: string) => {
      const { body } = await ask(world, "POST", "/pricing-tokens/verify", { key, body: { token } });
      return (body as { reason: string | null }).reason;
    };
    const foreignKey = await otherOrganization(world);
    for (const signature of SIGNATURES) {
      const own = await issue(world, world.evaluationKey, signature);
      const foreign = await issue(world, foreignKey, signature);
      const { header, claims, body, last } = parts(own);
      const expected: [what: string, token: string, reason: string | null][] = [
        ["its own", own, null],
        ["another organization's", foreign, "The token is of another organization"],
        ["a changed claim", join(header, { ...claims, sub: "eve" }, last), "The signature is not of this server"],
        ["a changed bit", own.replace(last, flipped(last)), "The signature is not of this server"],
        ["no signature", own.replace(last, ""), "The signature is not of this server"],
        [
          "another key id",
          `${encode({ alg: "EdDSA", kid: "x" })}.${body}.${last}`,
          "The signature is not of this server",
        ],
        ["another algorithm", `${encode({ alg: "none" })}.${body}.`, "This is no pricing token"],
        ["a critical extension", join({ ...header, crit: ["b64"] }, claims, last), "This is no pricing token"],
        ["no token", `${own}.x`, "This is no pricing token"],
      ];
      for (const [what, token, reason] of expected)
        equal(await verdict(world.evaluationKey, token), reason, `${signature}: ${what}`);
      equal(await verdict(foreignKey, foreign), null, `${signature}: to its own organization`);
      equal(await verdict(world.adminKey, foreign), null, `${signature}: to a platform ADMIN`);
    }
    const { claims } = parts(await issue(world, world.evaluationKey, "HS256"));
    const over = await signHs256(world, { ...claims, exp: 1_749_988_890 });
    equal(await verdict(world.evaluationKey, over), "The token has expired", "a token that is over");
    const unnamed = await signHs256(world, { ...claims, aud: undefined });
    equal(await verdict(world.evaluationKey, unnamed), "The token names no organization", "a token of before");
    const rfc = await signEdDsa(claims);
    equal(await verdict(world.adminKey, rfc), "The signature is not of this server", "an unknown key");
  },

  "token verification by faregate/verify": async (world) => {
    const { organizationId } = world;
    const [jwk] = await publicKeys(world);
    const own = await issue(world, world.evaluationKey, "EdDSA");
    const { header, claims, head, body, last } = parts(own);
    const issuer = String(claims["iss"]);
    const atExpiry = Number(claims["exp"]) * 1000;
    const hmac = await signHs256(world, claims, `${head}.${body}`, Uint8Array.from(bytesOf(jwk?.x ?? "")));
    const jwksUrl = `${world.url}/.well-known/jwks.json`;
    const given = { organizationId, jwks: { keys: [RFC_KEY] } };
    const rfc = await signEdDsa(claims);
    const cases: [what: string, reason: string, given: Partial<VerifierCase>][] = [
      ["its own", "ok", {}],
      ["its own, from its issuer", "ok", { issuer }],
      ["its own, before it expires", "ok", { now: atExpiry - 1 }],
      ["one that expires", "expired", { now: atExpiry }],
      ["another issuer", "issuer", { issuer: `${issuer}0` }],
      ["another organization", "audience", { organizationId: "0".repeat(24) }],
      ["another organization's", "audience", { token: await issue(world, await otherOrganization(world), "EdDSA") }],
      ["HS256", "algorithm", { token: await issue(world, world.evaluationKey, "HS256") }],
      ["none", "algorithm", { token: `${encode({ alg: "none" })}.${body}.` }],
      ["no key id", "algorithm", { token: `${encode({ alg: "EdDSA" })}.${body}.${last}` }],
      ["a critical extension", "algorithm", { token: join({ ...header, crit: ["b64"] }, claims, last) }],
      ["an HMAC made with the public key", "signature", { token: hmac }],
      ["a changed claim", "signature", { token: join(header, { ...claims, sub: "eve" }, last) }],
      ["a changed bit", "signature", { token: own.replace(last, flipped(last)) }],
      ["no signature", "signature", { token: own.replace(last, "") }],
      ["a signature that is too long", "signature", { token: `${own}AAAA` }],
      ["a signature beyond the group's order", "signature", { token: own.replace(last, beyondOrder(last)) }],
      ["an unknown key", "key", { token: rfc }],
      ["no address of keys", "unavailable", { jwksUrl: `${world.url}/nothing` }],
      ["the key of RFC 8037", "ok", { ...given, token: rfc }],
      ["half a key", "key", { ...given, token: rfc, jwks: { keys: [{ ...RFC_KEY, x: RFC_KEY.x.slice(0, 20) }] } }],
      ["an empty key", "key", { ...given, token: rfc, jwks: { keys: [{ ...RFC_KEY, x: "" }] } }],
      ["another curve", "key", { ...given, token: rfc, jwks: { keys: [{ ...RFC_KEY, crv: "X25519" }] } }],
      ["no text", "malformed", { token: null }],
      ["two segments", "malformed", { token: `${head}.${body}` }],
      ["padding", "malformed", { token: `${own}==` }],
      ["no expiry", "malformed", { token: join(header, { ...claims, exp: undefined }, last) }],
      ["a header that is no JSON", "malformed", { token: `AAAA.${body}.${last}` }],
      [
        "claims that are no UTF-8",
        "malformed",
        { token: `${head}.${btoa('{"a":"\u00ff"}').replaceAll("=", "")}.AAAA` },
      ],
    ];
    const reasons = await world.verify(
      cases.map(([, , options]) => ({
        token: own,
        organizationId,
        ...(options.jwks === undefined ? { jwksUrl } : {}),
        ...options,
      })),
    );
    equal(
      cases.map(([what], index) => [what, reasons[index]]),
      cases.map(([what, reason]) => [what, reason]),
      "verdicts",
    );
  },
};

async function issue(world: World, key: string, signature?: (typeof SIGNATURES)[number]): Promise<string> {
  const query = signature === undefined ? "" : `?signature=${signature}`;
  const issued = await ask(world, "POST", `/features/ada/pricing-token${query}`, { key });
  equal(issued.status, 200, `a token with ${signature}`);
  return String(issued.at("pricingToken"));
}

async function publicKeys(world: World): Promise<{ kid: string; x: string }[]> {
  const answer = await world.fetch("/.well-known/jwks.json");
  return ((await answer.json()) as { keys: { kid: string; x: string }[] }).keys;
}

/** Creates an organization with the same service and user; returns its key. */
async function otherOrganization(world: World): Promise<string> {
  const made = await ask(world, "POST", "/organizations", {
    key: world.adminKey,
    body: { name: "Elsewhere", owner: world.admin.username },
  });
  const key = String(made.at("apiKeys/0/key"));
  equal((await uploadFile({ ...world, key }, "/services", PRICING("Tasker"))).status, 201, "its service");
  const body = {
    userContact: { userId: "ada", username: "ada" },
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "FREE" },
    subscriptionAddOns: {},
  };
  equal((await ask(world, "POST", "/contracts", { key, body })).status, 201, "its contract");
  return key;
}

function parts(token: string) {
  const [head = "", body = "", last = ""] = token.split(".");
  const read = (segment: string) =>
    JSON.parse(new TextDecoder().decode(Uint8Array.from(bytesOf(segment)))) as Record<string, unknown>;
  return { head, body, last, header: read(head), claims: read(body) };
}

const join = (header: object, claims: object, last: string) => `${encode(header)}.${encode(claims)}.${last}`;
const encode = (value: object) => base64Url(new TextEncoder().encode(JSON.stringify(value)));
const flipped = (last: string) => `${last.startsWith("A") ? "B" : "A"}${last.slice(1)}`;

/** Returns an equivalent of a signature that verifiers without the check of the order accept. */
function beyondOrder(last: string): string {
  const bytes = bytesOf(last);
  let scalar = bytes.slice(32).reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n) + GROUP_ORDER;
  for (let index = 32; index < 64; index += 1) {
    bytes[index] = Number(scalar % 256n);
    scalar /= 256n;
  }
  return base64Url(bytes);
}

/** Signs claims, or an encoded text of header and payload, with HS256. Default: under the key of the service. */
async function signHs256(
  world: World,
  claims: object,
  signed?: string,
  secret?: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const text = signed ?? `${encode({ alg: "HS256" })}.${encode(claims)}`;
  const name = { name: "HMAC", hash: "SHA-256" };
  const key =
    secret === undefined
      ? await deriveKey(world.secrets)
      : await crypto.subtle.importKey("raw", secret, name, false, ["sign"]);
  const signature = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text));
  return `${text}.${base64Url(new Uint8Array(signature))}`;
}

async function signEdDsa(claims: object): Promise<string> {
  const header: CompactJWSHeaderParameters = { alg: "EdDSA", kid: RFC_KEY.kid };
  return new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader(header)
    .sign(await importJWK(RFC_PRIVATE, "EdDSA"));
}

/** Derives the HMAC key of HS256 tokens. Source: contract features-events §7. */
async function deriveKey(secrets: Service["secrets"]): Promise<CryptoKey> {
  const bytes = new TextEncoder();
  const secret = await crypto.subtle.importKey("raw", bytes.encode(secrets.jwtSecret), "PBKDF2", false, ["deriveKey"]);
  return crypto.subtle.deriveKey(
    { name: "PBKDF2", hash: "SHA-256", salt: bytes.encode(secrets.jwtSalt), iterations: 100_000 },
    secret,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign"],
  );
}

function base64Url(bytes: Iterable<number>): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

function bytesOf(segment: string): number[] {
  return Array.from(atob(segment.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
}
