import { nextBoundary } from "../../period.ts";
import { type CompiledPricing, trackedLimits } from "../../pricing/compile.ts";
import type { ReplayedLevel } from "./balances.ts";
import type { RecordedLevel, RecordedTerms } from "./record.ts";

interface LevelSetting {
  readonly serviceId: string;
  readonly target: CompiledPricing;
  readonly from: number;
}

/** Returns the levels that new terms have in the replay, with their balances at the start of the range. */
export function levelsOf(
  terms: RecordedTerms,
  { serviceId, target, from }: LevelSetting,
  since: number,
): ReplayedLevel[] {
  const start = { held: 0, resets: 0, runningSince: since };
  const isReplaced = terms.services.some((service) => service.serviceId === serviceId);
  const own = (isReplaced ? trackedLimits(target) : []).map(({ name, period }): ReplayedLevel => {
    const recorded = terms.levels.find((level) => level.serviceId === serviceId && level.limitName === name);
    const limit = { ...start, serviceId, limitName: name, consumed: consumedOf(recorded, from) };
    if (period === undefined) return { ...limit, anchor: null, period: null, resetAt: null };
    const anchor = new Date(recorded?.anchor ?? (since > from ? since : terms.startDate));
    const isSame = recorded?.periodUnit === period.unit && Number(recorded.periodValue) === period.value;
    const recordedReset = isSame && recorded.resetAt !== null ? Date.parse(recorded.resetAt) : -Infinity;
    const resetAt =
      recordedReset >= since
        ? new Date(recordedReset)
        : nextBoundary(anchor, period, new Date(Math.max(since, anchor.getTime()) - 1));
    return { ...limit, anchor, period, resetAt };
  });
  // The movements of other services say when these reset.
  const others = terms.levels
    .filter((level) => level.serviceId !== serviceId)
    .map((level): ReplayedLevel => {
      const { limitName } = level;
      const consumed = consumedOf(level, from);
      return { ...start, serviceId: level.serviceId, limitName, consumed, anchor: null, period: null, resetAt: null };
    });
  return [...own, ...others];
}

/** Balance at the start of the range. A period that was over then had not been reset yet. */
function consumedOf(level: RecordedLevel | undefined, from: number): number {
  if (level?.consumed === undefined) return 0;
  return level.resetAt !== null && Date.parse(level.resetAt) < from ? 0 : level.consumed;
}
