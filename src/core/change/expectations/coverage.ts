import { findPlan } from "../../pricing/compile.ts";
import { evaluateBoolean } from "../../pricing/evaluate.ts";
import { idOf } from "../../pricing/evaluation.ts";
import { factsOf } from "../access.ts";
import { configurationOf } from "../configuration.ts";
import { isUnlimited } from "../effect.ts";
import type { Expectation } from "./expectations.ts";
import { entitlementsOf, usageOf } from "../entitlements.ts";
import type { Entitlements, Mode, Side } from "../entitlements.ts";

/** Share of a pricing that expectations cover: plans × features × the edges of their limits. */
export interface Coverage {
  readonly points: number;
  readonly covered: number;
  /** Percentage, rounded down: 100 only when nothing is missing. */
  readonly percent: number;
  /** Points without an expectation, described for people. */
  readonly missing: readonly string[];
}

type Place = "below" | "at" | "above";
const PLACES: readonly (readonly [Place, number])[] = [
  ["below", -1],
  ["at", 0],
  ["above", 1],
];

/** Returns the position of a consumption relative to a limit; undefined when more than one unit apart. */
function placeOf(used: number, limit: number): Place | undefined {
  if (used === limit) return "at";
  if (used < limit) return used >= limit - 1 ? "below" : undefined;
  return used <= limit + 1 ? "above" : undefined;
}

/** Returns the places around a limit between which a feature's result changes, with no other consumption. */
function flips(holding: Entitlements, feature: string, mode: Mode, limit: string): readonly Place[] {
  const value = holding.grant.usageLimits.get(limit);
  if (typeof value !== "number" || isUnlimited(value) || value < 0) return [];
  const { side } = holding;
  const answers = PLACES.map(([place, offset]) => {
    const used = value + offset;
    if (used < 0) return { place, on: undefined };
    const usage = usageOf(side, { [limit]: used });
    const id = idOf(side.serviceName, feature);
    return { place, on: evaluateBoolean(holding.evaluation, id, usage, { server: mode === "server" }) };
  });
  const needed = new Set<Place>();
  for (const [index, one] of answers.entries()) {
    const next = answers[index + 1];
    if (next === undefined || one.on === undefined || next.on === undefined || one.on === next.on) continue;
    needed.add(one.place).add(next.place);
  }
  return [...needed];
}

function pointText(plan: string | undefined, feature: string, mode: Mode | undefined, rest: string): string {
  const where = plan === undefined ? "" : `${plan}: `;
  return `${where}${feature}${mode === "server" ? " on the server" : ""}${rest}`;
}

/** Returns all points of one feature with one plan. */
function pointsOf(
  holding: Entitlements,
  plan: string | undefined,
  feature: string,
  mode: Mode,
  shared: boolean,
): string[] {
  const shownMode = shared ? undefined : mode;
  const points = [pointText(plan, feature, shownMode, "")];
  for (const limit of factsOf(holding, feature, mode)?.usage ?? [])
    for (const place of flips(holding, feature, mode, limit))
      points.push(pointText(plan, feature, shownMode, ` with ${limit} ${place} the limit`));
  return points;
}

/** Returns the modes with distinct expressions: one when client and server share theirs, none without an expression. */
function modesOf(side: Side, feature: string): readonly Mode[] {
  const modes = side.expressions.get(feature);
  if (modes?.server === undefined) return [];
  if (modes.client === undefined) return ["server"];
  return modes.client === modes.server ? ["client"] : ["client", "server"];
}

/** Yields the points that one expectation covers, in the wording of {@link pointText}. */
function* coveredBy(side: Side, { plan, addOns, usage, server, features }: Expectation): Generator<string> {
  const holding = entitlementsOf(side, configurationOf(plan, addOns));
  const known = plan === undefined ? undefined : (findPlan(side.pricing, plan)?.name ?? plan);
  for (const { feature, eval: expected } of features) {
    const modes = modesOf(side, feature);
    const mode: Mode = modes.length === 1 ? (modes[0] ?? "client") : server ? "server" : "client";
    const asked = modes.length === 1 && mode === "server" ? server : modes.includes(mode);
    if (expected === undefined || !asked) continue;
    const shownMode = modes.length === 1 ? undefined : mode;
    yield pointText(known, feature, shownMode, "");
    for (const limit of factsOf(holding, feature, mode)?.usage ?? []) {
      const granted = holding.grant.usageLimits.get(limit);
      const used = Object.hasOwn(usage, limit) ? (usage[limit] ?? 0) : 0;
      const place = typeof granted === "number" ? placeOf(used, granted) : undefined;
      if (place !== undefined) yield pointText(known, feature, shownMode, ` with ${limit} ${place} the limit`);
    }
  }
}

/**
 * Measures how many relevant points the expectations cover. Every feature with an expression is a point per plan. So
 * are both sides of each limit at which its result changes: the last unit below, the limit itself, the first unit
 * above. An expectation with add-ons counts for its plan, at the limits that the add-ons yield.
 */
export function coverageOf(side: Side, expectations: readonly Expectation[]): Coverage {
  const { pricing } = side;
  const plans = pricing.plans.size === 0 ? [undefined] : [...pricing.plans.values()].map((plan) => plan.name);
  const points = new Set<string>();
  for (const plan of plans) {
    const holding = entitlementsOf(side, configurationOf(plan, {}));
    for (const feature of side.expressions.keys()) {
      const modes = modesOf(side, feature);
      for (const mode of modes)
        for (const point of pointsOf(holding, plan, feature, mode, modes.length === 1)) points.add(point);
    }
  }
  const covered = new Set(
    expectations.filter((each) => each.refused === undefined).flatMap((each) => [...coveredBy(side, each)]),
  );
  const missing = [...points].filter((point) => !covered.has(point));
  const hit = points.size - missing.length;
  return {
    points: points.size,
    covered: hit,
    percent: points.size === 0 ? 100 : Math.floor((hit / points.size) * 100),
    missing,
  };
}
