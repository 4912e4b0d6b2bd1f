import { calculateJwkThumbprint, importJWK } from "jose";
import { eq, ne, sql } from "drizzle-orm";
import { type MaybePromise, chain } from "../core/maybe-promise.ts";
import { jwkOf, nextKey, publishedKeys, signingKey } from "../core/token-keys.ts";
import { readTokenKeys, type TokenKeyRow } from "../db/queries/token-keys.ts";
import { tokenKeys } from "../db/schema.ts";
import { audit } from "./audit.ts";
import { type Context, transaction } from "./context.ts";
import { openApiKey, sealSecret } from "./credentials.ts";
import { Failure } from "./errors.ts";
import type { SignToken } from "./token-signing.ts";

/** Serializes changes of the token keys. An arbitrary constant, as MIGRATION_LOCK in db/migrate.ts. */
const TOKEN_KEYS_LOCK = 5403_0004;
/** Tokens that this process signed just before the switch, and clocks that differ. */
const OVERLAP_MS = 600_000;
const DAY_MS = 86_400_000;

/** A token key as it verifies and as it signs, each imported once. */
interface ImportedKey {
  public?: Promise<CryptoKey>;
  signer?: Promise<TokenSigner>;
}
const imported = new WeakMap<TokenKeyRow, ImportedKey>();

/** Returns all token keys in order of creation, and creates the first one if there is none. */
export function currentTokenKeys(ctx: Context): MaybePromise<readonly TokenKeyRow[]> {
  return chain(ctx.resources.tokenKeys(ctx.db), (keys) => (keys.length > 0 ? keys : createFirstTokenKey(ctx)));
}

/**
 * Creates the first token key unless there is one. Processes that call it concurrently serialize on an advisory lock, so one
 * creates it. Returns all keys.
 */
export function createFirstTokenKey(ctx: Context): Promise<readonly TokenKeyRow[]> {
  return transaction(ctx, async (ctx) => {
    await lockTokenKeys(ctx);
    const existing = await readTokenKeys(ctx.db);
    if (existing.length > 0) return existing;
    const key = await insertTokenKey(ctx, ctx.resources.now());
    await audit(ctx, { action: "token-key.create", organizationId: null, target: key.kid, after: auditFacts(key) });
    return [key];
  });
}

const lockTokenKeys = (ctx: Context) => ctx.db.execute(sql`select pg_advisory_xact_lock(${TOKEN_KEYS_LOCK})`);

const auditFacts = ({ kid, signsFrom, publishedUntil }: TokenKeyRow) => ({ kid, signsFrom, publishedUntil });

async function insertTokenKey(ctx: Context, signsFrom: Date): Promise<TokenKeyRow> {
  const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  if (!("privateKey" in pair)) throw new Error("this runtime generated no pair of keys");
  const [publicJwk, privateJwk] = await Promise.all([
    crypto.subtle.exportKey("jwk", pair.publicKey),
    crypto.subtle.exportKey("jwk", pair.privateKey),
  ]);
  const { x } = publicJwk;
  const { d } = privateJwk;
  if (x === undefined || d === undefined) throw new Error("this runtime exported an incomplete Ed25519 key");
  const kid = await calculateJwkThumbprint({ kty: "OKP", crv: "Ed25519", x });
  const privateSealed = await sealSecret(ctx.resources.keyring, d);
  const key = { kid, x, privateSealed, signsFrom, publishedUntil: null };
  await ctx.db.insert(tokenKeys).values({ ...key, createdAt: ctx.resources.now() });
  return Object.freeze(key);
}

/** A key that can sign now. */
export interface TokenSigner {
  kid: string;
  sign: SignToken;
}

/**
 * Returns the key that signs EdDSA tokens now.
 * @throws Failure unavailable if API_KEYS_SECRET does not decrypt it.
 */
export async function tokenSigner(ctx: Context): Promise<TokenSigner> {
  const key = signingKey(await currentTokenKeys(ctx), ctx.resources.now());
  if (key === undefined) throw new Error("no token key is published");
  const importedKey = importedOf(key);
  importedKey.signer ??= openSigner(ctx, key);
  try {
    return await importedKey.signer;
  } catch (cause) {
    delete importedKey.signer;
    throw new Failure("unavailable", "The token key cannot be read. Please try again later", { cause });
  }
}

/** Returns the public key of a published token key; undefined for any other key id. */
export async function publishedTokenKey(ctx: Context, kid: unknown): Promise<CryptoKey | undefined> {
  const key = publishedKeys(await currentTokenKeys(ctx), ctx.resources.now()).find((known) => known.kid === kid);
  if (key === undefined) return undefined;
  return (importedOf(key).public ??= importPublicKey(jwkOf(key)));
}

function importedOf(key: TokenKeyRow): ImportedKey {
  const importedKey = imported.get(key) ?? {};
  imported.set(key, importedKey);
  return importedKey;
}

async function openSigner({ resources: { keyring } }: Context, row: TokenKeyRow): Promise<TokenSigner> {
  const { kid } = row;
  const { kty, crv, x } = jwkOf(row);
  const d = await openApiKey(keyring, row.privateSealed);
  return { kid, sign: await keyring.createSigner({ kty, crv, x, d }, { alg: "EdDSA", kid }) };
}

async function importPublicKey(jwk: Parameters<typeof importJWK>[0]): Promise<CryptoKey> {
  const key = await importJWK(jwk, "EdDSA");
  if (key instanceof Uint8Array) throw new Error("an Ed25519 key was imported as bytes");
  return key;
}

/** Result of a rotation: the new key, or the one that is published and does not sign yet. */
export type Rotation =
  | { isDone: true; key: TokenKeyRow; previous: TokenKeyRow & { publishedUntil: Date } }
  | { isDone: false; next: TokenKeyRow };

/**
 * Publishes a new key that signs after `leadMs`. The signing key stays published until every token that it signs until
 * then has expired. Changes nothing while a published key does not sign yet. Deletes keys that are no longer published.
 */
export function rotateTokenKey(ctx: Context, { leadMs }: { leadMs: number }): Promise<Rotation> {
  return transaction(ctx, async (ctx) => {
    await lockTokenKeys(ctx);
    const now = ctx.resources.now();
    const keys = await keysOrFirst(ctx);
    const next = nextKey(keys, now);
    if (next !== undefined) return { isDone: false, next };
    const signing = signingKey(keys, now);
    if (signing === undefined) throw new Error("no token key is published");
    const key = await insertTokenKey(ctx, new Date(now.getTime() + leadMs));
    const lifetimeMs = Math.max(ctx.resources.settings.tokenLifetimeSeconds * 1000, DAY_MS);
    const publishedUntil = new Date(key.signsFrom.getTime() + lifetimeMs + OVERLAP_MS);
    await ctx.db.update(tokenKeys).set({ publishedUntil }).where(eq(tokenKeys.kid, signing.kid));
    await ctx.db.delete(tokenKeys).where(sql`${tokenKeys.publishedUntil} <= ${now.toISOString()}::timestamptz`);
    await audit(ctx, {
      action: "token-key.rotate",
      organizationId: null,
      target: key.kid,
      before: { kid: signing.kid },
      after: auditFacts(key),
    });
    return { isDone: true, key, previous: { ...signing, publishedUntil } };
  });
}

async function keysOrFirst(ctx: Context): Promise<readonly TokenKeyRow[]> {
  const keys = await readTokenKeys(ctx.db);
  return keys.length > 0 ? keys : createFirstTokenKey(ctx);
}

/** Replaces all keys by a new one that signs now. Returns the number of published keys that it deleted. */
export function revokeTokenKeys(ctx: Context): Promise<{ key: TokenKeyRow; withdrawn: number }> {
  return transaction(ctx, async (ctx) => {
    await lockTokenKeys(ctx);
    const now = ctx.resources.now();
    const keys = await readTokenKeys(ctx.db);
    const key = await insertTokenKey(ctx, now);
    await ctx.db.delete(tokenKeys).where(ne(tokenKeys.kid, key.kid));
    await audit(ctx, {
      action: "token-key.revoke",
      organizationId: null,
      target: key.kid,
      before: { kid: signingKey(keys, now)?.kid ?? null },
      after: auditFacts(key),
    });
    return { key, withdrawn: publishedKeys(keys, now).length };
  });
}
