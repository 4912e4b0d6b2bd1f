import { asc } from "drizzle-orm";
import type { PublicTokenKey } from "../../core/token-keys.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import type { Database } from "../postgres/connect.ts";
import type { Invalidations } from "../postgres/invalidations.ts";
import { tokenKeys } from "../schema.ts";

/** A token key with its encrypted private half. Frozen: callers key WeakMaps by it. */
export interface TokenKeyRow extends PublicTokenKey {
  readonly privateSealed: string;
}

/** Returns all token keys in order of creation; synchronously while the cached ones are fresh. */
export type ReadTokenKeys = (db: Database) => MaybePromise<readonly TokenKeyRow[]>;

/** Reads all token keys in order of creation, past any cache. */
export async function readTokenKeys(db: Database): Promise<readonly TokenKeyRow[]> {
  const { kid, x, privateSealed, signsFrom, publishedUntil } = tokenKeys;
  const rows = await db
    .select({ kid, x, privateSealed, signsFrom, publishedUntil })
    .from(tokenKeys)
    .orderBy(asc(tokenKeys.position));
  return rows.map((row) => Object.freeze(row));
}

/**
 * Caches the token keys of a process. Without `changes`, every call reads them. An empty table is not cached, because the
 * caller then creates the first key.
 */
export function createTokenKeyCache(changes: Invalidations | undefined): ReadTokenKeys {
  let cached: readonly TokenKeyRow[] | undefined;
  let invalidations = 0;
  changes?.follow((change) => {
    if (change.of !== "tokenKeys" && change.of !== "everything") return;
    cached = undefined;
    invalidations += 1;
  });
  return (db) => {
    if (cached !== undefined && changes?.isFresh() === true) return cached;
    const begunAt = invalidations;
    // A read that began before the listener was fresh may miss a change that is never announced.
    const isCacheable = changes?.isFresh() === true;
    return readTokenKeys(db).then((rows) => {
      if (isCacheable && begunAt === invalidations && rows.length > 0) cached = rows;
      return rows;
    });
  };
}
