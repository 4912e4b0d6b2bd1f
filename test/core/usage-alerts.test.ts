import { expect, test } from "vitest";
import { hasAlerts, NONE_RAISED, reachedThresholds } from "../../src/core/usage-alerts.ts";

const reached = (consumed: number, limit: number, thresholds = [50, 80, 100]) =>
  reachedThresholds(thresholds, { consumed, limit }, NONE_RAISED);

test("a threshold is reached at its share of the limit, to the last digit", () => {
  expect(reached(4, 10)).toEqual([]);
  expect(reached(5, 10)).toEqual([50]);
  expect(reached(9, 10)).toEqual([50, 80]);
  expect(reached(23, 10, [100, 200])).toEqual([100, 200]);
  // In doubles, 0.07 × 100 is above 7, and 1.1 × 100 is above 110.
  expect(reached(0.07, 0.1, [70, 71])).toEqual([70]);
  expect(reached(0.0699999999999999, 0.1, [70])).toEqual([]);
  expect(reached(1.1, 1, [110])).toEqual([110]);
  expect(reached(0.29, 0.29, [100])).toEqual([100]);
  expect(reached(5e-8, 1e-7)).toEqual([50]);
  expect(reached(4.99e-8, 1e-7)).toEqual([]);
  expect(reached(9_007_199_254_740_991, 90_000_000)).toEqual([50, 80, 100]);
});

test("the threshold raised before and those below it are not raised again, unless the limit has another value", () => {
  const raised = { alertedThreshold: 80, alertedLimit: 10 };
  expect(reachedThresholds([50, 80, 100], { consumed: 9, limit: 10 }, raised)).toEqual([]);
  expect(reachedThresholds([50, 80, 100], { consumed: 10, limit: 10 }, raised)).toEqual([100]);
  expect(reachedThresholds([50, 80, 100], { consumed: 16, limit: 20 }, raised)).toEqual([50, 80]);
});

test("limits that are no numbers, not above 0 or unlimited have no alerts", () => {
  expect([true, undefined, 0, 100_000_000, 100_000_010].filter(hasAlerts)).toEqual([]);
  expect([0.5, 1, 99_999_999].every(hasAlerts)).toBe(true);
});
