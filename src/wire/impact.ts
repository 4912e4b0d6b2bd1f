import { z } from "zod";
import { gateRule } from "../core/change/impact/gate.ts";
import { amounts } from "./common.ts";
import { plainOverride } from "./overrides.ts";
import { featureValue, limitValue } from "./pricings.ts";

const effect = z.enum(["same", "more", "less", "different"]).describe("Effect on subscribers");
const modes = z.strictObject({ client: z.number(), server: z.number() });

const configuration = z.strictObject({ plan: z.string().optional(), addOns: amounts });
const worth = z.strictObject({ amount: z.number(), unpriced: z.array(z.string()) });
const certificate = z
  .strictObject({
    service: z.string(),
    from: configuration.extend({ version: z.string() }),
    to: configuration.extend({ version: z.string() }),
    overrides: z.array(plainOverride).optional().describe("Overrides of the contracts, if any"),
    loss: z.strictObject({
      lostFeatures: z.array(z.string()),
      reducedFeatures: z.array(z.string()),
      reducedLimits: z.array(z.string()),
      differentFeatures: z.array(z.string()),
      differentLimits: z.array(z.string()),
      shortfall: z.number(),
    }),
    price: z.strictObject({ before: worth, after: worth }),
    floors: z.array(z.strictObject({ plan: z.string().nullable(), rank: z.array(z.number()) })),
    optimality: z.enum(["proven", "searched"]),
  })
  .meta({ id: "Certificate" });
const impactCounts = z
  .strictObject({
    contracts: z.number(),
    affected: z.number(),
    gaining: z.number(),
    losing: z.number(),
    differing: z.number().optional().describe("Absent in decisions that were recorded without it"),
    losingFeatures: z.number(),
    losingQuota: z.number(),
    turnedOff: z.number(),
    newlyOver: z.number(),
    over: z.number(),
    payingMore: z.number(),
    unplaced: z.number(),
  })
  .describe("Number of contracts per effect")
  .meta({ id: "ImpactCounts" });
const impactGroup = z
  .strictObject({
    pricingVersion: z.string().describe("Current version"),
    configuration,
    target: configuration.nullable(),
    problem: z
      .strictObject({ rule: z.string(), message: z.string() })
      .nullable()
      .describe("Reason why the contracts cannot move"),
    counts: impactCounts,
    features: z.array(
      z.strictObject({
        feature: z.string(),
        before: featureValue.nullable(),
        after: featureValue.nullable(),
        effect,
        loses: z.boolean(),
        hadIt: z.boolean(),
        hasIt: z.boolean(),
        decided: z.boolean(),
        turnedOff: modes,
        turnedOn: modes,
      }),
    ),
    limits: z.array(
      z.strictObject({
        limit: z.string(),
        before: limitValue.nullable(),
        after: limitValue.nullable(),
        effect,
        loses: z.boolean(),
        tighterBudgets: z
          .array(z.string())
          .optional()
          .describe("Budgets of the pricing that allow less, or are new; absent for none"),
        newlyOver: z.number(),
        over: z.number(),
      }),
    ),
    price: z.strictObject({ before: worth, after: worth.nullable(), effect }),
    overrides: z
      .array(
        plainOverride.extend({
          after: z
            .enum(["kept", "superfluous", "inapplicable", "ended"])
            .describe("`superfluous`: without it the target gives the same or more"),
        }),
      )
      .optional()
      .describe("Overrides of these contracts that hold now, if any"),
    chosenBy: z
      .enum(["group", "fallback", "rename", "bestFit", "unchanged"])
      .nullable()
      .describe("How the target was chosen"),
    proposal: z
      .strictObject({
        target: configuration,
        keepsEverything: z.boolean(),
        complete: z.boolean().describe("False when not every target was tried: too many add-ons, or time ran out"),
        certificate: certificate.optional(),
      })
      .nullable()
      .describe("Best fit"),
  })
  .meta({ id: "ImpactGroup" });
export const impactReport = z
  .strictObject({
    action: z.enum(["archive", "activate", "disable", "novation"]),
    serviceName: z.string(),
    pricingVersion: z.string().nullable().describe("The version that is archived or activated"),
    targetVersion: z.string().nullable().describe("Target version"),
    usage: z.enum(["kept", "reset"]).describe("Effect on consumption"),
    counts: impactCounts,
    overrides: z
      .strictObject({
        contracts: z.number().describe("Contracts with overrides"),
        superfluous: z.number(),
        inapplicable: z.number(),
        ended: z.number(),
      })
      .optional()
      .describe("Number of overrides per outcome; absent without any"),
    scheduled: z
      .number()
      .optional()
      .describe("Scheduled changes that would be rewritten or lose the service; absent without any"),
    blocks: z
      .strictObject({ contracts: z.number(), amount: z.number() })
      .optional()
      .describe(
        "Contracts with open blocks, and what these had left when the running periods began; absent without any",
      ),
    groups: z.array(impactGroup).describe("Most contracts first"),
    unforeseen: z.array(z.string()).describe("Features that read other services"),
  })
  .meta({ id: "ImpactReport" });
export const gateResults = z
  .array(
    z.strictObject({
      rule: gateRule,
      passed: z.boolean(),
      contracts: z.number().describe("Contracts that break the rule"),
      percent: z.number(),
      reason: z.string(),
    }),
  )
  .meta({ id: "GateResults" });
export const gateVerdict = z.strictObject({ passed: z.boolean(), rules: gateResults }).meta({ id: "GateVerdict" });
/** Predicted effects of a change on contracts. */
export const impact = impactReport.extend({ gate: gateVerdict }).meta({ id: "Impact" });

const COUNTS = {
  contracts: 12,
  affected: 12,
  gaining: 0,
  losing: 2,
  differing: 0,
  losingFeatures: 0,
  losingQuota: 2,
  turnedOff: 0,
  newlyOver: 0,
  over: 0,
  payingMore: 0,
  unplaced: 0,
};
const REPORT = {
  action: "archive",
  serviceName: "Tasker",
  pricingVersion: "1.0.0",
  targetVersion: "1.1.0",
  usage: "kept",
  counts: COUNTS,
  groups: [],
  unforeseen: [],
};
export const IMPACT = { ...REPORT, gate: { passed: true, rules: [] } };
