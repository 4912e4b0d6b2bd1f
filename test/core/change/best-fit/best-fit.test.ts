import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { proposeTarget } from "../../../../src/core/change/best-fit/best-fit.ts";
import { canonical } from "../../../../src/core/change/change.ts";
import { checkCertificate } from "../../../../src/core/change/best-fit/certificate.ts";
import { compareHoldings } from "../../../../src/core/change/compare.ts";
import type { Configuration } from "../../../../src/core/change/configuration.ts";
import { createSide, entitlementsOf, withOverridesOf } from "../../../../src/core/change/entitlements.ts";
import type { Side } from "../../../../src/core/change/entitlements.ts";
import { compareRanks, costsOf, lossOf, measuresOf, offers } from "../../../../src/core/change/loss.ts";
import { compilePricing } from "../../../../src/core/pricing/compile.ts";
import { chosenOverrides, everyConfiguration, overridePicks, pricingFrom, twoPricings } from "../small-pricings.ts";
import "../../../support/property-seed.ts";

function rankOf(before: Side, after: Side, configuration: Configuration, target: Configuration): number[] {
  const comparison = compareHoldings(entitlementsOf(before, configuration), entitlementsOf(after, target));
  const loss = lossOf(comparison.features, comparison.limits);
  return [...measuresOf(loss), ...costsOf(after.pricing, configuration, target)];
}

/** Enumerates every offered target. */
function everyTarget(after: Side, configuration: Configuration): Configuration[] {
  const offered = offers(configuration);
  return everyConfiguration(after.pricing).filter(({ plan, addOns }) => {
    const found = plan === undefined ? undefined : after.pricing.plans.get(plan.toLowerCase());
    const names = Object.keys(addOns).map((name) => after.pricing.addOns.get(name.toLowerCase()));
    return (
      (found === undefined || offered.plan(found)) &&
      names.every((addOn) => addOn !== undefined && offered.addOn(addOn))
    );
  });
}

const scenario = fc.tuple(twoPricings, fc.nat(9_999), overridePicks).map(([[old, now], pick, picks]) => {
  const overrides = chosenOverrides(old, picks);
  const sides = [old, now].map((pricing) => withOverridesOf(createSide(compilePricing(pricing)), overrides));
  const [before, after] = sides as [Side, Side];
  const sources = everyConfiguration(before.pricing);
  return { before, after, configuration: sources[pick % sources.length] ?? { addOns: {} } };
});

/** Yields copies of a JSON value with one change each, in every place and every way. */
function* mutations(value: unknown): Generator<unknown> {
  if (typeof value === "number") yield* [value + 1, value - 1, -value - 1, null, String(value)];
  else if (typeof value === "string")
    yield* [`${value}x`, "", "PRO", "packA", "proven", null].filter((each) => each !== value);
  else if (typeof value === "boolean") yield* [!value, null];
  else if (value === null) yield* [0, "FREE", {}];
  else if (Array.isArray(value)) {
    yield [...(value as unknown[]), "board"];
    yield [...(value as unknown[]), ...(value as unknown[]), 0];
    for (const [index, item] of (value as unknown[]).entries()) {
      yield value.filter((_, at) => at !== index);
      for (const other of mutations(item)) yield value.map((each: unknown, at) => (at === index ? other : each));
    }
  } else {
    const record = value as Record<string, unknown>;
    yield { ...record, more: 1 };
    yield { ...record, packA: 1 };
    for (const [key, item] of Object.entries(record)) {
      const { [key]: _, ...rest } = record;
      yield rest;
      yield { ...rest, [`${key}x`]: item };
      for (const other of mutations(item)) yield { ...record, [key]: other };
    }
  }
}

describe("the best fit", { timeout: 120_000 }, () => {
  it("is as good as the best of all targets tried one by one", () => {
    const seen = { lossless: 0, lossy: 0, addOns: 0 };
    fc.assert(
      fc.property(scenario, ({ before, after, configuration }) => {
        const targets = everyTarget(after, configuration);
        const proposal = proposeTarget(before, after, configuration);
        if (proposal === undefined) {
          expect(targets).toEqual([]);
          return;
        }
        const ranks = targets.map((target) => rankOf(before, after, configuration, target));
        const best = ranks.reduce((one, other) => (compareRanks(other, one) < 0 ? other : one));
        const found = rankOf(before, after, configuration, proposal.target);
        expect(
          compareRanks(found, best),
          JSON.stringify({
            found,
            best,
            target: proposal.target,
            configuration,
            b: before.pricing.pricing,
            a: after.pricing.pricing,
          }),
        ).toBe(0);
        expect(proposal.complete).toBe(true);
        expect(proposal.keepsEverything).toBe(best.slice(0, 4).every((measure) => measure === 0));
        seen[proposal.keepsEverything ? "lossless" : "lossy"]++;
        seen.addOns += Number(Object.keys(proposal.target.addOns).length > 0);
      }),
      { numRuns: 80 },
    );
    expect(seen.lossless).toBeGreaterThan(0);
    expect(seen.lossy).toBeGreaterThan(0);
    expect(seen.addOns).toBeGreaterThan(10);
  });

  it("carries a certificate that holds, also after a round trip through JSON", () => {
    fc.assert(
      fc.property(scenario, ({ before, after, configuration }) => {
        const proposal = proposeTarget(before, after, configuration);
        if (proposal === undefined) return;
        const sent: unknown = JSON.parse(JSON.stringify(proposal.certificate));
        expect(
          checkCertificate(sent, { before, after, configuration }),
          JSON.stringify([before.pricing.pricing, after.pricing.pricing, proposal.certificate]),
        ).toEqual({ ok: true });
      }),
      { numRuns: 80 },
    );
  });

  it("never claims to be proven where something better exists", () => {
    fc.assert(
      fc.property(scenario, ({ before, after, configuration }) => {
        const proposal = proposeTarget(before, after, configuration);
        if (proposal?.certificate.optimality !== "proven") return;
        const measures = rankOf(before, after, configuration, proposal.target).slice(0, 6);
        for (const target of everyTarget(after, configuration))
          expect(compareRanks(measures, rankOf(before, after, configuration, target).slice(0, 6))).toBeLessThanOrEqual(
            0,
          );
      }),
      { numRuns: 60 },
    );
  });

  it("has every mutation of its certificate rejected", () => {
    let rejected = 0;
    fc.assert(
      fc.property(scenario, ({ before, after, configuration }) => {
        const proposal = proposeTarget(before, after, configuration);
        if (proposal === undefined) return;
        const sent: unknown = JSON.parse(JSON.stringify(proposal.certificate));
        for (const mutation of mutations(sent)) {
          // Skips changes that restore the original.
          if (canonical(mutation) === canonical(sent)) continue;
          const verdict = checkCertificate(mutation, { before, after, configuration });
          expect(verdict.ok, JSON.stringify(mutation)).toBe(false);
          rejected++;
        }
      }),
      { numRuns: 15 },
    );
    expect(rejected).toBeGreaterThan(1_000);
  });

  const PLAN = { price: 10, features: null, usageLimits: { seats: { value: 10 } } };
  const small = (plans: object, addOns: object = {}): Side =>
    createSide(
      compilePricing(
        pricingFrom({
          features: {
            board: { valueType: "BOOLEAN", defaultValue: false, type: "DOMAIN" },
            export: { valueType: "BOOLEAN", defaultValue: false, type: "DOMAIN" },
          },
          usageLimits: { seats: { valueType: "NUMERIC", defaultValue: 1, type: "NON_RENEWABLE", trackable: true } },
          plans,
          addOns,
        }),
      ),
    );
  const seats = (value: number, more: object = {}): object => ({
    price: 2,
    usageLimitsExtensions: { seats: { value } },
    ...more,
  });
  const board = { board: { value: true } };

  it("has as many units as give an expression what it had, also beyond what is unlimited by itself", () => {
    const withAddOn = (name: string): Side =>
      createSide(
        compilePricing(
          pricingFrom({
            features: {
              half: {
                valueType: "BOOLEAN",
                defaultValue: true,
                type: "DOMAIN",
                expression: "subscriptionContext['seats'] * 2 < pricingContext['usageLimits']['seats']",
              },
            },
            usageLimits: { seats: { valueType: "NUMERIC", defaultValue: 5, type: "NON_RENEWABLE", trackable: true } },
            plans: { FREE: { price: 0, features: null } },
            addOns: {
              [name]: {
                price: 1,
                usageLimitsExtensions: { seats: { value: 100_000_000 } },
                subscriptionConstraints: { maxQuantity: 4 },
              },
            },
          }),
        ),
      );
    const [before, after] = [withAddOn("packA"), withAddOn("packB")];
    for (const quantity of [1, 2, 3, 4]) {
      const proposal = proposeTarget(before, after, { plan: "FREE", addOns: { packA: quantity } });
      expect(proposal).toMatchObject({ keepsEverything: true, complete: true });
      expect(proposal?.target.addOns).toEqual({ packB: quantity });
    }
  });

  it("is not certified for who would lose, for nothing in return, what adds nothing", () => {
    const nothing = { price: 0, usageLimitsExtensions: { seats: { value: 0 } } };
    const side = small({ FREE: PLAN }, { packB: nothing, packC: nothing });
    const configuration = { plan: "FREE", addOns: { packB: 1, packC: 2 } };
    const proposal = proposeTarget(side, side, configuration);
    expect(proposal?.target).toEqual(configuration);
    const { certificate } = proposal ?? {};
    const fewer = { ...certificate, to: { ...certificate?.to, addOns: { packB: 1 } } };
    expect(checkCertificate(fewer, { before: side, after: side, configuration }).ok).toBe(false);
  });

  it.each([
    [
      "the cheapest of those that keep everything",
      { CHEAP: { ...PLAN, price: 3 }, DEAR: PLAN },
      {},
      { plan: "CHEAP", addOns: {} },
      true,
      "proven",
    ],
    ["the plan that one has, among equals", { ALSO: PLAN, PRO: PLAN }, {}, { plan: "PRO", addOns: {} }, true, "proven"],
    [
      "exactly as many units as it takes",
      { PRO: { ...PLAN, usageLimits: null } },
      { more: seats(2) },
      { plan: "PRO", addOns: { more: 5 } },
      true,
      "searched",
    ],
    [
      "as many units as there may be, where they are not enough",
      { PRO: { ...PLAN, usageLimits: null } },
      { more: seats(2, { subscriptionConstraints: { maxQuantity: 3 } }) },
      { plan: "PRO", addOns: { more: 3 } },
      false,
      "searched",
    ],
    [
      "the cheaper of two ways to fill up a limit",
      { PRO: { ...PLAN, usageLimits: null } },
      { one: seats(1), ten: seats(10, { price: 15 }) },
      { plan: "PRO", addOns: { ten: 1 } },
      true,
      "searched",
    ],
    [
      "a plan of more money rather than less of anything",
      { FREE: { price: 0, features: null }, BIG: { price: 99, features: null, usageLimits: { seats: { value: 11 } } } },
      {},
      { plan: "BIG", addOns: {} },
      true,
      "proven",
    ],
    [
      "a price in numbers rather than one in words",
      { ASK: { ...PLAN, price: "Contact us" }, BIG: { ...PLAN, price: 500 } },
      {},
      { plan: "BIG", addOns: {} },
      true,
      "proven",
    ],
    [
      "no private plan, however good",
      { SECRET: { ...PLAN, price: 1, private: true }, BIG: PLAN },
      {},
      { plan: "BIG", addOns: {} },
      true,
      "proven",
    ],
    [
      "the private plan that one has",
      { PRO: { ...PLAN, price: 1, private: true }, BIG: PLAN },
      {},
      { plan: "PRO", addOns: {} },
      true,
      "proven",
    ],
    [
      "a dependency with what needs it",
      { PRO: { ...PLAN, usageLimits: null } },
      { more: seats(9, { dependsOn: ["base"] }), base: { price: 1, features: board } },
      { plan: "PRO", addOns: { base: 1, more: 1 } },
      true,
      "searched",
    ],
    [
      "the smaller loss where the plan takes something away",
      {
        LESS: { ...PLAN, usageLimits: { seats: { value: 9 } } },
        LEAST: { ...PLAN, price: 0, usageLimits: { seats: { value: 8 } } },
      },
      {},
      { plan: "LESS", addOns: {} },
      false,
      "proven",
    ],
  ])("takes %s", (_, plans, addOns, target, keepsEverything, optimality) => {
    const before = small({ PRO: PLAN });
    const after = small(plans, addOns);
    const configuration = { plan: "PRO", addOns: {} };
    const proposal = proposeTarget(before, after, configuration);
    expect(proposal).toMatchObject({ target, keepsEverything, complete: true, certificate: { optimality } });
    expect(proposal?.target).toEqual(target);
    expect(checkCertificate(proposal?.certificate, { before, after, configuration })).toEqual({ ok: true });
  });

  it("keeps a feature rather than any amount of a limit, and says what is lost", () => {
    const before = small({ PRO: { ...PLAN, features: board } });
    const after = small({ SEATS: { ...PLAN, price: 0 }, BOARD: { price: 50, features: board } });
    const proposal = proposeTarget(before, after, { plan: "PRO", addOns: {} });
    expect(proposal?.target).toEqual({ plan: "BOARD", addOns: {} });
    expect(proposal?.loss).toEqual({
      lostFeatures: [],
      reducedFeatures: [],
      reducedLimits: ["seats"],
      differentFeatures: [],
      differentLimits: [],
      shortfall: 0.9,
    });
  });

  it("needs no time for add-ons that have nothing to do with each other, nor for units by the million", () => {
    const names = Array.from({ length: 40 }, (_, index) => `extra${index}`);
    const content = (owned: boolean) =>
      createSide(
        compilePricing(
          pricingFrom({
            features: Object.fromEntries(
              names.map((name) => [name, { valueType: "BOOLEAN", defaultValue: owned, type: "DOMAIN" }]),
            ),
            usageLimits: {
              seats: { valueType: "NUMERIC", defaultValue: owned ? 100_000_000 : 1, type: "NON_RENEWABLE" },
            },
            plans: { PRO: { price: 1, features: null } },
            addOns: {
              ...Object.fromEntries(
                names.map((name) => [`${name}Pack`, { price: 1, features: { [name]: { value: true } } }]),
              ),
              units: seats(3),
            },
          }),
        ),
      );
    const proposal = proposeTarget(content(true), content(false), { plan: "PRO", addOns: {} });
    expect(proposal).toMatchObject({ keepsEverything: true, complete: true });
    expect(Object.keys(proposal?.target.addOns ?? {})).toHaveLength(41);
    expect(proposal?.target.addOns["units"]).toBe(33_333_333);
  });

  it("says when add-ons were too many to try all of them, and still loses nothing that it need not", () => {
    const names = Array.from({ length: 16 }, (_, index) => `pack${index}`);
    const packs = Object.fromEntries(names.map((name, index) => [name, seats(index + 1)]));
    const [before, after] = [
      small({ PRO: { ...PLAN, usageLimits: { seats: { value: 120 } } } }),
      small({ PRO: PLAN }, packs),
    ];
    const proposal = proposeTarget(before, after, { plan: "PRO", addOns: {} });
    expect(proposal?.complete).toBe(false);
    expect(proposal?.keepsEverything).toBe(true);
  });
});
