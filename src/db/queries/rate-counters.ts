import { lt, sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { rateCounters } from "../schema.ts";

/*
 * Rate limits shared by all processes: one row per bucket and minute. Used only for calls that cost far more than a row
 * update. Windows are fixed clock minutes, so twice the limit fits into sixty seconds across a boundary.
 */

const MINUTE_MS = 60_000;

const minuteOf = (now: Date) => Math.floor(now.getTime() / MINUTE_MS);

/** Seconds until the counter resets; at least 1. */
export function secondsToNextMinute(now: Date): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (now.getTime() % MINUTE_MS)) / 1000));
}

/** Increments the bucket's counter of this minute and returns the new value. */
export async function countRate(db: Database, bucket: string, now: Date): Promise<number> {
  const [row] = await db
    .insert(rateCounters)
    .values({ bucket, minute: minuteOf(now), count: 1 })
    .onConflictDoUpdate({
      target: [rateCounters.bucket, rateCounters.minute],
      set: { count: sql`${rateCounters.count} + 1` },
    })
    .returning({ count: rateCounters.count });
  return row?.count ?? 1;
}

/** Reads the bucket's counter of this minute. */
export async function readRate(db: Database, bucket: string, now: Date): Promise<number> {
  const [row] = await db
    .select({ count: rateCounters.count })
    .from(rateCounters)
    .where(sql`${rateCounters.bucket} = ${bucket} and ${rateCounters.minute} = ${minuteOf(now)}`);
  return row?.count ?? 0;
}

/** Deletes counters of past minutes. */
export async function pruneRates(db: Database, now: Date): Promise<void> {
  await db.delete(rateCounters).where(lt(rateCounters.minute, minuteOf(now) - 1));
}
