import { grantedLimits } from "../../core/pricing/subscription.ts";
import { readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { batchesOf, moveToVersion } from "../../db/queries/contract-moves.ts";
import { viewSubscriptions } from "../../db/queries/contract-view.ts";
import { appendHistory, restartBilling } from "../../db/queries/contracts.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { audit } from "../audit.ts";
import { assessed, contractsText, needsApproval, settleApproval } from "../policy/approval.ts";
import { auditOf, decideChange, type GateView, keepDecision } from "../policy/change-decision.ts";
import type { ImpactView } from "../policy/change-impact.ts";
import type { ChangeAction } from "../policy/change-plan.ts";
import { auditNovations } from "../contract-audit.ts";
import { type Context, newId } from "../context.ts";
import { movePending } from "../pending-changes.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { expireHoldsOf } from "../due-holds.ts";
import { requireService, type ServiceAddress } from "../service-address.ts";
import { compiledPricings } from "../subscriptions.ts";

/** Contracts read at once for the audit log. */
const PAGE = 200;

/**
 * Moves the selected contracts of a service to one version; all or none. Each group goes to its given target, or to its
 * best fit. Consumption is kept, and the previous subscription goes into the history. The billing period restarts,
 * except for contracts that have ended. Failures as in decideChange.
 */
export async function novateHolders(
  ctx: Context,
  input: ServiceAddress & {
    change: ChangeAction & { action: "novation" };
    overrideReason: string | undefined;
    /** Aborted when the client leaves. Stops the assessment, but not a novation that has begun. */
    signal?: AbortSignal | undefined;
  },
): Promise<ImpactView & { gate: GateView; overrideReason: string | null; novatedContracts: number }> {
  const work = async (ctx: Context) => {
    const service = await requireService(ctx, input, "update");
    const decision = await decideChange(ctx, { ...input, service, isAssessed: true });
    const target = decision?.plan.target;
    if (decision === undefined || target === undefined) throw new Error("a novation was not decided on");
    const { moves, pendingMoves, gate, overrideReason, report } = decision;
    const pricing = (await compiledPricings(ctx, [{ pricingId: target.id, hash: target.hash }])).get(target.hash);
    if (pricing === undefined) throw new Error(`pricing ${target.id} has no model`);
    const now = ctx.resources.now();
    const contractIds = moves.flatMap((move) => move.contractIds);
    const operationId = newId(now);
    const before = await readFacts(ctx.db, contractIds);
    const events = await movePending(ctx, { serviceId: service.id, to: target, moves: pendingMoves });
    const expired: Addressed[] = [];
    for (const batch of batchesOf(moves)) {
      const ids = batch.flatMap((move) => move.contractIds);
      expired.push(...(await expireHoldsOf(ctx, ids, now)));
      await appendHistory(ctx.db, ids, now);
      await moveToVersion(ctx.db, {
        serviceId: service.id,
        pricingId: target.id,
        limitsOf: (move) => grantedLimits(pricing, move),
        moves: batch,
        usage: "kept",
        now,
        operationId,
      });
      await restartBilling(ctx.db, { contractIds: ids, autoRenew: undefined, now, exceptEnded: true });
      await recordStates(ctx.db, { contractIds: ids, cause: "novation", now });
    }
    await keepDecision(ctx, decision);
    await auditMoved(ctx, contractIds);
    await audit(ctx, {
      action: "pricing.novate",
      organizationId: service.organizationId,
      target: `${service.name} ${target.version}`,
      after: { novatedContracts: contractIds.length, ...auditOf(decision) },
    });
    await recordChanges(ctx.db, before, { novated: true, first: expired, last: events });
    const { organizationId } = service;
    if (await needsApproval(ctx, organizationId, "novate")) {
      const summary = `Move ${contractsText(contractIds.length)} of ${service.name} to ${target.version}`;
      const { signal: _, ...stored } = input;
      await settleApproval(ctx, {
        organizationId,
        action: "novate",
        summary,
        operation: "novateHolders",
        input: stored,
        ...assessed(decision),
      });
    }
    return { ...report, gate, overrideReason, novatedContracts: contractIds.length };
  };
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  return proposeFirst(ctx, work, input);
}

/** Writes one audit entry per contract, in pages: full contracts take more memory than ids. */
async function auditMoved(ctx: Context, ids: readonly string[]): Promise<void> {
  for (let at = 0; at < ids.length; at += PAGE) {
    await auditNovations(ctx, await viewSubscriptions(ctx.db, ids.slice(at, at + PAGE)));
  }
}
