import { sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";

/*
 * What is removed when its time is over, apart from events and webhook deliveries. Each in small transactions, so that none
 * holds its locks for long; several processes at once do no harm. The audit log and the ledger are pruned by functions of
 * the schema's owner, because the server itself may not delete there.
 */

const BATCH = 1000;

async function untilDone(prune: () => Promise<number>): Promise<number> {
  for (let removed = 0; ;) {
    const more = await prune();
    removed += more;
    if (more < BATCH) return removed;
  }
}

const before = (now: Date, days: number) => new Date(now.getTime() - days * 86_400_000).toISOString();

/** Removes entries that are older than so many days, but none of the last seven. Returns how many. */
export function pruneAuditLog(db: Database, now: Date, days: number): Promise<number> {
  return untilDone(async () => {
    const [row] = await db.execute<{ removed: number }>(
      sql`select prune_audit_log(${before(now, days)}::timestamptz, ${BATCH}::integer) as removed`,
    );
    return row?.removed ?? 0;
  });
}

/**
 * Replaces the movements that are older than so many days, but none of the last one, by their sum for each balance: ledger
 * and balance agree at every moment, and everything that can be reverted stays. Returns how many were replaced.
 */
export function compactLedger(db: Database, now: Date, days: number): Promise<number> {
  return untilDone(async () => {
    const [row] = await db.execute<{ removed: number }>(
      sql`select compact_usage_ledger(${before(now, days)}::timestamptz, ${BATCH}::integer) as removed`,
    );
    return row?.removed ?? 0;
  });
}

/** Removes counts of denials that are older than any overview of them reaches. Returns how many. */
export function pruneDenials(db: Database, now: Date): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      delete from denials where (organization_id, hour, feature_id, reason) in (
        select organization_id, hour, feature_id, reason from denials
        where hour < ${before(now, 8)}::timestamptz order by hour limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
}

/** Removes answers to calls with an Idempotency-Key that are not given again any more. Returns how many. */
export function pruneIdempotencyKeys(db: Database, now: Date): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      delete from idempotency_keys where (scope, key) in (
        select scope, key from idempotency_keys
        where created_at < ${before(now, 1)}::timestamptz order by created_at limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
}
