import { z } from "zod";
import { GATE_CLOSED, OVERRIDE, strictBody, targets } from "./change-bodies.ts";
import { actor, amounts, moment, NO_SERVICE } from "./common.ts";
import { HELD } from "./approvals.ts";
import type { Operation } from "./operation.ts";
import { gateResults, impact, IMPACT, impactReport } from "./impact.ts";

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
