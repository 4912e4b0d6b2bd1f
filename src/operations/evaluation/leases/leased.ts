import { LATE_END_MS } from "../../../core/leases.ts";
import type { SeenLevel } from "../../../db/queries/contract-snapshots.ts";
import { findLease, type FoundLease, type LeaseRow } from "../../../db/queries/leases.ts";
import { sameLevel } from "../../../db/queries/usage.ts";
import type { Context } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { type BudgetBook, loadBudgets } from "../budget-book.ts";
import { evaluatedOrganization, type LockedHolder, withLockedHolder } from "../prepare.ts";

/** A lease and its contract, both locked and current, with the levels of the lease by position. */
export interface Leased extends LockedHolder, FoundLease {
  levels: readonly SeenLevel[];
  /** Balances of the budgets that count it. */
  budgets: BudgetBook | undefined;
}

/**
 * Locks a lease and its contract while `work` runs.
 * @throws Failure notFound for an unknown lease and for one that is gone.
 */
export async function withLease<T>(
  ctx: Context,
  id: string,
  work: (ctx: Context, leased: Leased) => Promise<T>,
): Promise<T> {
  const notFound = () => new Failure("notFound", `Lease ${id} not found`);
  const address = /^[0-9a-f]{24}$/.test(id) ? await findLease(ctx.db, id) : undefined;
  if (address === undefined || address.organizationId !== evaluatedOrganization(ctx)) throw notFound();
  return withLockedHolder(ctx, address, async (ctx, holder) => {
    const found = await findLease(ctx.db, id);
    const levels = found === undefined ? undefined : levelsOf(found.lease, holder);
    if (found === undefined || levels === undefined) throw notFound();
    const budgets = await loadBudgets(ctx, holder, [], found.lease.budgets ?? []);
    return work(ctx, { ...holder, ...found, levels, budgets });
  });
}

/** Returns the levels of a lease; undefined if the lease is gone: it ended long ago, or its levels are tracked no more. */
function levelsOf({ state, until, amounts }: LeaseRow, { contract, at }: LockedHolder): SeenLevel[] | undefined {
  const isGone = state === "released" || (state !== "open" && at.getTime() - until.getTime() >= LATE_END_MS);
  const levels = amounts.flatMap((held) => contract.levels.find((level) => sameLevel(level, held)) ?? []);
  return isGone || levels.length < amounts.length ? undefined : levels;
}
