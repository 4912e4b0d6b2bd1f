import { and, asc, eq, lte, sql, type SQL } from "drizzle-orm";
import { sum } from "../../core/exact.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, holds } from "../schema.ts";
import type { Level } from "./contract-snapshots.ts";
import { endHolds, type HoldEnd, type HoldRow, sumHolds } from "./holds.ts";
import { loadLevels, sameLevel } from "./usage.ts";
import { isDue, renewDue } from "./usage-renewals.ts";

/* Finds contracts with holds and blocks that are due, and writes what is due of one. */

/** True if an open hold of the level may have ended. */
export const isHoldDue = ({ holdDue }: Pick<Level, "holdDue">, now: Date): boolean =>
  holdDue !== null && holdDue.getTime() <= now.getTime();

/** Consumption that the end of a hold counted. */
export interface CountedEnd<L extends Level = Level> {
  /** The level before any of these ends. */
  level: L;
  /** Consumed balance after all of them. */
  after: number;
}

/** Called with levels whose period is over, before they are renewed. */
export type BeforeRenewal<L extends Level> = (due: readonly L[], now: Date) => Promise<void>;

/** Called with a hold that ends and counted amounts of budgets; returns the movements of its end. */
export type MoveEndedBudgets<L extends Level> = (
  hold: HoldRow,
  amounts: Readonly<Record<string, number>>,
  at: { until: Date; levels: readonly L[] },
) => Promise<HoldEnd["budgets"]>;

/**
 * Writes all that is due of a locked contract: expiries of holds and renewals of levels, in the order of their moments; in
 * the same millisecond the expiry first, so that it belongs to the period that ends there. Returns all levels, and what
 * expiries counted. Source: contract usage-records §3.4.
 */
export async function applyDue<L extends Level>(
  tx: Database,
  contractId: string,
  levels: readonly L[],
  entry: {
    operationId: string;
    now: Date;
    beforeRenewal?: BeforeRenewal<L> | undefined;
    moveBudgets: MoveEndedBudgets<L>;
  },
): Promise<{ levels: L[]; counted: CountedEnd<L>[] }> {
  const renew = async (current: readonly L[], now: Date) => {
    await entry.beforeRenewal?.(
      current.filter((level) => isDue(level, now)),
      now,
    );
    return renewDue(tx, contractId, current, { operationId: entry.operationId, now });
  };
  if (!levels.some((level) => isHoldDue(level, entry.now))) {
    return { levels: await renew(levels, entry.now), counted: [] };
  }
  const due = await tx
    .select()
    .from(holds)
    .where(and(eq(holds.contractId, contractId), eq(holds.state, "open"), lte(holds.until, entry.now)))
    .orderBy(asc(holds.until), asc(holds.id));
  const counted: CountedEnd<L>[] = [];
  let current = [...levels];
  let pending: HoldEnd[] = [];
  const end = async () => {
    await endHolds(tx, pending);
    pending = [];
  };
  const read = async () => {
    const written = await loadLevels(tx, contractId);
    current = current.map((level) => {
      const found = written.find((one) => sameLevel(one, level));
      if (found === undefined) return level;
      const { consumed, held, openHolds, holdDue } = found;
      if (consumed > level.consumed) counted.push({ level, after: consumed });
      return { ...level, consumed, held, openHolds, holdDue };
    });
  };
  for (const hold of due) {
    const { until } = hold;
    if (current.some((level) => isDue(level, until))) {
      await end();
      await read();
      current = await renew(current, until);
    }
    const isCounted = hold.onExpiry === "consume";
    const amounts = Object.fromEntries(hold.amounts.map(({ id, amount }) => [id, amount]));
    const reported = hold.kept ? hold.counted : null;
    const inAll = hold.amounts.map(({ id, amount }) => [id, sum(amount, reported?.[id] ?? 0)] as const);
    const counted = isCounted ? Object.fromEntries(inAll) : reported;
    const budgets =
      hold.budgets === null
        ? undefined
        : await entry.moveBudgets(hold, isCounted ? amounts : {}, { until, levels: current });
    pending.push({ hold, state: "expired", endedAt: until, counted, budgets });
  }
  await end();
  await sumHolds(tx, [contractId]);
  await read();
  return { levels: await renew(current, entry.now), counted };
}

/** SQL condition: the contract has a hold or a block that is open and has reached its end. */
export const hasDueEnd = (now: Date): SQL =>
  sql`${contracts.id} in (
    select contract_id from holds where state = 'open' and until <= ${now.toISOString()}::timestamptz
    union all
    select contract_id from contract_blocks where state = 'open' and expires_at <= ${now.toISOString()}::timestamptz)`;

/** Finds contracts with a hold or a block that is due, oldest first. */
export async function findDueHolders(
  db: Database,
  now: Date,
  options: { where?: SQL | undefined; limit: number },
): Promise<{ organizationId: string; userId: string }[]> {
  const { id, organizationId, userId } = contracts;
  return db
    .select({ organizationId, userId })
    .from(contracts)
    .where(and(hasDueEnd(now), options.where))
    .orderBy(asc(id))
    .limit(options.limit);
}

/** Returns the versions of services of these contracts that have a level whose period is over, with the contracts. */
export async function listDueVersions(
  db: Database,
  contractIds: readonly string[],
  now: Date,
): Promise<{ pricingId: string; hash: string; contractId: string; organizationId: string; userId: string }[]> {
  return db.execute<{
    pricingId: string;
    hash: string;
    contractId: string;
    organizationId: string;
    userId: string;
  }>(sql`
    select distinct cs.pricing_id as "pricingId", p.model_hash as hash, c.id as "contractId",
      c.organization_id as "organizationId", c.user_id as "userId"
    from usage_levels u
    join contract_services cs using (contract_id, service_id)
    join pricings p on p.id = cs.pricing_id
    join contracts c on c.id = u.contract_id
    where ${isAnyOf(sql`u.contract_id`, contractIds)} and u.reset_at < ${now.toISOString()}::timestamptz`);
}
