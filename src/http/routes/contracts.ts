import { Hono } from "hono";
import { isPlatformAdmin } from "../../core/access/caller.ts";
import { END_OF_TIME } from "../../core/period.ts";
import { showContractAt } from "../../operations/evaluation/as-of.ts";
import { listContracts, type SubscriptionFilters } from "../../operations/contracts/contract-listing.ts";
import * as billing from "../../operations/contracts/billing-period.ts";
import * as contracts from "../../operations/contracts/contracts.ts";
import { novateContract, novateGroup } from "../../operations/contracts/novation.ts";
import { Failure } from "../../operations/errors.ts";
import { changeUsage, type UsageChange } from "../../operations/evaluation/usage.ts";
import {
  billingChanges,
  contactChanges,
  endsTooLate,
  filterShape,
  newContract,
  novation,
  usageAmounts,
} from "../../wire/contract-bodies.ts";
import { answerOnce } from "../idempotency.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import {
  instantOf,
  massChangeScope,
  nearOf,
  nonEmpty,
  pagingOf,
  queryParameter,
  scope,
  setNextAfter,
} from "../params.ts";
import { answerOrHold } from "../held.ts";
import { json, reply } from "../reply.ts";
import { overrideReasonOf } from "./change-bodies.ts";

const DAY_MS = 86_400_000;

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
    const path = ["filters", ...(read.error.issues[0]?.path ?? [])].join(".");
    throw new Failure("invalid", `INVALID DATA: The ${path} field is not valid`);
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

/** Answers with contracts that were changed by hand, and warns of those that a payment provider's next message may overrule. */
function changed<Shown extends { billing?: object }>(c: AppContext, result: Shown | readonly Shown[]): Response {
  const shown: readonly Shown[] = Array.isArray(result) ? result : [result];
  const isFollowed = shown.some(({ billing }) => billing !== undefined);
  if (isFollowed) c.get("request").headers["X-Faregate-Billing"] = "followed";
  return json(c, result);
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

/** Only exactly `true` cancels the pending change. */
const cancelling = (c: AppContext) => ({ cancelScheduled: queryParameter(c, "cancelScheduled") === "true" });

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
        userId: query("userId"),
        username: query("username"),
        firstName: query("firstName"),
        lastName: query("lastName"),
        email: query("email"),
      },
      q: query("q"),
      groupId: query("groupId") || undefined,
      member: nonEmpty(c, "member"),
      ...pagingOf(c),
      sort: query("sort"),
      order: query("order"),
      filters: filtersOf(c),
      state: query("state"),
      inTrial: query("trial") === "true",
      near: nearOf(c),
    });
    c.get("request").headers["X-Total-Count"] = String(listed.total);
    setNextAfter(c, listed.next);
    return json(c, listed.contracts);
  })
  .post("/", async (c) => {
    const { organizationId, groupId, trial, ...contract } = bodyOf(c, newContract, "unknownFieldsLast");
    requireEnd(c, "billingPeriod.renewalDays", contract.billingPeriod?.renewalDays);
    const created = await contracts.createContract(context(c), {
      organizationId: targetOrganization(c, organizationId),
      contract: { ...contract, groupId: groupId ?? undefined, trial: trial ?? undefined },
    });
    return json(c, created, 201);
  })
  .put("/", async (c) => {
    const wanted = bodyOf(c, novation);
    const named = { organizationId: massChangeScope(c), groupId: groupOf(c), overrideReason: overrideReasonOf(c) };
    const change = { ...named, novation: { ...wanted, ...cancelling(c) } };
    return answerOrHold(c, async (ctx) => changed(c, await novateGroup(ctx, change)));
  })
  .delete("/", async (c) => {
    const [organizationId, userId] = [massChangeScope(c), nonEmpty(c, "userId")];
    if (userId === undefined) await contracts.deleteContracts(context(c), organizationId);
    else await contracts.deleteContract(context(c), { organizationId, userId });
    return reply(c, null, 204);
  })
  .get("/:userId", async (c) => {
    const at = instantOf(c, "at");
    if (at !== undefined) return json(c, await showContractAt(context(c), { ...address(c), at }));
    return json(c, await contracts.showContract(context(c), address(c)));
  })
  .put("/:userId", async (c) => {
    const wanted = { ...bodyOf(c, novation), ...cancelling(c) };
    return changed(c, await novateContract(context(c), { ...address(c), novation: wanted }));
  })
  .delete("/:userId", async (c) => {
    await contracts.deleteContract(context(c), address(c));
    return reply(c, null, 204);
  });

/** Contracts at the top level, with additional operations. Reserved names precede end users. */
export const contractRoutes = new Hono<AppEnv>()
  .put("/billingPeriod", async (c) => {
    const changes = billingChangesOf(c);
    // Without a group, a key means all contracts of its organization. A platform ADMIN has none, so the group is
    // required. An empty group is an unset variable of a script, not all contracts.
    const isWhole = queryParameter(c, "groupId") === undefined && !isPlatformAdmin(c.get("caller"));
    const groupId = isWhole ? undefined : groupOf(c);
    return changed(
      c,
      await billing.updateGroupBillingPeriod(context(c), { organizationId: massChangeScope(c), groupId, changes }),
    );
  })
  .put("/:userId/usageLevels", async (c) => {
    const input = { ...address(c), change: usageChange(c) };
    return answerOnce(c, async (ctx) => ({ status: 200, value: await changeUsage(ctx, input) }));
  })
  .put("/:userId/userContact", async (c) =>
    json(c, await contracts.updateContact(context(c), { ...address(c), changes: bodyOf(c, contactChanges) })),
  )
  .put("/:userId/billingPeriod", async (c) =>
    changed(c, await billing.updateBillingPeriod(context(c), { ...address(c), changes: billingChangesOf(c) })),
  )
  .route("/", organizationContractRoutes);
