import { expect, test } from "vitest";
import { boundedByWeight } from "../../../src/core/bounded-by-weight.ts";
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
