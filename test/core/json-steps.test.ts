import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseJsonSteps, stringifySteps } from "../../src/core/json-steps.ts";
import { finish, type Steps } from "../../src/core/steps.ts";
import "../support/property-seed.ts";

/** Pads a value, so that the parser splits it. */
const long = (value: unknown) => ({ padding: '\\"{[,:]}'.repeat(10_000), value, list: [value, "x".repeat(70_000)] });

test("parsing in steps returns what JSON.parse returns", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 2), (value, indent) => {
      const text = JSON.stringify(long(value), null, indent);
      expect(finish(parseJsonSteps(text))).toEqual(JSON.parse(text));
    }),
  );
});

test("serializing in steps returns what JSON.stringify returns", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(finish(stringifySteps(long(value)))).toBe(JSON.stringify(long(value)));
    }),
  );
});

test("keeps a key named __proto__, and the order of keys", () => {
  const text = `{"b":${JSON.stringify("x".repeat(70_000))},"__proto__":{"polluted":true},"a":1}`;
  const parsed = finish(parseJsonSteps(text)) as object;
  expect(Object.keys(parsed)).toEqual(["b", "__proto__", "a"]);
  expect("polluted" in {}).toBe(false);
});

/** Counts the steps of some work. */
function stepsOf(steps: Steps<unknown>): number {
  let count = 0;
  while (steps.next().done !== true) count += 1;
  return count;
}

test("splits a large model into many steps", () => {
  const plans = Array.from({ length: 300 }, (_, plan) => ({
    name: `plan${plan}`,
    features: Object.fromEntries(Array.from({ length: 600 }, (__, i) => [`feature${i}`, true])),
  }));
  const model = { saasName: "Large", plans };
  expect(stepsOf(parseJsonSteps(JSON.stringify(model)))).toBeGreaterThan(50);
  expect(stepsOf(stringifySteps(model))).toBeGreaterThan(300);
});
