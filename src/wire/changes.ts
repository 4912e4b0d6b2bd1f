import { z } from "zod";
import { gateRule } from "../core/change/impact/gate.ts";
import { GATE_CLOSED, OVERRIDE, strictBody, targets } from "./change-bodies.ts";
import { actor, amounts, moment, NO_SERVICE } from "./common.ts";
import { HELD } from "./approvals.ts";
import type { Operation } from "./operation.ts";
import { plainOverride } from "./overrides.ts";
import { featureValue, limitValue } from "./pricings.ts";

const version = z.string({
  error: ({ input }) =>
    input === undefined ? "The pricingVersion field is required" : "The pricingVersion field must be a string",
});
const from = z
  .array(z.string({ error: "Each of from must be a string" }), { error: "The from field must be a list" })
  .max(1000, "The from field must not have more than 1000 elements")
  .optional();

/** A novation of all contracts of a service. */
export const massNovationBody = strictBody({ pricingVersion: version, from, ...targets }).meta({
  id: "MassNovationToRun",
});

const ACTIONS = ["archive", "activate", "disable", "novation"] as const;

export const change = strictBody({
  action: z.enum(ACTIONS, { error: `The action field must be one of ${ACTIONS.join(", ")}` }),
  pricingVersion: version.optional(),
  from,
  ...targets,
}).meta({ id: "Change" });

const changeClass = z.enum(["incompatible", "narrowing", "widening", "neutral"]);
const effect = z.enum(["same", "more", "less", "different"]).describe("Effect on subscribers");
const modes = z.strictObject({ client: z.number(), server: z.number() });
const pricingVersion = z.strictObject({ saasName: z.string(), version: z.string() });
export const diff = z
  .strictObject({
    from: pricingVersion,
    to: pricingVersion,
    class: changeClass.nullable().describe("The worst class of all changes; null without changes"),
    counts: z.strictObject({
      incompatible: z.number(),
      narrowing: z.number(),
      widening: z.number(),
      neutral: z.number(),
    }),
    changes: z.array(
      z.strictObject({
        class: changeClass,
        subject: z.enum(["pricing", "plan", "addOn", "feature", "usageLimit"]),
        name: z.string(),
        aspect: z.string(),
        before: z.unknown(),
        after: z.unknown(),
        plans: z.array(z.string()).optional().describe("Plans that show the change"),
        addOns: amounts.optional().describe("Smallest selection that shows the change"),
        configurations: z.number().optional(),
        mode: z.enum(["client", "server"]).optional(),
        unknown: z.literal(true).optional().describe("The effect cannot be determined"),
      }),
    ),
    suggestedRenames: z
      .array(z.strictObject({ from: z.string(), to: z.string() }))
      .optional()
      .describe("Plans that were probably renamed: same content, other name"),
    suggestion: z.strictObject({
      step: z.enum(["none", "patch", "minor", "major"]),
      version: z.string().nullable(),
      sufficient: z.boolean().nullable(),
    }),
    space: z.strictObject({
      plans: z.number(),
      configurations: z.number(),
      complete: z.boolean().describe("False when not everything was compared: too many selections, or time ran out"),
      capped: z.array(z.string()).describe("Features and limits that were not compared completely"),
    }),
  })
  .meta({ id: "Diff" });

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
const gateResults = z
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
/** Report of a change that was made. */
export const massNovation = impact
  .extend({ overrideReason: z.string().nullable(), novatedContracts: z.number() })
  .meta({ id: "MassNovation" });
export const decisionPage = z
  .strictObject({
    data: z.array(
      z.strictObject({
        id: z.number(),
        at: moment,
        action: z.enum(["archive", "activate", "disable", "novation"]),
        pricingVersion: z.string().nullable(),
        actor,
        rules: gateResults,
        overrideReason: z.string().nullable(),
        report: impactReport,
      }),
    ),
    next: z.number().nullable().describe("`before` of the next page; null on the last one"),
  })
  .meta({ id: "DecisionPage" });

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
const IMPACT = { ...REPORT, gate: { passed: true, rules: [] } };
const DIFF = {
  from: { saasName: "Tasker", version: "1.0.0" },
  to: { saasName: "Tasker", version: "1.1.0" },
  class: "narrowing",
  counts: { incompatible: 0, narrowing: 1, widening: 0, neutral: 0 },
  changes: [
    {
      class: "narrowing",
      subject: "usageLimit",
      name: "maxTasks",
      aspect: "value",
      before: 20,
      after: 10,
      plans: ["FREE"],
    },
  ],
  suggestion: { step: "major", version: "2.0.0", sufficient: false },
  space: { plans: 2, configurations: 2, complete: true, capped: [] },
};
const renames = z
  .string()
  .optional()
  .describe("Renamed plans, such as PRO:TEAM,BASIC:STARTER. Default: the renames of the newer version");
const format = z.enum(["json", "markdown"]).optional().describe("Format, instead of the Accept header");

/** Changes of pricings; each operation also exists inside an organization. */
export const changeOperations: readonly Operation[] = [
  {
    id: "compareVersions",
    group: "Changes",
    method: "GET",
    path: "/services/{serviceName}/diff",
    summary: "Compare two versions",
    description:
      "Returns what subscribers gain and lose between two versions. An organization may run two analyses at a time; further ones get 429.",
    query: z.object({
      from: z.string().describe("A version"),
      to: z.string().describe("Another version"),
      renames,
      format,
    }),
    alsoAs: "text/markdown",
    agent: { may: "read", page: "services/{serviceName}/compare" },
    answers: { 200: { schema: diff, example: DIFF } },
    errors: { 404: NO_SERVICE },
  },
  {
    id: "compareDraft",
    group: "Changes",
    method: "POST",
    path: "/services/{serviceName}/diff",
    summary: "Compare a version with a draft",
    description: "Returns what subscribers would gain and lose with a draft, which is not stored.",
    query: z.object({
      from: z.string().optional().describe("A version. Default: the newest active one"),
      renames,
      format,
    }),
    body: "pricing",
    alsoAs: "text/markdown",
    agent: { may: "propose", page: "upload" },
    answers: { 200: { schema: diff, example: DIFF } },
    errors: { 404: NO_SERVICE, 413: "File too large" },
  },
  {
    id: "predictImpact",
    group: "Changes",
    method: "POST",
    path: "/services/{serviceName}/impact",
    summary: "Predict what a change does",
    description:
      "Predicts the effect of archiving, activating, disabling or a mass novation on each contract, and changes nothing. A form may add up to 20 drafts, which count as active versions uploaded last. As application/x-ndjson it streams progress, then the report.",
    query: z.object({
      certificate: z.boolean().default(false).describe("Adds the certificate of each group's best fit"),
    }),
    body: { schema: change, example: { action: "archive", pricingVersion: "1.0.0" }, asField: "change" },
    alsoAs: "application/x-ndjson",
    agent: { may: "read", page: "services/{serviceName}" },
    answers: { 200: { schema: impact, example: IMPACT } },
    errors: { 404: NO_SERVICE, 413: "File too large" },
  },
  {
    id: "novateContracts",
    group: "Changes",
    method: "POST",
    path: "/services/{serviceName}/novations",
    summary: "Move all contracts to a version",
    description:
      "Moves every contract of a service to one version, each configuration to its target or best fit; all or none. The gate decides.",
    query: z.object(OVERRIDE),
    body: { schema: massNovationBody, example: { pricingVersion: "1.1.0" } },
    answers: {
      200: { schema: massNovation, example: { ...IMPACT, overrideReason: null, novatedContracts: 12 } },
      202: HELD,
    },
    errors: {
      404: NO_SERVICE,
      409: GATE_CLOSED,
    },
  },
  {
    id: "listDecisions",
    group: "Changes",
    method: "GET",
    path: "/services/{serviceName}/decisions",
    summary: "List past decisions",
    description: "Lists changes that were made, newest first, with their predicted impact, gate results and overrides.",
    query: z.object({
      pricingVersion: z.string().optional().describe("Only decisions on this version"),
      before: z.int().optional().describe("Id of the last decision of the previous page"),
      limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
    }),
    answers: { 200: { schema: decisionPage, example: { data: [], next: null } } },
    errors: { 404: NO_SERVICE },
  },
];
