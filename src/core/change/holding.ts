import { trackedLimits } from "../pricing/compile.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import { prepareEvaluation } from "../pricing/evaluate.ts";
import type { Evaluation } from "../pricing/evaluate.ts";
import { idOf } from "../pricing/evaluation.ts";
import { grant } from "../pricing/subscription.ts";
import type { Grant } from "../pricing/subscription.ts";
import { configurationKey } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import { expressionFacts } from "./expression-facts.ts";
import type { ExpressionFacts } from "./expression-facts.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";

/** Which of a feature's two expressions is asked. */
export type Mode = "client" | "server";

/** One pricing of a comparison, with what is known of its expressions. */
export interface Side {
  readonly pricing: CompiledPricing;
  /** The name of the service in lower case, as identifiers have it. */
  readonly serviceName: string;
  /** Limits whose consumption contracts count. */
  readonly tracked: ReadonlySet<string>;
  /** What the expressions read, by feature; `server` falls back to the client's as evaluation does. */
  readonly expressions: ReadonlyMap<string, Readonly<Record<Mode, ExpressionFacts | undefined>>>;
  /** For each limit, the features that its file says depend on it: linked to it, or reading it. */
  readonly governed: ReadonlyMap<string, ReadonlySet<string>>;
}

/** What the subscriber of one configuration holds. */
export interface Holding {
  readonly side: Side;
  readonly configuration: Configuration;
  readonly grant: Grant;
  readonly evaluation: Evaluation;
}

/** One pricing made ready for comparisons; `serviceName` where the service is called otherwise than its file says. */
export function createSide(
  pricing: CompiledPricing,
  serviceName: string = pricing.pricing.saasName.toLowerCase(),
): Side {
  return finish(sideSteps(pricing, serviceName));
}

/** {@link createSide} step by step: reading the expressions of a large pricing takes a second. */
export function* sideSteps(pricing: CompiledPricing, serviceName: string): Steps<Side> {
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

/** What this configuration grants; it need not be one that can be subscribed to. */
export function holdingOf(side: Side, configuration: Configuration): Holding {
  const { pricing, serviceName } = side;
  const granted = grant(pricing, configuration.plan, configuration.addOns);
  return {
    side,
    configuration,
    grant: granted,
    evaluation: prepareEvaluation([{ serviceName, pricing, grant: granted }]),
  };
}

/** Values of all remembered holdings of one side together, about 100 bytes each. */
const MAX_REMEMBERED_VALUES = 400_000;

/**
 * A {@link holdingOf} that remembers, for as long as one comparison takes, in bounded memory: begins again when there are
 * too many. Configurations are known by identity first, which is cheaper than by name.
 */
export function rememberHoldings(side: Side): (configuration: Configuration) => Holding {
  const { features, usageLimits } = side.pricing.pricing;
  const max = Math.max(8, Math.floor(MAX_REMEMBERED_VALUES / (features.length + usageLimits.length + 8)));
  let byIdentity = new WeakMap<Configuration, Holding>();
  const known = new Map<string, Holding>();
  return (configuration) => {
    const same = byIdentity.get(configuration);
    if (same !== undefined) return same;
    const key = configurationKey(configuration);
    const holding = known.get(key) ?? holdingOf(side, configuration);
    if (known.size >= max) {
      known.clear();
      byIdentity = new WeakMap();
    }
    known.set(key, holding);
    byIdentity.set(configuration, holding);
    return holding;
  };
}

/** The usage of a contract as evaluation reads it: identifiers in full, tracked limits only. */
export function usageOf(side: Side, levels: Readonly<Record<string, number>>): Map<string, number> {
  const usage = new Map<string, number>();
  for (const name of side.tracked)
    usage.set(idOf(side.serviceName, name), Object.hasOwn(levels, name) ? (levels[name] ?? 0) : 0);
  return usage;
}
