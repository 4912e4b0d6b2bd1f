import { sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { deleteEndedHolds } from "./holds.ts";
import { compactPartitions } from "./ledger-partitions.ts";
import { USAGE_KEY_DAYS } from "./usage-batches.ts";

/*
 * Retention of everything but events and webhook deliveries. Deletes in small transactions, so that locks are short;
 * several processes may run it concurrently. A function owned by the schema's owner prunes the audit log, because the
 * server's role may not delete there. The ledger drops partitions, see ledger-partitions.ts.
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

/** Deletes audit entries older than `days`, but none of the last seven days. Returns the number deleted. */
export function pruneAuditLog(db: Database, now: Date, days: number): Promise<number> {
  return untilDone(async () => {
    const [row] = await db.execute<{ removed: number }>(
      sql`select prune_audit_log(${before(now, days)}::timestamptz, ${BATCH}::integer) as removed`,
    );
    return row?.removed ?? 0;
  });
}

/**
 * Replaces movements older than `days`, but none of the last day, by one sum per balance. Balances stay equal to their
 * ledger rows, and revertible movements stay. Returns the number replaced.
 */
export function compactLedger(db: Database, now: Date, days: number): Promise<number> {
  return compactPartitions(db, new Date(before(now, days)));
}

/** Deletes denial counters older than 31 days, which nobody can read. Returns the number deleted. */
export function pruneDenials(db: Database, now: Date): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      delete from denials where (organization_id, hour, feature_id, reason) in (
        select organization_id, hour, feature_id, reason from denials
        where hour < ${before(now, 31)}::timestamptz order by hour limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
}

/** Days for which messages of payment providers are kept. Source: contract billing §3. */
const MESSAGE_DAYS = 90;

/** Deletes messages of payment providers older than 90 days. Returns the number deleted. */
export function pruneBillingMessages(db: Database, now: Date): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      delete from billing_messages where (connection_id, message_id) in (
        select connection_id, message_id from billing_messages
        where received_at < ${before(now, MESSAGE_DAYS)}::timestamptz
        order by received_at limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
}

/** Deletes keys of recorded usage that are free again. Returns the number deleted. */
export function pruneUsageKeys(db: Database, now: Date): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      delete from usage_keys where (organization_id, key) in (
        select organization_id, key from usage_keys
        where taken_at <= ${before(now, USAGE_KEY_DAYS)}::timestamptz
        order by taken_at limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
}

/** Deletes stored answers of idempotency keys older than one day. Returns the number deleted. */
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

/** Deletes sessions that began or were used last before these moments. Returns the number deleted. */
export function pruneSessions(db: Database, bounds: { createdAfter: Date; usedAfter: Date }): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      delete from sessions where id in (
        select id from sessions
        where created_at <= ${bounds.createdAfter.toISOString()}::timestamptz
          or last_used_at <= ${bounds.usedAfter.toISOString()}::timestamptz
        limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
}

/**
 * Deletes invitations and change requests that expired more than `days` ago, whatever became of them. The audit log has
 * both as long. Returns the number deleted.
 */
export async function pruneRequests(db: Database, now: Date, days: number): Promise<number> {
  const at = before(now, days);
  const invitations = await untilDone(async () => {
    const gone = await db.execute(sql`
      delete from invitations where id in (
        select id from invitations where expires_at < ${at}::timestamptz limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
  const requests = await untilDone(async () => {
    const gone = await db.execute(sql`
      delete from change_requests where (id, organization_id) in (
        select id, organization_id from change_requests
        where expires_at < ${at}::timestamptz order by expires_at limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    return gone.length;
  });
  return invitations + requests;
}

/** Deletes proofs that would be refused for their age anyway. */
export async function pruneProofs(db: Database, now: Date): Promise<void> {
  await db.execute(sql`delete from used_proofs where expires_at < ${before(now, 0)}::timestamptz`);
}

/**
 * Deletes amounts that were carried over and stopped to count more than `days` ago, with their draws. Blocks that somebody gave or bought
 * stay with their contract. Returns the number deleted.
 */
export function pruneCarriedBlocks(db: Database, now: Date, days: number): Promise<number> {
  return untilDone(async () => {
    const gone = await db.execute(sql`
      with old as (
        delete from contract_blocks where (id, organization_id) in (
          select id, organization_id from contract_blocks
          where origin = 'rollover' and settled_at < ${before(now, days)}::timestamptz
          order by settled_at limit ${BATCH}::integer for update skip locked
        ) returning id
      ), draws as (
        delete from block_draws where block_id in (select id from old)
      )
      select id from old`);
    return gone.length;
  });
}

/** Deletes holds that ended more than `days` ago. Returns the number deleted. */
export function pruneHolds(db: Database, now: Date, days: number): Promise<number> {
  return untilDone(() => deleteEndedHolds(db, new Date(before(now, days)), BATCH));
}
