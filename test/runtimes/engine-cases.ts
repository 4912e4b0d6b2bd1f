import {
  compilePricing,
  checkSubscription,
  contexts,
  evaluateFeature,
  featureIds,
  grant,
  parsePricing,
  prepareEvaluation,
  pricingToWire,
} from "../../src/core/pricing.ts";

/** Input of a case; see test/core/pricing/cases/README.md. */
export interface EngineCase {
  name: string;
  text: string;
  service?: string;
  subscription?: { plan?: string; addOns?: Readonly<Record<string, number>> };
  usage?: Readonly<Record<string, number>>;
  server?: boolean;
}

/**
 * Serializes all engine results for one case. Uses no framework and no runtime API, so that the same function runs on
 * all runtimes. The cases themselves assert the results on Node.
 */
export function runCase(each: EngineCase, today: string): string {
  const read = parsePricing(each.text, new Date(today));
  if (!read.ok) return JSON.stringify(read);
  const { pricing } = read;
  const place = { organizationId: "63f74bf8eeed64054274b60d", version: pricing.version };
  const said: unknown[] = [pricingToWire(pricing, place)];
  const compiled = compilePricing(JSON.parse(JSON.stringify(pricing)));
  const serviceName = each.service ?? pricing.saasName.toLowerCase();
  const verdict = checkSubscription(compiled, { serviceName, version: pricing.version, ...each.subscription });
  said.push(verdict);
  if (verdict.ok) {
    const granted = grant(compiled, verdict.plan, verdict.addOns);
    const evaluation = prepareEvaluation([{ serviceName, pricing: compiled, grant: granted }]);
    const usage = new Map(Object.entries(each.usage ?? {}));
    const mode = { server: each.server === true };
    said.push(contexts(evaluation, usage));
    for (const id of featureIds(evaluation, mode)) said.push([id, evaluateFeature(evaluation, id, usage, mode)]);
  }
  return JSON.stringify(said);
}

/** Runs cases one after the other; see runCase. */
export function run({ cases, today }: { cases: readonly EngineCase[]; today: string }): string[] {
  return cases.map((each) => runCase(each, today));
}
