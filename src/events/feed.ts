import type { Connection } from "../db/postgres/connect.ts";
import {
  mayBeCut,
  newestEvent,
  numberEvents,
  OUTBOX_CHANNEL,
  type OutboxEvent,
  parseNotification,
  readOutbox,
} from "../db/queries/outbox.ts";

/** Follows the outbox until stopped. */
export interface Feed {
  /** Id of the last event passed to `onEvent`; undefined until the first successful read. */
  position(): number | undefined;
  /** Milliseconds since the outbox was last read to its end; Infinity before the first read. */
  age(): number;
  /** Resolves after the first read. Events that commit later are passed to `onEvent`. */
  started: Promise<void>;
  /** Resolves after the last call of `onEvent`. Does not close the connection. */
  stop(): Promise<void>;
}

const BATCH = 500;

/**
 * Passes every event after `after` to `onEvent`, once and in order. Default for `after`: the newest event at the start.
 * A notification that contains the next event needs no reading: ids have no gaps and ascend in commit order. Otherwise reads
 * the rows on each notification, after each reconnect of the LISTEN (notifications are lost meanwhile) and every `pollMs`, so
 * neither a lost connection nor a restart of Postgres loses an event.
 * Give it a dedicated `connection` for reading; the LISTEN opens another. Reports errors and continues.
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
  /** True if committed events may lack their ids. */
  let mayBeStaged = true;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;
  let begin = () => {};
  const started = new Promise<void>((resolve) => (begin = resolve));

  const moveTo = (id: number) => {
    last = id;
    options.onPosition?.(id);
  };
  const passOn = (event: OutboxEvent) => {
    // Advance before the call: if `onEvent` ends this process, its successor must not repeat the event.
    moveTo(event.id);
    options.onEvent(event);
  };
  const isStopped = () => stopped;
  const read = async () => {
    if (last === undefined) {
      const newest = await newestEvent(db);
      if (!isStopped()) moveTo(newest);
      return;
    }
    if (mayBeStaged) {
      mayBeStaged = false;
      await numberEvents(db);
    }
    for (let more = true; more;) {
      const rows = await readOutbox(db, { after: last, filter: {}, limit: BATCH });
      more = rows.length === BATCH || mayBeCut(rows);
      for (const row of rows) {
        if (isStopped()) return;
        passOn(row);
      }
    }
  };
  /** Runs one reader at a time: a call during a read triggers another read. */
  const catchUp = () => {
    announced = true;
    reading ??= readOn().finally(() => (reading = undefined));
  };
  const numberAndCatchUp = () => {
    mayBeStaged = true;
    catchUp();
  };
  const onNotification = (payload: string) => {
    const { isNumbered, event } = parseNotification(payload);
    if (!isNumbered) return numberAndCatchUp();
    const isNext = last !== undefined && event?.id === last + 1;
    if (!isNext || reading !== undefined || stopped) return catchUp();
    try {
      passOn(event);
    } catch (error) {
      report(error);
    }
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
  const listening = client.listen(OUTBOX_CHANNEL, onNotification, numberAndCatchUp);
  // The driver subscribes again after a reconnect, even if the first attempt fails.
  listening.catch(report);
  const poll = setInterval(numberAndCatchUp, options.pollMs ?? 1000);

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
