import type { CompiledPricing } from "../../pricing/compile.ts";
import { evaluateFeature } from "../../pricing/evaluate.ts";
import type { FeatureResult } from "../../pricing/evaluate.ts";
import { idOf } from "../../pricing/evaluation.ts";
import { excerpt } from "../../pricing/excerpt.ts";
import type { FeatureValue, LimitValue } from "../../pricing/model.ts";
import { checkSubscription } from "../../pricing/subscription.ts";
import { equalJson } from "../change.ts";
import { configurationOf, describeConfiguration } from "../configuration.ts";
import type { Expectation, ExpectedFeature } from "./expectations.ts";
import { entitlementsOf, usageOf } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";

/** A result that differs from the expectation. */
export interface Miss {
  readonly line: number;
  readonly message: string;
}

/** Result of one expectation, which is met when `misses` is empty. */
export interface ExpectationResult {
  readonly expectation: Expectation;
  readonly misses: readonly Miss[];
}

/** Maximum characters quoted from a value. Without it, every expectation could repeat the same long text. */
const MAX_QUOTED_LENGTH = 1_000;

function shown(value: FeatureValue | LimitValue | null | undefined): string {
  return value === undefined || value === null ? "nothing" : excerpt(JSON.stringify(value), MAX_QUOTED_LENGTH);
}

/** Formats the error or the consumption of a result, to be appended to a message. */
function circumstances(result: FeatureResult, prefix: string): string {
  if (result.error !== null) return ` (${result.error.code}: ${result.error.message})`;
  const parts = Object.entries(result.used ?? {}).map(
    ([id, used]) => `${id.slice(prefix.length)}: ${used} of ${shown(result.limit?.[id])} used`,
  );
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}

function checkFeature(
  holding: Entitlements,
  usage: ReadonlyMap<string, number>,
  server: boolean,
  expected: ExpectedFeature,
) {
  const { serviceName } = holding.side;
  const { feature, line } = expected;
  const misses: Miss[] = [];
  const miss = (message: string): void => void misses.push({ line, message: `${feature}: ${message}` });
  const result = evaluateFeature(holding.evaluation, idOf(serviceName, feature), usage, { server });
  const told = circumstances(result, `${serviceName}-`);
  if (expected.eval !== undefined && expected.eval !== result.eval)
    miss(`expected ${String(expected.eval)}, is ${String(result.eval)}${told}`);
  const value = holding.grant.features.get(feature);
  if (expected.value !== undefined && !equalJson(expected.value, value))
    miss(`expected the value ${shown(expected.value)}, is ${shown(value)}`);
  for (const [name, limit] of Object.entries(expected.limit ?? {})) {
    const granted = result.limit?.[idOf(serviceName, name)];
    if (granted !== limit) miss(`expected the limit ${name} to be ${shown(limit)}, is ${shown(granted)}${told}`);
  }
  for (const [name, remaining] of Object.entries(expected.remaining ?? {})) {
    const [limit, used] = [result.limit?.[idOf(serviceName, name)], result.used?.[idOf(serviceName, name)]];
    const left = typeof limit === "number" && used !== undefined ? limit - used : undefined;
    if (left !== remaining) miss(`expected ${remaining} of ${name} to remain, is ${shown(left)}${told}`);
  }
  const code = result.error?.code ?? null;
  if (expected.error !== undefined && expected.error !== code)
    miss(`expected ${expected.error ?? "no error"}, is ${code ?? "no error"}${told}`);
  return misses;
}

function checkRefusal(pricing: CompiledPricing, serviceName: string, expectation: Expectation): Miss[] | undefined {
  const { plan, addOns, refused, line } = expectation;
  const { version } = pricing.pricing;
  const verdict = checkSubscription(pricing, { serviceName, version, ...configurationOf(plan, addOns) });
  const what = describeConfiguration(configurationOf(plan, addOns));
  if (verdict.ok)
    return refused === undefined ? undefined : [{ line, message: `${what} can be contracted but should be rejected` }];
  if (refused === true || refused === verdict.rule) return [];
  const wanted = refused === undefined ? "" : ` by ${refused}`;
  return [
    {
      line,
      message: `${what} cannot be subscribed to (${verdict.rule}: ${verdict.message})${wanted && `, not${wanted}`}`,
    },
  ];
}

/** Runs one expectation against a pricing. The parser has validated its names. */
export function runExpectation(side: Side, expectation: Expectation): ExpectationResult {
  const { plan, addOns, usage, server, features, limits, line } = expectation;
  const refusal = checkRefusal(side.pricing, side.serviceName, expectation);
  if (refusal !== undefined) return { expectation, misses: refusal };
  const holding = entitlementsOf(side, configurationOf(plan, addOns));
  const levels = usageOf(side, usage);
  const misses = features.flatMap((expected) => checkFeature(holding, levels, server, expected));
  for (const [name, limit] of Object.entries(limits)) {
    const granted = holding.grant.usageLimits.get(name);
    if (granted !== limit)
      misses.push({ line, message: `expected the limit ${name} to be ${shown(limit)}, is ${shown(granted)}` });
  }
  return { expectation, misses };
}
