import { and, eq, sql } from "drizzle-orm";
import type { LeaseFacts } from "../../core/leases.ts";
import type { Database } from "../postgres/connect.ts";
import { contracts, holds } from "../schema.ts";
import type { Level } from "./contract-snapshots.ts";
import { type HoldRow, isHold, sumHolds } from "./holds.ts";
import { moveLevels, type Movement, sameLevel } from "./usage.ts";
import { recentMovements } from "./usage-reverts.ts";

/*
 * Leases are rows of holds, so that sums, expiries and novations treat both alike. `amounts` are what is left of a lease.
 * Call everything that writes with the contract locked.
 */

export type LeaseRow = HoldRow & { lease: LeaseFacts };

/** A lease with the address of its contract. */
export interface FoundLease {
  lease: LeaseRow;
  organizationId: string;
  userId: string;
}

/** A lease to open. */
export type NewLease = Pick<
  LeaseRow,
  "id" | "contractId" | "featureId" | "amounts" | "createdAt" | "until" | "lease" | "spender" | "budgets"
> & { organizationId: string };

/** Finds a lease by its id; undefined if there is none of this kind. */
export async function findLease(db: Database, id: string): Promise<FoundLease | undefined> {
  const { organizationId, userId } = contracts;
  const [row] = await db
    .select({ hold: holds, organizationId, userId })
    .from(holds)
    .innerJoin(contracts, eq(contracts.id, holds.contractId))
    .where(and(eq(holds.id, id), eq(holds.kind, "lease")));
  const lease = row?.hold.lease;
  return row && lease ? { ...row, lease: { ...row.hold, lease } } : undefined;
}

/** Counts a contract's open leases. */
export async function countOpenLeases(tx: Database, contractId: string): Promise<number> {
  return tx.$count(holds, and(eq(holds.contractId, contractId), eq(holds.state, "open"), eq(holds.kind, "lease")));
}

/** Opens a lease. An open one counts what is left of it when it expires. */
export async function insertLease(tx: Database, lease: NewLease): Promise<void> {
  await tx.insert(holds).values({ ...lease, kind: "lease", onExpiry: "consume", state: "open" });
  await sumHolds(tx, [lease.contractId]);
}

/** Changes what is left of a lease and what was reported of it, when it ends, or its state. */
export async function changeLease(
  tx: Database,
  lease: Pick<LeaseRow, "id" | "contractId">,
  change: Partial<Pick<LeaseRow, "amounts" | "budgets" | "lease" | "until" | "state" | "endedAt">>,
): Promise<void> {
  await tx.update(holds).set(change).where(isHold(lease));
  await sumHolds(tx, [lease.contractId]);
}

/**
 * Takes back part of what the expiry of a lease counted. Skips levels that were reset since, and those whose movement a
 * revert has taken back. Returns the moved levels.
 */
export async function takeBack<L extends Level>(
  tx: Database,
  { id, contractId, featureId, until, spender }: LeaseRow,
  movements: readonly Movement<L>[],
  now: Date,
): Promise<L[]> {
  const counted = await tx.execute<{ serviceId: string; limitName: string }>(sql`
    select l.service_id as "serviceId", l.limit_name as "limitName"
    from usage_levels u cross join ${recentMovements(new Date(until.getTime() - 1))}
    where u.contract_id = ${contractId} and l.created_at = ${until.toISOString()}::timestamptz and l.operation_id = ${id}
      and l.feature_id = ${featureId} and l.kind = 'consume' and l.reverted_at is null and not l.is_settled
  `);
  const open = movements.filter(({ level }) => counted.some((one) => sameLevel(one, level)));
  // The operation of the expiry: a revert finds what is left of that by it.
  return moveLevels(tx, contractId, open, { kind: "revert", operationId: id, now, featureId, spender });
}
