import { closeTree } from "./language/closures.ts";
import type { Closure } from "./language/closures.ts";
import { explainRefusal, parseExpression } from "./language/expression.ts";
import type { Expression, ExpressionTree, Reference } from "./language/expression.ts";
import type { AddOn, Feature, FeatureValue, LimitValue, Period, Plan, Pricing, UsageLimit } from "./model.ts";
import { seatsOf } from "./seats.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";
import type { Value } from "./language/syntax-tree.ts";

/**
 * Input of the compiled expressions of one service. Arrays are indexed by the position of the feature or limit in the
 * pricing. `usage` is overwritten before each run. `outside` resolves full identifiers and names that the pricing
 * lacks.
 */
export interface EvaluationFrame {
  readonly features: readonly (FeatureValue | undefined)[];
  readonly limits: readonly (LimitValue | undefined)[];
  readonly usage: (number | undefined)[];
  readonly prefix: string;
  readonly outside: (to: Reference["to"], id: string) => Value;
}

/**
 * A feature or usage level that an expression reads. `slot` is its position in the pricing, or -1 when the pricing
 * lacks it.
 */
export interface InvolvedUsage {
  readonly name: string;
  readonly slot: number;
}

export interface CompiledExpression {
  readonly run: Closure<EvaluationFrame>;
  /**
   * Features named without a prefix, in the order of the text, without duplicates. Slot -1 when the pricing lacks it.
   */
  readonly features: readonly InvolvedUsage[];
  /** Usage named without a prefix: the involved limits. */
  readonly usage: readonly InvolvedUsage[];
  /**
   * True if the result depends on consumption, including consumption named with a full identifier, which is not an
   * involved limit.
   */
  readonly readsUsage: boolean;
  /** True if it names consumption with a full identifier. */
  readonly readsOtherUsage: boolean;
  /** Keys of the form `pricingContext['usageLevels']['key']`, which never has a value. */
  readonly usageLevels: readonly string[];
  /** True if the text names a context. */
  readonly mentionsContext: boolean;
  /** Reason why the text cannot run. Set only for texts that the parser rejects today. */
  readonly failure?: string;
}

export interface CompiledFeature {
  readonly feature: Feature;
  readonly slot: number;
  /** Runs in client-side evaluation: `expression`. */
  readonly client?: CompiledExpression;
  /** Runs in server-side evaluation: `serverExpression`, otherwise `expression`. */
  readonly server?: CompiledExpression;
}

/** A pricing with indexes and compiled expressions. Not serializable. */
export interface CompiledPricing {
  readonly pricing: Pricing;
  readonly features: ReadonlyMap<string, CompiledFeature>;
  readonly usageLimits: ReadonlyMap<string, UsageLimit>;
  /** Indexed by lower-case name. Of names that differ only in case, the first wins. */
  readonly plans: ReadonlyMap<string, Plan>;
  /** Indexed by lower-case name. Of names that differ only in case, the first wins. */
  readonly addOns: ReadonlyMap<string, AddOn>;
}

function firstByLowerCase<Item extends { readonly name: string }>(items: readonly Item[]): Map<string, Item> {
  const map = new Map<string, Item>();
  for (const item of items) {
    const key = item.name.toLowerCase();
    if (!map.has(key)) map.set(key, item);
  }
  return map;
}

function closeReference(reference: Reference, slots: Slots): Closure<EvaluationFrame> {
  const { to, key, rewritten } = reference;
  if (to === "nothing") return () => undefined;
  if (to === "usageLevel")
    return () => {
      // JavaScript's own message for this expression, because the context has no such section.
      throw new TypeError(`Cannot read properties of undefined (reading '${key}')`);
    };
  if (!rewritten) return (frame) => frame.outside(to, key);
  const slot = to === "feature" ? slots.features.get(key) : slots.limits.get(key);
  if (slot === undefined) return (frame) => frame.outside(to, frame.prefix + key);
  if (to === "feature") return (frame) => frame.features[slot];
  if (to === "usage") return (frame) => frame.usage[slot];
  return (frame) => frame.limits[slot];
}

/** Positions of the features and limits of one pricing. */
interface Slots {
  readonly features: ReadonlyMap<string, number>;
  readonly limits: ReadonlyMap<string, number>;
}

function slotOf(tree: ExpressionTree | undefined, to: Reference["to"], slots: ReadonlyMap<string, number>): number {
  return tree?.kind === "leaf" && tree.leaf.to === to && tree.leaf.rewritten ? (slots.get(tree.leaf.key) ?? -1) : -1;
}

/** Compiles "consumption below limit" into one closure instead of three. Nearly every expression has this form. */
function closeComparison(tree: ExpressionTree, slots: Slots): Closure<EvaluationFrame> | undefined {
  if (tree.kind !== "binary" || (tree.operator !== "<" && tree.operator !== "<=")) return undefined;
  const used = slotOf(tree.left, "usage", slots.limits);
  const limit = slotOf(tree.right, "usageLimit", slots.limits);
  if (used < 0 || limit < 0) return undefined;
  // A missing limit becomes NaN, so the comparison is false, as with undefined in JavaScript.
  if (tree.operator === "<") return (frame) => (frame.usage[used] ?? NaN) < Number(frame.limits[limit]);
  return (frame) => (frame.usage[used] ?? NaN) <= Number(frame.limits[limit]);
}

function involved(
  expression: Expression,
  to: Reference["to"],
  slots: ReadonlyMap<string, number>,
): readonly InvolvedUsage[] {
  const names = expression.references.filter((each) => each.to === to && each.rewritten).map((each) => each.key);
  return [...new Set(names)].map((name) => ({ name, slot: slots.get(name) ?? -1 }));
}

function compileExpression(text: string | undefined, field: string, slots: Slots): CompiledExpression | undefined {
  if (text === undefined) return undefined;
  const result = parseExpression(text);
  if (!result.ok) {
    const failure = explainRefusal(field, result.refusal);
    const none = { features: [], usage: [], usageLevels: [] };
    return { run: () => undefined, ...none, readsUsage: false, readsOtherUsage: false, mentionsContext: true, failure };
  }
  const { expression } = result;
  return {
    run: closeTree(
      expression.tree,
      (leaf) => closeReference(leaf, slots),
      (tree) => closeComparison(tree, slots),
    ),
    features: involved(expression, "feature", slots.features),
    usage: involved(expression, "usage", slots.limits),
    readsUsage: expression.references.some((each) => each.to === "usage"),
    readsOtherUsage: expression.references.some((each) => each.to === "usage" && !each.rewritten),
    usageLevels: expression.references
      .filter((each) => each.to === "usageLevel" && each.rewritten)
      .map((each) => each.key),
    mentionsContext: expression.mentionsContext,
  };
}

function slotsOf(items: readonly { readonly name: string }[]): Map<string, number> {
  return new Map(items.map((item, slot) => [item.name, slot]));
}

/**
 * Compiles a pricing for evaluation: indexes names and compiles expressions.
 *
 * Succeeds for every model that `parsePricing` accepted, even after a round trip through JSON. An expression that the
 * parser would reject evaluates to EVALUATION_ERROR. Cache the result as long as the model. Source: pricing2yaml.md
 * §12.4.
 */
export function compilePricing(pricing: Pricing): CompiledPricing {
  return finish(compileSteps(pricing));
}

/** Runs {@link compilePricing} in steps. A pricing of 2 MB takes half a second. */
export function* compileSteps(pricing: Pricing): Steps<CompiledPricing> {
  const slots: Slots = { features: slotsOf(pricing.features), limits: slotsOf(pricing.usageLimits) };
  const features = new Map<string, CompiledFeature>();
  for (const [slot, feature] of pricing.features.entries()) {
    const client = compileExpression(feature.expression, "expression", slots);
    const server = compileExpression(feature.serverExpression, "serverExpression", slots) ?? client;
    const compiled: CompiledFeature = {
      feature,
      slot,
      ...(client === undefined ? {} : { client }),
      ...(server === undefined ? {} : { server }),
    };
    features.set(feature.name, compiled);
    yield;
  }
  return {
    pricing,
    features,
    usageLimits: new Map(pricing.usageLimits.map((limit) => [limit.name, limit])),
    plans: firstByLowerCase(pricing.plans),
    addOns: firstByLowerCase(pricing.addOns),
  };
}

/** Finds a plan by its exact name, or else by its name ignoring case. */
export function findPlan(pricing: CompiledPricing, name: string): Plan | undefined {
  return exactly(name, pricing.plans.get(name.toLowerCase()), pricing.pricing.plans);
}

/** Finds an add-on by its exact name, or else by its name ignoring case. */
export function findAddOn(pricing: CompiledPricing, name: string): AddOn | undefined {
  return exactly(name, pricing.addOns.get(name.toLowerCase()), pricing.pricing.addOns);
}

/** Prefers the item with this exact name to the first one that has it ignoring case. A pricing may have both. */
function exactly<Item extends { readonly name: string }>(
  name: string,
  found: Item | undefined,
  items: readonly Item[],
): Item | undefined {
  return found === undefined || found.name === name ? found : (items.find((item) => item.name === name) ?? found);
}

/**
 * Returns the limits whose consumption contracts count: those with a period and trackable ones, in the order of the
 * file. `period` is set only for RENEWABLE limits; the others never reset. Source: contracts.md §2.1.
 */
export function trackedLimits({ pricing }: CompiledPricing): readonly { name: string; period?: Period }[] {
  const seats = seatsOf(pricing);
  return pricing.usageLimits
    .filter((limit) => limit.period !== undefined || limit.trackable || limit.name === seats)
    .map(({ name, type, period }) => (type === "RENEWABLE" && period !== undefined ? { name, period } : { name }));
}
