import { z } from "zod";

type Error = (issue: { input?: unknown }) => string;
/** The error of a field that must be there: one sentence for a missing one, another for a wrong one. */
type Needed = (missing: string, wrong: string) => { error: Error };

/** Null counts as wrong. */
export const required: Needed = (missing, wrong) => ({
  error: (issue) => (issue.input === undefined ? missing : wrong),
});

/** Null counts as missing. */
export const requiredNotNull: Needed = (missing, wrong) => ({
  error: (issue) => (issue.input === undefined || issue.input === null ? missing : wrong),
});

const NO_VERSION = "Each value in contractedServices must be a string (service name)";
const version = z.string(
  requiredNotNull(NO_VERSION, "Each value in contractedServices must be a string (pricing version)"),
);
const contractedServices = (version: z.ZodType<string>, needed: Needed) =>
  z.record(
    z.string(),
    version,
    needed(
      "The contractedServices field is required",
      "contractedServices must be an object where keys are service names and values are pricing versions",
    ),
  );

/** Field contractedServices of a new contract, which must name its versions. */
export const newContractedServices = contractedServices(version.min(1, NO_VERSION), required);

/** The three maps of a subscription. */
export const subscriptionFields = (needed: Needed) => ({
  contractedServices: contractedServices(version, needed),
  subscriptionPlans: z.record(
    z.string(),
    z.string({ error: "Plan name must be a string" }).min(1, "Plan name cannot be empty"),
    needed(
      "The subscriptionPlans field is required",
      "subscriptionPlans must be an object where keys are service names and values are plan names",
    ),
  ),
  subscriptionAddOns: z.record(
    z.string(),
    z.record(
      z.string(),
      z
        .number({ error: "Each add-on quantity must be an integer greater than or equal to 0" })
        .int("Each add-on quantity must be an integer greater than or equal to 0")
        .min(0, "Each add-on quantity must be an integer greater than or equal to 0"),
      { error: "Each value in subscriptionAddOns must be an object of add-ons" },
    ),
    needed("The subscriptionAddOns field is required", "subscriptionAddOns must be an object"),
  ),
});
