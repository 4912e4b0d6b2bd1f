import type { AtOnce } from "../core/at-once.ts";
import { type LeastRecentlyUsed, leastRecentlyUsed } from "../core/least-recently-used.ts";

/*
 * Secrets and what is derived from them. WebCrypto only, so that every runtime computes the same.
 * Nothing is stored in clear: a key is looked up by a keyed hash and shown again from its sealed form, a password is a
 * self-describing slow hash.
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The server's secrets, turned once into what operations need. */
export interface Keyring {
  /** HMAC-SHA-256 key under which API keys are looked up. */
  lookup: CryptoKey;
  /** AES-256-GCM key under which API keys are kept for showing them again. */
  seal: CryptoKey;
  /** HMAC-SHA-256 key of pricing tokens. */
  token: CryptoKey;
  /** That of the JWT_SECRET before this one: tokens that it signed are still this server's. */
  previousToken?: CryptoKey | undefined;
  /** The keys of the API_KEYS_SECRET before this one: what they protect is still found and read. */
  previous?: Protection | undefined;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

async function pbkdf2(
  password: Uint8Array<ArrayBuffer>,
  salt: Uint8Array<ArrayBuffer>,
  iterations: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
  return new Uint8Array(
    await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt, iterations }, key, 256),
  );
}

/**
 * The key of pricing tokens: PBKDF2-HMAC-SHA-256 over secret and salt, 100 000 iterations, 32 bytes.
 * Source: contract features-events §7 (with a test vector).
 */
export async function deriveTokenKey(jwtSecret: string, jwtSalt: string): Promise<Uint8Array<ArrayBuffer>> {
  return pbkdf2(encoder.encode(jwtSecret), encoder.encode(jwtSalt), 100_000);
}

/** Derives everything once; takes some 40 ms, so it belongs to the start of a process. */
export async function createKeyring(secrets: {
  apiKeysSecret: string;
  jwtSecret: string;
  jwtSalt: string;
  previousApiKeysSecret?: string | undefined;
  previousJwtSecret?: string | undefined;
}): Promise<Keyring> {
  const { previousApiKeysSecret, previousJwtSecret, jwtSalt } = secrets;
  const [apiKeys, previous, token, previousToken] = await Promise.all([
    deriveApiKeysKeys(secrets.apiKeysSecret),
    previousApiKeysSecret === undefined ? undefined : deriveApiKeysKeys(previousApiKeysSecret),
    importTokenKey(secrets.jwtSecret, jwtSalt),
    previousJwtSecret === undefined ? undefined : importTokenKey(previousJwtSecret, jwtSalt),
  ]);
  return { ...apiKeys, token, previousToken, previous };
}

async function importTokenKey(jwtSecret: string, jwtSalt: string): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", await deriveTokenKey(jwtSecret, jwtSalt), HMAC, false, ["sign", "verify"]);
}

const HMAC = { name: "HMAC", hash: "SHA-256" } as const;

async function deriveApiKeysKeys(secret: string): Promise<Protection> {
  const master = await crypto.subtle.importKey("raw", encoder.encode(secret), "HKDF", false, ["deriveBits"]);
  const derive = async (purpose: string) =>
    new Uint8Array(
      await crypto.subtle.deriveBits(
        { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: encoder.encode(purpose) },
        master,
        256,
      ),
    );
  const [lookupBytes, sealBytes] = await Promise.all([
    derive("faregate api key lookup"),
    derive("faregate api key seal"),
  ]);
  const [lookup, seal] = await Promise.all([
    crypto.subtle.importKey("raw", lookupBytes, HMAC, false, ["sign"]),
    crypto.subtle.importKey("raw", sealBytes, "AES-GCM", false, ["encrypt", "decrypt"]),
  ]);
  return { lookup, seal };
}

/** Protects keys and webhook secrets: what a Keyring has for that, or its `previous`. */
type Protection = Pick<Keyring, "lookup" | "seal">;

/** Hashes of keys that exist; hashing one costs more than looking it up. Unknown keys are not cached: callers choose them. */
const hashes = new WeakMap<Protection, LeastRecentlyUsed<string>>();
const MAX_HASHES = 10_000;

/** The longest API key that is looked up. The server's own have 68 characters. */
export const MAX_KEY_LENGTH = 256;

/** The form in which an API key is looked up; synchronous for one that was cached by {@link cacheHash}. */
export function hashApiKey(keyring: Protection, apiKey: string): AtOnce<string> {
  return hashes.get(keyring)?.get(apiKey) ?? computeHash(keyring, apiKey);
}

async function computeHash(keyring: Protection, apiKey: string): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.sign("HMAC", keyring.lookup, encoder.encode(apiKey))));
}

/** Caches the hash of an API key that exists, of at most {@link MAX_KEY_LENGTH} characters. */
export function cacheHash(keyring: Protection, apiKey: string, hash: string): void {
  const cached = hashes.get(keyring) ?? leastRecentlyUsed<string>(MAX_HASHES);
  hashes.set(keyring, cached);
  if (cached.get(apiKey) === undefined) cached.put(apiKey, hash);
}

/** A fresh API key (prefix and 32 random bytes in hex) with the two forms it is stored in. */
export async function issueApiKey(
  keyring: Keyring,
  prefix: "usr" | "org",
): Promise<{ apiKey: string; hash: string; sealed: string }> {
  const apiKey = `${prefix}_${hex(crypto.getRandomValues(new Uint8Array(32)))}`;
  return { apiKey, ...(await protectApiKey(keyring, apiKey)) };
}

/** A fresh secret for signing webhooks, in the form of Standard Webhooks, and as it is stored; openApiKey reads that. */
export async function issueWebhookSecret(keyring: Keyring): Promise<{ secret: string; sealed: string }> {
  const secret = `whsec_${base64(crypto.getRandomValues(new Uint8Array(32)))}`;
  return { secret, sealed: await seal(keyring, secret) };
}

/** A webhook's secret as it is stored, under the current secret of the server. */
export function sealSecret(keyring: Keyring, clear: string): Promise<string> {
  return seal(keyring, clear);
}

async function seal(keyring: Protection, clear: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const cipher = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, keyring.seal, encoder.encode(clear));
  return `v1$${base64(iv)}$${base64(new Uint8Array(cipher))}`;
}

/** The API key in clear, or undefined when the server's secret was replaced since: the key then works no more either. */
export async function readApiKey(keyring: Keyring, sealed: string): Promise<string | undefined> {
  try {
    return await openApiKey(keyring, sealed);
  } catch {
    return undefined;
  }
}

/** The API key in clear, for those whom the contract lets see it. Throws when the server's secret was replaced. */
export async function openApiKey(keyring: Keyring, sealed: string): Promise<string> {
  if (keyring.previous === undefined) return open(keyring, sealed);
  const { previous } = keyring;
  return open(keyring, sealed).catch(() => open(previous, sealed));
}

/** The two forms in which an API key is stored, under the current secret. */
export async function protectApiKey(keyring: Keyring, apiKey: string): Promise<{ hash: string; sealed: string }> {
  return { hash: await hashApiKey(keyring, apiKey), sealed: await seal(keyring, apiKey) };
}

async function open(keyring: Protection, sealed: string): Promise<string> {
  const [scheme, iv, cipher] = sealed.split("$");
  if (scheme !== "v1" || iv === undefined || cipher === undefined) throw new Error("unknown form of a sealed key");
  const clear = await crypto.subtle.decrypt({ name: "AES-GCM", iv: fromBase64(iv) }, keyring.seal, fromBase64(cipher));
  return decoder.decode(clear);
}

/*
 * Passwords: six chained PBKDF2-SHA-256 calls of 100 000 iterations. One call of 600 000 would cost the same, but Workers
 * refuse more than 100 000 a call; chained, every runtime verifies every hash.
 */
const ROUNDS = 6;
const ITERATIONS = 100_000;
async function slowHash(password: string, salt: Uint8Array<ArrayBuffer>, rounds: number, iterations: number) {
  let bytes: Uint8Array<ArrayBuffer> = encoder.encode(password);
  for (let round = 0; round < rounds; round += 1) bytes = await pbkdf2(bytes, salt, iterations);
  return bytes;
}

/** `scheme$rounds$iterations$salt$hash`. Takes 200 ms of one core: run it in turn (hashing-queue.ts). */
export async function hashPassword(password: string): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(16));
  const hash = await slowHash(password, salt, ROUNDS, ITERATIONS);
  return `pbkdf2x$${ROUNDS}$${ITERATIONS}$${base64(salt)}$${base64(hash)}`;
}

const UNKNOWN_USER_SALT = new Uint8Array(16);

/** Costs more than this are refused: a sign-in would take seconds of a core. */
const MAX_BCRYPT_COST = 14;

/**
 * Hashes that were imported from the reference service: bcrypt, which cuts passwords at 72 bytes. Computed in JavaScript, in
 * slices of at most 100 ms, because no runtime has it; the first sign-in replaces the hash. A wrong password costs about
 * what it costs for others.
 */
async function verifyBcrypt(password: string, stored: string): Promise<boolean> {
  const cost = Number(stored.slice(4, 6));
  const { compare } = await import("bcryptjs");
  const isRight = cost <= MAX_BCRYPT_COST && (await compare(password, stored));
  if (!isRight) await slowHash(password, UNKNOWN_USER_SALT, ROUNDS / 2, ITERATIONS);
  return isRight;
}

/** Whether a stored hash is not the kind that is made now: whoever knows the password can have it replaced. */
export function isOutdated(stored: string): boolean {
  return !stored.startsWith(`pbkdf2x$${ROUNDS}$${ITERATIONS}$`);
}

/**
 * Compares a password with its stored hash; for an unknown user pass undefined, so that the answer takes as long. Takes 200 ms
 * of one core: run it in turn (hashing-queue.ts).
 */
export async function verifyPassword(password: string, stored: string | undefined): Promise<boolean> {
  if (stored !== undefined && /^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(stored)) return verifyBcrypt(password, stored);
  const [scheme, rounds, iterations, salt, hash] = (stored ?? "").split("$");
  if (scheme !== "pbkdf2x" || salt === undefined || hash === undefined) {
    await slowHash(password, UNKNOWN_USER_SALT, ROUNDS, ITERATIONS);
    return false;
  }
  const actual = await slowHash(password, fromBase64(salt), Number(rounds), Number(iterations));
  const expected = fromBase64(hash);
  let difference = actual.length ^ expected.length;
  for (const [i, byte] of actual.entries()) difference |= byte ^ (expected[i] ?? 0);
  return difference === 0;
}
