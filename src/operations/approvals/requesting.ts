import { and, eq, isNull, sql } from "drizzle-orm";
import { authorOf } from "../../core/access/caller.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { changeRequests } from "../../db/schema.ts";
import { lockOrganization } from "../access.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { Failure, jsonText } from "../errors.ts";
import { basisText, type Proposal, readApprovals } from "../policy/approval.ts";
import { type ChangeRequestView, countPending, isInState, isRequest, viewRequests } from "./request-rows.ts";

/** Pending requests per organization. */
const MAX_PENDING = 100;
const DAY_MS = 86_400_000;

/** The route by which a call arrived: approving asks its rule again. */
export interface CalledRoute {
  method: "PUT" | "POST" | "DELETE";
  /** Without the prefix of the API. */
  path: string;
}

/**
 * Stores a change that needs a second person. A repeated call of the author returns the pending request, with the report of
 * now.
 * @throws Failure conflict for too many pending requests.
 */
export async function requestApproval(
  ctx: Context,
  proposal: Proposal,
  route: CalledRoute,
): Promise<ChangeRequestView> {
  const { organizationId, action, summary, report, operation, input } = proposal;
  const author = authorOf(ctx.caller);
  const basis = basisText(proposal.basis);
  const fingerprint = await digestOf(jsonText([author, operation, input, route]));
  return transaction(ctx, async (ctx) => {
    // Serializes requests of the organization, for their number and for repeated calls.
    await lockOrganization(ctx, organizationId);
    const now = ctx.resources.now();
    const [repeated] = await ctx.db
      .select()
      .from(changeRequests)
      .where(
        and(
          eq(changeRequests.organizationId, organizationId),
          eq(changeRequests.fingerprint, fingerprint),
          isInState("pending", now),
        ),
      );
    if (repeated !== undefined) {
      if (repeated.basis !== basis) await renewReport(ctx, repeated, proposal);
      return viewOne(ctx, organizationId, repeated.id);
    }
    if ((await countPending(ctx, organizationId)) >= MAX_PENDING) {
      throw new Failure(
        "conflict",
        `CONFLICT: An organization can have at most ${MAX_PENDING} pending change requests`,
      );
    }
    const { days } = await readApprovals(ctx, organizationId);
    const id = newId(now);
    const until = proposal.until?.getTime() ?? Number.POSITIVE_INFINITY;
    const expiresAt = new Date(Math.min(now.getTime() + days * DAY_MS, until));
    await ctx.db.insert(changeRequests).values({
      id,
      organizationId,
      action,
      operation,
      input,
      ...route,
      fingerprint,
      ...author,
      summary,
      report,
      basis,
      createdAt: now,
      expiresAt,
    });
    await audit(ctx, {
      action: "change-request.create",
      organizationId,
      target: summary,
      after: { changeRequestId: id, action, expiresAt },
    });
    const view = await viewOne(ctx, organizationId, id);
    const details = { changeRequestId: id, action, summary };
    await recordEvents(ctx.db, [{ organizationId, event: { code: "CHANGE_REQUESTED", details } }]);
    return view;
  });
}

/** Replaces the report of a pending request, which then has to be approved again. */
export async function renewReport(
  ctx: Context,
  { id, organizationId, revision }: { id: string; organizationId: string; revision: number },
  { report, basis }: Pick<Proposal, "report" | "basis">,
): Promise<void> {
  await ctx.db
    .update(changeRequests)
    .set({ report, basis: basisText(basis), revision: sql`${changeRequests.revision} + 1` })
    .where(
      and(
        isRequest(organizationId, id),
        eq(changeRequests.revision, revision),
        eq(changeRequests.state, "pending"),
        isNull(changeRequests.decidedAt),
      ),
    );
}

export async function viewOne(ctx: Context, organizationId: string, id: string): Promise<ChangeRequestView> {
  const [view] = await viewRequests(ctx, isRequest(organizationId, id), 1);
  if (view === undefined) throw new Failure("notFound", `Change request ${id} not found`);
  return view;
}

async function digestOf(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
