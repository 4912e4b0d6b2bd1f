import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { load } from "js-yaml";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import type { CompiledPricing } from "../../src/core/pricing/compile.ts";
import { evaluateBoolean, evaluateFeature, featureIds, prepareEvaluation } from "../../src/core/pricing/evaluate.ts";
import type { Evaluation } from "../../src/core/pricing/evaluate.ts";
import type { Pricing } from "../../src/core/pricing/model.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../src/core/pricing/subscription.ts";

/** One measured ratio; `ok` is true when it meets its target. */
export interface BenchRow {
  readonly name: string;
  /** The two measurements behind the ratio. */
  readonly detail?: string;
  readonly value: number;
  readonly target: string;
  readonly ok: boolean;
  /** Processor time per request of the other side, divided by Faregate's. Varies less than rates on a shared machine. */
  readonly cpuRatio?: number;
}

const NOW = new Date("2026-01-01T00:00:00Z");
export const MODE = { server: false };
const SAMPLE = fileURLToPath(new URL("../../src/samples/atlas.yml", import.meta.url));

/**
 * Measures milliseconds per call of each job. Takes the best of interleaved rounds, so machine noise affects all jobs.
 */
export function measure(jobs: readonly (() => unknown)[], callsPerRound: number, rounds = 9): number[] {
  const best = jobs.map(() => Infinity);
  for (const job of jobs) for (let call = 0; call < callsPerRound; call++) job();
  for (let round = 0; round < rounds; round++) {
    for (const [index, job] of jobs.entries()) {
      const start = performance.now();
      for (let call = 0; call < callsPerRound; call++) job();
      best[index] = Math.min(best[index] ?? Infinity, (performance.now() - start) / callsPerRound);
    }
  }
  return best;
}

export function parsed(text: string): Pricing {
  const result = parsePricing(text, NOW);
  if (!result.ok) throw new Error(result.problems[0]?.message ?? "the sample is not accepted");
  return result.pricing;
}

/** Builds thirty features in common shapes: without limit, with one, with two. */
function thirtyFeatures(): { text: string; expressions: string[] } {
  const expressions = Array.from({ length: 30 }, (_, index) => {
    const feature = `pricingContext['features']['feature${index}']`;
    const below = (limit: number): string =>
      `subscriptionContext['limit${limit}'] < pricingContext['usageLimits']['limit${limit}']`;
    if (index % 3 === 0) return feature;
    return index % 3 === 1
      ? `${feature} && ${below(index % 10)}`
      : `${feature} && ${below(index % 10)} && ${below((index + 1) % 10)}`;
  });
  const features = expressions.map(
    (expression, index) =>
      `  feature${index}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "${expression}"}`,
  );
  const limits = Array.from(
    { length: 10 },
    (_, index) => `  limit${index}: {valueType: NUMERIC, defaultValue: 10, type: NON_RENEWABLE, trackable: true}`,
  );
  const text = `saasName: Bench\nsyntaxVersion: "3.0"\ncreatedAt: "2025-01-01"\ncurrency: EUR\nfeatures:\n${features.join("\n")}\nusageLimits:\n${limits.join("\n")}\nplans:\n  ONE: {price: 0, features: null}\n`;
  return { text, expressions };
}

interface Contexts {
  readonly pricingContext: {
    readonly features: Record<string, boolean>;
    readonly usageLimits: Record<string, number>;
  };
  readonly subscriptionContext: Record<string, number>;
}
type Closure = (contexts: Contexts) => unknown;

/** Hand-written baseline over the same contexts: one closure per node, no checks, no name lookup. */
function handWritten(index: number): Closure {
  const feature =
    (key: string): Closure =>
    (contexts) =>
      contexts.pricingContext.features[key];
  const limit =
    (key: string): Closure =>
    (contexts) =>
      contexts.pricingContext.usageLimits[key];
  const used =
    (key: string): Closure =>
    (contexts) =>
      contexts.subscriptionContext[key];
  const less =
    (left: Closure, right: Closure): Closure =>
    (contexts) =>
      Number(left(contexts)) < Number(right(contexts));
  const and =
    (left: Closure, right: Closure): Closure =>
    (contexts) =>
      left(contexts) && right(contexts);
  const below = (each: number): Closure => less(used(`bench-limit${each}`), limit(`bench-limit${each}`));
  const alone = feature(`bench-feature${index}`);
  if (index % 3 === 0) return alone;
  if (index % 3 === 1) return and(alone, below(index % 10));
  return and(and(alone, below(index % 10)), below((index + 1) % 10));
}

export function prepared(pricing: CompiledPricing, serviceName: string): Evaluation {
  const plan = pricing.pricing.plans.at(-1)?.name;
  return prepareEvaluation([{ serviceName, pricing, grant: grant(pricing, plan, {}) }]);
}

function usageOf(pricing: Pricing, serviceName: string): Map<string, number> {
  return new Map(pricing.usageLimits.map((limit) => [`${serviceName}-${limit.name}`, 3]));
}

function row(name: string, value: number, least: number | undefined, most?: number): BenchRow {
  const target = least === undefined ? `≤ ${most}` : `≥ ${least}`;
  return { name, value, target, ok: least === undefined ? value <= (most ?? Infinity) : value >= least };
}

function measureParsing(): BenchRow[] {
  const text = readFileSync(SAMPLE, "utf8");
  const [bare = 1, whole = 1] = measure([() => load(text), () => compilePricing(parsed(text))], 15);
  return [row("parse, validate and compile the largest sample / YAML library alone", whole / bare, undefined, 3)];
}

function measureEvaluation(): BenchRow[] {
  const { text, expressions } = thirtyFeatures();
  const pricing = parsed(text);
  const evaluation = prepared(compilePricing(pricing), "bench");
  const usage = usageOf(pricing, "bench");
  const ids = featureIds(evaluation, MODE);
  const contexts: Contexts = { pricingContext: { features: {}, usageLimits: {} }, subscriptionContext: {} };
  for (const id of ids) contexts.pricingContext.features[id] = true;
  for (const id of usage.keys()) {
    contexts.pricingContext.usageLimits[id] = 10;
    contexts.subscriptionContext[id] = 3;
  }
  const texts = expressions.map((expression) =>
    expression.replaceAll(/'(feature\d+|limit\d+)'/g, (_, name: string) => `'bench-${name}'`),
  );
  const closures = expressions.map((_, index) => handWritten(index));

  const byText = (): number => {
    // Only the evaluated texts read these variables.
    const { pricingContext, subscriptionContext } = contexts;
    let on = pricingContext === undefined || subscriptionContext === undefined ? 1 : 0;
    // oxlint-disable-next-line no-eval -- what the engine is compared with, on texts of our own
    for (const each of texts) if (eval(each) === true) on++;
    return on;
  };
  const byHand = (): number => {
    let on = 0;
    for (const each of closures) if (each(contexts) === true) on++;
    return on;
  };
  const byEngine = (): number => {
    let on = 0;
    for (const id of ids) if (evaluateBoolean(evaluation, id, usage, MODE)) on++;
    return on;
  };
  const inDetail = (): number => {
    let on = 0;
    for (const id of ids) if (evaluateFeature(evaluation, id, usage, MODE).eval) on++;
    return on;
  };
  const counts = [byText(), byHand(), byEngine(), inDetail()];
  if (counts.some((count) => count !== 30)) throw new Error(`the four ways disagree: ${counts.join(", ")}`);
  const [text_ = 1, hand = 1, engine = 1, detail = 1] = measure([byText, byHand, byEngine, inDetail], 3_000);
  return [
    row("true/false, 30 features: engine / eval of the texts per call (speed)", text_ / engine, 2.5),
    row("true/false, 30 features: engine / closures written by hand (speed)", hand / engine, 0.8),
    row("detailed results, 30 features: engine / bare closures (speed)", hand / detail, 0.25),
    { name: "true/false, million features a second", value: 30 / engine / 1_000, target: "told only", ok: true },
    { name: "detailed, million features a second", value: 30 / detail / 1_000, target: "told only", ok: true },
  ];
}

/** Compares the largest sample with copies of itself of four times the features: the cost per feature must not grow. */
function measureLinearity(): BenchRow[] {
  const small = parsed(readFileSync(SAMPLE, "utf8"));
  const copies = [0, 1, 2, 3].flatMap((copy) =>
    small.features.map((feature) => Object.assign({}, feature, { name: `${feature.name}${copy}` })),
  );
  const plan = small.plans.at(-1);
  if (plan === undefined) return [];
  const values = Object.fromEntries(
    [0, 1, 2, 3].flatMap((copy) => Object.entries(plan.features).map(([name, value]) => [`${name}${copy}`, value])),
  );
  const renamed = copies.map((feature) => {
    const copy = feature.name.at(-1) ?? "";
    const expression = feature.expression?.replaceAll(
      /(pricingContext\['features'\]\[')([^']+)'/g,
      (_, start: string, name: string) => `${start}${name}${copy}'`,
    );
    return expression === undefined ? feature : Object.assign(feature, { expression });
  });
  const large: Pricing = { ...small, features: renamed, plans: [{ ...plan, features: values }] };
  const usage = usageOf(small, "atlas");
  const costs = [small, large].map((pricing) => {
    const evaluation = prepared(compilePricing(pricing), "atlas");
    const ids = featureIds(evaluation, MODE);
    const all = (): unknown => ids.map((id) => evaluateBoolean(evaluation, id, usage, MODE));
    const [each = 1] = measure([all], 400);
    return each / ids.length;
  });
  return [
    row(
      "cost a feature, four times the features / the largest sample",
      (costs[1] ?? 1) / (costs[0] ?? 1),
      undefined,
      1.6,
    ),
  ];
}

/** Measures the pricing engine in one process and compares each figure with its target. */
export async function run(_options: { quick?: boolean } = {}): Promise<BenchRow[]> {
  return [...measureParsing(), ...measureEvaluation(), ...measureLinearity()];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rows = await run();
  for (const { name, value, target, ok } of rows)
    console.log(`${ok ? "ok  " : "MISS"} ${value.toFixed(2).padStart(7)}  ${target.padEnd(9)}  ${name}`);
  if (rows.some((each) => !each.ok)) process.exitCode = 1;
}
