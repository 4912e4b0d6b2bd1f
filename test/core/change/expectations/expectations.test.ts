import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { coverageOf } from "../../../../src/core/change/expectations/coverage.ts";
import { runExpectation } from "../../../../src/core/change/expectations/run.ts";
import { parseExpectations } from "../../../../src/core/change/expectations/expectations.ts";
import type { Expectation } from "../../../../src/core/change/expectations/expectations.ts";
import { createSide } from "../../../../src/core/change/entitlements.ts";
import { compilePricing } from "../../../../src/core/pricing/compile.ts";
import { parsePricing } from "../../../../src/core/pricing/parse/pricing.ts";
import { pricingText } from "../../../support/pricings.ts";

const NOW = new Date("2026-01-01T00:00:00Z");

function accepted(text: string) {
  const result = parsePricing(text, NOW);
  if (!result.ok) throw new Error(result.problems[0]?.message);
  return result.pricing;
}

const ACME = accepted(pricingText());
const ACME_SIDE = createSide(compilePricing(ACME));

function read(text: string, pricing = ACME): readonly Expectation[] {
  const result = parseExpectations(text, pricing);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.expectations;
}

/** Failed expectations as `line: message`. */
function misses(text: string): string[] {
  return read(text).flatMap((each) =>
    runExpectation(ACME_SIDE, each).misses.map(({ line, message }) => `${line}: ${message}`),
  );
}

describe("expectations", () => {
  it("hold when the pricing answers so", () => {
    expect(
      misses(`
expectations:
  - plan: PRO
    usage: { tasks: 99 }
    features:
      board: { eval: true, limit: { tasks: 100 }, remaining: { tasks: 1 }, error: null }
      export: { eval: true, value: true }
    limits: { tasks: 100, quality: 1 }
  - { plan: pro, usage: { tasks: 100 }, features: { board: false } }
  - { plan: PRO, addOns: { extraSeats: 2, support: 1 }, limits: { seats: 7 } }
  - { plan: FREE, addOns: { extraSeats: 2 }, refused: addOnUnavailable }
  - { plan: PRO, addOns: { support: 1 }, refused: true }
  - { plan: GONE, refused: planUnknown }
`),
    ).toEqual([]);
  });

  it("say what is otherwise, with the line of the feature and the reason", () => {
    expect(
      misses(`expectations:
  - name: nothing as expected
    plan: PRO
    usage: { tasks: 100 }
    features:
      board: { eval: true, limit: { tasks: 90 }, remaining: { tasks: 5 }, error: PARSE_ERROR }
      export:
        value: false
    limits:
      seats: 9
  - plan: FREE
    addOns: { extraSeats: 2 }
    features: { board: true }
  - plan: PRO
    refused: true
  - plan: PRO
    addOns: { extraSeats: 3 }
    refused: addOnDependency
`),
    ).toEqual([
      "6: board: expected true, is false (tasks: 100 of 100 used)",
      "6: board: expected the limit tasks to be 90, is 100 (tasks: 100 of 100 used)",
      "6: board: expected 5 of tasks to remain, is 0 (tasks: 100 of 100 used)",
      "6: board: expected PARSE_ERROR, is no error (tasks: 100 of 100 used)",
      "7: export: expected the value false, is true",
      "2: expected the limit seats to be 9, is 5",
      "11: FREE + extraSeats × 2 cannot be subscribed to (addOnUnavailable: Add-on extraSeats is not available for plan FREE in the request organization)",
      "14: PRO can be contracted but should be rejected",
      "16: PRO + extraSeats × 3 cannot be subscribed to (addOnQuantity: Add-on extraSeats quantity 3 is not valid. It must be between 2 and 6, and a multiple of 2 in the request organization), not by addOnDependency",
    ]);
  });

  it("that cannot be meant are refused, every one with its line", () => {
    const result = parseExpectations(
      `expectation: []
expectations:
  - plan: GOLD
    addOns: { loudest: 1 }
    usage: { tasks: -1, seats: many, quality: 1, stars: 1 }
    features:
      bord: true
      board: { evl: true, remaining: { stars: 1 } }
      export: maybe
  - usage: { tasks: 1 }
    server: sometimes
  - plan: PRO
    features: {}
  - just text
  - plan: [PRO]
    refused: because
`,
      ACME,
    );
    expect(result.ok).toBe(false);
    if (result.ok) return;
    expect(result.problems.map(({ line, path, message }) => `${line} ${path}: ${message}`)).toEqual([
      "1 expectation: expectation is unknown. Allowed: pricing, expectations",
      "3 expectations.0.plan: Unknown plan GOLD",
      "4 expectations.0.addOns.loudest: Unknown add-on loudest",
      "5 expectations.0.usage.tasks: tasks must be a non-negative number. Received: -1",
      "5 expectations.0.usage.seats: seats must be a non-negative number. Received: many",
      "5 expectations.0.usage.quality: The usage limit quality is not counted: only RENEWABLE ones and those with trackable: true are",
      "5 expectations.0.usage.stars: Unknown usage limit stars",
      "7 expectations.0.features.bord: Unknown feature bord",
      "8 expectations.0.features.board.evl: evl is unknown. Allowed: eval, value, limit, remaining, error",
      "8 expectations.0.features.board.remaining.stars: Unknown usage limit stars",
      "9 expectations.0.features.export: export must be true, false, or a map. Received: maybe",
      "10 expectations.1.plan: Name a plan: the pricing has plans",
      "11 expectations.1.server: server must be true or false. Received: sometimes",
      "10 expectations.1.features: An expectation must say what is expected: features, limits, or refused",
      "13 expectations.2.features: An expectation must say what is expected: features, limits, or refused",
      "14 expectations.3: An expectation must be a map with plan, addOns, usage and features",
      expect.stringMatching(/^16 expectations.4.refused: refused must be true or one of planOrAddOnsRequired/),
      "15 expectations.4.plan: plan must be a name. Received: PRO",
    ]);
  });

  it.each([
    ["", "The document must have a list of expectations"],
    ["expectations: []", "The document must have a list of expectations"],
    ["[1]", "The document must have a list of expectations"],
    ["expectations: {", "unexpected end of the stream within a flow collection (1:16)"],
  ])("are refused as a document: %j", (text, message) => {
    const result = parseExpectations(text, ACME);
    expect(result.ok ? [] : result.problems.map((problem) => problem.message)).toEqual([message]);
  });

  it("of our own sample hold", () => {
    const folder = new URL("../../../../src/samples/", import.meta.url);
    const pricing = accepted(readFileSync(new URL("tasker.yml", folder), "utf8"));
    const side = createSide(compilePricing(pricing));
    const expectations = read(readFileSync(new URL("tasker.expectations.yml", folder), "utf8"), pricing);
    expect(expectations.flatMap((each) => runExpectation(side, each).misses)).toEqual([]);
    expect(coverageOf(side, expectations).percent).toBe(100);
  });
});

describe("the coverage of expectations", () => {
  it("counts every feature with every plan, and both sides of each limit where the answer changes", () => {
    const nothing = coverageOf(ACME_SIDE, []);
    expect(nothing).toEqual({
      points: 8,
      covered: 0,
      percent: 0,
      missing: [
        "FREE: board",
        "FREE: board with tasks below the limit",
        "FREE: board with tasks at the limit",
        "FREE: export",
        "PRO: board",
        "PRO: board with tasks below the limit",
        "PRO: board with tasks at the limit",
        "PRO: export",
      ],
    });
    const some = read(`
expectations:
  - { plan: free, usage: { tasks: 99.5 }, features: { board: true } }
  - { plan: FREE, usage: { tasks: 101 }, features: { board: false, export: { value: false } } }
  - { plan: PRO, usage: { tasks: 100 }, server: true, features: { board: false, export: true } }
  - { plan: PRO, addOns: { extraSeats: 3 }, refused: true }
`);
    expect(coverageOf(ACME_SIDE, some)).toMatchObject({
      covered: 5,
      percent: 62,
      missing: ["FREE: board with tasks at the limit", "FREE: export", "PRO: board with tasks below the limit"],
    });
  });
});
