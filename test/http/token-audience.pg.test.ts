import { SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createIssuer } from "../../src/db/queries/issuer.ts";
import { deriveTokenKey } from "../../src/operations/credentials.ts";
import { createTestApi, type TestApi, type TestOrganization, type TestUser } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

/*
 * A is the victim's organization, B the stranger's. Source: contract tokens-and-leases §2.1, §2.4 and cases 1, 3, 4, 5,
 * 7.
 */

let api: TestApi;
let a: string;
let b: TestOrganization;
let stranger: TestUser;
let tokenKey: Uint8Array;

const NOW = new Date("2025-06-15T12:00:00.000Z");
const VALID = { valid: true, reason: null };
const refused = (reason: string) => ({ valid: false, reason });
const FOREIGN = refused("The token is of another organization");

beforeAll(async () => {
  api = await createTestApi({ settings: { tokenLifetimeSeconds: 90 } });
  api.setNow(NOW);
  a = api.callers.all.key;
  stranger = await api.newUser("stranger");
  b = await api.newOrganization(stranger, "Stranger");
  tokenKey = await deriveTokenKey("jwt secret of the tests, 32 bytes or more", "jwt salt of the tests");
  for (const key of [a, b.key]) {
    await upload(api, key, tasker());
    await contract(api, key, "ada");
  }
});
afterAll(() => api.close());

async function token(key: string, on: TestApi["app"] = api.app): Promise<string> {
  const answer = await on.request("/api/v1/features/ada/pricing-token", {
    method: "POST",
    headers: { "x-api-key": key },
  });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { pricingToken: string }).pricingToken;
}

const verdict = async (key: string, text: string) =>
  (await api.call("POST", "/pricing-tokens/verify", { key, body: { token: text } })).body;

const claimsOf = (text: string) => JSON.parse(atob(text.split(".")[1] ?? "")) as Record<string, unknown>;

const sign = (claims: object, header: object = { alg: "HS256" }) =>
  new SignJWT({ features: {}, iat: 1_749_988_800, exp: 1_749_988_890, sub: "ada", ...claims })
    .setProtectedHeader(header as { alg: string })
    .sign(tokenKey);

test("a stranger's token over the same names and the same user is not valid for the victim", async () => {
  const forged = await token(b.key);
  const own = await token(a);
  expect(claimsOf(forged)["features"]).toEqual(claimsOf(own)["features"]);
  expect(await verdict(a, forged)).toEqual(FOREIGN);
  expect(await verdict(b.key, forged)).toEqual(VALID);
  expect(await verdict(a, own)).toEqual(VALID);
  expect(await verdict(api.callers.evaluation.key, own)).toEqual(VALID);
});

test("a user verifies tokens of organizations that the user is in at that moment; a platform ADMIN those of every one", async () => {
  const { owner, manager, platformAdmin } = api.callers;
  const ofB = await token(b.key);
  expect(await verdict(owner.key, ofB)).toEqual(FOREIGN);
  expect(await verdict(manager.key, ofB)).toEqual(FOREIGN);
  expect(await verdict(stranger.key, ofB)).toEqual(VALID);
  expect(await verdict(platformAdmin.key, ofB)).toEqual(VALID);
  expect(await verdict(manager.key, await token(a))).toEqual(VALID);
  const members = `/organizations/${b.id}/members`;
  const body = { username: manager.username, role: "EVALUATOR" };
  expect((await api.call("POST", members, { key: stranger.key, body })).status).toBe(200);
  expect(await verdict(manager.key, ofB)).toEqual(VALID);
  expect((await api.call("DELETE", `${members}/${manager.username}`, { key: stranger.key })).status).toBe(200);
  expect(await verdict(manager.key, ofB)).toEqual(FOREIGN);
});

test("a token of an organization that is gone is foreign to every user but a platform ADMIN", async () => {
  const text = await sign({ aud: "0".repeat(24) });
  expect(await verdict(stranger.key, text)).toEqual(FOREIGN);
  expect(await verdict(api.callers.platformAdmin.key, text)).toEqual(VALID);
});

test("a token without an organization is valid for a platform ADMIN only", async () => {
  const text = await sign({});
  expect(await verdict(a, text)).toEqual(refused("The token names no organization"));
  expect(await verdict(stranger.key, text)).toEqual(refused("The token names no organization"));
  expect(await verdict(api.callers.platformAdmin.key, text)).toEqual(VALID);
  // A list is not a valid audience, whatever it contains.
  expect(await verdict(a, await sign({ aud: [api.callers.organizationId] }))).toEqual(
    refused("The token names no organization"),
  );
});

test("an expired token of another organization is refused as foreign, one's own as expired", async () => {
  const [ofA, ofB] = [await token(a), await token(b.key)];
  api.setNow(new Date(NOW.getTime() + 90_000));
  expect(await verdict(a, ofB)).toEqual(FOREIGN);
  expect(await verdict(a, ofA)).toEqual(refused("The token has expired"));
  api.setNow(new Date(NOW.getTime() + 89_999));
  expect(await verdict(a, ofA)).toEqual(VALID);
  api.setNow(NOW);
});

describe("what is no token, or not this server's, is refused as that before anything else:", () => {
  const NONE = "This is no pricing token";
  const text = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url");
  test.each([
    ["two segments", `${text({ alg: "HS256" })}.${text({})}`, NONE],
    ["four segments", `${text({ alg: "HS256" })}.${text({})}.x.y`, NONE],
    ["a header that is a list", `${text([])}.${text({})}.AAAA`, NONE],
    ["a payload that is a list", `${text({ alg: "HS256" })}.${text([])}.AAAA`, NONE],
    ["a payload that is no JSON", `${text({ alg: "HS256" })}.e30x.AAAA`, NONE],
    ["a signature that is no base64url", `${text({ alg: "HS256" })}.${text({})}.%%`, NONE],
    ["alg none", `${text({ alg: "none" })}.${text({})}.`, NONE],
    ["alg RS256", `${text({ alg: "RS256" })}.${text({})}.AAAA`, NONE],
    ["crit", `${text({ alg: "HS256", crit: ["b64"], b64: true })}.${text({})}.AAAA`, NONE],
    [
      "EdDSA with a key id that is not published",
      `${text({ alg: "EdDSA", kid: "x" })}.${text({})}.AAAA`,
      "The signature is not of this server",
    ],
    ["another secret's signature", `${text({ alg: "HS256" })}.${text({})}.AAAA`, "The signature is not of this server"],
  ])("%s", async (_, given, reason) => {
    expect(await verdict(a, given)).toEqual(refused(reason));
  });
});

test("the issuer is the instance's own identifier, one for the whole database, and it is read once", async () => {
  const rows = await api.database.connection.client<{ id: string }[]>`select id from instances`;
  expect(rows).toHaveLength(1);
  const issuer = `urn:faregate:${rows[0]?.id}`;
  expect(issuer).toMatch(/^urn:faregate:[0-9a-f]{24}$/);
  expect(claimsOf(await token(a))["iss"]).toBe(issuer);
  const restarted = createIssuer(undefined);
  expect(await restarted(api.resources.db)).toBe(issuer);
  expect(restarted(api.resources.db)).toBe(issuer);
  const second = api.database.connection.client`insert into instances (id) values (${"f".repeat(24)})`;
  await expect(second).rejects.toThrow("instances_only_one_unique");
});

test("a changed PUBLIC_URL, without its last slashes, shows from the next token on, within the same second too", async () => {
  const before = api.resources.issuer;
  await token(a);
  try {
    api.resources.issuer = createIssuer("https://p.example//");
    expect(claimsOf(await token(a))).toMatchObject({ iss: "https://p.example", aud: api.callers.organizationId });
  } finally {
    api.resources.issuer = before;
  }
  expect(claimsOf(await token(a))["iss"]).toMatch(/^urn:faregate:/);
});
