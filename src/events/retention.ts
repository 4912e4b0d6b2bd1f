import { asc, lte } from "drizzle-orm";
import type { Database } from "../db/postgres/connect.ts";
import { pruneRollUp } from "../db/queries/usage-rollup.ts";
import { outboxRange } from "../db/queries/outbox.ts";
import { makePartitions } from "../db/queries/ledger-partitions.ts";
import { pruneRates } from "../db/queries/rate-counters.ts";
import {
  compactLedger,
  pruneAuditLog,
  pruneCarriedBlocks,
  pruneBillingMessages,
  pruneDenials,
  pruneHolds,
  pruneIdempotencyKeys,
  pruneProofs,
  pruneRequests,
  pruneSessions,
  pruneUsageKeys,
} from "../db/queries/retention.ts";
import { outbox, webhookCursor } from "../db/schema.ts";
import { pruneMails } from "./mails.ts";
import { pruneDeliveries } from "./webhook-rows.ts";

/** Number of newest events retained at any age. */
const KEEP_EVENTS = 100_000;
/** Finished deliveries retained per webhook endpoint. */
const KEEP_DELIVERIES = 1000;
const BATCH = 1000;
const DAY_MS = 86_400_000;
const EVERY_MS = 60_000;
/** Wait for what is running at the end of the process. A compaction that takes longer is rolled back, and loses nothing. */
const STOP_MS = 5_000;

/** Retention of events. */
export interface Retention {
  /** Retention in whole days. */
  days: number;
  /** Number of newest events retained at any age. Default: 100,000. */
  keepEvents?: number;
  /** Rows deleted per statement, which bounds its lock time. Default: 1,000. */
  batch?: number;
}

/**
 * Deletes events older than the retention, oldest first and without gaps, in small transactions. Several processes may run
 * it concurrently.
 * @returns the number deleted.
 */
export async function pruneOutbox(db: Database, now: Date, retention: Retention): Promise<number> {
  const { days, keepEvents = KEEP_EVENTS, batch = BATCH } = retention;
  const before = now.getTime() - days * DAY_MS;
  let removed = 0;
  for (;;) {
    const [cursor] = await db.select().from(webhookCursor);
    // Retain events whose webhook deliveries are not created yet, at any age.
    const last = Math.min((await outboxRange(db)).newest - keepEvents, cursor?.lastId ?? 0);
    const oldest = await db
      .select({ id: outbox.id, createdAt: outbox.createdAt })
      .from(outbox)
      .where(lte(outbox.id, last))
      .orderBy(asc(outbox.id))
      .limit(batch);
    const keep = oldest.findIndex(({ createdAt }) => createdAt.getTime() >= before);
    const old = keep < 0 ? oldest : oldest.slice(0, keep);
    const end = old.at(-1)?.id;
    if (end === undefined) return removed;
    await db.delete(outbox).where(lte(outbox.id, end));
    removed += old.length;
    if (old.length < batch) return removed;
  }
}

interface Kept {
  db: Database;
  days: { events: number; audit: number; ledger: number };
  /** Bounds of sessions that still admit. */
  sessions: () => { createdAfter: Date; usedAfter: Date };
}

async function prune({ db, days, sessions }: Kept): Promise<void> {
  const now = new Date();
  await makePartitions(db, now);
  await pruneOutbox(db, now, { days: days.events });
  await pruneMails(db, days.events);
  await pruneDeliveries(db, { days: days.events, keep: KEEP_DELIVERIES });
  await pruneIdempotencyKeys(db, now);
  await pruneUsageKeys(db, now);
  await pruneBillingMessages(db, now);
  await pruneDenials(db, now);
  await pruneRates(db, now);
  await pruneSessions(db, sessions());
  await pruneProofs(db, now);
  await pruneAuditLog(db, now, days.audit);
  await pruneRequests(db, now, days.audit);
  await compactLedger(db, now, days.ledger);
  await pruneRollUp(db);
  await pruneHolds(db, now, days.ledger);
  await pruneCarriedBlocks(db, now, days.ledger);
}

/** Makes partitions of the ledger, and prunes all growing tables every minute. Returns a function that stops it. */
export function startRetention(options: Kept & { onError: (error: unknown) => void }): () => Promise<void> {
  let running: Promise<unknown> | undefined;
  const run = (work: Promise<unknown>) => {
    running = work.catch(options.onError).finally(() => (running = undefined));
  };
  run(makePartitions(options.db, new Date()));
  // A compaction of a large partition may take longer than the interval.
  const timer = setInterval(() => {
    if (running === undefined) run(prune(options));
  }, EVERY_MS);
  return async () => {
    clearInterval(timer);
    await Promise.race([running, new Promise((resolve) => setTimeout(resolve, STOP_MS).unref())]);
  };
}
