import type { FeatureValue, LimitValue } from "../pricing/model.ts";
import { idOf } from "../pricing/evaluation.ts";
import { compareFeature, compareLimit, MODES, namesOfBoth } from "../change/compare.ts";
import type { FeatureComparison, LimitComparison } from "../change/compare.ts";
import { featureValueEffect } from "../change/effect.ts";
import type { Entitlements } from "../change/entitlements.ts";

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

type Outcome = keyof Changes | undefined;

/** Judges a feature by when it is usable. Judges it by its value if it is usable neither before nor after. */
function judgeFeature(compared: FeatureComparison): Outcome {
  const { before, after, hadIt, hasIt, loses } = compared;
  const isUnused = compared.effect === "same" && !hadIt && !hasIt;
  const effect = isUnused ? featureValueEffect(before ?? undefined, after ?? undefined) : compared.effect;
  if (loses || (hadIt && !hasIt) || effect === "less") return "losses";
  if (effect === "more" || (!hadIt && hasIt)) return "gains";
  return effect === "different" ? "differences" : undefined;
}

function judgeLimit({ loses, effect }: LimitComparison): Outcome {
  if (loses) return "losses";
  if (effect === "more") return "gains";
  return effect === "different" ? "differences" : undefined;
}

/** Returns the limits whose granted value the expressions of a feature read. */
function limitsRead({ side }: Entitlements, feature: string): string[] {
  return MODES.flatMap((mode) => [...(side.expressions.get(feature)?.[mode]?.limits ?? [])]);
}

function isSameValue(one: FeatureValue | null, other: FeatureValue | null): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Judged comparisons, each with its outcome; without those that change nothing. */
export interface Judged {
  readonly features: readonly (FeatureComparison & { readonly outcome: keyof Changes })[];
  readonly limits: readonly (LimitComparison & { readonly outcome: keyof Changes })[];
}

function withOutcome<Compared>(compared: readonly Compared[], judge: (each: Compared) => Outcome) {
  return compared.flatMap((each) => {
    const outcome = judge(each);
    return outcome === undefined ? [] : [{ ...each, outcome }];
  });
}

/**
 * Judges comparisons of two holdings. A feature that changes only because a listed limit does is left out. `isListed`
 * tells it about limits that are not among `limits`.
 */
export function judge(
  after: Entitlements,
  compared: { readonly features: readonly FeatureComparison[]; readonly limits: readonly LimitComparison[] },
  isListed: (limit: string) => boolean = () => false,
): Judged {
  const limits = withOutcome(compared.limits, judgeLimit);
  const listed = new Set(limits.map(({ limit }) => limit));
  const features = withOutcome(compared.features, judgeFeature).filter(
    (each) =>
      !isSameValue(each.before, each.after) ||
      each.hadIt !== each.hasIt ||
      !limitsRead(after, each.feature).some((limit) => listed.has(limit) || isListed(limit)),
  );
  return { features, limits };
}

/** Returns what a subscriber gains, loses and finds different when it moves from one holding to another. */
export function changesOf(before: Entitlements, after: Entitlements): Changes {
  const [old, now] = [before.side.pricing.pricing, after.side.pricing.pricing];
  const { features, limits } = judge(after, {
    features: namesOfBoth(old.features, now.features).map((name) => compareFeature(before, after, name)),
    limits: namesOfBoth(old.usageLimits, now.usageLimits).map((name) => compareLimit(before, after, name)),
  });
  const changes: Record<keyof Changes, Change[]> = { gains: [], losses: [], differences: [] };
  const { serviceName } = after.side;
  for (const { feature, before, after, outcome } of features)
    changes[outcome].push({ kind: "feature", id: idOf(serviceName, feature), before, after });
  for (const { limit, before, after, outcome } of limits)
    changes[outcome].push({ kind: "limit", id: idOf(serviceName, limit), before, after });
  return changes;
}
