import type { FeatureValue, LimitValue } from "../pricing/model.ts";
import { idOf } from "../pricing/evaluation.ts";
import { compareFeature, compareLimit, MODES, namesOfBoth } from "../change/compare.ts";
import type { FeatureComparison, LimitComparison } from "../change/compare.ts";
import { featureValueEffect } from "../change/effect.ts";
import type { Entitlements, Side } from "../change/entitlements.ts";

/** One value that a purchase changes. `null`: not granted. */
export interface Change {
  readonly kind: "feature" | "limit";
  /** `<service>-<name>`. */
  readonly id: string;
  readonly before: FeatureValue | LimitValue | null;
  readonly after: FeatureValue | LimitValue | null;
}

/** Changes between two configurations: features, then limits, in the order of the pricings. Source: contract offers §2. */
export interface Changes {
  readonly gains: readonly Change[];
  readonly losses: readonly Change[];
  /** Neither more nor less: another text, number of a feature, or unit. */
  readonly differences: readonly Change[];
}

export type Outcome = keyof Changes;

/** Judges a feature by when it is usable. Judges it by its value if it is usable neither before nor after. */
function judgeFeature(compared: FeatureComparison): Outcome | undefined {
  const { before, after, hadIt, hasIt, loses } = compared;
  const isUnused = compared.effect === "same" && !hadIt && !hasIt;
  const effect = isUnused ? featureValueEffect(before ?? undefined, after ?? undefined) : compared.effect;
  if (loses || (hadIt && !hasIt) || effect === "less") return "losses";
  if (effect === "more" || (!hadIt && hasIt)) return "gains";
  return effect === "different" ? "differences" : undefined;
}

function judgeLimit({ loses, effect }: LimitComparison): Outcome | undefined {
  if (loses) return "losses";
  if (effect === "more") return "gains";
  return effect === "different" ? "differences" : undefined;
}

/** Returns true if only a listed limit changed for the feature: its value is equal, and it is usable as before. */
function isExplained(
  { feature, before, after, hadIt, hasIt }: FeatureComparison,
  { expressions }: Side,
  isListed: (limit: string) => boolean,
): boolean {
  if (hadIt !== hasIt || JSON.stringify(before) !== JSON.stringify(after)) return false;
  const modes = expressions.get(feature);
  return MODES.some((mode) => modes?.[mode]?.limits.some(isListed) === true);
}

/** Comparisons of two holdings. */
export interface Compared {
  readonly features: readonly FeatureComparison[];
  readonly limits: readonly LimitComparison[];
}

/**
 * Judges comparisons, and passes each change to `found`: features, then limits. Leaves out a feature that a listed limit
 * explains. `isListed` tells about limits that are not among `compared`.
 */
export function judge(
  after: Side,
  { features, limits }: Compared,
  found: (outcome: Outcome, kind: Change["kind"], name: string, compared: FeatureComparison | LimitComparison) => void,
  isListed: (limit: string) => boolean = () => false,
): void {
  const changed = new Map<string, Outcome>();
  for (const limit of limits) {
    const outcome = judgeLimit(limit);
    if (outcome !== undefined) changed.set(limit.limit, outcome);
  }
  for (const feature of features) {
    const outcome = judgeFeature(feature);
    if (outcome === undefined || isExplained(feature, after, (limit) => changed.has(limit) || isListed(limit)))
      continue;
    found(outcome, "feature", feature.feature, feature);
  }
  for (const limit of limits) {
    const outcome = changed.get(limit.limit);
    if (outcome !== undefined) found(outcome, "limit", limit.limit, limit);
  }
}

/** Lists the changes of a comparison. */
export function changesFrom(after: Side, compared: Compared): Changes {
  const changes: Record<Outcome, Change[]> = { gains: [], losses: [], differences: [] };
  judge(after, compared, (outcome, kind, name, { before, after: now }) =>
    changes[outcome].push({ kind, id: idOf(after.serviceName, name), before, after: now }),
  );
  return changes;
}

/** Returns what a subscriber gains, loses and finds different when it moves from one holding to another. */
export function changesOf(before: Entitlements, after: Entitlements): Changes {
  const [old, now] = [before.side.pricing.pricing, after.side.pricing.pricing];
  return changesFrom(after.side, {
    features: namesOfBoth(old.features, now.features).map((name) => compareFeature(before, after, name)),
    limits: namesOfBoth(old.usageLimits, now.usageLimits).map((name) => compareLimit(before, after, name)),
  });
}
