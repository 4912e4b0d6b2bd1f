import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { describeChange } from "../../../src/core/change/diff/text.ts";
import { diffPricings } from "../../../src/core/change/diff/diff.ts";
import { compareHoldings } from "../../../src/core/change/compare.ts";
import { createSide, planEntitlements } from "../../../src/core/change/entitlements.ts";
import { lintPricing } from "../../../src/core/change/lint/lint.ts";
import { compilePricing } from "../../../src/core/pricing/compile.ts";
import { refuseWrongCredits } from "../../../src/core/pricing/parse/credit-problems.ts";
import { grantedLimits } from "../../../src/core/pricing/subscription.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import "../../support/property-seed.ts";

const SCRIBE = readFileSync(new URL("../../../src/samples/scribe.yml", import.meta.url), "utf8");
const DEPOT = readFileSync(new URL("../../../src/samples/depot.yml", import.meta.url), "utf8");
const NOW = new Date("2026-06-01T00:00:00Z");

function read(text: string) {
  const parsed = parsePricing(text, NOW);
  if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
  return parsed.pricing;
}
const problems = (text: string) => {
  const parsed = refuseWrongCredits(parsePricing(text, NOW), text);
  return parsed.ok ? [] : parsed.problems.map(({ line, message }) => `${line} ${message}`);
};
const lint = (text: string) => lintPricing(read(text), text).map(({ line, code }) => `${line} ${code}`);

describe("rates", () => {
  const dearer = SCRIBE.replace("large.output: 0.01", "large.output: 0.012");

  it("that change are a change of the pricing, and dearer is less", () => {
    const { changes } = diffPricings(read(SCRIBE), read(dearer));
    expect(changes.map((change) => [change.class, describeChange(change)])).toEqual([
      ["narrowing", "rate large.output of credits: 0.01 → 0.012"],
    ]);
    expect(diffPricings(read(dearer), read(SCRIBE)).class).toBe("widening");
    const without = SCRIBE.replace("        picture: 4\n", "");
    expect(diffPricings(read(SCRIBE), read(without)).class).toBe("narrowing");
  });

  it("that are dearer are a loss of the limit for everybody who has it", () => {
    const [before, after] = [SCRIBE, dearer].map((text) =>
      planEntitlements(createSide(compilePricing(read(text))), "PRO"),
    );
    if (before === undefined || after === undefined) throw new Error("no plan");
    expect(compareHoldings(before, after).limits).toMatchObject([{ limit: "credits", effect: "less", loses: true }]);
  });

  it("are read whole, and each wrong one is reported at its line", () => {
    expect(problems(SCRIBE.replace("picture: 4", "picture: four"))).toEqual([
      "63 custom.faregate.rates.credits.picture must be a number of at least 0",
    ]);
    expect(problems(SCRIBE.replace("picture: 4", '"a b": 4'))).toHaveLength(1);
    expect(problems(SCRIBE.replace("picture: 4", "picture: -1"))).toHaveLength(1);
  });

  it("of unknown limits, and of limits that no feature counts, are findings", () => {
    expect(lint(SCRIBE)).toEqual([]);
    expect(lint(SCRIBE.replace("      credits:\n        small", "      credit:\n        small"))).toEqual([
      "58 unknown-limit",
    ]);
  });
});

describe("rollover", () => {
  const terms = (text: string) => DEPOT.replace(/ {6}transferredGigabytes:\n {8}max: 2000\n {8}periods: 3\n/, text);

  it("that changes is a change of the pricing", () => {
    const { changes } = diffPricings(
      read(DEPOT),
      read(terms("      transferredGigabytes: { max: 1000, periods: 3 }\n")),
    );
    expect(changes.map((change) => [change.class, describeChange(change)])).toEqual([
      ["narrowing", "limit transferredGigabytes rollover: max 2000, periods 3 → max 1000, periods 3"],
    ]);
  });

  it("without effect is a finding", () => {
    expect(lint(DEPOT)).toEqual([]);
    expect(lint(terms("      storedGigabytes: { max: null, periods: 1 }\n"))).toEqual(["65 idle-rollover"]);
    expect(lint(terms("      transferredGigabytes: { max: 12001, periods: 1 }\n"))).toEqual(["65 idle-rollover"]);
    expect(lint(terms("      transferred: { max: 1, periods: 1 }\n"))).toEqual(["65 unknown-limit"]);
  });
});

it("no value below custom.faregate makes reading a pricing fail", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = SCRIBE.replace(/custom:\n[\s\S]*$/, `custom: { faregate: ${JSON.stringify(value)} }\n`);
      expect(() => refuseWrongCredits(parsePricing(text, NOW), text)).not.toThrow();
    }),
  );
});

describe("seats", () => {
  const HUDDLE = readFileSync(new URL("../../../src/samples/huddle.yml", import.meta.url), "utf8");
  const seats = (value: string) => HUDDLE.replace("    seats: seats", `    seats: ${value}`);

  it("name a limit, else the file is refused at their line", () => {
    expect(problems(HUDDLE)).toEqual([]);
    for (const value of ["5", '""', "[seats]"]) {
      expect(problems(seats(value))).toEqual(["60 custom.faregate.seats must be the name of a usage limit"]);
    }
  });

  it("of an unknown limit, and of one that cannot count members, are findings", () => {
    expect(lint(HUDDLE)).toEqual([]);
    expect(lint(seats("seat"))).toEqual(["60 unknown-limit"]);
    expect(lint(seats("credits"))).toEqual(["60 idle-seats"]);
  });

  it("are tracked, and need no expression", () => {
    const unread = HUDDLE.replace("    trackable: true\n", "")
      .replace(/ {2}invite:[^]*?(?= {2}summarize:)/, "")
      .replace(/ {4}linkedFeatures:\n {6}- invite\n/, "");
    const pricing = compilePricing(read(unread));
    expect(grantedLimits(pricing, { plan: "TEAM", addOns: null })).toMatchObject([
      { name: "seats", value: 5, countsMembers: true },
      { name: "credits", value: 300 },
    ]);
    expect(lint(unread)).toEqual([]);
  });
});
