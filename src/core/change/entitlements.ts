import { trackedLimits } from "../pricing/compile.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import { prepareEvaluation } from "../pricing/evaluate.ts";
import type { Evaluation } from "../pricing/evaluate.ts";
import { idOf } from "../pricing/evaluation.ts";
import { type Override, withOverrides } from "../pricing/overrides.ts";
import { grant } from "../pricing/subscription.ts";
import type { Grant } from "../pricing/subscription.ts";
import { configurationKey, configurationOf } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import { expressionFacts } from "./expression-facts.ts";
import type { ExpressionFacts } from "./expression-facts.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";

/** Evaluation mode: selects one of a feature's two expressions. */
export type Mode = "client" | "server";

/** One pricing of a comparison, with its analysed expressions. */
export interface Side {
  readonly pricing: CompiledPricing;
  /** Lower-case name of the service, as in identifiers. */
  readonly serviceName: string;
  /** Limits whose consumption contracts count. */
  readonly tracked: ReadonlySet<string>;
  /**
   * Facts about the expressions of each feature. Without its own expression, `server` uses the client's, as evaluation
   * does.
   */
  readonly expressions: ReadonlyMap<string, Readonly<Record<Mode, ExpressionFacts | undefined>>>;
  /** Exceptions of the compared contracts, which hold on top of every configuration. */
  readonly overrides?: readonly Override[];
  /** Maps each limit to the features that depend on it: linked features and those whose expressions read it. */
  readonly governed: ReadonlyMap<string, ReadonlySet<string>>;
}

/** The entitlements of a subscriber with one configuration. */
export interface Entitlements {
  readonly side: Side;
  readonly configuration: Configuration;
  readonly grant: Grant;
  readonly evaluation: Evaluation;
}

/** Prepares one pricing for comparisons. Pass `serviceName` when it differs from the pricing's own `saasName`. */
export function createSide(pricing: CompiledPricing, serviceName?: string): Side {
  return finish(sideSteps(pricing, serviceName));
}

/** Runs {@link createSide} in steps, because parsing the expressions of a large pricing takes a second. */
export function* sideSteps(
  pricing: CompiledPricing,
  serviceName: string = pricing.pricing.saasName.toLowerCase(),
): Steps<Side> {
  const facts = (text: string | undefined): ExpressionFacts | undefined =>
    text === undefined ? undefined : expressionFacts(text, `${serviceName}-`);
  const expressions = new Map<string, Record<Mode, ExpressionFacts | undefined>>();
  for (const { name, expression, serverExpression } of pricing.pricing.features) {
    const client = facts(expression);
    expressions.set(name, { client, server: facts(serverExpression) ?? client });
    yield;
  }
  const governed = new Map(pricing.pricing.usageLimits.map((limit) => [limit.name, new Set(limit.linkedFeatures)]));
  for (const [name, modes] of expressions)
    for (const each of [modes.client, modes.server])
      for (const limit of [...(each?.limits ?? []), ...(each?.usage ?? [])]) governed.get(limit)?.add(name);
  return {
    pricing,
    serviceName,
    tracked: new Set(trackedLimits(pricing).map((limit) => limit.name)),
    expressions,
    governed,
  };
}

/** Returns the side for contracts with these overrides. */
export function withOverridesOf(side: Side, overrides: readonly Override[]): Side {
  return overrides.length === 0 ? side : { ...side, overrides };
}

/**
 * Computes the grant of a configuration, overrides included. Does not check that the configuration is a valid
 * subscription.
 */
export function entitlementsOf(side: Side, configuration: Configuration): Entitlements {
  const { pricing, serviceName, overrides = [] } = side;
  const granted = withOverrides(pricing, grant(pricing, configuration.plan, configuration.addOns), overrides);
  return {
    side,
    configuration,
    grant: granted,
    evaluation: prepareEvaluation([{ serviceName, pricing, grant: granted }]),
  };
}

/** Entitlements of plans without add-ons, per side. Every best fit compares them. */
const barePlans = new WeakMap<Side, Map<string | undefined, Entitlements>>();

/** Returns the entitlements of a plan without add-ons. */
export function planEntitlements(side: Side, plan: string | undefined): Entitlements {
  let ofSide = barePlans.get(side);
  if (ofSide === undefined) barePlans.set(side, (ofSide = new Map()));
  let bare = ofSide.get(plan);
  if (bare === undefined) ofSide.set(plan, (bare = entitlementsOf(side, configurationOf(plan, {}))));
  return bare;
}

/** Maximum cached values over all holdings of one side, at about 100 bytes each. */
const MAX_CACHED_VALUES = 400_000;

/**
 * Returns a memoized {@link entitlementsOf} for the duration of one comparison. Clears its cache when full, which bounds
 * memory. Looks up by object identity first, which is cheaper than the configuration's key.
 */
export function memoizeEntitlements(side: Side): (configuration: Configuration) => Entitlements {
  const { features, usageLimits } = side.pricing.pricing;
  const max = Math.max(8, Math.floor(MAX_CACHED_VALUES / (features.length + usageLimits.length + 8)));
  let byIdentity = new WeakMap<Configuration, Entitlements>();
  const known = new Map<string, Entitlements>();
  return (configuration) => {
    const same = byIdentity.get(configuration);
    if (same !== undefined) return same;
    const key = configurationKey(configuration);
    const holding = known.get(key) ?? entitlementsOf(side, configuration);
    if (known.size >= max) {
      known.clear();
      byIdentity = new WeakMap();
    }
    known.set(key, holding);
    byIdentity.set(configuration, holding);
    return holding;
  };
}

/** Converts a contract's consumption to the input of evaluation: full identifiers, tracked limits only. */
export function usageOf(side: Side, levels: Readonly<Record<string, number>>): Map<string, number> {
  const usage = new Map<string, number>();
  for (const name of side.tracked)
    usage.set(idOf(side.serviceName, name), Object.hasOwn(levels, name) ? (levels[name] ?? 0) : 0);
  return usage;
}
