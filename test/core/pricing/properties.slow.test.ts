import * as fc from "fast-check";
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
import { involvedLimits } from "../../../src/core/pricing/involved-limits.ts";
import { parseExpression } from "../../../src/core/pricing/language/expression.ts";
import type { Pricing } from "../../../src/core/pricing/model.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { checkSubscription, grant } from "../../../src/core/pricing/subscription.ts";
import { pricingToWire } from "../../../src/core/pricing/wire.ts";
import { accept, CASE_FILES, readCases, TODAY } from "./case-file.ts";
import "../../support/property-seed.ts";

const TEXTS = CASE_FILES.flatMap((file) => readCases(file).map((each) => each.text));

/** Mutations of valid texts: pieces removed, doubled, swapped or overwritten. */
const mutated = fc
  .tuple(
    fc.constantFrom(...TEXTS),
    fc.array(
      fc.tuple(
        fc.nat(4),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(30),
        fc.oneof(
          fc.string(),
          fc.constantFrom(
            ": ",
            "\n",
            "  ",
            "*a",
            "&a ",
            "!!str ",
            "[",
            "{",
            "}",
            "'",
            '"',
            "#",
            ".inf",
            "null",
            "<<: ",
          ),
        ),
      ),
      { minLength: 1, maxLength: 4 },
    ),
  )
  .map(([text, edits]) =>
    edits.reduce((current, [kind, place, length, piece]) => {
      const start = Math.floor(place * current.length);
      const taken = current.slice(start, start + length);
      const rest = current.slice(start + length);
      const added = [piece, taken + taken, "", piece + taken, taken + piece][kind] ?? "";
      return current.slice(0, start) + added + rest;
    }, text),
  );

/** Runs every query on an accepted pricing. */
function useUp(pricing: Pricing): void {
  const compiled = compilePricing(JSON.parse(JSON.stringify(pricing)) as Pricing);
  JSON.stringify(pricingToWire(pricing, { organizationId: "o", version: "v" }));
  const addOns = Object.fromEntries(pricing.addOns.map((addOn) => [addOn.name, 2]));
  for (const plan of [undefined, ...pricing.plans.map((each) => each.name)]) {
    checkSubscription(compiled, { serviceName: "any", version: "1", addOns, ...(plan === undefined ? {} : { plan }) });
    const service = { serviceName: "any", pricing: compiled, grant: grant(compiled, plan, addOns) };
    const evaluation = prepareEvaluation([service, { ...service, serviceName: "any-other" }]);
    const usage = new Map(pricing.usageLimits.map((limit) => [`any-${limit.name}`, 1]));
    JSON.stringify(contexts(evaluation, usage));
    for (const server of [false, true]) {
      for (const id of [...featureIds(evaluation, { server }), "none", "__proto__"]) {
        const result = evaluateFeature(evaluation, id, usage, { server });
        expect(evaluateBoolean(evaluation, id, usage, { server })).toBe(result.eval);
        involvedLimits(evaluation, id, { server });
        checkExpectedConsumption(evaluation, id, { a: 1 }, { server });
      }
    }
  }
}

function expectVerdict(text: string): void {
  const result = parsePricing(text, TODAY);
  if (result.ok) {
    expect(JSON.parse(JSON.stringify(result.pricing))).toEqual(JSON.parse(JSON.stringify(result.pricing)));
    useUp(result.pricing);
    return;
  }
  expect(result.problems.length).toBeGreaterThan(0);
  for (const { message, line, column } of result.problems) {
    expect(message).not.toBe("");
    expect(line).toBeGreaterThan(0);
    expect(column).toBeGreaterThan(0);
    expect(line).toBeLessThanOrEqual(text.split(/\r\n?|\n/).length);
  }
}

describe("parsing, compiling and evaluating", { timeout: 60_000 }, () => {
  it("never throw on any text", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 400, unit: "binary" }), (text) => expectVerdict(text)),
      { numRuns: 500 },
    );
  });

  it("never throw on texts near acceptable ones", () => {
    fc.assert(
      fc.property(mutated, (text) => expectVerdict(text)),
      { numRuns: 3_000 },
    );
  });

  it("never throw on JSON of any shape under the keys of a pricing", () => {
    const scalar = fc.oneof(fc.string(), fc.double(), fc.boolean(), fc.constant(null), fc.integer());
    const item = fc.dictionary(
      fc.constantFrom(
        "type",
        "valueType",
        "defaultValue",
        "value",
        "expression",
        "price",
        "features",
        "usageLimits",
        "usageLimitsExtensions",
        "period",
        "name",
        "linkedFeatures",
        "subscriptionConstraints",
      ),
      fc.oneof(
        scalar,
        fc.array(scalar),
        fc.constantFrom("BOOLEAN", "NUMERIC", "TEXT", "PAYMENT", "RENEWABLE"),
        fc.dictionary(fc.constantFrom("abc", "value", "unit"), scalar),
      ),
    );
    const map = fc.oneof(
      scalar,
      fc.array(fc.oneof(scalar, item)),
      fc.dictionary(fc.constantFrom("abc", "__proto__", "toString", "2024"), fc.oneof(scalar, item)),
    );
    const document = fc.record(
      {
        saasName: fc.oneof(fc.constant("Acme"), scalar),
        syntaxVersion: fc.oneof(fc.constantFrom("1.0", "1.1", "2.0", "2.1", "3.0", "3.1"), scalar),
        version: fc.oneof(fc.constantFrom("1.0", "2.0", "x"), scalar),
        createdAt: fc.oneof(fc.constant("2025-01-01"), scalar),
        currency: fc.oneof(fc.constant("USD"), scalar),
        billing: map,
        variables: map,
        tags: map,
        features: map,
        usageLimits: map,
        plans: map,
        addOns: map,
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(document, (value) => expectVerdict(JSON.stringify(value))),
      { numRuns: 2_000 },
    );
  });
});

/** Expressions as text, generated from the grammar, over three features and two limits of every type. */
const expression = fc.letrec<{ node: string; leaf: string; chain: string }>((tie) => ({
  leaf: fc.constantFrom(
    "pricingContext['features']['isOn']",
    "pricingContext['features']['isOff']",
    "pricingContext['features']['sla']",
    "pricingContext['features']['rank']",
    "pricingContext['features']['pay']",
    "pricingContext['usageLimits']['tasks']",
    "pricingContext['usageLimits']['shared']",
    "pricingContext['usageLimits']['nothing']",
    "subscriptionContext['tasks']",
    "pricingContext['flat']",
    'pricingContext["features"]["svc-rank"]',
    "pricingContext.usageLimits.tasks",
    "true",
    "false",
    "null",
    "undefined",
    "0",
    "1.5",
    ".5",
    "2e3",
    "'99%'",
    '"a\\"b\\u0041"',
    "''",
  ),
  chain: fc
    .tuple(
      fc.constantFrom(" && ", " || ", " + ", " < ", " === "),
      fc.array(tie("node"), { minLength: 2, maxLength: 5 }),
    )
    .map(([operator, parts]) => parts.map((part) => `(${part})`).join(operator)),
  node: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    tie("leaf"),
    tie("chain"),
    fc
      .tuple(
        tie("node"),
        fc.constantFrom("==", "!=", "===", "!==", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&&", "||"),
        tie("node"),
      )
      .map(([left, operator, right]) => `${left} ${operator} ${right}`),
    fc.tuple(fc.constantFrom("!", "- ", "+ "), tie("node")).map(([sign, operand]) => `${sign}(${operand})`),
    fc.tuple(tie("node"), tie("node"), tie("node")).map(([test, yes, no]) => `(${test} ? ${yes} : ${no})`),
  ),
})).node;

const SERVICE = `saasName: Acme
syntaxVersion: "3.0"
createdAt: "2025-01-01"
currency: USD
features:
  isOn: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}
  isOff: {valueType: BOOLEAN, defaultValue: false, type: DOMAIN}
  sla: {valueType: TEXT, defaultValue: "99%", type: DOMAIN}
  rank: {valueType: NUMERIC, defaultValue: 3, type: DOMAIN}
  pay: {valueType: TEXT, defaultValue: [CARD, ACH], type: PAYMENT}
  test: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "true"}
usageLimits:
  tasks: {valueType: NUMERIC, defaultValue: 10, type: NON_RENEWABLE, trackable: true}
  shared: {valueType: BOOLEAN, defaultValue: true, type: NON_RENEWABLE}
plans:
  PRO: {price: 1, features: }
`;

/** Evaluates the text as JavaScript, with the keys rewritten as the reference rewrites them. */
function oracle(text: string, values: ReturnType<typeof contexts>): unknown {
  const rewritten = text
    .replaceAll(/(pricingContext\['(?:features|usageLimits)'\]\[')/g, "$1svc-")
    .replaceAll("subscriptionContext['", "subscriptionContext['svc-");
  // oxlint-disable-next-line no-new-func -- the independent judge of our own, generated texts
  const judge = new Function("pricingContext", "subscriptionContext", `"use strict"; return (${rewritten});`) as (
    ...sides: unknown[]
  ) => unknown;
  return judge(values.pricingContext, values.subscriptionContext);
}

describe("the expression language", { timeout: 60_000 }, () => {
  it("agrees with JavaScript on every generated expression", () => {
    const pricing = accept(SERVICE);
    const usage = new Map([["svc-tasks", 3]]);
    let compared = 0;
    fc.assert(
      fc.property(expression, (text) => {
        // The bounds on length and nesting belong to the language, not to JavaScript.
        fc.pre(text.length <= 4_000 && parseExpression(text).ok);
        const features = pricing.features.map((feature) =>
          feature.name === "test" ? { ...feature, expression: text } : feature,
        );
        const compiled = compilePricing({ ...pricing, features });
        const granted = grant(compiled, "PRO", {});
        const evaluation = prepareEvaluation([{ serviceName: "svc", pricing: compiled, grant: granted }]);
        const wanted = oracle(text, contexts(evaluation, usage));
        const result = evaluateFeature(evaluation, "svc-test", usage, { server: false });
        if (!/Context/.test(text)) expect(result.error?.code).toBe("PARSE_ERROR");
        else if (typeof wanted === "boolean") expect(result).toMatchObject({ eval: wanted, error: null });
        else
          expect(result.error?.message).toBe(
            `Feature svc-test has an expression that does not return a boolean! Returned value: ${String(wanted)} of type ${typeof wanted}`,
          );
        compared++;
      }),
      { numRuns: 5_000 },
    );
    expect(compared).toBeGreaterThan(3_000);
  });

  it("accepts every generated expression within its bounds", () => {
    fc.assert(
      fc.property(expression, (text) => {
        const result = parseExpression(text);
        if (!result.ok)
          expect(result.refusal).toMatchObject({ rule: "syntax", reason: expect.stringMatching(/deeper|longer/) });
      }),
      { numRuns: 2_000 },
    );
  });

  it("refuses or evaluates any text without effect", () => {
    const word = fc.constantFrom(
      "pricingContext",
      "['features']",
      "['a']",
      "subscriptionContext",
      "(",
      ")",
      "&&",
      "=",
      "=>",
      "`",
      "${",
      "}",
      "process",
      ".exit",
      "constructor",
      "['constructor']",
      "new ",
      "import(",
      "'fs'",
      "this",
      "eval",
      ",",
      ";",
      "//",
      "/*",
      "*/",
      "?.",
      "??",
      "...",
      "\\",
      "globalThis.x=1",
      "1n",
      "0x1",
      "012",
      "a:",
      "/a/",
      "\u2028",
      "?",
      ":",
      "[",
      "]",
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (words) => {
        parseExpression(words.join(""));
        parseExpression(words.join(" "));
        expect(Object.keys(Object.prototype)).toEqual([]);
        expect(Object.hasOwn(globalThis, "x")).toBe(false);
      }),
      { numRuns: 3_000 },
    );
  });
});
