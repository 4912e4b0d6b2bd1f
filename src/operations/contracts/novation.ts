import { eq, type SQL } from "drizzle-orm";
import { type FactsById, readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import type { ContractView } from "../../db/queries/contract-view.ts";
import { appendHistory, lockContracts, replaceSubscriptions, restartBilling } from "../../db/queries/contracts.ts";
import type { SubscribedService } from "../../db/queries/contract-levels.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { cancelPending, changeEvent, trialEvent } from "../../db/queries/scheduled.ts";
import { contracts } from "../../db/schema.ts";
import { type Context, newId, transaction } from "../context.ts";
import { type ContractAddress, contractNotFound, findContract } from "../contract-address.ts";
import { commonVersions } from "../carried-out-changes.ts";
import { applyDueChanges, applyDueChangesOf } from "../due-changes.ts";
import { expireHoldsOf } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import type { Decision } from "../policy/change-decision.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { lockServices, resolveSubscription, type Subscription } from "../subscriptions.ts";
import { contractsText, needsApproval, passedOver, refuseHeldElsewhere, settleApproval } from "../policy/approval.ts";
import { auditContracts, auditNovations } from "../contract-audit.ts";
import { inGroup, viewByUsername, viewOne } from "./contract-rows.ts";
import { decideGroupNovations, keepGroupDecisions } from "./group-decisions.ts";

export interface Novation extends Subscription {
  billingPeriod?: { autoRenew?: boolean | undefined } | undefined;
}

/** A novation now. */
interface ImmediateNovation extends Novation {
  /** Cancels the pending change. Default: it stays. */
  cancelScheduled: boolean;
}

/**
 * Novates all matching contracts: validates all of them, then writes. The number of statements grows with the
 * organizations, not with the contracts. With `gate`, each organization's gate rules decide before any write; `isUnnamed` for a call
 * that names no organization.
 * @returns the contract ids, empty if none match once the locks are held, and their facts before; the versions that
 * they have now; the events of holds that expired before it; those of overrides that ended and of cancelled changes; and the
 * decisions of the gates.
 */
async function applyNovation(
  ctx: Context,
  where: SQL | undefined,
  novation: ImmediateNovation,
  gate?: { overrideReason: string | undefined; isUnnamed: boolean },
): Promise<{
  contractIds: string[];
  pricingIds: string[];
  before: FactsById;
  expired: Addressed[];
  events: Addressed[];
  decisions: Decision[];
}> {
  const organizationIds = await ctx.db
    .selectDistinct({ id: contracts.organizationId })
    .from(contracts)
    .where(where)
    .then((rows) => rows.map((row) => row.id));
  if (organizationIds.length === 0)
    return { contractIds: [], pricingIds: [], before: new Map(), expired: [], events: [], decisions: [] };
  if (gate?.isUnnamed === true) await refuseHeldElsewhere(ctx, organizationIds, "novate");
  const services = await lockServices(ctx, organizationIds, novation);
  const rows = await lockContracts(ctx.db, where);
  const planned: { organizationId: string; contractIds: string[]; next: SubscribedService[] }[] = [];
  for (const [organizationId, locked] of services) {
    const contractIds = rows.filter((row) => row.organizationId === organizationId).map((row) => row.id);
    if (contractIds.length === 0) continue;
    const current = await commonVersions(ctx, contractIds);
    const next = await resolveSubscription(ctx, locked, novation, "novation", current);
    planned.push({ organizationId, contractIds, next });
  }
  const decisions = gate === undefined ? [] : await decideGroupNovations(ctx, planned, gate.overrideReason);
  const contractIds = planned.flatMap((one) => one.contractIds);
  // Take the time after acquiring the locks: the previous holder may have started a billing period later than our
  // request.
  const now = ctx.resources.now();
  const operationId = newId(now);
  const expired = await expireHoldsOf(ctx, contractIds, now);
  const before = await readFacts(ctx.db, contractIds);
  await appendHistory(ctx.db, contractIds, now);
  const events = await cancelScheduled(ctx, contractIds, novation);
  for (const plan of planned) events.push(...(await replaceSubscriptions(ctx.db, { ...plan, now, operationId })));
  await restartBilling(ctx.db, { contractIds, autoRenew: novation.billingPeriod?.autoRenew, now });
  await recordStates(ctx.db, { contractIds, cause: "novation", now });
  await keepGroupDecisions(ctx, decisions);
  const pricingIds = planned.flatMap(({ next }) => next.map(({ pricingId }) => pricingId)).toSorted();
  return { contractIds, pricingIds, before, expired, events, decisions };
}

/** Ends the trials of locked contracts, cancels their pending changes if asked to, and returns the events. */
async function cancelScheduled(
  ctx: Context,
  contractIds: readonly string[],
  { cancelScheduled: isAsked }: ImmediateNovation,
): Promise<Addressed[]> {
  const trials = await cancelPending(ctx.db, contractIds, "Novated before its end", "trialEnd");
  const ended = trials.map((trial) => trialEvent(trial, "novated"));
  if (!isAsked) return ended;
  const why = "Cancelled by a novation";
  const cancelled = await cancelPending(ctx.db, contractIds, why);
  await auditContracts(
    ctx,
    "schedule.cancel",
    cancelled.map(({ id, at, organizationId, userId }) => ({
      organizationId,
      userId,
      before: { scheduledId: id, at },
      after: { why },
    })),
  );
  return [...ended, ...cancelled.map((change) => changeEvent("CHANGE_CANCELLED", change, why))];
}

/** Replaces a contract's whole subscription and restarts its billing period. Source: contract contracts §6. */
export async function novateContract(
  ctx: Context,
  input: ContractAddress & { novation: ImmediateNovation },
): Promise<ContractView> {
  await applyDueChangesOf(ctx, input);
  return transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, input);
    const { contractIds, before, expired, events } = await applyNovation(ctx, eq(contracts.id, row.id), input.novation);
    const [novated] = contractIds;
    if (novated === undefined) throw contractNotFound(input.userId);
    const view = await viewOne(ctx, novated);
    await auditNovations(ctx, [view]);
    await recordChanges(ctx.db, before, { novated: true, first: expired, last: events });
    return view;
  });
}

/**
 * Novates every contract of a group, or none. Source: contract contracts §7; README, decision 21.
 * @throws Failure conflict for a broken gate rule, as for a mass novation.
 */
export async function novateGroup(
  ctx: Context,
  input: {
    organizationId: string | undefined;
    groupId: string;
    novation: ImmediateNovation;
    overrideReason: string | undefined;
  },
): Promise<ContractView[]> {
  const where = inGroup(input.organizationId, input.groupId);
  await applyDueChanges(ctx, where);
  return proposeFirst(ctx, async (ctx) => {
    const { overrideReason } = input;
    const gate = { overrideReason, isUnnamed: input.organizationId === undefined };
    const novated = await applyNovation(ctx, where, input.novation, gate);
    const { contractIds, pricingIds, before, expired, events } = novated;
    if (contractIds.length === 0) {
      throw new Failure(
        "notFound",
        `INVALID DATA: No contracts found with groupId ${input.groupId} within organization ${input.organizationId}`,
      );
    }
    const views = await viewByUsername(ctx, contractIds);
    await auditNovations(ctx, views);
    await recordChanges(ctx.db, before, { novated: true, first: expired, last: events });
    const { organizationId } = input;
    if (organizationId !== undefined && (await needsApproval(ctx, organizationId, "novate"))) {
      const { contractedServices, subscriptionPlans = {}, subscriptionAddOns = {} } = input.novation;
      const counts = { contracts: contractIds.length };
      const broken = passedOver(novated.decisions);
      const report = {
        counts,
        groupId: input.groupId,
        contractedServices,
        subscriptionPlans,
        subscriptionAddOns,
        ...(broken === undefined ? {} : { passedOver: broken }),
      };
      const summary = `Move ${contractsText(counts.contracts)} of group ${input.groupId}`;
      await settleApproval(ctx, {
        organizationId,
        action: "novate",
        summary,
        operation: "novateGroup",
        input,
        report,
        basis: { ...counts, pricingIds, passedOver: broken },
      });
    }
    return views;
  });
}
