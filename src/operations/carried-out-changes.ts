import { count, eq } from "drizzle-orm";
import { chosenIn } from "../core/scheduled.ts";
import { changeEvents, namedEvents, readFacts } from "../db/queries/contract-facts.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { viewSubscriptions } from "../db/queries/contract-view.ts";
import { appendHistory, replaceSubscriptions, restartBilling } from "../db/queries/contracts.ts";
import type { SubscribedService } from "../db/queries/contract-levels.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import { changeEvent, type PendingChange, readPending, settleChanges, trialEvent } from "../db/queries/scheduled.ts";
import { loadDueLevels, renewDue } from "../db/queries/usage-renewals.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { contracts, contractServices } from "../db/schema.ts";
import { auditAll } from "./audit.ts";
import { type Context, newId, transaction } from "./context.ts";
import { factsOf } from "./contract-audit.ts";
import { expireHoldsOf } from "./due-holds.ts";
import { Failure } from "./errors.ts";
import { followSubscriptions } from "./followed-contracts.ts";
import { readStates } from "./followed-state.ts";
import { type LockedServices, resolveSubscription, type Subscription } from "./subscriptions.ts";

/*
 * Carries out due changes of contracts that due-changes.ts has locked. A change replaces the subscription, or ends a trial or
 * an unpaid contract. It is blocked where the pricing refuses it. Source: contract custom-terms §4.
 */

/** Enabled services by organization, and the ids of all locked ones. */
export interface Locked {
  ids: ReadonlySet<string>;
  byOrganization: ReadonlyMap<string, LockedServices>;
}

/** Pending changes with the same subscription from the same moment. */
interface Alike {
  first: PendingChange;
  /** From when on the subscription holds. */
  effectiveAt: Date;
  changes: PendingChange[];
}

/** Carries out the pending changes of locked contracts, alike ones together. Returns the events. */
export async function carryOut(ctx: Context, contractIds: readonly string[], locked: Locked): Promise<Addressed[]> {
  if (contractIds.length === 0) return [];
  const groups = new Map<string, Alike>();
  const pending = await readPending(ctx.db, contractIds);
  const held = new Set(pending.map(({ contractId }) => contractId));
  // Nothing but a change of the database by hand leaves a moment without its change. It would be due forever.
  await settleChanges(
    ctx.db,
    contractIds.filter((id) => !held.has(id)),
    { state: "cancelled" },
  );
  for (const change of pending) {
    // Changed between the two locks. Another attempt locks the services that it has now.
    if (change.services.some(({ serviceId }) => serviceId !== null && !locked.ids.has(serviceId))) continue;
    const effectiveAt = new Date(Math.max(change.at.getTime(), change.recordedAt.getTime()));
    const { kind, organizationId, endsContract, autoRenew, services } = change;
    const key = JSON.stringify([kind, organizationId, effectiveAt, endsContract, autoRenew, services]);
    const group = groups.get(key) ?? { first: change, effectiveAt, changes: [] };
    group.changes.push(change);
    groups.set(key, group);
  }
  const events: Addressed[] = [];
  for (const group of groups.values()) {
    events.push(...(await applyAlike(ctx, group, locked.byOrganization.get(group.first.organizationId) ?? new Map())));
  }
  return events;
}

async function applyAlike(ctx: Context, group: Alike, locked: LockedServices): Promise<Addressed[]> {
  const { first, effectiveAt, changes } = group;
  const isTrial = first.kind === "trialEnd";
  if (first.endsContract) return isTrial ? endTrials(ctx, group) : endUnpaid(ctx, group, locked);
  const contractIds = changes.map(({ contractId }) => contractId);
  const { subscriptionPlans, subscriptionAddOns } = chosenIn(first.services);
  const wanted: Subscription = {
    contractedServices: Object.fromEntries(first.services.map(({ key, version }) => [key, version])),
    subscriptionPlans: { ...subscriptionPlans },
    subscriptionAddOns: { ...subscriptionAddOns },
  };
  let next: SubscribedService[];
  try {
    next = await resolveSubscription(ctx, locked, wanted, "novation", await commonVersions(ctx, contractIds));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return isTrial ? endTrials(ctx, group, error.message) : block(ctx, changes, error.message);
  }
  const operationId = newId(effectiveAt);
  const expired = await expireHoldsOf(ctx, contractIds, effectiveAt);
  for (const [contractId, levels] of await loadDueLevels(ctx.db, contractIds, effectiveAt)) {
    await renewDue(ctx.db, contractId, levels, { operationId, now: effectiveAt });
  }
  const before = await readFacts(ctx.db, contractIds);
  await appendHistory(ctx.db, contractIds, effectiveAt);
  const ended = await replaceSubscriptions(ctx.db, { contractIds, next, now: effectiveAt, operationId });
  await settleChanges(ctx.db, contractIds, { state: "done", effectiveAt });
  await restartBilling(ctx.db, { contractIds, autoRenew: first.autoRenew ?? undefined, now: effectiveAt });
  await recordStates(ctx.db, { contractIds, cause: isTrial ? "trialEnd" : "scheduled", now: effectiveAt });
  const byContract = new Map(changes.map((change) => [change.contractId, change]));
  const views = await viewSubscriptions(ctx.db, contractIds);
  await auditAll(
    ctx,
    views.map((view) => {
      const change = byContract.get(view.id) ?? first;
      return {
        action: "contract.novate",
        organizationId: view.organizationId,
        target: view.userContact.userId,
        before: view.history.at(-1),
        after: { ...factsOf(view), scheduledId: change.id },
        author: change,
      };
    }),
  );
  const novated = namedEvents(
    changes.map(({ id, contractId }) => ({ code: "CONTRACT_NOVATED", contractId, fields: { scheduledId: id } })),
    before,
    await readFacts(ctx.db, contractIds),
  );
  return [
    ...expired,
    ...novated,
    ...ended,
    ...(isTrial ? changes.map((change) => trialEvent(change, "converted")) : []),
    ...(await followBilled(ctx, changes, locked)),
  ];
}

/** Ends contracts with the days of grace of their subscription. They keep their services. Source: contract billing §3. */
async function endUnpaid(ctx: Context, { changes, effectiveAt }: Alike, locked: LockedServices): Promise<Addressed[]> {
  const contractIds = changes.map(({ contractId }) => contractId);
  const before = await readFacts(ctx.db, contractIds);
  await settleChanges(ctx.db, contractIds, { state: "done", effectiveAt });
  const ended = { autoRenew: false, endDate: effectiveAt };
  await ctx.db
    .update(contracts)
    .set({ ...ended, updatedAt: effectiveAt })
    .where(isAnyOf(contracts.id, contractIds));
  await recordStates(ctx.db, { contractIds, cause: "scheduled", now: effectiveAt });
  await auditAll(
    ctx,
    changes.map((change) => ({
      action: "contract.billing",
      organizationId: change.organizationId,
      target: change.userId,
      after: { scheduledId: change.id, ...ended },
      author: change,
    })),
  );
  const updated = changeEvents(before, await readFacts(ctx.db, contractIds));
  return [...updated, ...(await followBilled(ctx, changes, locked))];
}

/** Plans what follows the changes that payment providers scheduled. Returns the events. */
async function followBilled(
  ctx: Context,
  changes: readonly PendingChange[],
  locked: LockedServices,
): Promise<Addressed[]> {
  const events: Addressed[] = [];
  for (const change of changes.filter(({ actorKind }) => actorKind === "billing")) {
    const [contract] = await ctx.db.select().from(contracts).where(eq(contracts.id, change.contractId));
    const { organizationId, userId } = change;
    const follow = async (ctx: Context) => {
      const state = (await readStates(ctx, { organizationId, userIds: [userId] }, [])).get(userId);
      const followers = state === undefined ? [] : [{ userId, contract, state, cause: undefined }];
      const results = await followSubscriptions(ctx, { organizationId, locked, followers });
      await auditAll(
        ctx,
        results.flatMap(({ audits }) => audits),
      );
      return results.flatMap(({ events }) => events);
    };
    try {
      events.push(...(await transaction({ ...ctx, author: change }, follow)));
    } catch (error) {
      // The change itself holds; the pricing refuses what follows it.
      if (!(error instanceof Failure)) throw error;
    }
  }
  return events;
}

/** Ends contracts with their trials, also where what should follow is not possible. Their period stays as it is. */
async function endTrials(ctx: Context, { changes, effectiveAt }: Alike, why?: string): Promise<Addressed[]> {
  const contractIds = changes.map(({ contractId }) => contractId);
  const outcome = why === undefined ? "ended" : "blocked";
  const before = await readFacts(ctx.db, contractIds);
  await settleChanges(
    ctx.db,
    contractIds,
    why === undefined ? { state: "done", effectiveAt } : { state: "blocked", why },
  );
  await ctx.db
    .update(contracts)
    .set({ autoRenew: false, updatedAt: effectiveAt })
    .where(isAnyOf(contracts.id, contractIds));
  await recordStates(ctx.db, { contractIds, cause: "trialEnd", now: effectiveAt });
  await auditAll(
    ctx,
    changes.map((change) => ({
      action: "trial.end",
      organizationId: change.organizationId,
      target: change.userId,
      after: { scheduledId: change.id, outcome, ...(why === undefined ? {} : { why }) },
      author: change,
    })),
  );
  const updated = changeEvents(before, await readFacts(ctx.db, contractIds));
  return [...updated, ...changes.map((change) => trialEvent(change, outcome, why))];
}

async function block(ctx: Context, changes: readonly PendingChange[], why: string): Promise<Addressed[]> {
  await settleChanges(
    ctx.db,
    changes.map(({ contractId }) => contractId),
    { state: "blocked", why },
  );
  await auditAll(
    ctx,
    changes.map((change) => ({
      action: "schedule.block",
      organizationId: change.organizationId,
      target: change.userId,
      after: { scheduledId: change.id, why },
      author: change,
    })),
  );
  return changes.map((change) => changeEvent("CHANGE_BLOCKED", change, why));
}

/** Returns the versions that all these contracts are on. They may stay on these even if archived. */
export async function commonVersions(ctx: Context, contractIds: readonly string[]): Promise<Set<string>> {
  const rows = await ctx.db
    .select({ id: contractServices.pricingId })
    .from(contractServices)
    .where(isAnyOf(contractServices.contractId, contractIds))
    .groupBy(contractServices.pricingId)
    .having(eq(count(), contractIds.length));
  return new Set(rows.map((row) => row.id));
}
