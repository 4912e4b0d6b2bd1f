import { z } from "zod";
import { objectError } from "./change-bodies.ts";
import { amounts, instant, moment } from "./common.ts";
import { requiredNotNull, subscriptionFields } from "./subscription.ts";

const UNTIL = "trial.until must be an ISO 8601 date";
const THEN = "trial.then must be end or an object with subscriptionPlans and subscriptionAddOns";
const EITHER = "The trial field needs either until or days";
const isGiven = (value: unknown) => value !== undefined && value !== null;

/** Stands for an object with both ends or none: its sentence comes before those of its fields. */
const AMBIGUOUS = Symbol(EITHER);

/** An integer of a body; null counts as absent. */
const integer = (sentence: string, least: number, most: number) =>
  z
    .int(sentence)
    .min(least, sentence)
    .max(most, sentence)
    .nullish()
    .transform((value) => value ?? undefined);

const { subscriptionPlans, subscriptionAddOns } = subscriptionFields(requiredNotNull);

const then = z.union(
  [z.literal("end"), z.strictObject({ subscriptionPlans, subscriptionAddOns }, objectError(THEN, "trial.then."))],
  requiredNotNull("trial.then is required", THEN),
);

export const newTrial = z.preprocess(
  (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const { until, days } = value as { until?: unknown; days?: unknown };
    return isGiven(until) === isGiven(days) ? AMBIGUOUS : value;
  },
  z.strictObject(
    {
      until: instant(UNTIL)
        .nullish()
        .transform((instant) => instant ?? undefined)
        .describe("End, ISO 8601, within 365 days; or `days`"),
      days: integer("trial.days must be an integer between 1 and 365", 1, 365).describe("Length, times 24 hours"),
      then: then.describe("What follows: the contract's end, or other plans and add-ons of the same services"),
      remindDays: integer("trial.remindDays must be an integer between 0 and 30", 0, 30).describe(
        "Days before the end at which TRIAL_ENDING is sent; 0 for never. Default: 3",
      ),
      again: z
        .boolean("trial.again must be a boolean")
        .nullish()
        .transform((value) => value ?? false)
        .describe("Allows another trial of a service. Needs scope ALL, an OWNER or an ADMIN"),
    },
    {
      error: (issue) =>
        issue.input === AMBIGUOUS ? EITHER : objectError("The trial field must be an object", "trial.").error(issue),
    },
  ),
);

/** Continuation after a trial. */
export const afterTrial = z
  .union([
    z.literal("end"),
    z.strictObject({
      subscriptionPlans: z.record(z.string(), z.string()),
      subscriptionAddOns: z.record(z.string(), amounts),
    }),
  ])
  .meta({ id: "AfterTrial" });

export const trial = z.strictObject({ until: moment, then: afterTrial }).meta({ id: "Trial" });
