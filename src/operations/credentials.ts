import { base64url } from "jose";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { type LeastRecentlyUsed, leastRecentlyUsed } from "../core/least-recently-used.ts";
import { type CreateSigner, createJoseSigner, type SignToken } from "./token-signing.ts";

/*
 * Derives, hashes and encrypts secrets. Uses WebCrypto only, so every runtime computes the same values. Nothing is
 * stored in plain text: API keys are looked up by a keyed hash and decrypted for display; passwords are stored as
 * self-describing slow hashes.
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Cryptographic keys derived from the server's secrets. */
export interface Keyring {
  /** HMAC-SHA-256 key for looking up API keys. */
  lookup: CryptoKey;
  /** AES-256-GCM key that encrypts API keys, so that they can be shown again. */
  seal: CryptoKey;
  /** HMAC-SHA-256 key that verifies pricing tokens. */
  token: CryptoKey;
  /** Signs pricing tokens with the same key. */
  signToken: SignToken;
  /** Creates the signing function of an Ed25519 key. */
  createSigner: CreateSigner;
  /** Key from the previous JWT_SECRET: tokens that it signed stay valid. */
  previousToken?: CryptoKey | undefined;
  /** Keys from the previous API_KEYS_SECRET: values that they protect stay readable. */
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
 * Derives the key of pricing tokens: PBKDF2-HMAC-SHA-256 over secret and salt, 100,000 iterations, 32 bytes. Source:
 * contract features-events §7 (with a test vector).
 */
export async function deriveTokenKey(jwtSecret: string, jwtSalt: string): Promise<Uint8Array<ArrayBuffer>> {
  return pbkdf2(encoder.encode(jwtSecret), encoder.encode(jwtSalt), 100_000);
}

/**
 * Derives all keys once. Takes about 40 ms, so call it when the process starts. `createSigner`: pass one where the runtime signs
 * faster than jose does.
 */
export async function createKeyring(
  secrets: {
    apiKeysSecret: string;
    jwtSecret: string;
    jwtSalt: string;
    previousApiKeysSecret?: string | undefined;
    previousJwtSecret?: string | undefined;
  },
  createSigner: CreateSigner = createJoseSigner,
): Promise<Keyring> {
  const { previousApiKeysSecret, previousJwtSecret, jwtSalt } = secrets;
  const [apiKeys, previous, token, previousToken] = await Promise.all([
    deriveApiKeysKeys(secrets.apiKeysSecret),
    previousApiKeysSecret === undefined ? undefined : deriveApiKeysKeys(previousApiKeysSecret),
    deriveTokenKey(secrets.jwtSecret, jwtSalt),
    previousJwtSecret === undefined ? undefined : deriveTokenKey(previousJwtSecret, jwtSalt).then(importVerifier),
  ]);
  return {
    ...apiKeys,
    token: await importVerifier(token),
    signToken: await createSigner({ kty: "oct", k: base64url.encode(token) }, { alg: "HS256" }),
    createSigner,
    previousToken,
    previous,
  };
}

function importVerifier(tokenKey: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", tokenKey, HMAC, false, ["verify"]);
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

/** The part of a Keyring that protects API keys and webhook secrets. */
type Protection = Pick<Keyring, "lookup" | "seal">;

/**
 * Caches hashes of existing keys; hashing costs more than the lookup. Unknown keys are not cached, because callers
 * choose them and could fill the cache.
 */
const hashes = new WeakMap<Protection, LeastRecentlyUsed<string>>();
const MAX_HASHES = 10_000;

/** Longer API keys are rejected without hashing. The server's own keys have 68 characters. */
export const MAX_KEY_LENGTH = 256;

/** Returns the lookup hash of an API key. Synchronous if {@link cacheHash} cached it. */
export function hashApiKey(keyring: Protection, apiKey: string): MaybePromise<string> {
  return hashes.get(keyring)?.get(apiKey) ?? computeHash(keyring, apiKey);
}

async function computeHash(keyring: Protection, apiKey: string): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.sign("HMAC", keyring.lookup, encoder.encode(apiKey))));
}

/** Caches the hash of an existing API key of at most {@link MAX_KEY_LENGTH} characters. */
export function cacheHash(keyring: Protection, apiKey: string, hash: string): void {
  const cached = hashes.get(keyring) ?? leastRecentlyUsed<string>(MAX_HASHES);
  hashes.set(keyring, cached);
  if (cached.get(apiKey) === undefined) cached.put(apiKey, hash);
}

/** Generates an API key (prefix and 32 random bytes in hex) with its stored hash and ciphertext. */
export async function issueApiKey(
  keyring: Keyring,
  prefix: "usr" | "org",
): Promise<{ apiKey: string; hash: string; sealed: string }> {
  const apiKey = `${prefix}_${hex(crypto.getRandomValues(new Uint8Array(32)))}`;
  return { apiKey, ...(await protectApiKey(keyring, apiKey)) };
}

/** Generates a Standard Webhooks signing secret with its stored ciphertext. Decrypt it with openApiKey. */
export async function issueWebhookSecret(keyring: Keyring): Promise<{ secret: string; sealed: string }> {
  const secret = `whsec_${base64(crypto.getRandomValues(new Uint8Array(32)))}`;
  return { secret, sealed: await seal(keyring, secret) };
}

/** Encrypts a webhook secret under the server's current secret. */
export function sealSecret(keyring: Keyring, clear: string): Promise<string> {
  return seal(keyring, clear);
}

async function seal(keyring: Protection, clear: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const cipher = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, keyring.seal, encoder.encode(clear));
  return `v1$${base64(iv)}$${base64(new Uint8Array(cipher))}`;
}

/**
 * Decrypts an API key. Returns undefined when the server's secret was replaced; the key then no longer works either.
 */
export async function readApiKey(keyring: Keyring, sealed: string): Promise<string | undefined> {
  try {
    return await openApiKey(keyring, sealed);
  } catch {
    return undefined;
  }
}

/** Decrypts an API key for callers that may see it. Throws when the server's secret was replaced. */
export async function openApiKey(keyring: Keyring, sealed: string): Promise<string> {
  if (keyring.previous === undefined) return open(keyring, sealed);
  const { previous } = keyring;
  return open(keyring, sealed).catch(() => open(previous, sealed));
}

/** Caches decrypted signing secrets of callers that send thousands of messages. */
const openedSecrets = new WeakMap<Keyring, LeastRecentlyUsed<string>>();
const MAX_OPENED = 1_000;

/** Decrypts a secret, and caches it by its ciphertext. Throws when the server's secret was replaced. */
export async function openCachedSecret(keyring: Keyring, sealed: string): Promise<string> {
  const cached = openedSecrets.get(keyring) ?? leastRecentlyUsed<string>(MAX_OPENED);
  openedSecrets.set(keyring, cached);
  return cached.get(sealed) ?? cached.put(sealed, await openApiKey(keyring, sealed));
}

/** Returns the stored hash and ciphertext of an API key, under the current secret. */
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
 * Password hashes chain six PBKDF2-SHA-256 calls of 100,000 iterations. One call of 600,000 would cost the same, but
 * Workers reject more than 100,000 per call. Chaining lets every runtime verify every hash.
 */
const ROUNDS = 6;
const ITERATIONS = 100_000;
async function slowHash(password: string, salt: Uint8Array<ArrayBuffer>, rounds: number, iterations: number) {
  let bytes: Uint8Array<ArrayBuffer> = encoder.encode(password);
  for (let round = 0; round < rounds; round += 1) bytes = await pbkdf2(bytes, salt, iterations);
  return bytes;
}

/** Returns `scheme$rounds$iterations$salt$hash`. Takes 200 ms of one core: run it through hashing-queue.ts. */
export async function hashPassword(password: string, iterations = ITERATIONS): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(16));
  const hash = await slowHash(password, salt, ROUNDS, iterations);
  return `pbkdf2x$${ROUNDS}$${iterations}$${base64(salt)}$${base64(hash)}`;
}

const UNKNOWN_USER_SALT = new Uint8Array(16);

/** Compares a password with a bcrypt hash. */
export type CompareBcrypt = (password: string, hash: string) => Promise<boolean>;

/** For runtimes without threads: runs on the event loop in slices of at most 100 ms. */
const compareInSlices: CompareBcrypt = async (password, hash) => (await import("bcryptjs")).compare(password, hash);

/** `iterations` per round: tests lower them. `compareBcrypt`: default is on the event loop. */
interface HashOptions {
  iterations?: number | undefined;
  compareBcrypt?: CompareBcrypt | undefined;
}

/** Hashes with a higher cost are rejected: a sign-in would block a core for seconds. */
const MAX_BCRYPT_COST = 14;

/**
 * Verifies a bcrypt hash imported from the reference service. bcrypt truncates passwords at 72 bytes. No runtime has it
 * built in, so it runs in JavaScript; the first sign-in replaces the hash. A wrong password takes about as long as with
 * other hashes.
 */
async function verifyBcrypt(
  password: string,
  stored: string,
  { iterations, compare }: { iterations: number; compare: CompareBcrypt },
): Promise<boolean> {
  const cost = Number(stored.slice(4, 6));
  const isRight = cost <= MAX_BCRYPT_COST && (await compare(password, stored));
  if (!isRight) await slowHash(password, UNKNOWN_USER_SALT, ROUNDS / 2, iterations);
  return isRight;
}

/** True if a stored hash does not use the current scheme. The next successful sign-in can replace it. */
export function isOutdated(stored: string, iterations = ITERATIONS): boolean {
  return !stored.startsWith(`pbkdf2x$${ROUNDS}$${iterations}$`);
}

/**
 * Compares a password with its stored hash. Pass undefined for an unknown user, so that the answer takes equally long.
 * Takes 200 ms of one core: run it through hashing-queue.ts.
 */
export async function verifyPassword(
  password: string,
  stored: string | undefined,
  { iterations: usualIterations = ITERATIONS, compareBcrypt = compareInSlices }: HashOptions = {},
): Promise<boolean> {
  if (stored !== undefined && /^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(stored)) {
    return verifyBcrypt(password, stored, { iterations: usualIterations, compare: compareBcrypt });
  }
  const [scheme, rounds, iterations, salt, hash] = (stored ?? "").split("$");
  if (scheme !== "pbkdf2x" || salt === undefined || hash === undefined) {
    await slowHash(password, UNKNOWN_USER_SALT, ROUNDS, usualIterations);
    return false;
  }
  const actual = await slowHash(password, fromBase64(salt), Number(rounds), Number(iterations));
  const expected = fromBase64(hash);
  let difference = actual.length ^ expected.length;
  for (const [i, byte] of actual.entries()) difference |= byte ^ (expected[i] ?? 0);
  return difference === 0;
}
