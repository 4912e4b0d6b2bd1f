import { lt, sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { rateCounters } from "../schema.ts";

/*
 * Rate limits across processes: one row per bucket and minute, for calls that cost far more than a row. Windows are
 * fixed to clock minutes, so sixty seconds across a boundary admit up to twice the limit.
 */

const MINUTE_MS = 60_000;

const minuteOf = (now: Date) => Math.floor(now.getTime() / MINUTE_MS);

/** Seconds until the current window ends. */
export function secondsToNextMinute(now: Date): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (now.getTime() % MINUTE_MS)) / 1000));
}

/** Counts a call in the current minute, and returns the count. */
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

/** Returns the count of the current minute. */
export async function readRate(db: Database, bucket: string, now: Date): Promise<number> {
  const [row] = await db
    .select({ count: rateCounters.count })
    .from(rateCounters)
    .where(sql`${rateCounters.bucket} = ${bucket} and ${rateCounters.minute} = ${minuteOf(now)}`);
  return row?.count ?? 0;
}

/** Deletes past minutes. */
export async function pruneRates(db: Database, now: Date): Promise<void> {
  await db.delete(rateCounters).where(lt(rateCounters.minute, minuteOf(now) - 1));
}
