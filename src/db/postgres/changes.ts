import postgres from "postgres";
import { createBatch } from "./batch.ts";

/** What has changed, as the triggers of migration 0004 announce it. */
export type Change =
  | { of: "contract"; contractId: string }
  | { of: "contracts" }
  | { of: "keys" }
  | { of: "everything" };

/**
 * Changes of keys and contracts, whoever makes them, as they commit. What is kept in memory may be used while `isLive`,
 * and must go when a change says so; without it nothing may be kept.
 */
export interface Changes {
  /** Whether everything that committed up to a second ago has been told. */
  isLive(): boolean;
  /** Calls back for each change; `everything` when some may have been missed. */
  follow(listener: (change: Change) => void): void;
  /** Resolves when everything that committed before this call has been told, or nothing may be kept any more. */
  caughtUp(): Promise<void>;
  close(): Promise<void>;
}

const CHANNEL = "faregate_changes";
/** How often the connection shows that it still listens. */
const BEAT_MS = 250;
/** How long a beat is waited for, and how old the last one may be: a connection may be dead without a word. */
const PATIENCE_MS = 500;
const LEASE_MS = 900;

/**
 * Listens on a connection of its own and reconnects by itself. Notifications arrive in the order of commits, so that a beat
 * that comes back proves that everything before it has come.
 */
export function followChanges(
  databaseUrl: string,
  options: { applicationName: string; onState?: (isLive: boolean, error?: unknown) => void },
): Changes {
  const beats = `faregate_beat_${crypto.randomUUID().replaceAll("-", "")}`;
  const listeners: ((change: Change) => void)[] = [];
  let awaited: { beat: string; arrived: () => void } | undefined;
  let sent = 0;
  let listening = false;
  let confirmedAt = -Infinity;
  let closed = false;

  const tell = (change: Change) => {
    for (const listener of listeners) listener(change);
  };
  const lost = () => {
    listening = false;
    if (confirmedAt === -Infinity) return;
    confirmedAt = -Infinity;
    tell({ of: "everything" });
  };
  const settings: postgres.Options<{}> & { onnotify: (channel: string, payload: string) => void } = {
    max: 1,
    connect_timeout: 5,
    backoff: () => 0.1,
    max_lifetime: null,
    fetch_types: false,
    onnotice: () => {},
    connection: { application_name: `${options.applicationName}-changes` },
    onclose: lost,
    // What the driver's own `listen` is made of; that one does not say when its connection is lost.
    onnotify: (channel, payload) => {
      if (channel === beats && payload === awaited?.beat) awaited.arrived();
      if (channel === CHANNEL) tell(changeOf(payload));
    },
  };
  const client = postgres(databaseUrl, settings);

  const beat = createBatch<undefined, true>(
    async (asks) => {
      try {
        if (!listening) {
          await client.unsafe(`listen "${CHANNEL}"; listen "${beats}"`);
          listening = true;
        }
        sent += 1;
        const name = String(sent);
        const sentAt = performance.now();
        let timer: ReturnType<typeof setTimeout> | undefined;
        const late = new Promise<never>((_, reject) => {
          timer = setTimeout(() => reject(new Error("a notification did not come back")), PATIENCE_MS);
        });
        const arrived = new Promise<void>((resolve) => (awaited = { beat: name, arrived: resolve }));
        await Promise.race([Promise.all([client`select pg_notify(${beats}, ${name})`, arrived]), late]).finally(() =>
          clearTimeout(timer),
        );
        if (!listening) return asks.map(() => true);
        confirmedAt = sentAt;
        options.onState?.(true);
      } catch (error) {
        lost();
        if (!closed) options.onState?.(false, error);
      }
      return asks.map(() => true);
    },
    { maxAsks: Infinity, lanes: 1 },
  );
  const timer = setInterval(() => void beat(undefined), BEAT_MS);
  void beat(undefined);
  return {
    isLive: () => performance.now() - confirmedAt < LEASE_MS,
    follow: (listener) => listeners.push(listener),
    caughtUp: async () => {
      if (confirmedAt !== -Infinity) await beat(undefined);
    },
    close: async () => {
      closed = true;
      clearInterval(timer);
      lost();
      await client.end({ timeout: 1 });
    },
  };
}

function changeOf(payload: string): Change {
  const [of, contractId] = payload.split(" ");
  if (of === "contract" && contractId !== undefined) return { of, contractId };
  if (of === "contracts" || of === "keys") return { of };
  return { of: "everything" };
}
