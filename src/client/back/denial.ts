import type { FeatureId } from "../feature-id.ts";
import type { BudgetReached } from "./budgets.ts";
import type { Unlock } from "../offer.ts";

/** Why a call was denied or ended, and what helps. */
export interface Denial {
  /** `BUDGET_REACHED`: buying cannot help. */
  readonly reason: "LIMIT_REACHED" | "BUDGET_REACHED";
  /** Rest by limit id; null for a limit that is no number. */
  readonly remaining: Readonly<Record<string, number | null>> | null;
  /** ISO 8601, by limit id; null for a limit that never resets. */
  readonly resetAt: Readonly<Record<string, string | null>> | null;
  /** The budget that is used up. Absent for a limit. */
  readonly budget?: BudgetReached | undefined;
  /** The smallest purchase that turns the feature on. Absent for a budget, and where it could not be read. */
  readonly unlock?: Unlock;
}

/** The part of `Features` that finds purchases. */
interface Unlocking {
  unlock(userId: string, featureId: FeatureId, options: { amounts: Readonly<Record<string, number>> }): Promise<Unlock>;
}

/**
 * Returns why a call about a hold was denied, with the purchase that would help unless a budget denies it.
 * @internal
 */
export async function explainDenial(
  features: Unlocking | undefined,
  { userId, featureId, amounts }: { userId: string; featureId: string; amounts: Readonly<Record<string, number>> },
  { remaining, resetAt, budget }: Pick<Denial, "remaining" | "resetAt" | "budget">,
): Promise<Denial> {
  const rest = { remaining, resetAt };
  if (budget !== undefined) return { reason: "BUDGET_REACHED", ...rest, budget };
  const unlock = await features?.unlock(userId, featureId, { amounts }).catch(() => undefined);
  return { reason: "LIMIT_REACHED", ...rest, ...(unlock && { unlock }) };
}
