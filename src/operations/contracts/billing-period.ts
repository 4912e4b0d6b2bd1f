import { eq } from "drizzle-orm";
import { nextBoundary, type RenewalPeriod } from "../../core/period.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { type FactsById, readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import type { ContractView } from "../../db/queries/contract-view.ts";
import { lockContracts } from "../../db/queries/contracts.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { followPeriodEnds } from "../../db/queries/scheduled.ts";
import { contracts } from "../../db/schema.ts";
import { type Context, transaction } from "../context.ts";
import { type ContractAddress, findContract, isAtAddress } from "../contract-address.ts";
import { applyDueChanges, applyDueChangesOf, applyDueNow, lockServicesOfPending } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { auditContracts, billingOf } from "../contract-audit.ts";
import { inGroup, viewByUsername, viewOne } from "./contract-rows.ts";

type ContractRow = typeof contracts.$inferSelect;

export interface BillingChanges {
  endDate?: Date | undefined;
  autoRenew?: boolean | undefined;
  /** Takes the place of a period on the calendar. */
  renewalDays?: number | undefined;
  /** Takes the place of a number of days. Without `endDate`, the end is that of the running period. */
  renewalPeriod?: RenewalPeriod | undefined;
}

const END_BEFORE_START = "End date cannot be before the start date";

/** Returns the columns that a renewal by days or on the calendar sets. */
const renewalOf = ({ renewalDays, renewalPeriod }: BillingChanges) => ({
  ...(renewalDays === undefined ? {} : { renewalDays, renewalValue: null, renewalUnit: null }),
  ...(renewalPeriod === undefined ? {} : { renewalValue: renewalPeriod.value, renewalUnit: renewalPeriod.unit }),
});

/**
 * Moves the ends of lasting periods to the end of the running period on the calendar. A trial and a contract that has ended
 * keep theirs.
 */
async function alignEnds(ctx: Context, rows: readonly ContractRow[], renewalPeriod: RenewalPeriod): Promise<void> {
  const now = ctx.resources.now();
  for (const row of rows) {
    const isOver = !row.autoRenew && row.endDate.getTime() < now.getTime();
    if (isOver || row.changeAt?.getTime() === row.endDate.getTime()) continue;
    const endDate = nextBoundary(row.startDate, renewalPeriod, now);
    await ctx.db.update(contracts).set({ endDate }).where(eq(contracts.id, row.id));
  }
}

async function applyBilling(ctx: Context, ids: readonly string[], changes: BillingChanges): Promise<void> {
  await ctx.db
    .update(contracts)
    .set({
      ...(changes.endDate === undefined ? {} : { endDate: changes.endDate }),
      ...(changes.autoRenew === undefined ? {} : { autoRenew: changes.autoRenew }),
      ...renewalOf(changes),
      updatedAt: ctx.resources.now(),
    })
    .where(isAnyOf(contracts.id, ids));
}

/**
 * Updates the billing periods of locked contracts, and audits the previous values. A change scheduled for the end follows
 * it; one that becomes due is applied. Returns the events of those, and the facts before them.
 */
async function changeBilling(
  ctx: Context,
  rows: readonly ContractRow[],
  changes: BillingChanges,
): Promise<{ after: FactsById; last: Addressed[] }> {
  const ids = rows.map((row) => row.id);
  await applyBilling(ctx, ids, changes);
  if (changes.renewalPeriod !== undefined && changes.endDate === undefined) {
    await alignEnds(ctx, rows, changes.renewalPeriod);
  }
  if (changes.endDate !== undefined) await followPeriodEnds(ctx.db, ids);
  const facts = await readFacts(ctx.db, ids);
  // A change that this call makes due is the contract's next recorded state.
  const changed = await applyDueNow(ctx, ids);
  await recordStates(ctx.db, {
    contractIds: ids.filter((id) => !changed.contractIds.has(id)),
    cause: "billing",
    now: ctx.resources.now(),
  });
  const { endDate, autoRenew, renewalDays, renewalPeriod } = changes;
  const given = { endDate, autoRenew, renewalDays, renewalPeriod };
  const after = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  await auditContracts(
    ctx,
    "contract.billing",
    rows.map((row) => ({ ...row, before: billingOf(row), after: { ...billingOf(row), ...after } })),
  );
  return { after: facts, last: changed.events };
}

const endsTooEarly = (row: ContractRow, changes: BillingChanges) =>
  changes.endDate !== undefined && changes.endDate.getTime() < row.startDate.getTime();

/** Merges the given fields into the billing period. Source: contract contracts §11. */
export async function updateBillingPeriod(
  ctx: Context,
  input: ContractAddress & { changes: BillingChanges },
): Promise<ContractView> {
  await applyDueChangesOf(ctx, input);
  return transaction(ctx, async (ctx) => {
    await lockServicesOfPending(ctx, isAtAddress(input));
    const row = await findContract(ctx, input, "change");
    if (endsTooEarly(row, input.changes)) throw new Failure("invalid", END_BEFORE_START);
    const before = await readFacts(ctx.db, [row.id]);
    const changed = await changeBilling(ctx, [row], input.changes);
    const view = await viewOne(ctx, row.id);
    await recordChanges(ctx.db, before, changed);
    return view;
  });
}

/**
 * Updates the billing periods of a group, or of the organization's contracts; all or none. Source: contract contracts
 * §11, §14.2.
 */
export async function updateGroupBillingPeriod(
  ctx: Context,
  input: { organizationId: string | undefined; groupId: string | undefined; changes: BillingChanges },
): Promise<ContractView[]> {
  const where = inGroup(input.organizationId, input.groupId);
  await applyDueChanges(ctx, where);
  return transaction(ctx, async (ctx) => {
    await lockServicesOfPending(ctx, where);
    const rows = await lockContracts(ctx.db, where);
    if (rows.length === 0) {
      throw new Failure(
        "notFound",
        `INVALID DATA: Contract with groupId ${input.groupId} not found within organization ${input.organizationId}`,
      );
    }
    const early = rows.find((row) => endsTooEarly(row, input.changes));
    if (early !== undefined) {
      throw new Failure(
        "invalid",
        `INVALID DATA: Error updating billing period for contract of user ${early.userId}. ${END_BEFORE_START}.`,
      );
    }
    const ids = rows.map((row) => row.id);
    const before = await readFacts(ctx.db, ids);
    const changed = await changeBilling(ctx, rows, input.changes);
    const views = await viewByUsername(ctx, ids);
    await recordChanges(ctx.db, before, changed);
    return views;
  });
}
