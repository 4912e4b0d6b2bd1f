import { z } from "zod";
import { gateRule, gateRules } from "../core/change/impact/gate.ts";
import { amounts, id, message, moment, pagination } from "./common.ts";
import { EVENT_CODES } from "../core/event-messages.ts";

/*
 * The shapes of answers, for the OpenAPI document; the tests hold every answer of the whole suite against them.
 * Strict: a field that is not here must not be on the wire.
 */

export const organizationKey = z.strictObject({
  id,
  scope: z.enum(["ALL", "MANAGEMENT", "EVALUATION"]),
  name: z.string().nullable(),
  createdAt: moment,
  expiresAt: moment.nullable(),
  lastUsedAt: moment.nullable(),
});
export const denialReport = z.strictObject({
  hours: z.number(),
  total: z.number().describe("Answers that refused one feature, asked for or consumed, but for dry runs"),
  features: z
    .array(
      z.strictObject({
        featureId: z.string(),
        total: z.number(),
        limitReached: z.number().describe("Of these, because a limit was used up"),
      }),
    )
    .describe("Those that were refused most, at most 200"),
});
export const overview = z.strictObject({
  contracts: z.strictObject({
    total: z.number(),
    active: z.number(),
    renewing: z.number().describe("Renew by themselves"),
    ending: z.number().describe("End within a week"),
    expired: z.number(),
  }),
  denials: z.strictObject({ hours: z.number(), total: z.number() }),
  near: z.strictObject({
    share: z.number().describe("Of a limit that is used: from there on somebody is near it"),
    total: z.number(),
    users: z
      .array(
        z.strictObject({
          userId: z.string(),
          username: z.string(),
          serviceName: z.string(),
          limitName: z.string(),
          consumed: z.number(),
          limit: z.number(),
          resetTimeStamp: moment.nullable(),
        }),
      )
      .describe("The 20 who are nearest, each with the limit that is used up most"),
  }),
  limitsReached: z.strictObject({ hours: z.number(), total: z.number() }),
  services: z.number(),
  activeVersions: z.number(),
});
export { message };
const actor = z.strictObject({
  kind: z.enum(["user", "key", "anonymous"]),
  id: id.nullable(),
  name: z.string().nullable().describe("The user's or the key's as it is now; null where it has none or is gone"),
});
export const auditPage = z.strictObject({
  data: z.array(
    z.strictObject({
      id: z.number(),
      at: moment,
      organizationId: id.nullable(),
      actor,
      action: z.string(),
      target: z.string(),
      before: z.unknown(),
      after: z.unknown(),
      requestId: z.string().nullable(),
    }),
  ),
  next: z.number().nullable().describe("The value of before for the next page; null on the last one"),
});

export const organizationListed = z.strictObject({
  id,
  name: z.string(),
  owner: z.string(),
  default: z.boolean(),
  apiKeys: z.array(z.strictObject({ id, key: z.string(), scope: z.enum(["ALL", "MANAGEMENT", "EVALUATION"]) })),
  members: z.array(z.strictObject({ username: z.string(), role: z.enum(["ADMIN", "MANAGER", "EVALUATOR"]) })),
});
export const organization = organizationListed.extend({
  ownerDetails: z
    .strictObject({ _id: id, username: z.string(), createdAt: moment, updatedAt: moment, __v: z.literal(0) })
    .nullable(),
});
export const organizationPage = z.strictObject({
  data: z.array(organizationListed),
  pagination: pagination.optional(),
});

const locators = z.record(z.string(), z.union([z.strictObject({ id }), z.strictObject({ url: z.string() })]));
export const service = z.strictObject({
  name: z.string(),
  organizationId: id,
  disabled: z.literal(false),
  activePricings: locators,
  archivedPricings: locators.optional(),
  id,
});

/** A service after an upload, with what was found in the pricing. */
export const serviceUploaded = service.extend({
  warnings: z
    .array(
      z.strictObject({
        code: z.string(),
        severity: z.enum(["error", "warning", "info"]),
        path: z.string(),
        line: z.number(),
        column: z.number(),
        message: z.string(),
      }),
    )
    .describe("What is allowed in the pricing and does no good"),
  warningsComplete: z.literal(false).optional().describe("There was no time to look for all of them"),
  expectations: z
    .strictObject({
      met: z.number(),
      coverage: z
        .strictObject({
          points: z.number(),
          covered: z.number(),
          percent: z.number(),
          missing: z.array(z.string()).describe("The first of what no expectation covers"),
        })
        .nullable()
        .describe("Of plans × features × limit edges; null for a pricing of too many"),
    })
    .optional(),
});

const valueType = z.enum(["BOOLEAN", "NUMERIC", "TEXT"]);
const featureValue = z.union([z.boolean(), z.number(), z.string(), z.array(z.string())]);
const limitValue = z.union([z.boolean(), z.number()]);
const values = z.record(z.string(), featureValue);
const limits = z.record(z.string(), limitValue);
const period = z.strictObject({ value: z.number(), unit: z.enum(["SEC", "MIN", "HOUR", "DAY", "MONTH", "YEAR"]) });

export const feature = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  valueType,
  defaultValue: featureValue,
  value: featureValue.optional(),
  type: z.string(),
  integrationType: z.string().optional(),
  pricingUrls: z.array(z.string()),
  automationType: z.string().optional(),
  docUrl: z.string().optional(),
  expression: z.string().optional(),
  serverExpression: z.string().optional(),
  render: z.enum(["AUTO", "ENABLED", "DISABLED"]),
  tag: z.string().optional(),
});

const usageLimit = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  valueType,
  defaultValue: limitValue,
  value: limitValue.optional(),
  type: z.enum(["RENEWABLE", "NON_RENEWABLE"]),
  trackable: z.boolean(),
  period: period.optional(),
  linkedFeatures: z.array(z.string()),
});

const price = z.union([z.number(), z.string()]);
const plan = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  price,
  private: z.boolean(),
  features: values,
  usageLimits: limits,
});
const addOn = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  private: z.boolean(),
  price,
  availableFor: z.array(z.string()),
  dependsOn: z.array(z.string()),
  excludes: z.array(z.string()),
  features: values,
  usageLimits: limits,
  usageLimitsExtensions: limits,
  subscriptionConstraints: z
    .strictObject({ minQuantity: z.number(), maxQuantity: z.number().nullable(), quantityStep: z.number() })
    .optional(),
});
export const pricing = z.strictObject({
  _organizationId: id,
  yamlPath: z.string().optional(),
  version: z.string(),
  currency: z.string(),
  createdAt: moment,
  features: z.record(z.string(), feature),
  usageLimits: z.record(z.string(), usageLimit),
  plans: z.record(z.string(), plan),
  addOns: z.record(z.string(), addOn),
  url: z.string().optional(),
});
export const publicUrl = z.strictObject({ path: z.string(), url: z.string() });

const changeClass = z.enum(["incompatible", "narrowing", "widening", "neutral"]);
const effect = z.enum(["same", "more", "less", "different"]).describe("What it means to who has it");
const modes = z.strictObject({ client: z.number(), server: z.number() });
const pricingVersion = z.strictObject({ saasName: z.string(), version: z.string() });
export const diff = z.strictObject({
  from: pricingVersion,
  to: pricingVersion,
  class: changeClass.nullable().describe("The worst of its changes; null when nothing changed"),
  counts: z.record(changeClass, z.number()),
  changes: z.array(
    z.strictObject({
      class: changeClass,
      subject: z.enum(["pricing", "plan", "addOn", "feature", "usageLimit"]),
      name: z.string(),
      aspect: z.string(),
      before: z.unknown(),
      after: z.unknown(),
      plans: z.array(z.string()).optional().describe("With which it shows"),
      addOns: amounts.optional().describe("The fewest with which it shows"),
      configurations: z.number().optional(),
      mode: z.enum(["client", "server"]).optional(),
      unknown: z.literal(true).optional().describe("Nothing is known but that it changed"),
    }),
  ),
  suggestion: z.strictObject({
    step: z.enum(["none", "patch", "minor", "major"]),
    version: z.string().nullable(),
    sufficient: z.boolean().nullable(),
  }),
  space: z.strictObject({
    plans: z.number(),
    configurations: z.number(),
    complete: z.boolean().describe("False when not everything was compared: too many selections, or no time"),
    capped: z.array(z.string()).describe("Features and limits that were not compared, or not under every selection"),
  }),
});

const configuration = z.strictObject({ plan: z.string().optional(), addOns: amounts });
const worth = z.strictObject({ amount: z.number(), unpriced: z.array(z.string()) });
const certificate = z.strictObject({
  service: z.string(),
  from: configuration.extend({ version: z.string() }),
  to: configuration.extend({ version: z.string() }),
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
});
const impactCounts = z
  .strictObject({
    contracts: z.number(),
    affected: z.number(),
    gaining: z.number(),
    losing: z.number(),
    losingFeatures: z.number(),
    losingQuota: z.number(),
    turnedOff: z.number(),
    newlyOver: z.number(),
    over: z.number(),
    payingMore: z.number(),
    unplaced: z.number(),
  })
  .describe("How many contracts each thing happens to");
const impactGroup = z.strictObject({
  pricingVersion: z.string().describe("The version that they have now"),
  configuration,
  target: configuration.nullable(),
  problem: z.strictObject({ rule: z.string(), message: z.string() }).nullable().describe("Why they cannot go there"),
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
      newlyOver: z.number(),
      over: z.number(),
    }),
  ),
  price: z.strictObject({ before: worth, after: worth.nullable(), effect }),
  chosenBy: z.enum(["group", "fallback", "bestFit", "unchanged"]).nullable().describe("Why they go there"),
  proposal: z
    .strictObject({
      target: configuration,
      keepsEverything: z.boolean(),
      complete: z.boolean().describe("False when not every target was tried: too many add-ons, or no time"),
      certificate: certificate.optional(),
    })
    .nullable()
    .describe("What fits them best"),
});
const impactReport = z.strictObject({
  action: z.enum(["archive", "activate", "disable", "novation"]),
  serviceName: z.string(),
  pricingVersion: z.string().nullable().describe("Which is archived or activated"),
  targetVersion: z.string().nullable().describe("To which contracts go"),
  usage: z.enum(["kept", "reset"]).describe("What becomes of consumption"),
  counts: impactCounts,
  groups: z.array(impactGroup).describe("Most contracts first"),
  unforeseen: z.array(z.string()).describe("Features that read other services"),
});
const gateResults = z.array(
  z.strictObject({
    rule: gateRule,
    passed: z.boolean(),
    contracts: z.number().describe("How many break it"),
    percent: z.number(),
    reason: z.string(),
  }),
);
const gateVerdict = z.strictObject({ passed: z.boolean(), rules: gateResults });
export const gate = z.strictObject({ rules: gateRules });
/** Predicted effects of a change on contracts. */
export const impact = impactReport.extend({ gate: gateVerdict });
/** Report of a change that was made. */
export const massNovation = impact.extend({ overrideReason: z.string().nullable(), novatedContracts: z.number() });
export const decisionPage = z.strictObject({
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
  next: z.number().nullable().describe("The value of before for the next page; null on the last one"),
});
/** Every failure. With `problems` what is wrong with a pricing, with places in the file; with `gate` why a change may not be. */
export const failure = z.strictObject({
  error: z.string(),
  details: z.string().optional(),
  problems: z
    .array(z.strictObject({ message: z.string(), path: z.string(), line: z.number(), column: z.number() }))
    .optional(),
  gate: gateVerdict.extend({ report: impactReport }).optional(),
});

export const tokenVerdict = z.strictObject({ valid: z.boolean(), reason: z.string().nullable() });

export const week = z.strictObject({ labels: z.array(z.string()).length(7), data: z.array(z.number()).length(7) });
export const eventStatus = z.strictObject({ status: z.string() });
export const eventSent = z.strictObject({ success: z.literal(true), message: z.string() });

export const webhook = z.strictObject({
  id,
  url: z.string(),
  description: z.string().nullable(),
  codes: z.array(z.enum(EVENT_CODES)).nullable().describe("null: all of them"),
  state: z.enum(["enabled", "disabled", "suspended"]).describe("suspended: nothing arrived for long"),
  suspendedAt: moment.nullable(),
  suspendedReason: z.string().nullable(),
  failures: z.number().describe("Attempts that failed since the last one that did not"),
  failingSince: moment.nullable(),
  createdAt: moment,
  updatedAt: moment,
});
/** The only answers in which the secret is. */
export const webhookWithSecret = webhook.extend({ secret: z.string().startsWith("whsec_") });
export const delivery = z.strictObject({
  id: z.string(),
  webhookId: z.string().describe("The header webhook-id of every attempt"),
  eventId: z.number(),
  code: z.enum(EVENT_CODES),
  status: z.enum(["pending", "delivered", "failed"]),
  attempts: z.number(),
  nextAttemptAt: moment.nullable(),
  lastAttemptAt: moment.nullable(),
  responseStatus: z.number().nullable(),
  durationMs: z.number().nullable(),
  error: z.string().nullable(),
  createdAt: moment,
});
