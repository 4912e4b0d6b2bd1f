import { z } from "zod";
import { moment, NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";

export const denialReport = z
  .strictObject({
    hours: z.number(),
    total: z.number().describe("Denials of a feature, without dry runs"),
    features: z
      .array(
        z.strictObject({
          featureId: z.string(),
          total: z.number(),
          limitReached: z.number().describe("Of these, because a limit was reached"),
        }),
      )
      .describe("The most denied features, at most 200"),
  })
  .meta({ id: "DenialReport" });
export const overview = z
  .strictObject({
    contracts: z.strictObject({
      total: z.number(),
      active: z.number(),
      renewing: z.number().describe("Renew automatically"),
      ending: z.number().describe("End within a week"),
      expired: z.number(),
    }),
    denials: z.strictObject({ hours: z.number(), total: z.number() }),
    near: z.strictObject({
      share: z.number().describe("Share of a limit from which a user counts as near it"),
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
        .describe("The 20 nearest, each with its most consumed limit"),
    }),
    limitsReached: z.strictObject({ hours: z.number(), total: z.number() }),
    services: z.number(),
    activeVersions: z.number(),
    billing: z.strictObject({
      unapplied: z
        .number()
        .describe("Messages of payment providers, of the last 90 days, that are `unmapped` or that `failed`"),
    }),
  })
  .meta({ id: "Overview" });
const PER_DAY = z.array(z.number());
export const trends = z
  .strictObject({
    days: z.array(z.iso.date()).describe("The last 30 days in UTC, today last"),
    newContracts: PER_DAY.describe("Contracts that were created and still exist, per day"),
    denials: PER_DAY.describe("Denials of a feature, without dry runs, per day"),
  })
  .meta({ id: "Trends" });
const hours = z.int().min(1).max(720).default(24).describe("Hours to look back");

/** Figures of an organization. */
export const overviewOperations: readonly Operation[] = [
  {
    id: "showOverview",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/overview",
    summary: "Show figures of an organization",
    description: "Counts contracts by state, users near a limit, reached limits, denials and active versions.",
    query: z.object({
      near: z.number().gt(0).max(1).default(0.8).describe("Share of a limit from which a user counts as near it"),
      hours,
    }),
    answers: {
      200: {
        schema: overview,
        example: {
          contracts: { total: 12, active: 1, renewing: 10, ending: 1, expired: 0 },
          denials: { hours: 24, total: 3 },
          near: { share: 0.8, total: 0, users: [] },
          limitsReached: { hours: 24, total: 1 },
          services: 1,
          activeVersions: 2,
          billing: { unapplied: 0 },
        },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showTrends",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/trends",
    summary: "Show trends over 30 days",
    description: "Counts new contracts and denials per day.",
    answers: {
      200: {
        schema: trends,
        example: { days: ["2026-01-30", "2026-01-31"], newContracts: [2, 0], denials: [0, 3] },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showDenials",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/denials",
    summary: "Count denied features",
    description: "Counts how often features were denied, per feature, in whole hours.",
    query: z.object({ hours }),
    answers: {
      200: {
        schema: denialReport,
        example: { hours: 24, total: 3, features: [{ featureId: "tasker-board", total: 3, limitReached: 3 }] },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
];
