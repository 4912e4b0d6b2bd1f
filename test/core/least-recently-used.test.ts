import { expect, test } from "vitest";
import { leastRecentlyUsed } from "../../src/core/least-recently-used.ts";

test("keys are bounded by their characters too, and what was used lately stays", () => {
  const cache = leastRecentlyUsed<number>(1000, 1000);
  const key = (i: number) => String(i).padStart(100, "0");
  for (let i = 0; i < 100; i += 1) {
    cache.put(key(i), i);
    expect(cache.get(key(0))).toBe(0);
  }
  const kept = Array.from({ length: 100 }, (_, i) => cache.get(key(i))).filter((value) => value !== undefined);
  expect(kept.length).toBeLessThanOrEqual(10);
  expect(kept.length).toBeGreaterThanOrEqual(5);
});

test("a key of more than half of the characters is not kept and evicts nothing", () => {
  const cache = leastRecentlyUsed<string>(1000, 1000);
  cache.put("small", "kept");
  for (let i = 0; i < 10; i += 1) expect(cache.put(`${i}${"x".repeat(500)}`, "large")).toBe("large");
  expect(cache.get(`1${"x".repeat(500)}`)).toBeUndefined();
  expect(cache.get("small")).toBe("kept");
});
