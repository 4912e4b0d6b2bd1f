import { sum } from "../../../core/exact.ts";
import type { Span } from "../../../core/pricing/budgets.ts";
import { isBound } from "../../../core/pricing/model.ts";
import type { ContractSnapshot, SeenLevel } from "../../../db/queries/contract-snapshots.ts";
import type { LeaseRow } from "../../../db/queries/leases.ts";
import { remainingOf } from "../decision.ts";
import { validUntilOf } from "../renewal.ts";
import type { LeaseView } from "../request.ts";

/*
 * Leases: a process reserves amounts of one feature's limits, spends them in its memory, and reports what it spent. Source:
 * contract tokens-and-leases §6.
 */

/** Amounts by limit id. */
export type Amounts = Readonly<Record<string, number>>;

/** Returns the amount available of a limit; infinite if it is unlimited or not numeric. */
export const availableOf = (limit: unknown, usage: number): number =>
  isBound(limit) ? (remainingOf(limit, usage) ?? 0) : Infinity;

/** The end of a lease: after its duration, but never beyond a reset, a window of a budget or a change that time brings. */
export function endOf(
  contract: ContractSnapshot,
  levels: readonly SeenLevel[],
  { at, durationMs, spans = [] }: { at: Date; durationMs: number; spans?: readonly Span[] },
): Date {
  const lastOf = ({ ends }: Span) => (ends === null ? null : new Date(ends - 1));
  const bounds = [validUntilOf(contract, at), ...levels.map(({ resetAt }) => resetAt), ...spans.map(lastOf)];
  const moments = bounds.flatMap((bound) => (bound ? [bound.getTime()] : []));
  return new Date(Math.min(at.getTime() + durationMs, ...moments));
}

/** Returns the lease in the form that endpoints return. */
export function viewLease(
  { id, amounts, until, state, lease }: Pick<LeaseRow, "id" | "amounts" | "until" | "state" | "lease">,
  userId: string,
): LeaseView {
  const { featureId, server, spent } = lease;
  return {
    id,
    userId,
    featureId,
    server,
    state: state === "open" ? "open" : "ended",
    granted: Object.fromEntries(spent.map((one, i) => [one.id, sum(one.amount, amounts[i]?.amount ?? 0)])),
    spent: Object.fromEntries(spent.map((one) => [one.id, one.amount])),
    until: until.toISOString(),
  };
}
