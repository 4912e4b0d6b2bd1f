import { and, asc, eq, isNotNull } from "drizzle-orm";
import {
  type ApprovalAction,
  type ApprovalSettings,
  type ApprovedOperation,
  NO_APPROVALS,
} from "../../core/approvals.ts";
import type { GateRule } from "../../core/change/impact/gate.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { changeRequests, organizations } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import type { ImpactView } from "./change-impact.ts";

/*
 * An operation that may need a second person runs to its end inside its transaction, and then calls settleApproval. Without
 * an approval that throws, so everything is rolled back, and the route stores a request instead. With an approval, the
 * change and the approval commit together.
 */

/** A change that passed all its checks. */
export interface Proposal {
  organizationId: string;
  action: ApprovalAction;
  /** One line for people. */
  summary: string;
  /** The effect, as the approver sees it. */
  report: object;
  /** Facts that must be unchanged when the change is approved. */
  basis: unknown;
  operation: ApprovedOperation;
  /** Input of the operation, as JSON. */
  input: object;
  /** Moment from which the change cannot be made. Default: none. */
  until?: Date;
}

/** Thrown at the end of a transaction to roll back a change that needs a second person. */
export class ApprovalNeeded extends Error {
  readonly proposal: Proposal;
  constructor(proposal: Proposal) {
    super("a change needs a second person");
    this.proposal = proposal;
  }
}

/** Thrown at the end of a transaction whose report differs from the approved one. */
export class StaleApproval extends Error {
  readonly proposal: Proposal;
  constructor(proposal: Proposal) {
    super("the report of an approved change has changed");
    this.proposal = proposal;
  }
}

/** A decision on a change, with the gate's results. */
interface GatedChange {
  readonly gate: { readonly rules: readonly { readonly rule: GateRule; readonly passed: boolean }[] };
}

interface AssessedChange extends GatedChange {
  readonly report: ImpactView;
  readonly plan: {
    readonly service: { readonly id: string };
    readonly version: { readonly hash: string } | undefined;
    readonly target: { readonly hash: string } | undefined;
  };
}

/**
 * Returns the rules of the gate that permitted changes break, because their author passed over them; undefined for none.
 * They belong to a basis: an approver does not pass over rules that were unbroken or unset when the report was made.
 */
export function passedOver(changes: readonly GatedChange[]): GateRule[] | undefined {
  const broken = changes.flatMap(({ gate }) => gate.rules.filter(({ passed }) => !passed).map(({ rule }) => rule));
  return broken.length === 0 ? undefined : broken;
}

/**
 * Returns report and basis of a change that was assessed. The basis has the contents too: a service or version that was
 * deleted and created again under its name is another one, whatever the counts. @throws Error for a change that was not assessed.
 */
export function assessed(decision: AssessedChange | undefined): Pick<Proposal, "report" | "basis"> {
  if (decision === undefined) throw new Error("a change that needs a second person was not assessed");
  const { report, gate, plan } = decision;
  const contents = { service: plan.service.id, version: plan.version?.hash ?? null, target: plan.target?.hash ?? null };
  return { report: { ...report, gate }, basis: { ...report.counts, ...contents, passedOver: passedOver([decision]) } };
}

/** Returns which changes of an organization need a second person. */
export async function readApprovals(ctx: Context, organizationId: string): Promise<ApprovalSettings> {
  const [row] = await ctx.db
    .select({ approvals: organizations.approvals })
    .from(organizations)
    .where(eq(organizations.id, organizationId));
  return row?.approvals ?? NO_APPROVALS;
}

/** True if the change must end in settleApproval. Call it inside the change's transaction. */
export async function needsApproval(ctx: Context, organizationId: string, action: ApprovalAction): Promise<boolean> {
  if (ctx.approval !== undefined) return true;
  return (await readApprovals(ctx, organizationId)).actions.includes(action);
}

/**
 * Refuses a change of several organizations at once where one of them needs a second person: a request belongs to one.
 * @throws Failure conflict.
 */
export async function refuseHeldElsewhere(
  ctx: Context,
  organizationIds: readonly string[],
  action: ApprovalAction,
): Promise<void> {
  const rows = await ctx.db
    .select({ id: organizations.id, approvals: organizations.approvals })
    .from(organizations)
    .where(and(isAnyOf(organizations.id, organizationIds), isNotNull(organizations.approvals)))
    .orderBy(asc(organizations.id));
  const held = rows.find(({ approvals }) => approvals?.actions.includes(action));
  if (held === undefined) return;
  throw new Failure(
    "conflict",
    `CONFLICT: Organization ${held.id} needs a second person for this change: make it for each organization alone`,
  );
}

/** Counts contracts in a summary. */
export const contractsText = (count: number): string => `${count} ${count === 1 ? "contract" : "contracts"}`;

export const basisText = (basis: unknown): string => JSON.stringify(basis);

/**
 * Ends the transaction of a change that needs a second person, as its last statements.
 * @throws ApprovalNeeded without an approval; StaleApproval if the basis differs; Failure conflict for an approval that
 * somebody else has settled meanwhile.
 */
export async function settleApproval(ctx: Context, proposal: Proposal): Promise<void> {
  const { approval } = ctx;
  if (approval === undefined) throw new ApprovalNeeded(proposal);
  const { requestId: id, organizationId, action, approver, alone } = approval;
  if (proposal.organizationId !== organizationId || proposal.action !== action) {
    throw new Error(`approval ${id} is for another change`);
  }
  if (basisText(proposal.basis) !== approval.basis) throw new StaleApproval(proposal);
  const settled = await ctx.db
    .update(changeRequests)
    .set({ state: "approved", decidedBy: approver.actorId, decidedAt: ctx.resources.now() })
    .where(
      and(
        eq(changeRequests.id, id),
        eq(changeRequests.organizationId, organizationId),
        eq(changeRequests.state, "pending"),
        eq(changeRequests.revision, approval.revision),
      ),
    )
    .returning({ id: changeRequests.id });
  if (settled.length === 0) throw new Failure("conflict", `CONFLICT: Change request ${id} is decided already`);
  const { summary } = proposal;
  await audit(ctx, {
    action: "change-request.approve",
    organizationId,
    target: summary,
    after: { changeRequestId: id, ...(alone ? { alone } : {}) },
    author: approver,
  });
  const details = { changeRequestId: id, action, summary };
  await recordEvents(ctx.db, [{ organizationId, event: { code: "CHANGE_APPROVED", details } }]);
  approval.isSettled = true;
}
