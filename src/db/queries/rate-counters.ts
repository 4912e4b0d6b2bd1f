import { lt, sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { rateCounters } from "../schema.ts";

/*
 * Limits that hold across processes: one row a bucket and minute. Only calls that cost far more than a row come here. A
 * minute begins when the clock says so: over its end, twice the limit fits into sixty seconds.
 */

const MINUTE_MS = 60_000;

const minuteOf = (now: Date) => Math.floor(now.getTime() / MINUTE_MS);

/** Seconds until the bucket is empty again. */
export function secondsToNextMinute(now: Date): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (now.getTime() % MINUTE_MS)) / 1000));
}

/** Counts one more call of this minute, and returns how many there are with it. */
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

/** How many calls were counted in this minute. */
export async function readRate(db: Database, bucket: string, now: Date): Promise<number> {
  const [row] = await db
    .select({ count: rateCounters.count })
    .from(rateCounters)
    .where(sql`${rateCounters.bucket} = ${bucket} and ${rateCounters.minute} = ${minuteOf(now)}`);
  return row?.count ?? 0;
}

/** Forgets minutes that are over. */
export async function pruneRates(db: Database, now: Date): Promise<void> {
  await db.delete(rateCounters).where(lt(rateCounters.minute, minuteOf(now) - 1));
}
