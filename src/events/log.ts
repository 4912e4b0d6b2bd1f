import { type EventFilter, passes } from "../core/event-messages.ts";
import type { Database } from "../db/connect.ts";
import { type EventLog, type EventPage, outboxRange, type OutboxEvent, readOutbox, readPage } from "../db/outbox.ts";

/** How many of the newest events are kept in memory, for readers that were away for a moment. */
const KEPT = 1000;

/** The log of an event server: what its feed hands over, plus everything older that the outbox still has. */
export interface FollowedLog extends EventLog {
  /** Reads the newest events, so that clients who come back to a new process do not all ask the database. */
  fill(): Promise<void>;
  /** Takes the next event from the feed. */
  append(event: OutboxEvent): void;
}

/** Begins after `position`. */
export function createLog(db: Database, position: number): FollowedLog {
  let at = position;
  let kept: OutboxEvent[] = [];
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

  return {
    position: () => at,
    fill: async () => {
      const { oldest } = await outboxRange(db);
      const from = Math.max(at - KEPT, oldest - 1, 0);
      const upTo = keptAfter;
      if (from >= upTo) return;
      const rows = await readOutbox(db, { after: from, upTo, filter: {}, limit: KEPT });
      // Pruned meanwhile: then memory would have a hole.
      if (rows.length !== upTo - from) return;
      kept = [...rows, ...kept];
      keptAfter = from;
    },
    append: (event) => {
      if (event.id !== at + 1) {
        // The feed was told to begin elsewhere, or somebody took rows away: nothing before counts as known.
        kept = [];
        keptAfter = event.id - 1;
      }
      kept.push(event);
      at = event.id;
      if (kept.length > 2 * KEPT) {
        kept = kept.slice(-KEPT);
        keptAfter = at - kept.length;
      }
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
