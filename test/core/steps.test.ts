import { expect, test } from "vitest";
import { computingTime } from "../../src/core/steps.ts";

test("computing time counts short steps whole, and a pause of the machine as one step", () => {
  let now = 100;
  const time = computingTime(() => now);
  now += 3;
  expect(time.read()).toBe(3);
  now += 80;
  expect(time.read()).toBe(8);
  now += 50;
  time.resume();
  now += 2;
  expect(time.read()).toBe(10);
});
