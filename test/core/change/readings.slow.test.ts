import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareFeature } from "../../../src/core/change/compare.ts";
import { createSide, entitlementsOf } from "../../../src/core/change/entitlements.ts";
import { compilePricing } from "../../../src/core/pricing/compile.ts";
import { everyConfiguration, FEATURES, twoPricings } from "./small-pricings.ts";
import "../../support/property-seed.ts";

describe("cached comparisons of features", () => {
  it("equal those of pricings that were never compared before", () => {
    let comparisons = 0;
    fc.assert(
      fc.property(twoPricings, ([one, other]) => {
        const [before, after] = [compilePricing(one), compilePricing(other)];
        const shared = [createSide(before), createSide(after)] as const;
        for (const from of everyConfiguration(before, 2).slice(0, 8))
          for (const to of everyConfiguration(after, 2).slice(0, 8)) {
            const fresh = [createSide(before), createSide(after)] as const;
            for (const feature of FEATURES) {
              const [cached, computed] = [shared, fresh].map(([old, now]) =>
                compareFeature(entitlementsOf(old, from), entitlementsOf(now, to), feature),
              );
              expect(cached).toEqual(computed);
              comparisons += 1;
            }
          }
      }),
      { numRuns: 60 },
    );
    expect(comparisons).toBeGreaterThan(5_000);
  });
});
