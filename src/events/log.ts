import { sql } from "drizzle-orm";
import { type EventFilter, passes } from "../core/event-messages.ts";
import type { Database } from "../db/postgres/connect.ts";
import {
  type EventLog,
  type EventPage,
  outboxRange,
  type OutboxEvent,
  readOutbox,
  readPage,
} from "../db/queries/outbox.ts";

/** Newest events kept in memory, for readers that were briefly disconnected. */
const KEPT = 1000;
/** Maximum bytes of the events in memory. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Memory of an event besides its details. */
const EVENT_OVERHEAD_BYTES = 250;

/** Upper bound on an event's memory: V8 stores a character in up to two bytes. */
const bytesOf = ({ details }: OutboxEvent) => 2 * JSON.stringify(details).length + EVENT_OVERHEAD_BYTES;

/** The log of an event server: the feed's events from memory, older ones from the outbox. */
export interface FollowedLog extends EventLog {
  /** Loads the newest events, so that clients reconnecting to a new process do not all query the database. */
  fill(): Promise<void>;
  /** Appends the next event of the feed. */
  append(event: OutboxEvent): void;
  /** Estimated bytes of the events in memory, an upper bound. */
  keptBytes(): number;
}

/** Creates a log that starts after `position`. Keeps at most `maxBytes`; readers get older events from the database. */
export function createLog(db: Database, position: number, maxBytes = MAX_BYTES): FollowedLog {
  let at = position;
  let kept: OutboxEvent[] = [];
  let bytes = 0;
  /** `kept` holds everything after this id, up to `at`. */
  let keptAfter = position;
  let waiting: (() => void)[] = [];

  const fromMemory = (after: number, filter: EventFilter, limit: number): EventPage => {
    const events: OutboxEvent[] = [];
    // Ids have no gaps, so an event's index follows from its id.
    for (let i = after - keptAfter; i < kept.length; i += 1) {
      const event = kept[i];
      if (event === undefined || !passes(filter, event)) continue;
      events.push(event);
      if (events.length === limit) return { events, position: event.id, lost: false };
    }
    return { events, position: at, lost: false };
  };

  /** Drops the oldest half when full, so that each event moves once on average. */
  const trim = () => {
    if (kept.length <= 2 * KEPT && bytes <= maxBytes) return;
    let dropped = 0;
    while (kept.length - dropped > KEPT || bytes > maxBytes / 2) {
      const oldest = kept[dropped];
      if (oldest === undefined) break;
      bytes -= bytesOf(oldest);
      dropped += 1;
    }
    kept = kept.slice(dropped);
    keptAfter = at - kept.length;
  };

  return {
    position: () => at,
    keptBytes: () => bytes,
    fill: async () => {
      const { oldest } = await outboxRange(db);
      const upTo = keptAfter;
      // Computed before the read, because the rows must fit into memory too.
      const from = await firstThatFits(db, { after: Math.max(at - KEPT, oldest - 1, 0), upTo, maxBytes });
      if (from >= upTo) return;
      const rows = await readOutbox(db, { after: from, upTo, filter: {}, limit: KEPT });
      // Rows were pruned meanwhile, which would leave a gap.
      if (rows.length !== upTo - from) return;
      kept = [...rows, ...kept];
      keptAfter = from;
      bytes += rows.reduce((sum, row) => sum + bytesOf(row), 0);
      trim();
    },
    append: (event) => {
      if (event.id !== at + 1) {
        // The feed restarted elsewhere, or rows were deleted: discard everything before.
        kept = [];
        bytes = 0;
        keptAfter = event.id - 1;
      }
      kept.push(event);
      bytes += bytesOf(event);
      at = event.id;
      trim();
      const woken = waiting;
      waiting = [];
      for (const wake of woken) wake();
    },
    read: async (after, filter, limit) => {
      if (after >= keptAfter && after <= at) return fromMemory(after, filter, limit);
      return readPage(db, { after, upTo: at, filter, limit });
    },
    moved: (after, signal) => {
      if (at > after || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const done = () => {
          signal.removeEventListener("abort", done);
          waiting = waiting.filter((one) => one !== done);
          resolve();
        };
        signal.addEventListener("abort", done);
        waiting.push(done);
      });
    },
  };
}

/** Returns the id after which the newest events up to `upTo` fit into `maxBytes`; at least `after`. */
async function firstThatFits(
  db: Database,
  { after, upTo, maxBytes }: { after: number; upTo: number; maxBytes: number },
): Promise<number> {
  const [fits] = await db.execute<{ id: string | null }>(sql`
    select max(id) as id from (
      select id, sum(2 * octet_length(details::text) + ${EVENT_OVERHEAD_BYTES}::integer) over (order by id desc) as bytes
      from outbox where id > ${after} and id <= ${upTo}
    ) newest where bytes > ${maxBytes / 2}::bigint`);
  return Math.max(after, Number(fits?.id ?? 0));
}
