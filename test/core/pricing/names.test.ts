import { describe, expect, test } from "vitest";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { TODAY } from "./case-file.ts";

/** Builds a pricing with one given name; the others are ordinary. */
function pricing(names: { saas?: string; feature?: string; limit?: string; plan?: string; addOn?: string }): string {
  const { saas = "Acme", feature = "boards", limit = "seats", plan = "PRO", addOn = "extra" } = names;
  return `
saasName: ${saas}
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  ${feature}: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }
usageLimits:
  ${limit}: { valueType: NUMERIC, defaultValue: 1, type: NON_RENEWABLE }
plans:
  ${plan}: { price: 1, features: null }
addOns:
  ${addOn}: { price: 1, usageLimitsExtensions: { ${limit}: { value: 1 } } }
`;
}

const KINDS = [
  { kind: "saas", sentence: "The SaaS name" },
  { kind: "feature", sentence: "The Feature name" },
  { kind: "limit", sentence: "The Usage Limit name" },
  { kind: "plan", sentence: "The Plan name" },
  { kind: "addOn", sentence: "The Addon name" },
] as const;

describe.each(KINDS)("$sentence", ({ kind, sentence }) => {
  test.each([3, 255])("may have %i characters", (length) => {
    expect(parsePricing(pricing({ [kind]: "n".repeat(length) }), TODAY)).toMatchObject({ ok: true });
  });

  test("must not have 256 characters", () => {
    const read = parsePricing(pricing({ [kind]: "n".repeat(256) }), TODAY);
    if (read.ok) throw new Error("the pricing is accepted");
    expect(read.problems[0]?.message).toContain(`${sentence} must have at most 255 characters`);
  });

  test("must not have two characters", () => {
    const read = parsePricing(pricing({ [kind]: "nn" }), TODAY);
    if (read.ok) throw new Error("the pricing is accepted");
    expect(read.problems[0]?.message).toContain(`${sentence} must have at least 3 characters`);
  });
});
