import { describe, expect, it } from "vitest";
import { compilePricing } from "../../../src/core/pricing/compile.ts";
import {
  checkExpectedConsumption,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  prepareEvaluation,
} from "../../../src/core/pricing/evaluate.ts";
import { contexts } from "../../../src/core/pricing/contexts.ts";
import type { Pricing } from "../../../src/core/pricing/model.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { checkSubscription, grant } from "../../../src/core/pricing/subscription.ts";
import { pricingToWire } from "../../../src/core/pricing/wire.ts";
import { accept, at, CASE_FILES, readCases, TODAY } from "./case-file.ts";
import type { Case } from "./case-file.ts";

/** Copies the model through JSON, as the database does. */
function plain<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value)) as Value;
}

function expectRefusal(each: Case & { readonly text: string }): void {
  const result = parsePricing(each.text, TODAY);
  if (result.ok) throw new Error("the pricing is accepted");
  expect(result.problems.map((problem) => problem.message)).toEqual([each.refused, ...(each.also ?? [])]);
  const [first] = result.problems;
  for (const field of ["path", "line", "column", "kind"] as const)
    if (each[field] !== undefined) expect({ [field]: first?.[field] }).toEqual({ [field]: each[field] });
}

function expectValues(actual: unknown, wanted: Readonly<Record<string, unknown>>): void {
  for (const [path, value] of Object.entries(wanted)) {
    const found = at(plain(actual), path);
    if (value === "~absent") expect({ [path]: found }).toEqual({ [path]: undefined });
    // Compares maps as text, so that the order of fields counts.
    else expect(JSON.stringify({ [path]: found })).toBe(JSON.stringify({ [path]: value }));
  }
}

function expectUse(each: Case, pricing: Pricing): void {
  const compiled = compilePricing(plain(pricing));
  const serviceName = each.service ?? "";
  const subscription = each.subscription ?? {};
  const verdict = checkSubscription(compiled, { serviceName, version: pricing.version, ...subscription });
  if (each.verdict !== undefined) expect(plain(verdict)).toEqual(each.verdict);
  if (!verdict.ok) return;
  const granted = grant(compiled, verdict.plan, verdict.addOns);
  const evaluation = prepareEvaluation([{ serviceName, pricing: compiled, grant: granted }]);
  const usage = new Map(Object.entries(each.usage ?? {}));
  const mode = { server: each.server === true };
  if (each.contexts !== undefined)
    expect(JSON.stringify(contexts(evaluation, usage))).toBe(JSON.stringify(each.contexts));
  if (each.bulk !== undefined) expect(featureIds(evaluation, mode)).toEqual(each.bulk);
  for (const [id, wanted] of Object.entries(each.results ?? {})) {
    const result = evaluateFeature(evaluation, id, usage, mode);
    expect(JSON.stringify(result)).toBe(JSON.stringify(wanted));
    expect(evaluateBoolean(evaluation, id, usage, mode)).toBe(result.eval);
  }
  if (each.consumption !== undefined)
    expect(checkExpectedConsumption(evaluation, "tasker-test", each.consumption, mode) ?? null).toEqual(each.expected);
}

for (const file of CASE_FILES) {
  describe(`cases/${file}`, () => {
    for (const each of readCases(file)) {
      it(each.name, () => {
        if (each.refused !== undefined) {
          expectRefusal(each);
          return;
        }
        const pricing = accept(each.text);
        expect(plain(plain(pricing))).toEqual(plain(pricing));
        const place = { organizationId: "63f74bf8eeed64054274b60d", version: pricing.version };
        expectValues(pricingToWire(pricing, place), each.accepted ?? {});
        expectValues(pricing, each.model ?? {});
        if (each.service !== undefined) expectUse(each, pricing);
      });
    }
  });
}
