import type { KeyScope, PlatformRole } from "../../core/access/caller.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { leastRecentlyUsed } from "../../core/least-recently-used.ts";
import { createBatch } from "../postgres/batch.ts";
import type { Invalidations } from "../postgres/invalidations.ts";
import type { Connection } from "../postgres/connect.ts";
import {
  endUserKey,
  readBalances,
  readSnapshots,
  type SeenLevel,
  type ContractSnapshot,
  type EndUserName,
} from "./contract-snapshots.ts";

export interface OrganizationKeyRow {
  keyId: string;
  organizationId: string;
  scope: KeyScope;
  /** Time from which the key is rejected, in milliseconds since 1970; null for never. */
  expiresAtMs: number | null;
}

export interface UserRow {
  id: string;
  username: string;
  role: PlatformRole;
  /** Expiry of the requested key, which may be the previous one; null for never. */
  expiresAtMs: number | null;
}

/**
 * Caches keys and contracts, which every request reads first. Concurrent requests share prepared statements. Entries
 * are served only while invalidations arrive (see invalidations.ts); otherwise every read goes to the database.
 * Balances are always read from the database.
 */
export interface SnapshotCache {
  /** Synchronous if cached. */
  organizationKey(keyHash: string): MaybePromise<OrganizationKeyRow | null>;
  userByKey(keyHash: string): MaybePromise<UserRow | null>;
  /** Returns the end user's contract with current balances. */
  snapshot(name: EndUserName): MaybePromise<ContractSnapshot | null>;
  /** Returns the contract with cached balances, which may be stale. Synchronous if cached. */
  cachedSnapshot(name: EndUserName): MaybePromise<ContractSnapshot | null>;
  /** Replaces the cached snapshot `before` by newer balances. Evicts it without `after`. */
  replaceCached(name: EndUserName, before: ContractSnapshot, after: ContractSnapshot | undefined): void;
}

/** Every request starts here, so callers get an error soon when the database does not answer. */
const BATCHING = { maxBatchSize: 500, concurrency: 2, timeoutMs: 2000 };
/** About 1 kB each. */
const MAX_SNAPSHOTS = 50_000;
const MAX_KEYS = 20_000;

/** Caches nothing without `changes`, which edge runtimes cannot receive. */
export function createSnapshotCache({ client }: Connection, changes?: Invalidations): SnapshotCache {
  const kept = createCacheStore(changes);
  /** One statement for all requested keys, without duplicates. */
  const byHash = <Row extends { hash: string }, Found extends object>(
    read: (hashes: string[]) => Promise<readonly Row[]>,
    found: (row: Row) => Found,
  ) => {
    const keys = kept.keys<Found>();
    const ask = createBatch<string, Found | null>(async (hashes) => {
      const mayKeep = kept.begin();
      const rows = new Map((await read([...new Set(hashes)])).map((row) => [row.hash, found(row)]));
      if (mayKeep()) for (const [hash, row] of rows) keys.put(hash, row);
      return hashes.map((hash) => rows.get(hash) ?? null);
    }, BATCHING);
    return (hash: string) => keys.get(hash) ?? ask(hash);
  };
  const readWhole = createBatch<EndUserName, ContractSnapshot | null>(async (names) => {
    const mayKeep = kept.begin();
    const found = await readSnapshots(client, names);
    if (mayKeep()) for (const [key, subject] of found) kept.put(key, subject);
    return names.map((name) => found.get(endUserKey(name)) ?? null);
  }, BATCHING);
  const balances = createBatch<ContractSnapshot, SeenLevel[] | null>(async (known) => {
    const found = await readBalances(client, known);
    return known.map(({ contractId }) => found.get(contractId) ?? null);
  }, BATCHING);
  const withBalances = async (name: EndUserName, key: string, known: ContractSnapshot) => {
    const levels = await balances(known);
    // The contract's own row changed, so read everything again.
    if (levels === null) return readWhole(name);
    // Returns the identical object while nothing changed: callers key WeakMaps by it.
    if (levels.every((level, i) => level === known.levels[i])) return known;
    const now = { ...known, levels };
    kept.replace(key, known, now);
    return now;
  };
  return {
    organizationKey: byHash(
      (hashes) => client<({ hash: string } & OrganizationKeyRow)[]>`
        select key_hash as hash, id as "keyId", organization_id as "organizationId", scope,
          (extract(epoch from expires_at) * 1000)::float8 as "expiresAtMs"
        from organization_keys where key_hash = any(${hashes})`,
      ({ keyId, organizationId, scope, expiresAtMs }) => ({ keyId, organizationId, scope, expiresAtMs }),
    ),
    userByKey: byHash(
      (hashes) => client<({ hash: string } & UserRow)[]>`
        select api_key_hash as hash, id, username, role,
          (extract(epoch from api_key_expires_at) * 1000)::float8 as "expiresAtMs"
        from users where api_key_hash = any(${hashes})
        union all
        select previous_api_key_hash, id, username, role,
          (extract(epoch from previous_api_key_until) * 1000)::float8
        from users where previous_api_key_hash = any(${hashes})`,
      ({ id, username, role, expiresAtMs }) => ({ id, username, role, expiresAtMs }),
    ),
    snapshot: (name) => {
      const key = endUserKey(name);
      const known = kept.get(key);
      if (known === undefined) return readWhole(name);
      return known.levels.length === 0 ? known : withBalances(name, key, known);
    },
    cachedSnapshot: (name) => kept.get(endUserKey(name)) ?? readWhole(name),
    replaceCached: (name, before, after) => kept.replace(endUserKey(name), before, after),
  };
}

/** Creates the maps of cached entries, and evicts on invalidation. */
function createCacheStore(changes: Invalidations | undefined) {
  /** By contract id, which invalidations name. The second map leads from end users to contracts. */
  const subjects = leastRecentlyUsed<{ key: string; subject: ContractSnapshot }>(MAX_SNAPSHOTS);
  const contractIds = leastRecentlyUsed<string>(MAX_SNAPSHOTS);
  const keyMaps: { clear(): void }[] = [];
  let applied = 0;
  changes?.follow((change) => {
    applied += 1;
    if (change.of === "contract") subjects.delete(change.contractId);
    if (change.of === "contracts" || change.of === "everything") subjects.clear();
    if (change.of === "keys" || change.of === "everything") for (const map of keyMaps) map.clear();
  });
  const isLive = () => changes?.isFresh() ?? false;
  const find = (key: string) => {
    const contractId = contractIds.get(key);
    const entry = contractId === undefined ? undefined : subjects.get(contractId);
    return entry?.key === key ? entry.subject : undefined;
  };
  const put = (key: string, subject: ContractSnapshot) => {
    contractIds.put(key, subject.contractId);
    subjects.put(subject.contractId, { key, subject });
  };
  return {
    /**
     * Call it before a read. The returned function tells if the result may be cached: no invalidation arrived
     * meanwhile.
     */
    begin: () => {
      const before = applied;
      return () => applied === before && isLive();
    },
    get: (key: string) => (isLive() ? find(key) : undefined),
    put,
    /** No effect if the entry was replaced since `before` was read. */
    replace: (key: string, before: ContractSnapshot, after: ContractSnapshot | undefined) => {
      if (find(key) !== before) return;
      if (after === undefined) subjects.delete(before.contractId);
      else put(key, after);
    },
    keys: <Found extends object>() => {
      const map = leastRecentlyUsed<Found>(MAX_KEYS);
      keyMaps.push(map);
      return { get: (hash: string) => (isLive() ? map.get(hash) : undefined), put: map.put };
    },
  };
}
