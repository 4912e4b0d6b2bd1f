import { z } from "zod";
import { contractBilling } from "./billing.ts";
import { amounts, id, moment } from "./common.ts";
import { renewalPeriod } from "./contract-bodies.ts";
import { heldOverride, override } from "./overrides.ts";
import { scheduledNovation } from "./scheduled.ts";
import { trial } from "./trials.ts";

const chosen = {
  contractedServices: z.record(z.string(), z.string()),
  subscriptionPlans: z.record(z.string(), z.string()),
  subscriptionAddOns: z.record(z.string(), amounts),
};
export const contract = z
  .strictObject({
    id,
    userContact: z.strictObject({
      userId: z.string(),
      username: z.string(),
      firstName: z.string().optional(),
      lastName: z.string().optional(),
      email: z.string().optional(),
      phone: z.string().optional(),
    }),
    billingPeriod: z.strictObject({
      startDate: moment,
      endDate: moment,
      autoRenew: z.boolean(),
      renewalDays: z.number().describe("With renewalPeriod: length of the running period"),
      renewalPeriod: renewalPeriod.optional().describe("Period on the calendar, where one is set"),
    }),
    usageLevels: z.record(
      z.string(),
      z.record(
        z.string(),
        z.strictObject({
          resetTimeStamp: moment.optional(),
          consumed: z.number(),
          held: z.number().optional().describe("What open holds and leases hold, where it is above 0"),
        }),
      ),
    ),
    organizationId: id,
    groupId: z.string().optional(),
    ...chosen,
    history: z.array(
      z.strictObject({ startDate: moment, endDate: moment, ...chosen }).meta({ id: "PastSubscription" }),
    ),
    overrides: z
      .array(override)
      .optional()
      .describe("Exceptions to what plan and add-ons grant that have not ended, if there are any"),
    scheduled: scheduledNovation.optional().describe("The pending change of the subscription, if there is one"),
    trial: trial.optional().describe("The trial, while it lasts"),
    billing: contractBilling.optional().describe("The payment provider's subscription that the contract follows"),
  })
  .meta({ id: "Contract" });
const asOf = z
  .strictObject({
    at: moment,
    since: moment.describe("Start of the state that the answer is based on"),
    cause: z
      .enum([
        "creation",
        "novation",
        "archiving",
        "removal",
        "move",
        "rename",
        "billing",
        "renewal",
        "override",
        "scheduled",
        "budget",
        "trialEnd",
        "record",
      ])
      .describe("Cause of that state; `record`: the start of an older contract's record"),
    until: moment.nullable().describe("End of that state; null while it lasts"),
  })
  .meta({ id: "AsOf" });
/** With `asOf` for a request about the past. */
export const contractShown = contract.extend({ asOf: asOf.optional() }).meta({ id: "ShownContract" });
export const asOfContract = asOf.extend({
  contract: contract
    .pick({ id: true, billingPeriod: true, usageLevels: true })
    .extend({ ...chosen, pricingIds: z.record(z.string(), id), overrides: z.array(heldOverride).optional() })
    .describe("Subscription and balances that the answer is based on"),
});
