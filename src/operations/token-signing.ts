import { CompactSign, importJWK } from "jose";
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { TokenSignature } from "../core/token-keys.ts";

/** Signs a payload. Returns it as a JWS in compact form (RFC 7515). */
export type SignToken = (payload: string) => MaybePromise<string>;

/** A secret of HS256 or a private key of EdDSA, both in base64url. Source: RFC 7518 §6.4, RFC 8037. */
export type SigningJwk = { kty: "oct"; k: string } | { kty: "OKP"; crv: "Ed25519"; x: string; d: string };

/** Creates a function that signs with this key and protected header. */
export type CreateSigner = (jwk: SigningJwk, header: { alg: TokenSignature; kid?: string }) => MaybePromise<SignToken>;

const encoder = new TextEncoder();

/** Signs with jose, which runs on every runtime. */
export const createJoseSigner: CreateSigner = async (jwk, header) => {
  const key = await importJWK(jwk, header.alg);
  return (payload) => new CompactSign(encoder.encode(payload)).setProtectedHeader(header).sign(key);
};
