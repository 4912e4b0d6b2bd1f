import { expect, test } from "vitest";
import { boundedByWeight } from "../../../src/core/bounded-by-weight.ts";
import { type CompiledPricing, compilePricing } from "../../../src/core/pricing/compile.ts";
import { prepareEvaluation } from "../../../src/core/pricing/evaluate.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../../src/core/pricing/subscription.ts";
import { pricingText } from "../../support/pricings.ts";
import { createPricingCache } from "../../../src/operations/state/pricing-cache.ts";

test("all keys together are bounded, because callers decide how long a key is", () => {
  const cache = createPricingCache(10, 10, 10);
  cache.keepProposal("short", undefined);
  for (let i = 0; i < 20; i += 1) cache.keepProposal(`${i}${"x".repeat(800_000)}`, undefined);
  expect(cache.proposal(`19${"x".repeat(800_000)}`)).toBeUndefined();
  expect(cache.proposal("short")).toEqual({ best: undefined });
});

test("diffs are bounded by their length, and the least recently used one is evicted first", () => {
  const cache = boundedByWeight<string>(1000, (text) => text.length);
  for (let i = 0; i < 20; i += 1) {
    cache.put(String(i), "x".repeat(100));
    expect(cache.get("0")).toBeDefined();
  }
  const kept = Array.from({ length: 20 }, (_, i) => String(i)).filter((key) => cache.get(key) !== undefined);
  expect(kept).toEqual(["0", "11", "12", "13", "14", "15", "16", "17", "18", "19"]);
  expect(cache.put("large", "x".repeat(1001))).toHaveLength(1001);
  expect(cache.get("large")).toBeUndefined();
  expect(cache.get("0")).toBeDefined();
});

function compiled(): CompiledPricing {
  const read = parsePricing(pricingText(), new Date("2025-06-15"));
  if (!read.ok) throw new Error("the pricing is not valid");
  return compilePricing(read.pricing);
}

test("compiled pricings are bounded by the length of their models", () => {
  const cache = createPricingCache(10_000);
  for (let i = 0; i < 10; i += 1) cache.put(`hash${i}`, compiled(), 2_000);
  const kept = Array.from({ length: 10 }, (_, i) => i).filter((i) => cache.peek(`hash${i}`) !== undefined);
  expect(kept).toEqual([7, 8, 9]);
});

test("an evaluation leaves the cache with its pricing, and keeps it there while it is used", () => {
  const cache = createPricingCache(10_000);
  for (const name of ["busy", "idle"]) {
    const pricing = cache.put(name, compiled(), 2_000);
    const service = { serviceName: name, pricing, grant: grant(pricing, "FREE", {}) };
    cache.keepEvaluation(name, prepareEvaluation([service]), [name]);
  }
  for (let i = 0; i < 5; i += 1) {
    expect(cache.evaluation("busy")).toBeDefined();
    cache.put(`other${i}`, compiled(), 2_000);
  }
  expect(cache.evaluation("busy")).toBeDefined();
  expect(cache.peek("idle")).toBeUndefined();
  expect(cache.evaluation("idle")).toBeUndefined();
});
