import { expect, it } from "vitest";
import { createNodeSigner } from "../../src/entries/platform/token-signer.ts";
import { createJoseSigner, type SigningJwk } from "../../src/operations/token-signing.ts";

const PAYLOAD = '{"sub":"user-1","note":"\u{1f600} é ~>?"}';

async function ed25519(): Promise<SigningJwk> {
  const pair = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair;
  const { x = "", d = "" } = await crypto.subtle.exportKey("jwk", pair.privateKey);
  return { kty: "OKP", crv: "Ed25519", x, d };
}

it.each([
  { header: { alg: "HS256" as const }, jwk: { kty: "oct" as const, k: "x".repeat(43) } },
  { header: { alg: "EdDSA" as const, kid: "key-1" }, jwk: await ed25519() },
])("Node's $header.alg tokens equal those of jose", async ({ header, jwk }) => {
  const [ofNode, ofJose] = [await createNodeSigner(jwk, header), await createJoseSigner(jwk, header)];
  const token = await ofJose(PAYLOAD);
  expect(token.split(".")).toHaveLength(3);
  expect(ofNode(PAYLOAD)).toBe(token);
});
