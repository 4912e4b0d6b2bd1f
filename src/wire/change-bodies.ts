import { z } from "zod";

/** Plan and add-ons for contracts without their own target. */
const fallbackFields = {
  subscriptionPlan: z.string({ error: "The subscriptionPlan field must be a string" }).optional(),
  subscriptionAddOns: z
    .record(z.string(), z.number({ error: "All values in subscriptionAddOns must be numbers" }), {
      error: "The subscriptionAddOns field must be an object",
    })
    .optional(),
};

/** Builds the error of an object that has an unknown field or is none. `prefix` is the path of the object. */
export const objectError = (message: string, prefix = "") => ({
  error: (issue: { readonly code?: string; readonly keys?: readonly string[] }) =>
    issue.code === "unrecognized_keys" ? `Unknown field: ${prefix}${issue.keys?.[0] ?? ""}` : message,
});

/** A misspelled field must not widen a change of many contracts. Source: contract README, decision 24. */
export const strictBody = <Shape extends z.core.$ZodLooseShape>(shape: Shape) =>
  z.strictObject(shape, objectError("The body must be an object"));

const configuration = (field: string) =>
  z.strictObject(
    {
      plan: z.string({ error: `${field}.plan must be a string` }).optional(),
      addOns: z
        .record(z.string(), z.number({ error: `${field}.addOns must have numbers as values` }), {
          error: `${field}.addOns must be an object`,
        })
        .optional(),
    },
    objectError(`${field} must be an object`, `${field}.`),
  );

/** Targets of contracts: one for all, or one per configuration. */
export const targets = {
  ...fallbackFields,
  groups: z
    .array(
      z.strictObject(
        {
          pricingVersion: z.string({ error: "groups[].pricingVersion must be a string" }).optional(),
          configuration: configuration("groups[].configuration"),
          target: configuration("groups[].target"),
        },
        objectError("Each of groups must be an object", "groups[]."),
      ),
      { error: "The groups field must be a list" },
    )
    .max(10_000, "The groups field must not have more than 10000 elements")
    .optional(),
  renames: z
    .record(z.string(), z.string({ error: "All values in renames must be strings" }), {
      error: "The renames field must be an object",
    })
    .optional()
    .describe("New plan by previous plan. Default: the renames of the target version"),
};

/** Query parameter of changes that the gate decides on. */
export const OVERRIDE = {
  overrideReason: z
    .string()
    .max(1000)
    .optional()
    .describe("Reason of an OWNER for breaking a rule of the gate; without it, 409"),
};

/** Example of the sentence for a change that breaks a rule of the gate. */
export const GATE_CLOSED = "CONFLICT: The gate is closed: 2 of 2 contracts (100 %) lose a feature; at most 40 % may";
