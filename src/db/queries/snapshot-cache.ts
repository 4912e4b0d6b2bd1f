import type { KeyScope, PlatformRole } from "../../core/access/caller.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { leastRecentlyUsed } from "../../core/least-recently-used.ts";
import { createBatch, LOOKUP } from "../postgres/batch.ts";
import type { Invalidations } from "../postgres/invalidations.ts";
import type { Connection, Database } from "../postgres/connect.ts";
import { type BalancesQuery, type ReadBalances, readBudgetBalances } from "./budgets.ts";
import {
  endUserKey,
  loadSnapshots,
  readSnapshots,
  type SeenLevel,
  type ContractSnapshot,
  type EndUserName,
} from "./contract-snapshots.ts";
import { readBalances, readBalancesWithin } from "./current-levels.ts";
import type { NewHold } from "./holds.ts";
import { findHolds, type FoundHold } from "./hold-listing.ts";

export interface OrganizationKeyRow {
  keyId: string;
  organizationId: string;
  scope: KeyScope;
  /** Expiry of the key, in milliseconds since 1970; null for never. */
  expiresAtMs: number | null;
  /** Where the organization has moved to; empty while it is frozen for a move, null otherwise. */
  movedTo: string | null;
}

export interface UserRow {
  id: string;
  username: string;
  role: PlatformRole;
  /** Expiry of the requested key, in milliseconds since 1970; null for never. */
  expiresAtMs: number | null;
}

/** An unended session and its user. */
export interface SessionRow {
  sessionId: string;
  userId: string;
  username: string;
  role: PlatformRole;
  createdAtMs: number;
  lastUsedAtMs: number;
}

/**
 * Lookups at the start of every request, batched across concurrent requests into prepared statements. Keys and contracts
 * are cached only while invalidations are fresh (see invalidations.ts); otherwise each lookup reads the database. `snapshot`
 * always reads balances from the database.
 */
export interface SnapshotCache {
  /** Finds an organization key by its hash; synchronously if cached. */
  organizationKey(keyHash: string): MaybePromise<OrganizationKeyRow | null>;
  /** Finds a user by the hash of the current or previous key; synchronously if cached. */
  userByKey(keyHash: string): MaybePromise<UserRow | null>;
  /** Finds a session by the hash of its token; a cached row without a use since `usedSinceMs` is read again. */
  sessionByToken(tokenHash: string, usedSinceMs: number): MaybePromise<SessionRow | null>;
  /** Reads the end user's contract with current balances. */
  snapshot(name: EndUserName): MaybePromise<ContractSnapshot | null>;
  /** Returns the end user's contract with possibly stale balances; synchronously if cached. */
  cachedSnapshot(name: EndUserName): MaybePromise<ContractSnapshot | null>;
  /**
   * Reads contracts that the transaction has locked, with current balances, by user id. Missing contracts are missing. Levels
   * may lack `runningSince` of a period that has begun meanwhile.
   */
  locked(tx: Database, organizationId: string, userIds: readonly string[]): Promise<Map<string, ContractSnapshot>>;
  /** Reads balances of budgets. They are those of a snapshot that was read before, while its version is the current one. */
  budgetBalances(query: BalancesQuery): Promise<ReadBalances>;
  /** Reads a hold with the address of its contract. */
  hold(id: string): Promise<FoundHold | null>;
  /** Keeps a hold that was just taken of this contract, for its settlement. */
  keepHold(taken: NewHold, userId: string, contract: ContractSnapshot): void;
  /** Returns a kept hold, once, as it was taken: it may have been extended or ended since. Undefined unless its contract is cached. */
  keptHold(id: string): FoundHold | undefined;
  /** Replaces the cached snapshot if it is still `before`; evicts it if `after` is undefined. */
  replaceCached(name: EndUserName, before: ContractSnapshot, after: ContractSnapshot | undefined): void;
}

/** Maximum cached snapshots, of about 1 kB each. */
const MAX_SNAPSHOTS = 50_000;
const MAX_KEYS = 20_000;
/** Maximum kept holds, of about 500 bytes each. */
const MAX_HOLDS = 20_000;

/** Creates the cache. Without `changes`, which edge runtimes cannot subscribe to, it stores nothing. */
export function createSnapshotCache({ client }: Connection, changes?: Invalidations): SnapshotCache {
  const store = createCacheStore(changes);
  /** Creates a batched lookup that reads all distinct key hashes of a batch in one statement. */
  const byHash = <Row extends { hash: string }, Found extends object>(
    read: (hashes: string[]) => Promise<readonly Row[]>,
    found: (row: Row) => Found,
    of: "keys" | "sessions" = "keys",
  ) => {
    const keys = store.keys<Found>(of);
    const lookup = createBatch<string, Found | null>(async (hashes) => {
      const isCacheable = store.beginRead();
      const rows = new Map((await read([...new Set(hashes)])).map((row) => [row.hash, found(row)]));
      if (isCacheable()) for (const [hash, row] of rows) keys.put(hash, row);
      return hashes.map((hash) => rows.get(hash) ?? null);
    }, LOOKUP);
    return (hash: string, isUsable?: (cached: Found) => boolean) => {
      const cached = keys.get(hash);
      return cached === undefined || isUsable?.(cached) === false ? lookup(hash) : cached;
    };
  };
  const sessionByHash = byHash(
    (hashes) => client<({ hash: string } & SessionRow)[]>`
      select s.token_hash as hash, s.id as "sessionId", u.id as "userId", u.username, u.role,
        (extract(epoch from s.created_at) * 1000)::float8 as "createdAtMs",
        (extract(epoch from s.last_used_at) * 1000)::float8 as "lastUsedAtMs"
      from sessions s join users u on u.id = s.user_id where s.token_hash = any(${hashes})`,
    ({ sessionId, userId, username, role, createdAtMs, lastUsedAtMs }) => ({
      sessionId,
      userId,
      username,
      role,
      createdAtMs,
      lastUsedAtMs,
    }),
    "sessions",
  );
  const readWhole = createBatch<EndUserName, ContractSnapshot | null>(async (names) => {
    const isCacheable = store.beginRead();
    const found = await readSnapshots(client, names);
    if (isCacheable()) for (const [key, snapshot] of found) store.put(key, snapshot);
    return names.map((name) => found.get(endUserKey(name)) ?? null);
  }, LOOKUP);
  const balances = createBatch<ContractSnapshot, SeenLevel[] | null>(async (snapshots) => {
    const found = await readBalances(client, snapshots);
    return snapshots.map(({ contractId }) => found.get(contractId) ?? null);
  }, LOOKUP);
  const readHolds = createBatch<string, FoundHold | null>(async (ids) => {
    const found = new Map((await findHolds(client, [...new Set(ids)])).map((one) => [one.hold.id, one]));
    return ids.map((id) => found.get(id) ?? null);
  }, LOOKUP);
  const budgetBalances = createBatch<BalancesQuery, ReadBalances>(
    (queries) => readBudgetBalances(client, queries),
    LOOKUP,
  );
  const kept = leastRecentlyUsed<{ taken: NewHold; userId: string } & Pick<ContractSnapshot, "services">>(MAX_HOLDS);
  const withBalances = async (name: EndUserName, key: string, cached: ContractSnapshot) => {
    const levels = await balances(cached);
    // The contract's row changed, so its services may have changed too.
    if (levels === null) return readWhole(name);
    // Return the identical object while nothing changed: callers key WeakMaps by it.
    if (levels.every((level, i) => level === cached.levels[i])) return cached;
    const current = { ...cached, levels };
    store.replace(key, cached, current);
    return current;
  };
  return {
    organizationKey: byHash(
      (hashes) => client<({ hash: string } & OrganizationKeyRow)[]>`
        select k.key_hash as hash, k.id as "keyId", k.organization_id as "organizationId", k.scope,
          (extract(epoch from k.expires_at) * 1000)::float8 as "expiresAtMs",
          coalesce(o.moved_to, case when o.frozen_at is not null then '' end) as "movedTo"
        from organization_keys k join organizations o on o.id = k.organization_id where k.key_hash = any(${hashes})`,
      ({ keyId, organizationId, scope, expiresAtMs, movedTo }) => ({
        keyId,
        organizationId,
        scope,
        expiresAtMs,
        movedTo,
      }),
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
    sessionByToken: (tokenHash, usedSinceMs) =>
      sessionByHash(tokenHash, ({ lastUsedAtMs }) => lastUsedAtMs > usedSinceMs),
    snapshot: (name) => {
      const key = endUserKey(name);
      const cached = store.get(key);
      if (cached === undefined) return readWhole(name);
      return cached.levels.length === 0 ? cached : withBalances(name, key, cached);
    },
    locked: async (tx, organizationId, userIds) => {
      const isCacheable = store.beginRead();
      const cached = userIds.flatMap((userId) => {
        const snapshot = store.get(endUserKey({ organizationId, userId }));
        return snapshot === undefined ? [] : [{ userId, snapshot }];
      });
      const known = cached.map(({ snapshot }) => snapshot);
      const levelsOf = known.length === 0 ? new Map<string, SeenLevel[]>() : await readBalancesWithin(tx, known);
      const current = new Map<string, ContractSnapshot>();
      for (const { userId, snapshot } of cached) {
        const levels = levelsOf.get(snapshot.contractId);
        if (levels !== undefined) current.set(userId, { ...snapshot, levels });
      }
      const others = userIds.filter((userId) => !current.has(userId));
      if (others.length === 0) return current;
      for (const [userId, snapshot] of await loadSnapshots(tx, organizationId, others)) {
        current.set(userId, snapshot);
        if (isCacheable()) store.put(endUserKey({ organizationId, userId }), snapshot);
      }
      return current;
    },
    cachedSnapshot: (name) => store.get(endUserKey(name)) ?? readWhole(name),
    budgetBalances,
    hold: readHolds,
    keepHold: (taken, userId, { services }) => {
      kept.put(taken.id, { taken, userId, services });
    },
    keptHold: (id) => {
      const found = kept.get(id);
      if (found === undefined) return undefined;
      kept.delete(id);
      const { taken, userId, services } = found;
      const { organizationId, contractId, featureId, amounts, onExpiry, createdAt, until, spender, budgets } = taken;
      // A contract that was read again may have moved, or its services may have been renamed.
      if (store.get(endUserKey({ organizationId, userId }))?.services !== services) return undefined;
      const hold = {
        id,
        contractId,
        kind: "hold",
        featureId,
        amounts,
        onExpiry,
        state: "open",
        kept: false,
        createdAt,
        until,
        endedAt: null,
        counted: null,
        countedUnits: null,
        spender,
        budgets,
      } as const;
      return { hold, organizationId, userId };
    },
    replaceCached: (name, before, after) => store.replace(endUserKey(name), before, after),
  };
}

/** In-memory store that evicts entries on invalidations and returns none while invalidations are not fresh. */
function createCacheStore(changes: Invalidations | undefined) {
  /** Keyed by contract id, as invalidations are; `contractIds` maps names to contract ids. */
  const snapshots = leastRecentlyUsed<{ key: string; snapshot: ContractSnapshot }>(MAX_SNAPSHOTS);
  const contractIds = leastRecentlyUsed<string>(MAX_SNAPSHOTS);
  const keyMaps: { of: "keys" | "sessions"; map: { clear(): void } }[] = [];
  let applied = 0;
  changes?.follow((change) => {
    applied += 1;
    if (change.of === "contract") snapshots.delete(change.contractId);
    if (change.of === "contracts" || change.of === "everything") snapshots.clear();
    const { of } = change;
    // A change of a user is announced as one of keys. Cached sessions contain the name and role of their user.
    if (of === "sessions" || of === "keys" || of === "everything")
      for (const each of keyMaps) if (of !== "sessions" || each.of === of) each.map.clear();
  });
  const isFresh = () => changes?.isFresh() ?? false;
  const find = (key: string) => {
    const contractId = contractIds.get(key);
    const entry = contractId === undefined ? undefined : snapshots.get(contractId);
    return entry?.key === key ? entry.snapshot : undefined;
  };
  const put = (key: string, snapshot: ContractSnapshot) => {
    contractIds.put(key, snapshot.contractId);
    snapshots.put(snapshot.contractId, { key, snapshot });
  };
  return {
    /** Call before a read. The returned function is true if no invalidation arrived since, so the rows may be cached. */
    beginRead: () => {
      const before = applied;
      return () => applied === before && isFresh();
    },
    get: (key: string) => (isFresh() ? find(key) : undefined),
    put,
    /** Compare and swap: does nothing unless the cached snapshot is still `before`. */
    replace: (key: string, before: ContractSnapshot, after: ContractSnapshot | undefined) => {
      if (find(key) !== before) return;
      if (after === undefined) snapshots.delete(before.contractId);
      else put(key, after);
    },
    keys: <Found extends object>(of: "keys" | "sessions") => {
      const map = leastRecentlyUsed<Found>(MAX_KEYS);
      keyMaps.push({ of, map });
      return { get: (hash: string) => (isFresh() ? map.get(hash) : undefined), put: map.put };
    },
  };
}
