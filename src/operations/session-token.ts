import { base64url } from "jose";

const TOKEN = /^[\w-]{43}$/;

/** Draws the token of a session's cookie: 256 random bits in base64url. */
export const issueSessionToken = (): string => base64url.encode(crypto.getRandomValues(new Uint8Array(32)));

/**
 * Returns the stored hash of a session's token. Undefined for a text that no session has. SHA-256 suffices: the token is
 * random, so nobody can guess the text behind a hash.
 */
export async function hashSessionToken(token: string): Promise<string | undefined> {
  if (!TOKEN.test(token)) return undefined;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
