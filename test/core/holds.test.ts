import { expect, test } from "vitest";
import { durationIn } from "../../src/core/holds.ts";

test.each([
  ["PT1S", 1_000],
  ["PT0.001S", undefined],
  ["PT0.999S", undefined],
  ["PT1.5S", 1_500],
  ["PT1.05S", 1_050],
  ["PT1.0005S", undefined],
  ["P0DT0H10M0S", 600_000],
  ["P0DT10M", 600_000],
  ["PT23H59M60S", 86_400_000],
  ["PT24H0.001S", undefined],
  ["P1D", 86_400_000],
  ["P1DT0S", 86_400_000],
  ["P1DT", undefined],
  ["P", undefined],
  ["PT", undefined],
  ["", undefined],
  ["P1M", undefined],
  ["PT1.5M", undefined],
  ["pt5m", undefined],
  [" PT5M", undefined],
  ["-PT5M", undefined],
  ["PT5M\n", undefined],
  ["PT90M", 5_400_000],
])("the duration %j is %j milliseconds", (text, milliseconds) => {
  expect(durationIn(text)).toBe(milliseconds);
});
