import { expect, test } from "vitest";
import { Failure } from "../../../src/operations/errors.ts";
import { CallLimits } from "../../../src/operations/state/call-limits.ts";

const limits = new CallLimits();
let moment = 0;
const now = () => new Date(moment);
const fail = (name: string) => limits.throttleSignIn(name, now, async () => undefined);
const succeed = (name: string) => limits.throttleSignIn(name, now, async () => "signed in");

test("ten failures within a minute are answered, the eleventh is told when to come back", async () => {
  moment = 0;
  for (let i = 0; i < 10; i += 1) {
    moment = i * 1000;
    expect(await fail("ten")).toBeUndefined();
  }
  moment = 30_500;
  const refusal = await succeed("ten").catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(Failure);
  expect(refusal).toMatchObject({ code: "tooManyRequests", retryAfterSeconds: 30 });
  expect(await succeed("eleven")).toBe("signed in");
  // Each failure expires a minute after it happened.
  moment = 60_000;
  expect(await fail("ten")).toBeUndefined();
  await expect(fail("ten")).rejects.toThrow(Failure);
  moment = 200_000;
  expect(await succeed("ten")).toBe("signed in");
});

test("successes are never counted", async () => {
  for (let i = 0; i < 300; i += 1) expect(await succeed("often")).toBe("signed in");
});

test("an attempt that breaks for another reason is not a failed one", async () => {
  const broken = () =>
    limits.throttleSignIn("broken", now, () => Promise.reject<undefined>(new Error("the database is away")));
  for (let i = 0; i < 20; i += 1) await expect(broken()).rejects.toThrow("away");
  expect(await succeed("broken")).toBe("signed in");
});

test("attempts at once wait for the outcome of those before, so that no eleventh guess is ever made", async () => {
  let guesses = 0;
  const guess = () =>
    limits.throttleSignIn("parallel", now, async () => {
      guesses += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
      return undefined;
    });
  const results = await Promise.allSettled(Array.from({ length: 100 }, guess));
  expect(guesses).toBe(10);
  expect(results.filter(({ status }) => status === "rejected")).toHaveLength(90);
});
