import postgres from "postgres";
import { chain, type MaybePromise } from "../../core/maybe-promise.ts";
import { forDriver } from "./address.ts";
import { createBatch } from "./batch.ts";

/**
 * A committed change that makes cached entries stale, as triggers of the tables notify it. A missing organization
 * stands for any.
 */
export type Invalidation =
  | { of: "contract"; contractId: string; organizationId?: string }
  | { of: "contracts"; organizationIds?: readonly string[] }
  | { of: "keys" }
  | { of: "sessions" }
  | { of: "tokenKeys" }
  | { of: "everything" };

/**
 * Subscription to committed changes of keys and contracts by any process. Cached entries may be used only while
 * `isFresh()`, and must be evicted on each matching invalidation.
 */
export interface Invalidations {
  /** Positive random number of this listener. While it listens, it holds the advisory lock (LISTENER_LOCKS, session). */
  readonly session: number;
  /** True if every change committed up to 900 ms ago has been received. */
  isFresh(): boolean;
  /**
   * Registers a callback for each change. It receives `everything` when notifications may have been lost. Returns a
   * function that removes it.
   */
  follow(listener: (change: Invalidation) => void): () => void;
  /**
   * Registers a callback for each confirmed heartbeat, with the time at which it was sent, by `performance.now()`. Every
   * change that committed before has been received then. Returns a function that removes it.
   */
  followHeartbeats(listener: (sentAt: number) => void): () => void;
  /** Resolves when every change committed before this call has been received, or the cache is no longer fresh. */
  invalidationsApplied(): Promise<void>;
  close(): Promise<void>;
}

/** First key of the advisory locks by which other processes see who listens. An arbitrary constant. */
export const LISTENER_LOCKS = 5403;

const CHANNEL = "faregate_changes";
/** Interval of heartbeats, which prove that the connection still receives notifications. */
const HEARTBEAT_MS = 250;
/** Maximum wait for a heartbeat to come back: a dead connection may report no error. */
const HEARTBEAT_TIMEOUT_MS = 500;
/** Maximum age of the last confirmed heartbeat while cached entries may be used. */
const MAX_STALENESS_MS = 900;

/**
 * Listens on a dedicated connection and reconnects automatically. Notifications arrive in commit order, so a heartbeat that
 * comes back proves that all earlier notifications have arrived. The connection needs a session of its own. Nothing is
 * fresh before the address is known, and if it is undefined.
 */
export function listenForInvalidations(
  databaseUrl: MaybePromise<string | undefined>,
  options: { applicationName: string; onState?: (isLive: boolean, error?: unknown) => void },
): Invalidations {
  const heartbeatChannel = `faregate_beat_${crypto.randomUUID().replaceAll("-", "")}`;
  const session = 1 + ((crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1);
  const listeners = new Set<(change: Invalidation) => void>();
  const heartbeatListeners = new Set<(sentAt: number) => void>();
  let awaited: { heartbeat: string; arrived: () => void } | undefined;
  let sent = 0;
  let listening = false;
  let confirmedAt = -Infinity;
  let closed = false;

  const notifyListeners = (change: Invalidation) => {
    for (const listener of listeners) listener(change);
  };
  const onDisconnect = () => {
    listening = false;
    if (confirmedAt === -Infinity) return;
    confirmedAt = -Infinity;
    notifyListeners({ of: "everything" });
  };
  const settings: postgres.Options<{}> & { onnotify: (channel: string, payload: string) => void } = {
    max: 1,
    connect_timeout: 5,
    backoff: () => 0.1,
    max_lifetime: null,
    fetch_types: false,
    onnotice: () => {},
    connection: { application_name: `${options.applicationName}-changes` },
    onclose: onDisconnect,
    // The driver's `listen` uses this option too, but does not report a lost connection.
    onnotify: (channel, payload) => {
      if (channel === heartbeatChannel && payload === awaited?.heartbeat) awaited.arrived();
      if (channel === CHANNEL) notifyListeners(changeOf(payload));
    },
  };
  let client: postgres.Sql | undefined;

  const heartbeat = createBatch<undefined, true>(
    async (requests) => {
      try {
        if (client === undefined) return requests.map(() => true);
        if (!listening) {
          // Shared, because a dead connection may hold the lock until Postgres notices.
          const lock = `select pg_advisory_lock_shared(${LISTENER_LOCKS}, ${session})`;
          await client.unsafe(`listen "${CHANNEL}"; listen "${heartbeatChannel}"; ${lock}`);
          listening = true;
        }
        sent += 1;
        const name = String(sent);
        const sentAt = performance.now();
        let timer: ReturnType<typeof setTimeout> | undefined;
        const timedOut = new Promise<never>((_, reject) => {
          const reason = `the heartbeat notification did not come back within ${HEARTBEAT_TIMEOUT_MS} ms`;
          timer = setTimeout(() => reject(new Error(reason)), HEARTBEAT_TIMEOUT_MS);
        });
        const arrived = new Promise<void>((resolve) => (awaited = { heartbeat: name, arrived: resolve }));
        await Promise.race([
          Promise.all([client`select pg_notify(${heartbeatChannel}, ${name})`, arrived]),
          timedOut,
        ]).finally(() => clearTimeout(timer));
        if (!listening) return requests.map(() => true);
        confirmedAt = sentAt;
        for (const listener of heartbeatListeners) listener(sentAt);
        options.onState?.(true);
      } catch (error) {
        onDisconnect();
        if (!closed) options.onState?.(false, error);
      }
      return requests.map(() => true);
    },
    { maxBatchSize: Infinity, concurrency: 1 },
  );
  let timer: ReturnType<typeof setInterval> | undefined;
  const start = (url: string | undefined) => {
    if (url === undefined || closed) return;
    client = postgres(...forDriver(url, settings));
    timer = setInterval(() => void heartbeat(undefined), HEARTBEAT_MS);
    void heartbeat(undefined);
  };
  void chain(databaseUrl, start);
  return {
    session,
    isFresh: () => performance.now() - confirmedAt < MAX_STALENESS_MS,
    follow: (listener) => added(listeners, listener),
    followHeartbeats: (listener) => added(heartbeatListeners, listener),
    invalidationsApplied: async () => {
      if (confirmedAt !== -Infinity) await heartbeat(undefined);
    },
    close: async () => {
      closed = true;
      clearInterval(timer);
      onDisconnect();
      await client?.end({ timeout: 1 });
    },
  };
}

/** Adds to a set. Returns a function that removes it again. */
function added<T>(set: Set<T>, value: T): () => void {
  set.add(value);
  return () => void set.delete(value);
}

function changeOf(payload: string): Invalidation {
  const [of, ...ids] = payload.split(" ");
  const [contractId, organizationId] = ids;
  if (of === "contract" && contractId !== undefined) {
    return { of, contractId, ...(organizationId === undefined ? {} : { organizationId }) };
  }
  if (of === "contracts") return { of, ...(ids.length === 0 ? {} : { organizationIds: ids }) };
  if (of === "token-keys") return { of: "tokenKeys" };
  return { of: of === "keys" || of === "sessions" ? of : "everything" };
}
