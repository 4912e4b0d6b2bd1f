import { sum } from "../../../core/exact.ts";
import type { LeaseRow } from "../../../db/queries/leases.ts";
import { remainingOf } from "../decision.ts";
import type { DecidedResult, LeaseAnswer } from "../request.ts";
import { viewLease } from "./lease.ts";
import type { Leased } from "./leased.ts";
import type { Part } from "./report-parts.ts";

/** Builds the answer to a report from the lease after it. `usages` are by position. */
export function reportAnswer(
  { userId, at }: Leased,
  parts: readonly Part[],
  {
    result,
    lease,
    usages,
    bounds = [],
  }: {
    result: Pick<DecidedResult, "eval" | "error" | "budget">;
    lease: LeaseRow;
    usages: readonly number[];
    /** Amounts that budgets leave, by position. Default: no bound. */
    bounds?: readonly number[];
  },
): LeaseAnswer {
  const by = <T>(value: (part: Part, usage: number, i: number) => T) =>
    Object.fromEntries(parts.map((part, i) => [part.id, value(part, usages[i] ?? 0, i)]));
  return {
    eval: result.eval,
    limit: by(({ limit }) => limit),
    used: by(({ spent }, usage, i) => Math.max(0, sum(usage, -sum(spent, lease.amounts[i]?.amount ?? 0)))),
    error: result.error,
    ...(result.budget === undefined ? {} : { budget: result.budget }),
    remaining: by(({ limit }, usage, i) => {
      const least = Math.min(remainingOf(limit, usage) ?? Infinity, bounds[i] ?? Infinity);
      return least === Infinity ? null : least;
    }),
    resetAt: by(({ level }) => level.resetAt?.toISOString() ?? null),
    now: at.toISOString(),
    lease: viewLease(lease, userId),
  };
}
