import { and, asc, eq, inArray, lt, sql, type SQL } from "drizzle-orm";
import { nextBoundary } from "../core/period.ts";
import type { Database } from "./connect.ts";
import { usageLedger, usageLevels } from "./schema.ts";

export type UsageLevelRow = typeof usageLevels.$inferSelect;
type LedgerKind = (typeof usageLedger.$inferInsert)["kind"];

/** The contracted service of a subject, with the address of its compiled pricing. */
export interface SubjectService {
  serviceId: string;
  /** Lower-case name. */
  key: string;
  disabled: boolean;
  pricingId: string;
  version: string;
  hash: string;
  plan: string | null;
  addOns: Record<string, number> | null;
}

/** Everything about one end user's contract that an evaluation needs. */
export interface Subject {
  contractId: string;
  endDate: Date;
  autoRenew: boolean;
  renewalDays: number;
  services: SubjectService[];
  levels: { serviceId: string; limitName: string; consumed: number; resetAt: Date | null }[];
}

/** The subject of (organization, end user) in one round trip; undefined when there is no such contract. */
export async function loadSubject(db: Database, organizationId: string, userId: string): Promise<Subject | undefined> {
  const [row] = await db.execute<{
    id: string;
    end_date: string;
    auto_renew: boolean;
    renewal_days: number;
    services: SubjectService[] | null;
    levels: { serviceId: string; limitName: string; consumed: number; resetAt: string | null }[] | null;
  }>(sql`
    select c.id, c.end_date, c.auto_renew, c.renewal_days,
      (select json_agg(json_build_object(
          'serviceId', s.id, 'key', s.name_key, 'disabled', s.disabled, 'pricingId', p.id, 'version', p.version,
          'hash', p.model_hash, 'plan', cs.plan, 'addOns', cs.add_ons) order by cs.position)
        from contract_services cs
        join services s on s.id = cs.service_id
        join pricings p on p.id = cs.pricing_id
        where cs.contract_id = c.id) as services,
      (select json_agg(json_build_object(
          'serviceId', u.service_id, 'limitName', u.limit_name, 'consumed', u.consumed, 'resetAt', u.reset_at)
          order by u.position)
        from usage_levels u where u.contract_id = c.id) as levels
    from contracts c
    where c.organization_id = ${organizationId} and c.user_id = ${userId}
  `);
  if (row === undefined) return undefined;
  return {
    contractId: row.id,
    endDate: new Date(row.end_date),
    autoRenew: row.auto_renew,
    renewalDays: row.renewal_days,
    services: row.services ?? [],
    levels: (row.levels ?? []).map((level) => ({
      ...level,
      resetAt: level.resetAt === null ? null : new Date(level.resetAt),
    })),
  };
}

/** Locks these levels of a contract, always in the same order, until the transaction ends. */
export async function lockLevels(tx: Database, contractId: string, where?: SQL): Promise<UsageLevelRow[]> {
  return tx
    .select()
    .from(usageLevels)
    .where(and(eq(usageLevels.contractId, contractId), where))
    .orderBy(asc(usageLevels.serviceId), asc(usageLevels.limitName))
    .for("update");
}

/** One movement of a locked level. */
export interface Movement {
  level: UsageLevelRow;
  /** Added to the balance, which never goes below zero: the ledger gets what was really added. */
  delta: number;
  /** The next reset moment, when this movement also starts a new period. */
  resetAt?: Date | undefined;
}

/**
 * Applies movements to levels that the transaction has locked, each with its ledger row, in two statements.
 * Sums are computed by the database in exact decimals; the returned rows carry the new balances.
 */
export async function moveLevels(
  tx: Database,
  movements: readonly Movement[],
  entry: { kind: LedgerKind; operationId: string; now: Date; featureId?: string | undefined },
): Promise<UsageLevelRow[]> {
  if (movements.length === 0) return [];
  const values = movements.map(
    ({ level, delta, resetAt }) =>
      sql`(${level.contractId}::text, ${level.serviceId}::text, ${level.limitName}::text, ${String(delta)}::numeric, ${resetAt?.toISOString() ?? null}::timestamptz)`,
  );
  const moved = await tx.execute<{ service_id: string; limit_name: string; before: string; consumed: string }>(sql`
    with movement (contract_id, service_id, limit_name, delta, reset_at) as (values ${sql.join(values, sql`, `)})
    , balance as (
      select u.contract_id, u.service_id, u.limit_name, u.consumed as before, m.delta, m.reset_at
      from usage_levels u join movement m using (contract_id, service_id, limit_name)
    )
    , changed as (
      update usage_levels u set
        consumed = greatest(0, b.before + b.delta),
        reset_at = coalesce(b.reset_at, u.reset_at)
      from balance b
      where u.contract_id = b.contract_id and u.service_id = b.service_id and u.limit_name = b.limit_name
      returning u.contract_id, u.service_id, u.limit_name, b.before, u.consumed
    )
    , written as (
      insert into usage_ledger
        (contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
      select contract_id, service_id, limit_name, ${entry.kind}, ${entry.featureId ?? null}, ${entry.operationId},
        consumed - before, ${entry.now.toISOString()}::timestamptz
      from changed
    )
    select service_id, limit_name, before, consumed from changed
  `);
  return movements.map(({ level, resetAt }) => {
    const row = moved.find((one) => one.service_id === level.serviceId && one.limit_name === level.limitName);
    if (row === undefined) throw new Error("a locked usage level vanished");
    return { ...level, consumed: Number(row.consumed), resetAt: resetAt ?? level.resetAt };
  });
}

/** The boundary that follows `after` on the level's own calendar; undefined for a level that never resets. */
export function boundaryAfter(level: UsageLevelRow, after: Date): Date | undefined {
  const { anchor, periodUnit, periodValue } = level;
  if (anchor === null || periodUnit === null || periodValue === null) return undefined;
  return nextBoundary(anchor, { unit: periodUnit, value: periodValue }, after);
}

/**
 * Starts a new period for each locked level whose period is over, however many were missed, and returns all of them as
 * they are then. A level is renewed once a period: whoever comes second finds it locked, then renewed.
 * Source: contract features-events §5.
 */
export async function renewDue(
  tx: Database,
  locked: readonly UsageLevelRow[],
  now: Date,
  operationId: string,
): Promise<UsageLevelRow[]> {
  const due = locked.flatMap((level) => {
    if (level.resetAt === null || level.resetAt.getTime() >= now.getTime()) return [];
    return [{ level, delta: -level.consumed, resetAt: boundaryAfter(level, now) }];
  });
  const renewed = await moveLevels(tx, due, { kind: "renew", operationId, now });
  return locked.map(
    (level) => renewed.find((one) => one.serviceId === level.serviceId && one.limitName === level.limitName) ?? level,
  );
}

/**
 * What of a feature's consumption can still be undone: rows younger than `since`, not reverted, and not older than the
 * last reset of their level. Newest first. Lock the levels before. Source: contract features-events §6.1.
 */
export async function revertibleRows(
  tx: Database,
  input: { contractId: string; featureId: string; since: Date },
): Promise<(typeof usageLedger.$inferSelect)[]> {
  return tx
    .select()
    .from(usageLedger)
    .where(
      and(
        eq(usageLedger.contractId, input.contractId),
        eq(usageLedger.featureId, input.featureId),
        eq(usageLedger.kind, "consume"),
        sql`${usageLedger.revertedAt} is null`,
        sql`${usageLedger.createdAt} > ${input.since.toISOString()}::timestamptz`,
        sql`not exists (
          select 1 from usage_ledger later
          where later.contract_id = ${usageLedger.contractId} and later.service_id = ${usageLedger.serviceId}
            and later.limit_name = ${usageLedger.limitName} and later.id > ${usageLedger.id}
            and later.kind in ('reset', 'renew', 'remove')
        )`,
      ),
    )
    .orderBy(sql`${usageLedger.id} desc`);
}

/** Marks ledger rows as undone; they never count as revertible again. */
export async function markReverted(tx: Database, ids: readonly number[], now: Date): Promise<void> {
  await tx
    .update(usageLedger)
    .set({ revertedAt: now })
    .where(inArray(usageLedger.id, [...ids]));
}

/** Condition for levels whose period ended before `now`. */
export function isDue(now: Date): SQL {
  return lt(usageLevels.resetAt, now);
}
