import { sum } from "../../../core/exact.ts";
import type { SeenLevel } from "../../../db/queries/contract-snapshots.ts";
import type { LeaseRow } from "../../../db/queries/leases.ts";
import { Failure } from "../../errors.ts";
import { grantedLimit } from "../../evaluations.ts";
import type { Amounts } from "./lease.ts";
import type { Leased } from "./leased.ts";

/** One limit of a report. */
export interface Part {
  /** Id of the limit when the lease was granted. */
  id: string;
  level: SeenLevel;
  limit: number | boolean | null;
  /** Totals before the report and after it. */
  reported: number;
  spent: number;
  /** Rest of the lease after the report, without what that adds. */
  left: number;
}

/** Returns the limits of a lease with the totals that are reported as spent. */
export function partsOf(leased: Leased, spent: Amounts): Part[] {
  const { lease, levels, contract, evaluation } = leased;
  return levels.map((level, i) => {
    const { id = "", amount: reported = 0 } = lease.lease.spent[i] ?? {};
    const total = spent[id] ?? 0;
    const granted = sum(reported, lease.amounts[i]?.amount ?? 0);
    const limit = grantedLimit(contract, evaluation, level) ?? null;
    return { id, level, limit, reported, spent: total, left: sum(granted, -total) };
  });
}

/** @throws Failure conflict after the lease's end, or if more was spent than granted, or less than reported before. */
export function checkReport({ lease: { id, state, until } }: Leased, parts: readonly Part[], isEnd: boolean): void {
  const conflict = (how: string) => new Failure("conflict", `CONFLICT: Lease ${id} ${how}`);
  if (state !== "open" && !isEnd) throw conflict(`ended at ${until.toISOString()}`);
  const over = parts.find(({ left }) => left < 0);
  if (over !== undefined) {
    const granted = sum(over.spent, over.left);
    throw conflict(`was granted ${granted} of ${over.id}, and ${over.spent} are reported`);
  }
  const under = parts.find(({ spent, reported }) => spent < reported);
  if (under !== undefined) {
    throw conflict(`has ${under.reported} of ${under.id} reported already, and ${under.spent} are reported`);
  }
}

/** Columns of a lease after a report. `left` is by position. */
export const amountsAfter = (
  { amounts, lease }: LeaseRow,
  parts: readonly Part[],
  left: readonly number[],
): Pick<LeaseRow, "amounts" | "lease"> => ({
  amounts: amounts.map((held, i) => ({ ...held, amount: left[i] ?? 0 })),
  lease: { ...lease, spent: parts.map(({ id, spent }) => ({ id, amount: spent })) },
});
