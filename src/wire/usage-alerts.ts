import { z } from "zod";
import { MAX_THRESHOLD, MAX_THRESHOLDS, THRESHOLDS_RULE } from "../core/usage-alerts.ts";
import { objectError } from "./change-bodies.ts";
import { NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";

const THRESHOLDS = `The thresholds field ${THRESHOLDS_RULE}`;

const thresholds = z
  .array(z.int(THRESHOLDS).min(1, THRESHOLDS).max(MAX_THRESHOLD, THRESHOLDS), THRESHOLDS)
  .min(1, THRESHOLDS)
  .max(MAX_THRESHOLDS, THRESHOLDS)
  .refine((list) => new Set(list).size === list.length, THRESHOLDS)
  .meta({ uniqueItems: true })
  .describe("Percent of a limit");

export const usageAlerts = z
  .strictObject({ thresholds }, objectError("The body must be an object"))
  .meta({ id: "UsageAlerts" });

const ALERTS = { thresholds: [80, 100] };

/** Thresholds of usage that raise an event. */
export const usageAlertOperations: readonly Operation[] = [
  {
    id: "showUsageAlerts",
    group: "Events",
    method: "GET",
    path: "/organizations/{organizationId}/usage-alerts",
    summary: "Show the usage alerts",
    description: "Returns the shares of a limit that raise USAGE_THRESHOLD_REACHED. Default: 80 and 100 percent.",
    answers: { 200: { schema: usageAlerts, example: ALERTS } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "setUsageAlerts",
    group: "Events",
    method: "PUT",
    path: "/organizations/{organizationId}/usage-alerts",
    summary: "Set the usage alerts",
    description:
      "Replaces the thresholds, which hold from the next movement on. Each is raised once per balance, until the balance is reset or its limit has another value.",
    body: { schema: usageAlerts, example: ALERTS },
    answers: { 200: { schema: usageAlerts, example: ALERTS } },
    errors: { 404: NO_ORGANIZATION },
  },
];
