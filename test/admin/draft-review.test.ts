import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { errorsOf, reviewDraft, type Verdict } from "../../src/admin/draft-review.ts";
import { lintPricing } from "../../src/core/change/lint/lint.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { EXPECTATIONS_EXAMPLE, PRICING_EXAMPLE } from "../../src/wire/pricing-example.ts";

const sample = (name: string) => readFileSync(new URL(`../../src/samples/${name}.yml`, import.meta.url), "utf8");

async function review(text: string, expectations?: string): Promise<Extract<Verdict, { state: "valid" }>> {
  const verdict = await reviewDraft({ text, expectations }, () => false);
  if (verdict?.state !== "valid") throw new Error(JSON.stringify(verdict));
  return verdict;
}

test.each(["tasker", "beacon"])(
  "a draft of %s has the findings of the server's lint before it is saved",
  async (name) => {
    const parsed = parsePricing(sample(name), new Date());
    if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
    const verdict = await review(sample(name));
    expect(verdict).toMatchObject({ name: parsed.pricing.saasName, version: parsed.pricing.version });
    expect(verdict.review).toEqual({
      warnings: lintPricing(parsed.pricing, sample(name)),
      isComplete: true,
      expectations: undefined,
    });
    expect(errorsOf(verdict.review)).toBe(0);
  },
);

test("an expression that is never true is an error to accept before saving", async () => {
  const { review: found } = await review(sample("tasker").replace("=== '99.9%'", "=== '99.99%'"));
  expect(found.warnings.map(({ code, severity }) => [code, severity])).toEqual([["never-true", "error"]]);
  expect(errorsOf(found)).toBe(1);
});

test("expectations are counted when met, and are an error beside lint's findings when not", async () => {
  const { review: met } = await review(PRICING_EXAMPLE, EXPECTATIONS_EXAMPLE);
  expect([met.expectations, errorsOf(met)]).toMatchObject([{ met: 1 }, 0]);
  const { review: unmet } = await review(PRICING_EXAMPLE, EXPECTATIONS_EXAMPLE.replace("true", "false"));
  expect(unmet.expectations).toMatchObject({ message: expect.stringContaining("1 of 1 expectations are not met") });
  expect(unmet.warnings).toEqual(met.warnings);
  expect(errorsOf(unmet)).toBe(1);
  const { review: unread } = await review(PRICING_EXAMPLE, "expectations: 1");
  expect(errorsOf(unread)).toBe(1);
});

test("a text with problems is not linted, and an outdated draft has no verdict", async () => {
  const broken = await reviewDraft({ text: "saasName: [", expectations: undefined }, () => false);
  expect(broken?.state).toBe("broken");
  expect(await reviewDraft({ text: sample("tasker"), expectations: undefined }, () => true)).toBeUndefined();
});
