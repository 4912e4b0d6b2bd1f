import { and, count, eq } from "drizzle-orm";
import type { ApprovedOperation, ChangeRequestState } from "../../core/approvals.ts";
import { type Author, authorOf, type Caller, isPlatformAdmin } from "../../core/access/caller.ts";
import { findRule } from "../../core/access/find-rule.ts";
import { checkPermission } from "../../core/access/check-permission.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { changeRequests, members, organizationKeys, users } from "../../db/schema.ts";
import { organizationRole } from "../access.ts";
import { type AuditAction, audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { readApprovals, StaleApproval } from "../policy/approval.ts";
import {
  type ChangeRequestView,
  isInState,
  isRequest,
  type RequestRow,
  stateOf,
  viewRequests,
} from "./request-rows.ts";
import { renewReport, viewOne } from "./requesting.ts";

/** Newest requests that a list returns. */
const MAX_LISTED = 100;

/** Carries out a stored call; see core/approvals.ts for the operations. */
export type CarryOut = (ctx: Context, operation: ApprovedOperation, input: object) => Promise<unknown>;

interface RequestAddress {
  organizationId: string;
  id: string;
}

/** Lists the newest requests of an organization, newest first. */
export function listChangeRequests(
  ctx: Context,
  { organizationId, state }: { organizationId: string; state: ChangeRequestState | undefined },
): Promise<ChangeRequestView[]> {
  const inState = state === undefined ? undefined : isInState(state, ctx.resources.now());
  return viewRequests(ctx, and(eq(changeRequests.organizationId, organizationId), inState), MAX_LISTED);
}

/** Returns one request. @throws Failure notFound. */
export function showChangeRequest(ctx: Context, { organizationId, id }: RequestAddress): Promise<ChangeRequestView> {
  return viewOne(ctx, organizationId, id);
}

/**
 * Approves a request: carries out its call as its author, in one transaction with the approval.
 * @throws Failure notFound; forbidden for the author, and for others than the approvers; conflict for a request that is not
 * pending, for a report that has changed, with the new one, and for an author who may no longer make the change; as the
 * call itself.
 */
export async function approveChange(
  ctx: Context,
  input: RequestAddress & { revision: number | undefined; isAlone: boolean; carryOut: CarryOut },
): Promise<ChangeRequestView> {
  const row = await requirePending(ctx, input);
  const { id, organizationId } = row;
  const alone = await requireApprover(ctx, row, input.isAlone);
  if (input.revision !== undefined && input.revision !== row.revision) throw changedReport(id, row.report);
  const author = await requireAuthor(ctx, row);
  const approval = {
    requestId: id,
    organizationId,
    action: row.action,
    basis: row.basis,
    revision: row.revision,
    approver: authorOf(ctx.caller),
    alone,
    isSettled: false,
  };
  try {
    await input.carryOut({ ...ctx, caller: author, author: authorOf(author), approval }, row.operation, row.input);
  } catch (error) {
    if (!(error instanceof StaleApproval)) throw error;
    await renewReport(ctx, row, error.proposal);
    throw changedReport(id, error.proposal.report);
  }
  if (approval.isSettled) return viewOne(ctx, organizationId, id);
  // The call had nothing to change any more, perhaps because another approver was faster.
  await requirePending(ctx, input);
  throw new Failure("conflict", `CONFLICT: The change of request ${id} has been made already: reject or withdraw it`);
}

const changedReport = (id: string, report: object): Failure =>
  new Failure("conflict", `CONFLICT: The report of change request ${id} has changed: approve the new one`, { report });

/** Rejects a request, by one who may approve it. Failures as for approving. */
export function rejectChange(
  ctx: Context,
  input: RequestAddress & { reason: string | null },
): Promise<ChangeRequestView> {
  return decide(ctx, input, "rejected", async (ctx, row) => void (await requireApprover(ctx, row, false)));
}

/**
 * Withdraws a request of the caller.
 * @throws Failure notFound; forbidden for anybody but the author; conflict for a request that is not pending.
 */
export function withdrawChange(ctx: Context, address: RequestAddress): Promise<ChangeRequestView> {
  return decide(ctx, { ...address, reason: null }, "withdrawn", (ctx, row) => {
    if (isAuthor(ctx.caller, row)) return Promise.resolve();
    throw new Failure("forbidden", "PERMISSION ERROR: Only the author can withdraw a change request");
  });
}

const DECISIONS = {
  rejected: { audit: "change-request.reject", code: "CHANGE_REJECTED" },
  withdrawn: { audit: "change-request.withdraw", code: undefined },
} as const satisfies Record<string, { audit: AuditAction; code: string | undefined }>;

async function decide(
  ctx: Context,
  { reason, ...address }: RequestAddress & { reason: string | null },
  state: keyof typeof DECISIONS,
  require: (ctx: Context, row: RequestRow) => Promise<void>,
): Promise<ChangeRequestView> {
  return transaction(ctx, async (ctx) => {
    const row = await requirePending(ctx, address, "update");
    await require(ctx, row);
    const { id, organizationId, action, summary } = row;
    await ctx.db
      .update(changeRequests)
      .set({ state, reason, decidedBy: authorOf(ctx.caller).actorId, decidedAt: ctx.resources.now() })
      .where(isRequest(organizationId, id));
    const { audit: verb, code } = DECISIONS[state];
    const after = { changeRequestId: id, ...(reason === null ? {} : { reason }) };
    await audit(ctx, { action: verb, organizationId, target: summary, after });
    const view = await viewOne(ctx, organizationId, id);
    const details = { changeRequestId: id, action, summary, ...(reason === null ? {} : { reason }) };
    if (code !== undefined) await recordEvents(ctx.db, [{ organizationId, event: { code, details } }]);
    return view;
  });
}

async function requirePending(
  ctx: Context,
  { organizationId, id }: RequestAddress,
  lock?: "update",
): Promise<RequestRow> {
  const query = ctx.db.select().from(changeRequests).where(isRequest(organizationId, id));
  const [row] = await (lock === undefined ? query : query.for(lock));
  if (row === undefined) throw new Failure("notFound", `Change request ${id} not found`);
  const state = stateOf(row, ctx.resources.now());
  if (state !== "pending") throw new Failure("conflict", `CONFLICT: Change request ${id} is ${state}`);
  return row;
}

function isAuthor(caller: Caller, { actorKind, actorId }: RequestRow): boolean {
  const author: Author = authorOf(caller);
  return author.actorKind === actorKind && author.actorId === actorId;
}

/** Returns true for an OWNER without members, who confirmed to decide where nobody else can. */
async function requireApprover(ctx: Context, row: RequestRow, isAlone: boolean): Promise<boolean> {
  const role = await organizationRole(ctx, row.organizationId);
  const { by } = await readApprovals(ctx, row.organizationId);
  const isOwn = isAuthor(ctx.caller, row);
  const isOf = isPlatformAdmin(ctx.caller) || by.some((each) => each === role);
  if (isOf && !isOwn) return false;
  if (isAlone && role === "OWNER" && (await countMembers(ctx, row.organizationId)) === 0) return true;
  throw new Failure(
    "forbidden",
    isOwn
      ? "PERMISSION ERROR: The author cannot decide on a change request; an OWNER without members approves with confirm=alone"
      : `PERMISSION ERROR: Change requests are decided on by: ${by.join(", ")}`,
  );
}

async function countMembers(ctx: Context, organizationId: string): Promise<number> {
  const [row] = await ctx.db
    .select({ number: count() })
    .from(members)
    .where(eq(members.organizationId, organizationId));
  return row?.number ?? 0;
}

/** Returns the author as a caller, with the permissions of now. */
async function requireAuthor(ctx: Context, row: RequestRow): Promise<Caller> {
  const gone = () =>
    new Failure("conflict", `CONFLICT: The author of change request ${row.id} may not make this change any more`);
  const author = await callerOf(ctx, row);
  if (author === undefined) throw gone();
  const rule = findRule(row.method, row.path);
  if (checkPermission(rule, author, row.method, row.path, author.kind === "user") !== undefined) throw gone();
  if (author.kind !== "user" || isPlatformAdmin(author)) return author;
  const role = await organizationRole({ ...ctx, caller: author }, row.organizationId);
  if (role === undefined || rule?.members?.includes(role) !== true) throw gone();
  return author;
}

async function callerOf(ctx: Context, { actorKind, actorId, organizationId }: RequestRow): Promise<Caller | undefined> {
  const id = actorId ?? "";
  if (actorKind === "user") {
    const [user] = await ctx.db
      .select({ id: users.id, username: users.username, role: users.role })
      .from(users)
      .where(eq(users.id, id));
    return user === undefined ? undefined : { kind: "user", ...user };
  }
  const [key] = await ctx.db
    .select({ keyId: organizationKeys.id, scope: organizationKeys.scope, expiresAt: organizationKeys.expiresAt })
    .from(organizationKeys)
    .where(and(eq(organizationKeys.id, id), eq(organizationKeys.organizationId, organizationId)));
  if (key === undefined || (key.expiresAt !== null && key.expiresAt <= ctx.resources.now())) return undefined;
  return { kind: "key", keyId: key.keyId, organizationId, scope: key.scope };
}
