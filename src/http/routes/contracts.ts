import { Hono } from "hono";
import { z } from "zod";
import { isPlatformAdmin } from "../../core/access/caller.ts";
import { END_OF_TIME } from "../../core/period.ts";
import { showContractAt } from "../../operations/evaluation/as-of.ts";
import { listContracts, type SubscriptionFilters } from "../../operations/contracts/contract-listing.ts";
import * as billing from "../../operations/contracts/billing-period.ts";
import * as contracts from "../../operations/contracts/contracts.ts";
import { novateContract, novateGroup } from "../../operations/contracts/novation.ts";
import { Failure } from "../../operations/errors.ts";
import { changeUsage, type UsageChange } from "../../operations/evaluation/usage.ts";
import { answerOnce } from "../idempotency.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { instantIn, instantOf, leadingInteger, nearOf, queryParameter, scope } from "../params.ts";
import { json, reply } from "../reply.ts";
import { overrideReasonOf } from "./change-bodies.ts";

const DAY_MS = 86_400_000;

/** The sentence differs for a missing field. Null counts as wrong. */
const required = (missing: string, wrong: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? missing : wrong),
});
const requiredNotNull = (missing: string, wrong: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined || issue.input === null ? missing : wrong),
});

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
        .min(1, "The userContact.userId field cannot be empty"),
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

const endsTooLate = (field: string) => `${field} must not make the billing period end after the year 9999`;

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

const newBillingPeriod = z
  .object(
    {
      autoRenew: lenientBoolean("billingPeriod.autoRenew must be a boolean").optional(),
      renewalDays: renewalDays("billingPeriod.renewalDays").optional(),
    },
    { error: "The billingPeriod field must be an object" },
  )
  .refine((period) => period.autoRenew !== true || period.renewalDays !== undefined, {
    error: "billingPeriod.renewalDays is required when billingPeriod.autoRenew is true",
  });

const NO_VERSION = "Each value in contractedServices must be a string (service name)";
const version = z.string(
  requiredNotNull(NO_VERSION, "Each value in contractedServices must be a string (pricing version)"),
);
const contractedServices = (version: z.ZodType<string>) =>
  z.record(
    z.string(),
    version,
    required(
      "The contractedServices field is required",
      "contractedServices must be an object where keys are service names and values are pricing versions",
    ),
  );

const subscription = {
  contractedServices: contractedServices(version),
  subscriptionPlans: z.record(
    z.string(),
    z.string({ error: "Plan name must be a string" }).min(1, "Plan name cannot be empty"),
    required(
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
    required("The subscriptionAddOns field is required", "subscriptionAddOns must be an object"),
  ),
};

export const newContract = z.object({
  userContact,
  billingPeriod: newBillingPeriod.optional(),
  ...subscription,
  contractedServices: contractedServices(version.min(1, NO_VERSION)),
  groupId: bounded("groupId", z.string({ error: "The groupId field must be a string" })).nullish(),
  organizationId: z.string({ error: "The organizationId field must be a string" }).nullish(),
});

export const novation = z.object({
  ...subscription,
  billingPeriod: z
    .object({ autoRenew: z.boolean().optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

export const contactChanges = z.object({
  username: optionalText("username"),
  firstName: optionalText("firstName"),
  lastName: optionalText("lastName"),
  phone: optionalText("phone"),
  email: email("email").optional(),
});

const INVALID_DATE = "The endDate field must be a valid date";

export const billingChanges = z.object({
  autoRenew: lenientBoolean("The autoRenew field must be a boolean").optional(),
  renewalDays: renewalDays("renewalDays").optional(),
  endDate: z
    .string({ error: INVALID_DATE })
    .transform(instantIn)
    .refine((moment) => moment !== undefined, INVALID_DATE)
    .optional(),
});

const USAGE_SHAPE = "The input must be an object with the structure: Record<string, Record<string, number>>";
export const usageAmounts = z.record(
  z.string(),
  z.record(z.string(), z.number({ error: USAGE_SHAPE }), { error: USAGE_SHAPE }),
  { error: USAGE_SHAPE },
);

const namesByService = z.record(z.string(), z.array(z.string()));
const filterShape = z.object({
  services: z.union([z.array(z.string()), namesByService]).optional(),
  plans: namesByService.optional(),
  addOns: namesByService.optional(),
});

/** Reads filters from the query (`filters`, JSON) or from the body of the GET. The query wins. */
function filtersOf(c: AppContext): SubscriptionFilters {
  const text = queryParameter(c, "filters");
  let given: unknown;
  if (text !== undefined && text !== "") {
    try {
      given = JSON.parse(text);
    } catch (cause) {
      throw new Failure("invalid", "INVALID DATA: The filters parameter is not valid JSON", { cause });
    }
  } else {
    const body = c.get("body");
    given = typeof body === "object" && body !== null && "filters" in body ? body.filters : undefined;
  }
  if (given === undefined || given === null) return {};
  const read = filterShape.safeParse(given);
  if (!read.success) {
    const path = read.error.issues[0]?.path.join(".") ?? "";
    throw new Failure("invalid", `INVALID DATA: The filters field ${path} is not valid`);
  }
  return read.data;
}

/**
 * Rejects a renewal period that would end after the last representable date.
 * @throws Failure unprocessable.
 */
function requireEnd(c: AppContext, field: string, renewalDays: number | undefined): void {
  const end = c.get("resources").now().getTime() + (renewalDays ?? 0) * DAY_MS;
  if (end > END_OF_TIME) throw new Failure("unprocessable", endsTooLate(field));
}

function billingChangesOf(c: AppContext): billing.BillingChanges {
  const changes = bodyOf(c, billingChanges);
  requireEnd(c, "renewalDays", changes.renewalDays);
  return changes;
}

const address = (c: AppContext) => ({ organizationId: scope(c), userId: c.req.param("userId") ?? "" });

/**
 * Returns the organization of a new contract. A body may repeat that of the path or key, and must name it if neither
 * does.
 */
function targetOrganization(c: AppContext, named: string | null | undefined): string {
  const fixed = scope(c);
  if (fixed !== undefined && named && named !== fixed) {
    throw new Failure("forbidden", "PERMISSION ERROR: Organization ID mismatch");
  }
  const organizationId = fixed ?? named;
  if (!organizationId) {
    throw new Failure(
      "invalid",
      "INVALID DATA: Organization ID is required for contract creation. Since you are an ADMIN, you must specify the organizationId in the request body.",
    );
  }
  return organizationId;
}

function groupOf(c: AppContext): string {
  const groupId = queryParameter(c, "groupId");
  if (groupId === undefined || groupId === "") throw new Failure("invalid", "Missing groupId query parameter");
  return groupId;
}

function usageChange(c: AppContext): UsageChange {
  const amounts = bodyOf(c, usageAmounts);
  const reset = queryParameter(c, "reset");
  const limitName = queryParameter(c, "usageLimit");
  if (reset && limitName) {
    throw new Failure("invalid", "Invalid query: Both reset and usageLimit cannot be provided at the same time");
  }
  if (limitName) return { kind: "resetLimit", limitName };
  if (reset === "true") return { kind: "resetAll", renewableOnly: queryParameter(c, "renewableOnly") !== "false" };
  return { kind: "increment", amounts };
}

/** Contracts inside an organization. */
export const organizationContractRoutes = new Hono<AppEnv>()
  .get("/", async (c) => {
    const query = (name: string) => queryParameter(c, name);
    const listed = await listContracts(context(c), {
      organizationId: scope(c),
      contains: {
        username: query("username"),
        firstName: query("firstName"),
        lastName: query("lastName"),
        email: query("email"),
      },
      groupId: query("groupId") || undefined,
      page: leadingInteger(query("page")),
      offset: leadingInteger(query("offset")),
      limit: leadingInteger(query("limit")),
      sort: query("sort"),
      order: query("order"),
      filters: filtersOf(c),
      state: query("state"),
      near: nearOf(c),
    });
    c.get("request").headers["X-Total-Count"] = String(listed.total);
    return json(c, listed.contracts);
  })
  .post("/", async (c) => {
    const { organizationId, groupId, ...contract } = bodyOf(c, newContract);
    requireEnd(c, "billingPeriod.renewalDays", contract.billingPeriod?.renewalDays);
    const created = await contracts.createContract(context(c), {
      organizationId: targetOrganization(c, organizationId),
      contract: { ...contract, groupId: groupId ?? undefined },
    });
    return json(c, created, 201);
  })
  .put("/", async (c) => {
    const wanted = bodyOf(c, novation);
    const named = { organizationId: scope(c), groupId: groupOf(c), overrideReason: overrideReasonOf(c) };
    return json(c, await novateGroup(context(c), { ...named, novation: wanted }));
  })
  .delete("/", async (c) => {
    await contracts.deleteContracts(context(c), scope(c));
    return reply(c, null, 204);
  })
  .get("/:userId", async (c) => {
    const at = instantOf(c, "at");
    if (at !== undefined) return json(c, await showContractAt(context(c), { ...address(c), at }));
    return json(c, await contracts.showContract(context(c), address(c)));
  })
  .put("/:userId", async (c) =>
    json(c, await novateContract(context(c), { ...address(c), novation: bodyOf(c, novation) })),
  )
  .delete("/:userId", async (c) => {
    await contracts.deleteContract(context(c), address(c));
    return reply(c, null, 204);
  });

/** Contracts at the top level, with additional operations. Reserved names precede end users. */
export const contractRoutes = new Hono<AppEnv>()
  .put("/billingPeriod", async (c) => {
    const changes = billingChangesOf(c);
    const groupId = queryParameter(c, "groupId") || undefined;
    // Without a group, a key means all contracts of its organization. A platform ADMIN has none, so the group is
    // required.
    if (groupId === undefined && isPlatformAdmin(c.get("caller"))) groupOf(c);
    return json(c, await billing.updateGroupBillingPeriod(context(c), { organizationId: scope(c), groupId, changes }));
  })
  .put("/:userId/usageLevels", async (c) => {
    const input = { ...address(c), change: usageChange(c) };
    return answerOnce(c, async (ctx) => ({ status: 200, value: await changeUsage(ctx, input) }));
  })
  .put("/:userId/userContact", async (c) =>
    json(c, await contracts.updateContact(context(c), { ...address(c), changes: bodyOf(c, contactChanges) })),
  )
  .put("/:userId/billingPeriod", async (c) =>
    json(c, await billing.updateBillingPeriod(context(c), { ...address(c), changes: billingChangesOf(c) })),
  )
  .route("/", organizationContractRoutes);
