import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createSide, usageOf } from "../../src/core/change/entitlements.ts";
import { unlockSteps } from "../../src/core/offers/unlock.ts";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import { evaluateBoolean, prepareEvaluation } from "../../src/core/pricing/evaluate.ts";
import type { Pricing } from "../../src/core/pricing/model.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { finish } from "../../src/core/steps.ts";
import type { BenchRow } from "./pricing.ts";
import { sideBySide } from "./side-by-side.ts";

/*
 * Measures offers over HTTP against the pricing itself. Measures the search for unlocks over the samples, or over the
 * folder of pricings that PRICINGS names.
 */

const QUESTIONS = 1_000;
const SEARCH_MS = 40;
const FOLDER = process.env["PRICINGS"] ?? new URL("../../src/samples", import.meta.url).pathname;

/** Gives features without an expression the usual one: granted, and below the limit that they are linked to. */
function withExpressions(pricing: Pricing): Pricing {
  const features = pricing.features.map((feature) => {
    if (feature.expression !== undefined || feature.valueType !== "BOOLEAN") return feature;
    const limit = pricing.usageLimits.find(
      (each) => each.valueType === "NUMERIC" && each.linkedFeatures?.includes(feature.name) === true,
    );
    const isCounted = limit?.trackable === true || limit?.period !== undefined;
    const below = `subscriptionContext['${limit?.name}'] < pricingContext['usageLimits']['${limit?.name}']`;
    const granted = `pricingContext['features']['${feature.name}']`;
    return { ...feature, expression: isCounted ? `${granted} && ${below}` : granted };
  });
  return { ...pricing, features };
}

/** Returns the durations of random questions about one pricing, in milliseconds, in order, and the number of complete answers. */
function durationsOf(pricing: Pricing): { durations: number[]; complete: number } {
  const side = createSide(compilePricing(withExpressions(pricing)));
  const features = side.pricing.pricing.features.filter(({ expression }) => expression !== undefined);
  const plans = [...side.pricing.plans.values()];
  let seed = 7;
  const pick = <Item>(items: readonly Item[]): Item | undefined => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return items[seed % items.length];
  };
  const durations: number[] = [];
  let complete = 0;
  for (let question = 0; question < QUESTIONS; question += 1) {
    const plan = pick(plans)?.name;
    const feature = pick(features)?.name ?? "";
    const used = Object.fromEntries([...side.tracked].map((name) => [name, pick([0, 0, 10, 200, 5_000]) ?? 0]));
    const usage = usageOf(side, used);
    const since = performance.now();
    const { serviceName } = side;
    const goal = {
      feature,
      mode: "client" as const,
      demanded: (limit: string) => [used[limit] ?? 0],
      unlocks: (grant: Parameters<typeof prepareEvaluation>[0][number]["grant"]) =>
        evaluateBoolean(
          prepareEvaluation([{ serviceName, pricing: side.pricing, grant }]),
          `${serviceName}-${feature}`,
          usage,
          { server: false },
        ),
    };
    const current = plan === undefined ? { addOns: {} } : { plan, addOns: {} };
    const isOver = () => performance.now() - since > SEARCH_MS;
    const found = finish(unlockSteps({ before: side, after: side, current }, goal, isOver));
    durations.push(performance.now() - since);
    if (found.complete) complete += 1;
  }
  return { durations: durations.sort((one, other) => one - other), complete };
}

function searchRows(): BenchRow[] {
  const pricings = readdirSync(FOLDER)
    .filter((name) => /\.ya?ml$/.test(name) && !name.includes("expectations"))
    .flatMap((name) => {
      const parsed = parsePricing(readFileSync(join(FOLDER, name), "utf8"), new Date());
      return parsed.ok ? [{ name, pricing: parsed.pricing }] : [];
    });
  // Let the engine compile the search, as in a server that runs. Each measured pricing starts without kept comparisons.
  for (const { pricing } of pricings) durationsOf(pricing);
  return pricings.map(({ name, pricing }) => {
    const { durations, complete } = durationsOf(pricing);
    const at = (share: number) => durations[Math.floor(durations.length * share)] ?? Number.NaN;
    return {
      name: `unlock, ${QUESTIONS} questions about ${name}, p99 in milliseconds`,
      value: at(0.99),
      target: "<= 5",
      ok: at(0.99) <= 5,
      detail: `p50 ${at(0.5).toFixed(1)} ms, at most ${(durations.at(-1) ?? Number.NaN).toFixed(1)} ms; ${complete} complete`,
    };
  });
}

/** Measures offers and unlocks. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const rows = searchRows();
  let etag = "";
  const http = await sideBySide(async ({ ours }) => {
    const { url, headers, pid } = ours(["x"], "{}");
    const path = "/api/v1/services/plain";
    etag = (await fetch(`${url}${path}/offer`, { headers })).headers.get("etag") ?? "";
    const of = (below: string, more: Record<string, string> = {}) => ({
      url,
      headers: { ...headers, ...more },
      pid,
      paths: [path + below],
    });
    const against = of("/pricings/1.0.0");
    return [
      { name: "offer of a service / the pricing itself", against, of: of("/offer"), connections: 64, target: 0.5 },
      {
        name: "offer that the client has (304) / the pricing itself",
        against,
        of: of("/offer", { "if-none-match": etag }),
        connections: 64,
        target: 0.8,
      },
    ];
  }, quick);
  return [...http, ...rows];
}
