import { describe, expect, it } from "vitest";
import * as fc from "fast-check";
import { isMultipleOf, sum, total, wholeStepOf } from "../../src/core/exact.ts";

describe("decimals", () => {
  it.each([
    [0.1, 0.2, 0.3],
    [0.1, -0.1, 0],
    [0.5, 0.5, 1],
    [99, 1.00000000000001, 100.00000000000001],
    [89_999_999, 1.00000004, 90_000_000.00000004],
    [1e16, 0.5, 1e16],
    [1e300, 1e-300, 1e300],
    [Infinity, -0.5, Infinity],
  ])("%d and %d are %d", (a, b, expected) => {
    expect(sum(a, b)).toBe(expected);
  });

  it("the sum of two numbers is the nearest one to their exact sum", () => {
    const decimal = fc
      .tuple(fc.integer({ min: -(10 ** 12), max: 10 ** 12 }), fc.integer({ min: 0, max: 14 }))
      .map(([digits, decimals]) => Number(`${digits}e-${decimals}`));
    fc.assert(
      fc.property(decimal, decimal, (a, b) => sum(a, b) === total([a, b])),
      { numRuns: 20_000 },
    );
  });

  it.each([
    [0.3, 0.1, true],
    [0.9, 0.1, true],
    [1, 0.1, true],
    [1, 0.3, false],
    [0, 0.1, true],
    [6, 4, false],
    [1e21, 1e-7, true],
    [1, 0, false],
    [Infinity, 1, false],
    [1, Infinity, false],
    [0, Infinity, false],
  ])("%d is a multiple of %d: %s", (value, step, expected) => {
    expect(isMultipleOf(value, step)).toBe(expected);
  });

  it.each([
    [0.5, 1],
    [0.1, 1],
    [1.5, 3],
    [0.75, 3],
    [2, 2],
    [1e-320, 1],
    [2.4, 12],
  ])("whole multiples of %d are those of %d", (step, whole) => {
    expect(wholeStepOf(step)).toBe(whole);
  });
});
