import type { Connection } from "../db/postgres/connect.ts";
import { mayBeCut, OUTBOX_CHANNEL, type OutboxEvent, readOutbox } from "../db/queries/outbox.ts";
import { outboxCounter } from "../db/schema.ts";

/** Follows the outbox until stopped. */
export interface Feed {
  /** The id up to which everything has been handed over; undefined until the database has been reached once. */
  position(): number | undefined;
  /** Milliseconds since the outbox was read to its end; Infinity before the first time. */
  age(): number;
  /** Resolves once the database has been read: what commits from then on is handed over. */
  started: Promise<void>;
  /** Hands nothing over any more once it returns. The connection stays with its owner. */
  stop(): Promise<void>;
}

const BATCH = 500;

/**
 * Hands every event after `after` to `onEvent`, in order, each once; without `after`, those that commit from now on.
 * The rows are the truth. It reads them on each notification, each time the LISTEN is made anew (what was notified while
 * it was not listening is lost) and every `pollMs`, so neither a lost connection nor a restart of Postgres loses one.
 * `connection` should be the feed's own, one connection for reading: the LISTEN opens another. Errors are reported and
 * the feed goes on by itself.
 */
export function createFeed(options: {
  connection: Connection;
  onEvent: (event: OutboxEvent) => void;
  after?: number | undefined;
  pollMs?: number;
  onError?: (error: unknown) => void;
  onPosition?: (id: number) => void;
}): Feed {
  const { db, client } = options.connection;
  const report = options.onError ?? (() => {});
  let last = options.after;
  let stopped = false;
  let announced = false;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;
  let begin = () => {};
  const started = new Promise<void>((resolve) => (begin = resolve));

  const moveTo = (id: number) => {
    last = id;
    options.onPosition?.(id);
  };
  const isStopped = () => stopped;
  const read = async () => {
    if (last === undefined) {
      const [newest] = await db.select().from(outboxCounter);
      if (newest === undefined) throw new Error("the outbox counter has no row: the schema is not migrated");
      if (!isStopped()) moveTo(newest.lastId);
      return;
    }
    for (let more = true; more;) {
      const rows = await readOutbox(db, { after: last, filter: {}, limit: BATCH });
      more = rows.length === BATCH || mayBeCut(rows);
      for (const row of rows) {
        if (isStopped()) return;
        // Moved first: should handing over end this process, its successor must not do it twice.
        moveTo(row.id);
        options.onEvent(row);
      }
    }
  };
  /** One reader at a time; what is announced while it reads makes it read once more. */
  const catchUp = () => {
    announced = true;
    reading ??= readOn().finally(() => (reading = undefined));
  };
  const readOn = async () => {
    for (; announced && !isStopped();) {
      announced = false;
      await read().then(() => {
        readAt = performance.now();
        begin();
      }, report);
    }
  };

  catchUp();
  const listening = client.listen(OUTBOX_CHANNEL, catchUp, catchUp);
  // The driver listens again by itself, also when the first attempt fails.
  listening.catch(report);
  const poll = setInterval(catchUp, options.pollMs ?? 1000);

  return {
    position: () => last,
    age: () => performance.now() - readAt,
    started,
    stop: async () => {
      stopped = true;
      clearInterval(poll);
      await reading;
    },
  };
}
