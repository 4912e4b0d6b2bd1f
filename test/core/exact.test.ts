import { describe, expect, it } from "vitest";
import { isMultipleOf, wholeStepOf } from "../../src/core/exact.ts";

describe("decimals", () => {
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
