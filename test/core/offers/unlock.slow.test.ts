import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Configuration } from "../../../src/core/change/configuration.ts";
import { priceOf } from "../../../src/core/change/configuration.ts";
import { createSide, entitlementsOf, withOverridesOf } from "../../../src/core/change/entitlements.ts";
import type { Mode, Side } from "../../../src/core/change/entitlements.ts";
import { compareRanks, differencesFrom, offers } from "../../../src/core/change/loss.ts";
import { changesOf } from "../../../src/core/offers/changes.ts";
import { unlockSteps } from "../../../src/core/offers/unlock.ts";
import type { Goal } from "../../../src/core/offers/unlock-search.ts";
import { compilePricing } from "../../../src/core/pricing/compile.ts";
import { evaluateFeature, prepareEvaluation } from "../../../src/core/pricing/evaluate.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { finish, NEVER_OVER } from "../../../src/core/steps.ts";
import {
  chosenOverrides,
  everyConfiguration,
  FEATURES,
  LIMITS,
  overridePicks,
  twoPricings,
} from "../change/small-pricings.ts";
import "../../support/property-seed.ts";

const NOW = new Date("2026-01-01");
/** Units of an add-on that the tests try one by one. */
const MOST_UNITS = 3;

interface Question {
  before: Side;
  after: Side;
  current: Configuration;
  feature: string;
  mode: Mode;
  used: Record<string, number>;
  amounts: Record<string, number> | undefined;
}

/** Decides as a strict dry run after a novation does. */
function goalOf({ after, feature, mode, used, amounts }: Question): Goal {
  const { serviceName, pricing } = after;
  const id = (name: string) => `${serviceName}-${name}`;
  const usage = new Map([...after.tracked].map((name) => [id(name), used[name] ?? 0]));
  return {
    feature,
    mode,
    demanded: (limit) => [used[limit] ?? 0, (used[limit] ?? 0) + (amounts?.[limit] ?? 0)],
    unlocks: (grant) => {
      const evaluation = prepareEvaluation([{ serviceName, pricing, grant }]);
      const result = evaluateFeature(evaluation, id(feature), usage, { server: mode === "server" });
      if (!result.eval || amounts === undefined) return result.eval;
      return Object.entries(result.used ?? {}).every(([limitId, consumed]) => {
        const limit = result.limit?.[limitId];
        const amount = amounts[limitId.slice(serviceName.length + 1)] ?? 0;
        return amount === 0 || typeof limit !== "number" || consumed + amount <= limit;
      });
    },
  };
}

function rankOf({ before, after, current }: Question, target: Configuration) {
  const changes = changesOf(entitlementsOf(before, current), entitlementsOf(after, target));
  const text = (price: unknown) => typeof price === "string";
  const plan = after.pricing.plans.get(target.plan?.toLowerCase() ?? "");
  const held = (name: string) =>
    Object.entries(current.addOns).find(([other]) => other.toLowerCase() === name.toLowerCase())?.[1] ?? 0;
  const contact =
    (text(plan?.price) && plan?.name.toLowerCase() !== current.plan?.toLowerCase()) ||
    Object.entries(target.addOns).some(
      ([name, n]) => text(after.pricing.addOns.get(name.toLowerCase())?.price) && held(name) < n,
    );
  const quantities = Object.values(target.addOns);
  return [
    Number(contact),
    changes.losses.filter(({ kind }) => kind === "feature").length,
    changes.losses.filter(({ kind }) => kind === "limit").length,
    priceOf(after.pricing, target).amount,
    changes.differences.length,
    differencesFrom(current, target),
    quantities.length,
    quantities.reduce((sum, n) => sum + n, 0),
  ];
}

function everyTarget({ after, current }: Question, all = everyConfiguration(after.pricing)): Configuration[] {
  const offered = offers(current);
  return all.filter(({ plan, addOns }) => {
    const found = after.pricing.plans.get(plan?.toLowerCase() ?? "");
    return (
      (found === undefined || offered.plan(found)) &&
      Object.keys(addOns).every((name) => {
        const addOn = after.pricing.addOns.get(name.toLowerCase());
        return addOn !== undefined && offered.addOn(addOn);
      })
    );
  });
}

const amount = fc.constantFrom(0, 1, 2, 3, 4, 7, 9);
const question: fc.Arbitrary<Question> = fc
  .record({
    pricings: twoPricings,
    picks: overridePicks,
    isSame: fc.boolean(),
    pick: fc.nat(9_999),
    feature: fc.constantFrom(...FEATURES),
    mode: fc.constantFrom<Mode>("client", "server"),
    used: fc.record({ tasks: amount, seats: amount, flag: amount }),
    amounts: fc.option(fc.record({ tasks: amount, seats: amount }), { nil: undefined }),
  })
  .map(({ pricings: [old, now], picks, isSame, pick, ...rest }) => {
    const overrides = chosenOverrides(old, picks);
    const before = withOverridesOf(createSide(compilePricing(old)), overrides);
    const sources = everyConfiguration(before.pricing);
    const after = isSame ? before : withOverridesOf(createSide(compilePricing(now)), overrides);
    return { before, after, current: sources[pick % sources.length] ?? { addOns: {} }, ...rest };
  });

describe("the cheapest unlock", { timeout: 120_000 }, () => {
  it("is the first of all configurations that unlock, tried one by one", () => {
    const seen = { found: 0, nothing: 0, addOns: 0, others: 0 };
    fc.assert(
      fc.property(question, (asked) => {
        const goal = goalOf(asked);
        const unlocking = everyTarget(asked).filter((target) =>
          goal.unlocks(entitlementsOf(asked.after, target).grant),
        );
        const { purchases, complete } = finish(unlockSteps(asked, goal, NEVER_OVER));
        expect(complete).toBe(true);
        const bestOf = (targets: Configuration[]) =>
          targets.map((target) => rankOf(asked, target)).reduce((a, b) => (compareRanks(b, a) < 0 ? b : a));
        const plans = new Set(unlocking.map(({ plan }) => plan));
        expect(
          purchases.length,
          JSON.stringify({
            ...asked,
            before: asked.before.pricing.pricing,
            after: asked.after.pricing.pricing,
            unlocking,
          }),
        ).toBe(Math.min(4, plans.size));
        for (const { target } of purchases) {
          const { plan, addOns } = target;
          const found = plan === null ? { addOns } : { plan, addOns };
          const same = unlocking.filter((each) => each.plan?.toLowerCase() === plan?.toLowerCase());
          expect(
            rankOf(asked, found),
            JSON.stringify({
              ...asked,
              before: asked.before.pricing.pricing,
              after: asked.after.pricing.pricing,
              found,
            }),
          ).toEqual(bestOf(same));
          seen.addOns += Number(Object.keys(addOns).length > 0);
        }
        if (unlocking.length === 0) {
          seen.nothing++;
          return;
        }
        const { plan, addOns } = purchases[0]?.target ?? { plan: null, addOns: {} };
        expect(rankOf(asked, plan === null ? { addOns } : { plan, addOns })).toEqual(bestOf(unlocking));
        seen.found++;
        seen.others += purchases.length - 1;
      }),
      { numRuns: 400 },
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(20);
    expect(LIMITS).toContain("tasks");
  });

  it.each(["tasker", "beacon"])("is the first of all configurations of the sample %s", (name) => {
    const parsed = parsePricing(
      readFileSync(new URL(`../../../src/samples/${name}.yml`, import.meta.url), "utf8"),
      NOW,
    );
    if (!parsed.ok) throw new Error(`${name} is not valid`);
    const side = createSide(compilePricing(parsed.pricing));
    const targets = everyConfiguration(side.pricing, MOST_UNITS);
    let found = 0;
    for (const [index, current] of targets.entries())
      for (const [place, { name: feature, expression }] of parsed.pricing.features.entries()) {
        // A part of the questions for a large sample.
        if (expression === undefined || (index + place) % Math.ceil(targets.length / 25) !== 0) continue;
        const granted = entitlementsOf(side, current).grant.usageLimits;
        // Every other contract has used up what it has.
        const used = Object.fromEntries(
          [...side.tracked].map((limit) => [limit, index % 2 === 0 ? 0 : Math.min(Number(granted.get(limit)), 5_000)]),
        );
        const asked: Question = {
          before: side,
          after: side,
          current,
          feature,
          mode: "client",
          used,
          amounts: undefined,
        };
        const goal = goalOf(asked);
        const unlocking = everyTarget(asked, targets).filter((target) =>
          goal.unlocks(entitlementsOf(side, target).grant),
        );
        const best = finish(unlockSteps(asked, goal, NEVER_OVER)).purchases[0]?.target;
        if (best === undefined) expect(unlocking, `${feature} ${JSON.stringify(current)}`).toEqual([]);
        if (best === undefined || Object.values(best.addOns).some((units) => units > MOST_UNITS)) continue;
        const { plan, addOns } = best;
        const ranks = unlocking.map((target) => rankOf(asked, target));
        const first = ranks.reduce((one, other) => (compareRanks(other, one) < 0 ? other : one));
        expect(
          rankOf(asked, plan === null ? { addOns } : { plan, addOns }),
          `${feature} ${JSON.stringify(current)}`,
        ).toEqual(first);
        found += 1;
      }
    expect(found).toBeGreaterThan(20);
  });
});
