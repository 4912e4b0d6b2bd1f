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

/** How many of the newest events are kept in memory, for readers that were away for a moment. */
const KEPT = 1000;
/** Bytes of the events in memory, at most. */
const MAX_BYTES = 8 * 1024 * 1024;
/** What an event costs beside its text: an object, its id, its code, its date. */
const EVENT_OVERHEAD_BYTES = 250;

/** Memory that an event takes, at most: V8 stores a character in up to two bytes. */
const bytesOf = ({ details }: OutboxEvent) => 2 * JSON.stringify(details).length + EVENT_OVERHEAD_BYTES;

/** The log of an event server: what its feed hands over, plus everything older that the outbox still has. */
export interface FollowedLog extends EventLog {
  /** Reads the newest events, so that clients who come back to a new process do not all ask the database. */
  fill(): Promise<void>;
  /** Takes the next event from the feed. */
  append(event: OutboxEvent): void;
  /** Bytes of the events in memory, estimated from above. */
  keptBytes(): number;
}

/** Begins after `position`. Keeps `maxBytes` at most: readers get older events from the database. */
export function createLog(db: Database, position: number, maxBytes = MAX_BYTES): FollowedLog {
  let at = position;
  let kept: OutboxEvent[] = [];
  let bytes = 0;
  /** Everything after this id, up to `at`, is in `kept`. */
  let keptAfter = position;
  let waiting: (() => void)[] = [];

  const fromMemory = (after: number, filter: EventFilter, limit: number): EventPage => {
    const events: OutboxEvent[] = [];
    // Ids have no gaps: the place of an event follows from its id.
    for (let i = after - keptAfter; i < kept.length; i += 1) {
      const event = kept[i];
      if (event === undefined || !passes(filter, event)) continue;
      events.push(event);
      if (events.length === limit) return { events, position: event.id, lost: false };
    }
    return { events, position: at, lost: false };
  };

  /** Drops the oldest half when there are too many, so that each event is moved once on average. */
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
      // Asked before they are read: they have to fit into memory for that too.
      const from = await firstThatFits(db, { after: Math.max(at - KEPT, oldest - 1, 0), upTo, maxBytes });
      if (from >= upTo) return;
      const rows = await readOutbox(db, { after: from, upTo, filter: {}, limit: KEPT });
      // Pruned meanwhile: then memory would have a hole.
      if (rows.length !== upTo - from) return;
      kept = [...rows, ...kept];
      keptAfter = from;
      bytes += rows.reduce((sum, row) => sum + bytesOf(row), 0);
      trim();
    },
    append: (event) => {
      if (event.id !== at + 1) {
        // The feed was told to begin elsewhere, or somebody took rows away: nothing before counts as known.
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

/** The id after which the newest events up to `upTo` fit into `maxBytes`; not before `after`. */
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
