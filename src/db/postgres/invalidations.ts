import postgres from "postgres";
import { createBatch } from "./batch.ts";

/** An invalidation, as the triggers of migration 0004 send it. */
export type Invalidation =
  | { of: "contract"; contractId: string }
  | { of: "contracts" }
  | { of: "keys" }
  | { of: "everything" };

/**
 * Receives invalidations of keys and contracts, from any process, in commit order. Caches may be used only while
 * `isFresh()`, and must evict what an invalidation names.
 */
export interface Invalidations {
  /** True if every commit up to a second ago has been received. */
  isFresh(): boolean;
  /** Calls back for each invalidation; `everything` when some may have been missed. */
  follow(listener: (change: Invalidation) => void): void;
  /** Resolves when every earlier commit has been received, or caches are stale anyway. */
  invalidationsApplied(): Promise<void>;
  close(): Promise<void>;
}

const CHANNEL = "faregate_changes";
/** Interval of heartbeats over the connection. */
const HEARTBEAT_MS = 250;
/** Time-out of one heartbeat, and maximum age of the last one: a dead connection sends no error. */
const HEARTBEAT_TIMEOUT_MS = 500;
const MAX_STALENESS_MS = 900;

/**
 * Listens on its own connection and reconnects automatically. Notifications arrive in commit order, so a returned
 * heartbeat proves that everything before it has arrived.
 */
export function listenForInvalidations(
  databaseUrl: string,
  options: { applicationName: string; onState?: (isLive: boolean, error?: unknown) => void },
): Invalidations {
  const heartbeatChannel = `faregate_beat_${crypto.randomUUID().replaceAll("-", "")}`;
  const listeners: ((change: Invalidation) => void)[] = [];
  let awaited: { beat: string; arrived: () => void } | undefined;
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
    // Replaces the driver's `listen`, which does not report a lost connection.
    onnotify: (channel, payload) => {
      if (channel === heartbeatChannel && payload === awaited?.beat) awaited.arrived();
      if (channel === CHANNEL) notifyListeners(changeOf(payload));
    },
  };
  const client = postgres(databaseUrl, settings);

  const beat = createBatch<undefined, true>(
    async (asks) => {
      try {
        if (!listening) {
          await client.unsafe(`listen "${CHANNEL}"; listen "${heartbeatChannel}"`);
          listening = true;
        }
        sent += 1;
        const name = String(sent);
        const sentAt = performance.now();
        let timer: ReturnType<typeof setTimeout> | undefined;
        const late = new Promise<never>((_, reject) => {
          timer = setTimeout(() => reject(new Error("a notification did not come back")), HEARTBEAT_TIMEOUT_MS);
        });
        const arrived = new Promise<void>((resolve) => (awaited = { beat: name, arrived: resolve }));
        await Promise.race([
          Promise.all([client`select pg_notify(${heartbeatChannel}, ${name})`, arrived]),
          late,
        ]).finally(() => clearTimeout(timer));
        if (!listening) return asks.map(() => true);
        confirmedAt = sentAt;
        options.onState?.(true);
      } catch (error) {
        onDisconnect();
        if (!closed) options.onState?.(false, error);
      }
      return asks.map(() => true);
    },
    { maxBatchSize: Infinity, concurrency: 1 },
  );
  const timer = setInterval(() => void beat(undefined), HEARTBEAT_MS);
  void beat(undefined);
  return {
    isFresh: () => performance.now() - confirmedAt < MAX_STALENESS_MS,
    follow: (listener) => listeners.push(listener),
    invalidationsApplied: async () => {
      if (confirmedAt !== -Infinity) await beat(undefined);
    },
    close: async () => {
      closed = true;
      clearInterval(timer);
      onDisconnect();
      await client.end({ timeout: 1 });
    },
  };
}

function changeOf(payload: string): Invalidation {
  const [of, contractId] = payload.split(" ");
  if (of === "contract" && contractId !== undefined) return { of, contractId };
  if (of === "contracts" || of === "keys") return { of };
  return { of: "everything" };
}
