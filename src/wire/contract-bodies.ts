import { z } from "zod";
import { RENEWAL_UNITS } from "../core/period.ts";
import { isDotSegment } from "../core/pricing/names.ts";
import { instant } from "./common.ts";
import { newTrial } from "./trials.ts";
import { newContractedServices, required, requiredNotNull, subscriptionFields } from "./subscription.ts";

/* Bodies of the calls that change contracts. */

/** Bounds a stored text, so that a contract stays small and fits an index entry (about 2,700 bytes in Postgres). */
const bounded = (field: string, text: z.ZodString) =>
  text.max(512, `The ${field} field must not be longer than 512 characters`);

const optionalText = (field: string) =>
  bounded(field, z.string({ error: `The ${field} field must be a string` })).optional();

const email = (field: string) =>
  z
    .string({ error: `The ${field} field must be a valid email address` })
    .regex(
      /^[^\s@<>(),;:"[\]\\]+@[^\s@.<>(),;:"[\]\\]+(\.[^\s@.<>(),;:"[\]\\]+)+$/,
      `The ${field} field must be a valid email address`,
    )
    .max(254, `The ${field} field must be a valid email address`);

const userContact = z.object(
  {
    userId: bounded(
      "userContact.userId",
      z
        .string(required("The userContact.userId field is required", "The userContact.userId field must be a string"))
        .min(1, "The userContact.userId field cannot be empty")
        .refine((userId) => !isDotSegment(userId), "The userContact.userId field must not be . or .."),
    ),
    username: bounded(
      "userContact.username",
      z
        .string(
          required("The userContact.username field is required", "The userContact.username field must be a string"),
        )
        .min(1, "The userContact.username field is required"),
    ),
    firstName: optionalText("userContact.firstName"),
    lastName: optionalText("userContact.lastName"),
    email: email("userContact.email").optional(),
    phone: optionalText("userContact.phone"),
  },
  requiredNotNull("The userContact field is required", "The userContact field must be an object"),
);

/** Accepts booleans, and the texts and numbers that forms and scripts send for them. */
const lenientBoolean = (sentence: string) =>
  z.preprocess(
    (value) => {
      if (value === "true" || value === "1" || value === 1) return true;
      if (value === "false" || value === "0" || value === 0) return false;
      return value;
    },
    z.boolean({ error: sentence }),
  );

export const endsTooLate = (field: string) => `${field} must not make the billing period end after the year 9999`;

/** Rejects integers beyond the range of dates with a sentence of their own. */
const renewalDays = (field: string) => {
  const sentence = `${field} must be a positive integer`;
  return z.preprocess(
    (value) => (typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value),
    z
      .number({ error: sentence })
      .int({ error: ({ code }) => (code === "too_big" ? endsTooLate(field) : sentence) })
      .min(1, sentence),
  );
};

const PERIOD = "billingPeriod.renewalPeriod must have a value from 1 to 120 and the unit DAY, MONTH or YEAR";
const ONE_OF_TWO = "billingPeriod takes renewalDays or renewalPeriod, not both";

/** Period on the calendar, counted from the start of the billing period; null counts as absent. */
export const renewalPeriod = z
  .strictObject({ value: z.int(PERIOD).min(1, PERIOD).max(120, PERIOD), unit: z.enum(RENEWAL_UNITS, PERIOD) }, PERIOD)
  .meta({ id: "RenewalPeriod" });
const optionalRenewalPeriod = renewalPeriod
  .nullish()
  .transform((period) => period ?? undefined)
  .describe("The n-th end is the start and n periods, clamped to the last day of the month; in place of renewalDays");

const hasOneRenewal = (period: { renewalDays?: unknown; renewalPeriod?: unknown }) =>
  period.renewalDays === undefined || period.renewalPeriod === undefined;

const newBillingPeriod = z
  .object(
    {
      autoRenew: lenientBoolean("billingPeriod.autoRenew must be a boolean").optional(),
      renewalDays: renewalDays("billingPeriod.renewalDays").optional(),
      renewalPeriod: optionalRenewalPeriod,
    },
    { error: "The billingPeriod field must be an object" },
  )
  .refine(hasOneRenewal, ONE_OF_TWO)
  .refine(
    (period) => period.autoRenew !== true || period.renewalDays !== undefined || period.renewalPeriod !== undefined,
    { error: "billingPeriod.renewalDays is required when billingPeriod.autoRenew is true" },
  );

const subscription = subscriptionFields(required);

export const newContract = z
  .object({
    userContact,
    billingPeriod: newBillingPeriod.optional(),
    ...subscription,
    contractedServices: newContractedServices,
    groupId: bounded("groupId", z.string({ error: "The groupId field must be a string" })).nullish(),
    organizationId: z.string({ error: "The organizationId field must be a string" }).nullish(),
    trial: newTrial.nullish().describe("The contract begins with a trial, and goes on or ends by itself"),
  })
  .meta({ id: "ContractToCreate" });

export const novation = z
  .object({
    ...subscription,
    billingPeriod: z
      .object({ autoRenew: z.boolean().optional().catch(undefined) })
      .optional()
      .catch(undefined),
  })
  .meta({ id: "Novation" });

export const contactChanges = z
  .object({
    username: bounded(
      "username",
      z.string({ error: "The username field must be a string" }).min(1, "The username field cannot be empty"),
    ).optional(),
    firstName: optionalText("firstName"),
    lastName: optionalText("lastName"),
    phone: optionalText("phone"),
    email: email("email").optional(),
  })
  .meta({ id: "ContactChanges" });

const INVALID_DATE = "The endDate field must be a valid date";

export const billingChanges = z
  .object({
    autoRenew: lenientBoolean("The autoRenew field must be a boolean").optional(),
    renewalDays: renewalDays("renewalDays").optional(),
    renewalPeriod: optionalRenewalPeriod,
    endDate: instant(INVALID_DATE).optional(),
  })
  .refine(hasOneRenewal, ONE_OF_TWO)
  .meta({ id: "BillingChanges" });

const USAGE_SHAPE = "The input must be an object with the structure: Record<string, Record<string, number>>";
export const usageAmounts = z
  .record(z.string(), z.record(z.string(), z.number({ error: USAGE_SHAPE }), { error: USAGE_SHAPE }), {
    error: USAGE_SHAPE,
  })
  .meta({ id: "UsageAmounts" });

const namesByService = z.record(z.string(), z.array(z.string()));
export const filterShape = z.object({
  services: z.union([z.array(z.string()), namesByService]).optional(),
  plans: namesByService.optional(),
  addOns: namesByService.optional(),
});
