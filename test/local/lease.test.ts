import { describe, expect, test } from "vitest";
import { amountsToAsk } from "../../src/local/lease.ts";
import { SpendRate } from "../../src/local/spend-rate.ts";

/* Size of a lease, and the rate that decides it. Source: contract tokens-and-leases §7, "How it leases". */

describe("a lease is asked for", () => {
  test.each([
    ["ten amounts at first", { atHand: [3], remaining: [1000], perSecond: [0], isFirst: true }, [30]],
    [
      "at most a quarter of what others may take",
      { atHand: [3], remaining: [100], perSecond: [0], isFirst: true },
      [25],
    ],
    ["the amount at hand, however little is left", { atHand: [3], remaining: [5], perSecond: [0], isFirst: true }, [3]],
    [
      "the amount at hand, if the rest is unknown",
      { atHand: [3], remaining: undefined, perSecond: [9], isFirst: true },
      [3],
    ],
    ["four seconds of the rate", { atHand: [1], remaining: [1e6], perSecond: [250], isFirst: false }, [1000]],
    [
      "no more than the amount at hand without a rate",
      { atHand: [7], remaining: [1e6], perSecond: [0], isFirst: false },
      [7],
    ],
    [
      "without a cap where the limit is no number",
      { atHand: [2], remaining: [null], perSecond: [0], isFirst: true },
      [20],
    ],
    ["whole units for whole amounts", { atHand: [1], remaining: [43], perSecond: [99], isFirst: false }, [10]],
    ["fractions for fractions", { atHand: [0.1], remaining: [3], perSecond: [9], isFirst: false }, [0.75]],
    ["each limit by itself", { atHand: [1, 0], remaining: [400, 8], perSecond: [5, 0], isFirst: false }, [20, 0]],
  ])("%s", (_, input, amounts) => {
    expect(amountsToAsk(input)).toEqual(amounts);
  });
});

describe("the rate", () => {
  test("is that of the last two seconds", () => {
    const rate = new SpendRate();
    for (let at = 0; at <= 10_000; at += 250) rate.sample(at, [at < 5_000 ? at : 5_000 + (at - 5_000) * 3]);
    expect(rate.perSecond(10_000, [20_000])).toEqual([3_000]);
  });

  test("of the first seconds is over two seconds too", () => {
    const rate = new SpendRate();
    rate.sample(0, [0]);
    expect(rate.perSecond(500, [100])).toEqual([50]);
    expect(new SpendRate().perSecond(500, [100])).toEqual([50]);
  });

  test("is right when samples were late", () => {
    const rate = new SpendRate();
    rate.sample(0, [0]);
    expect(rate.perSecond(10_000, [1_000])).toEqual([100]);
  });
});
