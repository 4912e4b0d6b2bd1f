import { evaluateBoolean } from "../pricing/evaluate.ts";
import { idOf } from "../pricing/evaluation.ts";
import { UNLIMITED } from "../pricing/model.ts";
import { together } from "./effect.ts";
import type { Effect } from "./effect.ts";
import type { ExpressionFacts } from "./expression-facts.ts";
import type { Entitlements, Mode } from "./entitlements.ts";

/** Maximum evaluations per comparison; beyond it, the result is only a sample. */
const MAX_POINTS = 4_096;

/** Consumptions to evaluate at: every edge, one point between neighbouring edges, one above the last. */
interface Points {
  readonly names: readonly string[];
  readonly axes: readonly (readonly number[])[];
  /** True if evaluating all points determines the result for every consumption. */
  readonly decided: boolean;
}

/** Comparison of a feature's expression in two holdings. */
export interface AccessComparison {
  readonly effect: Effect;
  /** True if the feature was on at some consumption and is now off there. False when undecided. */
  readonly lost: boolean;
  /** False when edges cannot determine the result; the effect is then `different`. */
  readonly decided: boolean;
  /** `before` and `after`: true if the feature is on at some consumption. */
  readonly before: boolean;
  readonly after: boolean;
}

export function factsOf(holding: Entitlements, feature: string, mode: Mode): ExpressionFacts | undefined {
  return holding.side.expressions.get(feature)?.[mode];
}

/**
 * Returns, per limit, the consumptions at which the expression's result may change in this holding. Undefined when they
 * cannot be determined.
 */
export function edgesOf(
  holding: Entitlements,
  facts: ExpressionFacts | undefined,
): ReadonlyMap<string, readonly number[]> | undefined {
  if (facts === undefined || !facts.mentionsContext) return new Map();
  return facts.edges((to, name) =>
    to === "feature" ? holding.grant.features.get(name) : holding.grant.usageLimits.get(name),
  );
}

/**
 * Returns every edge below UNLIMITED and one point after each. Higher consumption does not occur in practice and is
 * ignored.
 */
function axisThrough(edges: readonly number[]): number[] {
  const near = edges.filter((edge) => edge < UNLIMITED);
  const stops = [...new Set([0, ...near])].sort((one, other) => one - other);
  const axis: number[] = [];
  for (const [index, stop] of stops.entries()) {
    const next = stops[index + 1];
    axis.push(stop, next === undefined ? Math.min(stop + 1, (stop + UNLIMITED) / 2) : (stop + next) / 2);
  }
  return axis;
}

function pointsOf(holdings: readonly Entitlements[], feature: string, mode: Mode): Points {
  const edges = new Map<string, number[]>();
  let decided = true;
  for (const holding of holdings) {
    const facts = factsOf(holding, feature, mode);
    const own = edgesOf(holding, facts);
    if (own === undefined || (facts?.foreign.length ?? 0) > 0) decided = false;
    for (const name of facts?.usage ?? []) {
      // If the edges are unknown, sample around the limits themselves.
      const limit = holding.grant.usageLimits.get(name);
      const found = own?.get(name) ?? (typeof limit === "number" && limit >= 0 ? [limit] : []);
      edges.set(name, [...(edges.get(name) ?? []), ...found]);
    }
  }
  const names = [...edges.keys()].sort();
  const axes = names.map((name) => axisThrough(edges.get(name) ?? []));
  return { names, axes, decided: decided && axes.reduce((product, axis) => product * axis.length, 1) <= MAX_POINTS };
}

/**
 * Yields all combinations of points. Beyond {@link MAX_POINTS}, varies one axis at a time with zero consumption of the
 * others.
 */
function* combinations({ axes }: Points): Generator<readonly number[]> {
  const total = axes.reduce((product, axis) => product * axis.length, 1);
  const point = axes.map((axis) => axis[0] ?? 0);
  if (total > MAX_POINTS) {
    for (const [index, axis] of axes.entries())
      for (const value of axis) yield point.map((rest, at) => (at === index ? value : rest));
    return;
  }
  for (let count = 0; count < total; count++) {
    let rest = count;
    for (const [index, axis] of axes.entries()) {
      point[index] = axis[rest % axis.length] ?? 0;
      rest = Math.floor(rest / axis.length);
    }
    yield point;
  }
}

/** Returns a function that evaluates the feature at a consumption per limit, in the order of `names`. */
function asker(holding: Entitlements, feature: string, mode: Mode, names: readonly string[]) {
  const { serviceName, tracked } = holding.side;
  const id = idOf(serviceName, feature);
  const counted = names.map((name) => (tracked.has(name) ? idOf(serviceName, name) : undefined));
  const usage = new Map<string, number>();
  return (point: readonly number[]): boolean => {
    for (const [index, usageId] of counted.entries()) if (usageId !== undefined) usage.set(usageId, point[index] ?? 0);
    return evaluateBoolean(holding.evaluation, id, usage, { server: mode === "server" });
  };
}

/** Returns true if both holdings pass equal values to equal expressions, so the results cannot differ. */
function readTheSame(before: Entitlements, after: Entitlements, feature: string, mode: Mode): boolean {
  const one = factsOf(before, feature, mode);
  const other = factsOf(after, feature, mode);
  if (one === undefined || other === undefined) return one === other;
  if (one.shape !== other.shape || one.foreign.length !== other.foreign.length) return false;
  const equal = (a: unknown, b: unknown): boolean =>
    a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((each, i) => each === b[i]));
  // Evaluation also requires the feature's own value, even if the expression does not read it.
  return (
    before.grant.features.has(feature) === after.grant.features.has(feature) &&
    one.features.every((name) => equal(before.grant.features.get(name), after.grant.features.get(name))) &&
    one.limits.every((name) => equal(before.grant.usageLimits.get(name), after.grant.usageLimits.get(name))) &&
    one.usage.every((name) => before.side.tracked.has(name) === after.side.tracked.has(name))
  );
}

/**
 * Evaluates the feature over its range of consumption: `some` and `all` report where it is on. `decided` is false when
 * the points are only a sample.
 */
export function accessOf(
  holding: Entitlements,
  feature: string,
  mode: Mode,
): { readonly some: boolean; readonly all: boolean; readonly decided: boolean } {
  const points = pointsOf([holding], feature, mode);
  const ask = asker(holding, feature, mode, points.names);
  let some = false;
  let all = true;
  for (const point of combinations(points))
    if (ask(point)) some = true;
    else all = false;
  return { some, all, decided: points.decided };
}

/**
 * Compares the consumptions at which a feature is on. `more`: on wherever it was before, and elsewhere too. Runs the
 * real evaluation; consumption ranges from 0 to 100,000,000.
 *
 * Exact for expressions that compare consumption, one limit at a time, with granted values. Other expressions are
 * undecided unless nothing that they read has changed.
 */
export function compareAccess(
  before: Entitlements,
  after: Entitlements,
  feature: string,
  mode: Mode,
): AccessComparison {
  if (readTheSame(before, after, feature, mode)) {
    const { some } = accessOf(before, feature, mode);
    return { effect: "same", lost: false, decided: true, before: some, after: some };
  }
  const points = pointsOf([before, after], feature, mode);
  const [askBefore, askAfter] = [before, after].map((holding) => asker(holding, feature, mode, points.names));
  const found = { gained: false, lost: false, before: false, after: false };
  for (const point of combinations(points)) {
    const was = askBefore?.(point) ?? false;
    const is = askAfter?.(point) ?? false;
    found.before ||= was;
    found.after ||= is;
    found.gained ||= is && !was;
    found.lost ||= was && !is;
  }
  const effect = together(found.gained ? "more" : "same", found.lost ? "less" : "same");
  return {
    effect: points.decided ? effect : "different",
    lost: points.decided && found.lost,
    decided: points.decided,
    before: found.before,
    after: found.after,
  };
}

/** Describes when a feature is on: `on`, `off`, or, for a single counted limit, `on while maxTasks < 20`. */
export function describeAccess(holding: Entitlements, feature: string, mode: Mode): string {
  const { some, all, decided } = accessOf(holding, feature, mode);
  if (!decided) return "depends on usage";
  if (!some || all) return some ? "on" : "off";
  const points = pointsOf([holding], feature, mode);
  const [name, second] = points.names;
  const axis = points.axes[0] ?? [];
  if (name === undefined || second !== undefined) return "depends on usage";
  const ask = asker(holding, feature, mode, points.names);
  const states = axis.map((value) => ask([value]));
  const end = states.indexOf(false);
  if (end <= 0 || states.slice(end).includes(true)) return "depends on usage";
  // Even indexes are edges; odd indexes are the points between them.
  return end % 2 === 0 ? `on while ${name} < ${axis[end]}` : `on while ${name} ≤ ${axis[end - 1]}`;
}
