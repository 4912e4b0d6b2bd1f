import { findPlan } from "../../pricing/compile.ts";
import { isBound } from "../../pricing/model.ts";
import { checkSubscription } from "../../pricing/subscription.ts";
import { compareHoldings, comparisonSteps } from "../compare.ts";
import type { FeatureComparison, HoldingComparison } from "../compare.ts";
import { priceEffect, priceOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { entitlementsOf } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { emptyCounts } from "./report.ts";
import type { ConfigurationImpact, ImpactCounts, ImpactOptions } from "./report.ts";
import { NO_FLIPS, UsageAnswers } from "./usage.ts";
import type { Steps } from "../../steps.ts";

/**
 * Returns an empty holding for a configuration that no longer fits its pricing. Evaluation rejects such a
 * configuration, so it grants nothing, not even what overrides give.
 */
function nothingOf(side: Side): Entitlements {
  return entitlementsOf({ ...side, overrides: [] }, { addOns: {} });
}

/** Evaluation requires a plan if the pricing has plans. Source: features-events.md §2. */
function lacksPlan({ pricing }: Side, { plan }: Configuration): boolean {
  return plan === undefined ? pricing.plans.size > 0 : findPlan(pricing, plan) === undefined;
}

function usableHolding(side: Side, configuration: Configuration): Entitlements {
  return lacksPlan(side, configuration) ? nothingOf(side) : entitlementsOf(side, configuration);
}

/** Returns why contracts cannot move to a target; null if they can. */
export function problemOf(after: Side | undefined, target: Configuration | undefined): ConfigurationImpact["problem"] {
  if (after === undefined) return { rule: "noTarget", message: "The service is disabled" };
  if (target === undefined) return { rule: "noTarget", message: "No configuration fits" };
  const { pricing, serviceName } = after;
  const verdict = checkSubscription(pricing, { serviceName, version: pricing.pricing.version, ...target });
  if (!verdict.ok) return { rule: verdict.rule, message: verdict.message };
  if (!lacksPlan(after, target)) return null;
  return { rule: "planOrAddOnsRequired", message: `Service ${serviceName} must have a plan selected` };
}

/**
 * Compares the entitlements of a configuration with those of its target. This is the slow part of the impact; pass its
 * result to {@link ImpactOptions.compared}. An invalid target counts as no entitlements.
 */
export function* compareConfiguration(
  before: Side,
  after: Side | undefined,
  configuration: Configuration,
  target: Configuration | undefined,
): Steps<HoldingComparison> {
  const fits = after !== undefined && target !== undefined && problemOf(after, target) === null;
  return yield* comparisonSteps(
    usableHolding(before, configuration),
    fits ? entitlementsOf(after, target) : nothingOf(before),
  );
}

interface Counted {
  readonly limit: string;
  readonly before: number;
  readonly after: number;
  newlyOver: number;
  over: number;
}

/**
 * Impact on one configuration. The constructor does the analysis once, so each contract adds only the cost of its own
 * usage.
 */
export class ConfigurationCount {
  readonly #configuration: Configuration;
  readonly #target: Configuration | undefined;
  readonly #problem: ConfigurationImpact["problem"];
  readonly #before: Entitlements;
  readonly #after: Entitlements | undefined;
  readonly #comparison: ReturnType<typeof compareHoldings>;
  readonly #price: ConfigurationImpact["price"];
  readonly #answers: UsageAnswers;
  readonly #keepsUsage: boolean;
  readonly #counted: readonly Counted[];
  readonly #always: Pick<ImpactCounts, "losingFeatures" | "losingQuota" | "payingMore" | "unplaced"> & {
    readonly gains: boolean;
    readonly loses: boolean;
    readonly differs: boolean;
  };
  readonly counts = emptyCounts();

  constructor(configuration: Configuration, { before, after, place, compared: known, usage }: ImpactOptions) {
    this.#configuration = configuration;
    this.#target = after === undefined ? undefined : place === undefined ? configuration : place(configuration);
    this.#problem = problemOf(after, this.#target);
    this.#before = usableHolding(before, configuration);
    const target = this.#problem === null ? this.#target : undefined;
    this.#after = after === undefined || target === undefined ? undefined : entitlementsOf(after, target);
    const [old, now] = [this.#before, this.#after ?? nothingOf(before)];
    this.#comparison = known?.(configuration) ?? compareHoldings(old, now);
    const [was, is] = [priceOf(before.pricing, configuration), target && after && priceOf(after.pricing, target)];
    this.#price = { before: was, after: is ?? null, effect: is === undefined ? "same" : priceEffect(was, is) };
    this.#answers = new UsageAnswers(this.#before, this.#after, usage);
    this.#keepsUsage = usage === "kept";
    this.#counted = this.#whatToCount();
    const { features, limits } = this.#comparison;
    const compared = [...features, ...limits];
    this.#always = {
      losingFeatures: Number(features.some((each) => each.hadIt && !each.hasIt)),
      losingQuota: Number(limits.some((each) => each.loses)),
      payingMore: Number(this.#price.effect === "less" || this.#price.effect === "different"),
      unplaced: Number(this.#problem !== null),
      gains: compared.some((each) => each.effect === "more" || (each.effect === "different" && each.loses)),
      loses: compared.some((each) => each.loses) || this.#problem !== null,
      differs: compared.some((each) => each.effect === "different" && !each.loses),
    };
  }

  /** Lists the limits whose consumption contracts count before and that bound it afterwards. */
  #whatToCount(): Counted[] {
    const counted: Counted[] = [];
    for (const limit of this.#before.side.tracked) {
      const [was, is] = [this.#before, this.#after].map((holding) => holding?.grant.usageLimits.get(limit));
      if (!isBound(is)) continue;
      counted.push({ limit, before: isBound(was) ? was : Infinity, after: is, newlyOver: 0, over: 0 });
    }
    return counted;
  }

  /**
   * Counts contracts with this consumption. Ignores open holds: a report would change with each of them, and a hold may be
   * released without any consumption.
   */
  add(levels: Readonly<Record<string, number>>, count: number): void {
    const { off, on } = this.#answers.add(levels, count);
    let [over, newlyOver] = [false, false];
    for (const counted of this.#counted) {
      const consumed = Object.hasOwn(levels, counted.limit) ? (levels[counted.limit] ?? 0) : 0;
      if (consumed <= counted.after) continue;
      counted.over += count;
      over = true;
      if (consumed > counted.before) continue;
      counted.newlyOver += count;
      newlyOver = true;
    }
    const { gains, loses, differs, ...always } = this.#always;
    const add = (key: keyof ImpactCounts, happens: boolean | number): void => {
      if (happens === true || happens === 1) this.counts[key] += count;
    };
    add("contracts", true);
    add("gaining", gains || on);
    // A reset empties the balances, so nobody ends above a limit.
    const exceeds = this.#keepsUsage && newlyOver;
    add("losing", loses || off || exceeds);
    add("differing", differs);
    add("affected", gains || loses || differs || on || off || exceeds || this.#price.effect !== "same");
    add("losingFeatures", always.losingFeatures);
    add("losingQuota", always.losingQuota);
    add("turnedOff", off);
    add("over", over);
    add("newlyOver", newlyOver);
    add("payingMore", always.payingMore);
    add("unplaced", always.unplaced);
  }

  report(): ConfigurationImpact {
    const flips = this.#answers.flips();
    const changed = new Set(this.#comparison.features.map((each) => each.feature));
    // An unchanged feature can still flip, because consumption was reset or passed an edge.
    const flipped = [...flips.keys()].filter((feature) => !changed.has(feature));
    const features = [...this.#comparison.features, ...flipped.map((name) => this.#unchanged(name))];
    const limits = new Map(this.#comparison.limits.map((each) => [each.limit, each]));
    for (const { limit, over, before, after } of this.#counted)
      if (over > 0 && !limits.has(limit)) limits.set(limit, { limit, before, after, effect: "same", loses: false });
    return {
      configuration: this.#configuration,
      target: this.#target ?? null,
      problem: this.#problem,
      counts: { ...this.counts },
      features: features.map((each) => Object.assign({}, each, flips.get(each.feature) ?? NO_FLIPS)),
      limits: [...limits.values()].map((each) => {
        const counted = this.#counted.find(({ limit }) => limit === each.limit);
        return Object.assign({}, each, { newlyOver: counted?.newlyOver ?? 0, over: counted?.over ?? 0 });
      }),
      price: this.#price,
    };
  }

  #unchanged(feature: string): FeatureComparison {
    const [before, after] = [this.#before, this.#after].map((holding) => holding?.grant.features.get(feature) ?? null);
    return {
      feature,
      before: before ?? null,
      after: after ?? null,
      effect: "same",
      loses: false,
      hadIt: true,
      hasIt: true,
      decided: true,
    };
  }
}
