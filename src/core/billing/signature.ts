import { leastRecentlyUsed } from "../least-recently-used.ts";

const HMAC = { name: "HMAC", hash: "SHA-256" } as const;
const encoder = new TextEncoder();

/** Imported keys of connections that send thousands of messages. */
const importedKeys = leastRecentlyUsed<CryptoKey>(1_000);

/** Imports a key, and caches it. */
async function importKey(bytes: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  const text = String.fromCharCode(...bytes);
  const cached = importedKeys.get(text);
  return cached ?? importedKeys.put(text, await crypto.subtle.importKey("raw", bytes, HMAC, false, ["verify"]));
}

/**
 * True if one of the signatures is the HMAC-SHA-256 of `prefix` and `body` under one of the keys. WebCrypto compares in
 * constant time. It refuses an empty key, which no secret may be.
 */
export async function isSigned(
  input: { prefix: string; body: Uint8Array<ArrayBuffer> },
  keys: readonly Uint8Array<ArrayBuffer>[],
  signatures: readonly Uint8Array<ArrayBuffer>[],
): Promise<boolean> {
  const prefix = encoder.encode(input.prefix);
  const signed = new Uint8Array(prefix.length + input.body.length);
  signed.set(prefix);
  signed.set(input.body, prefix.length);
  let isRight = false;
  for (const bytes of keys) {
    const key = await importKey(bytes);
    for (const signature of signatures) isRight = (await crypto.subtle.verify(HMAC, key, signature, signed)) || isRight;
  }
  return isRight;
}

/** Signatures that one message may carry: a sender has two while it replaces its secret. */
export const MAX_SIGNATURES = 16;

/** Decodes base64; undefined for other text. */
export function base64In(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Decodes lower-case or upper-case hex; undefined for other text. */
export function hexIn(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^([0-9a-fA-F]{2})+$/.test(text)) return undefined;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Parses the body as a JSON object; undefined for anything else. Bounds the depth, which no provider needs. */
export function jsonObjectIn(body: Uint8Array<ArrayBuffer>): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    return objectIn(value);
  } catch {
    return undefined;
  }
}

/** Returns the value if it is an object and no list. */
export function objectIn(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}
