import { evaluateBoolean } from "../pricing/evaluate.ts";
import { idOf } from "../pricing/evaluation.ts";
import { UNLIMITED } from "../pricing/model.ts";
import { together } from "./effect.ts";
import type { Effect } from "./effect.ts";
import type { ExpressionFacts } from "./expression-facts.ts";
import type { Holding, Mode } from "./holding.ts";

/** How many usages one comparison may try; beyond it the answer is only a sample. */
const MAX_POINTS = 4_096;

/** Usages to ask at: one on every edge, one between any two, one beyond the last. */
interface Points {
  readonly names: readonly string[];
  readonly axes: readonly (readonly number[])[];
  /** Whether asking at all of them settles the matter for every usage. */
  readonly decided: boolean;
}

/** What an expression allows in each of two holdings. */
export interface AccessComparison {
  readonly effect: Effect;
  /** Whether there is a usage at which the feature was on and is off; false where that is undecided. */
  readonly lost: boolean;
  /** False when the expressions are beyond what edges can settle: the effect is then `different`. */
  readonly decided: boolean;
  /** Whether the feature is on at some usage, before and after. */
  readonly before: boolean;
  readonly after: boolean;
}

export function factsOf(holding: Holding, feature: string, mode: Mode): ExpressionFacts | undefined {
  return holding.side.expressions.get(feature)?.[mode];
}

/** Where the answer of an expression may change with consumption in this holding; undefined when that is unknown. */
export function edgesOf(
  holding: Holding,
  facts: ExpressionFacts | undefined,
): ReadonlyMap<string, readonly number[]> | undefined {
  if (facts === undefined || !facts.mentionsContext) return new Map();
  return facts.edges((to, name) =>
    to === "feature" ? holding.grant.features.get(name) : holding.grant.usageLimits.get(name),
  );
}

/** Below a hundred million: nothing that is counted gets there, so what happens beyond counts as nothing. */
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

function pointsOf(holdings: readonly Holding[], feature: string, mode: Mode): Points {
  const edges = new Map<string, number[]>();
  let decided = true;
  for (const holding of holdings) {
    const facts = factsOf(holding, feature, mode);
    const own = edgesOf(holding, facts);
    if (own === undefined || (facts?.foreign.length ?? 0) > 0) decided = false;
    for (const name of facts?.usage ?? []) {
      // Where edges cannot be found, the limits themselves are the best guess.
      const limit = holding.grant.usageLimits.get(name);
      const found = own?.get(name) ?? (typeof limit === "number" && limit >= 0 ? [limit] : []);
      edges.set(name, [...(edges.get(name) ?? []), ...found]);
    }
  }
  const names = [...edges.keys()].sort();
  const axes = names.map((name) => axisThrough(edges.get(name) ?? []));
  return { names, axes, decided: decided && axes.reduce((product, axis) => product * axis.length, 1) <= MAX_POINTS };
}

/** Asks at every combination, or when these are too many, along each axis with everything else unused. */
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

/** Whether the feature is on in this holding, at usages given limit by limit. */
function asker(holding: Holding, feature: string, mode: Mode, names: readonly string[]) {
  const { serviceName, tracked } = holding.side;
  const id = idOf(serviceName, feature);
  const counted = names.map((name) => (tracked.has(name) ? idOf(serviceName, name) : undefined));
  const usage = new Map<string, number>();
  return (point: readonly number[]): boolean => {
    for (const [index, usageId] of counted.entries()) if (usageId !== undefined) usage.set(usageId, point[index] ?? 0);
    return evaluateBoolean(holding.evaluation, id, usage, { server: mode === "server" });
  };
}

/** Whether two holdings feed equal expressions with equal values, so that nothing can differ. */
function readTheSame(before: Holding, after: Holding, feature: string, mode: Mode): boolean {
  const one = factsOf(before, feature, mode);
  const other = factsOf(after, feature, mode);
  if (one === undefined || other === undefined) return one === other;
  if (one.shape !== other.shape || one.foreign.length !== other.foreign.length) return false;
  const equal = (a: unknown, b: unknown): boolean =>
    a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((each, i) => each === b[i]));
  // Its own value has to be there, whatever the expression reads.
  return (
    before.grant.features.has(feature) === after.grant.features.has(feature) &&
    one.features.every((name) => equal(before.grant.features.get(name), after.grant.features.get(name))) &&
    one.limits.every((name) => equal(before.grant.usageLimits.get(name), after.grant.usageLimits.get(name))) &&
    one.usage.every((name) => before.side.tracked.has(name) === after.side.tracked.has(name))
  );
}

/** Whether the feature is on at some usage in this holding; `decided` false when only a sample says so. */
export function accessOf(
  holding: Holding,
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
 * Compares at which usages a feature is on: `more` when it is on wherever it was and somewhere else too. Exact for
 * expressions that compare consumption, one limit at a time, with what is granted; others are undecided unless nothing
 * that they read has changed. Asks the evaluation itself; consumption is any number from zero to a hundred million.
 */
export function compareAccess(before: Holding, after: Holding, feature: string, mode: Mode): AccessComparison {
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

/**
 * In words, when a feature is on: `on`, `off`, or for one counted limit up to where (`on while maxTasks < 20`).
 */
export function describeAccess(holding: Holding, feature: string, mode: Mode): string {
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
  // Edges stand at even places, what is between them at odd ones.
  return end % 2 === 0 ? `on while ${name} < ${axis[end]}` : `on while ${name} ≤ ${axis[end - 1]}`;
}
