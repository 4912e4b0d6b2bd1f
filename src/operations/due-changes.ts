import { and, asc, count, eq, type SQL, sql } from "drizzle-orm";
import { chosenIn } from "../core/scheduled.ts";
import { changeEvents, namedEvents, readFacts } from "../db/queries/contract-facts.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { viewSubscriptions } from "../db/queries/contract-view.ts";
import { appendHistory, replaceSubscriptions, restartBilling } from "../db/queries/contracts.ts";
import type { SubscribedService } from "../db/queries/contract-levels.ts";
import { hasDueEnd } from "../db/queries/holds.ts";
import { type Addressed, recordEvents } from "../db/queries/outbox.ts";
import { changeEvent, type PendingChange, readPending, settleChanges, trialEvent } from "../db/queries/scheduled.ts";
import { servicesOfPending } from "../db/queries/scheduled-services.ts";
import { loadDueLevels, renewDue } from "../db/queries/usage.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { contracts, contractServices, services } from "../db/schema.ts";
import { auditAll } from "./audit.ts";
import { type Context, newId, transaction } from "./context.ts";
import { isAtAddress } from "./contract-address.ts";
import { factsOf } from "./contract-audit.ts";
import { expireDueHolds, expireHoldsOf } from "./due-holds.ts";
import { Failure } from "./errors.ts";
import { followSubscriptions } from "./followed-contracts.ts";
import { type LockedServices, resolveSubscription, type Subscription } from "./subscriptions.ts";

/*
 * Applies scheduled changes of contracts once they are due: before anything reads or changes such a contract, or in the
 * sweep of an event server. The contract's lock makes it happen once. Source: contract custom-terms §4.
 */

/** Contracts changed in one transaction. */
const BATCH = 200;

/**
 * Applies scheduled changes and writes the ends of holds and blocks that are due, of the matching contracts. Default: all contracts of
 * the instance. Call it before an operation on contracts begins its transaction. Costs one query on two partial indexes if
 * nothing is due.
 */
export async function applyDueChanges(ctx: Context, where?: SQL): Promise<void> {
  const { changes, holds } = await findKindsDue(ctx, where);
  if (changes) await applyChanges(ctx, where);
  if (changes || holds) await expireDueHolds(ctx, where);
}

async function applyChanges(ctx: Context, where: SQL | undefined): Promise<void> {
  for (;;) {
    const found = await transaction(ctx, async (ctx) => {
      const ids = await findDue(ctx, where);
      const lockedServices = await lockServicesOf(ctx, ids);
      const rows = await lockDue(ctx, ids, undefined);
      await recordEvents(ctx.db, await applyTo(ctx, rows, lockedServices));
      return ids.length;
    });
    if (found === 0) return;
  }
}

/** Applies what is due of the contract at this address, or of every contract in an organization. */
export function applyDueChangesOf(ctx: Context, address: { organizationId?: string | undefined; userId?: string }) {
  return applyDueChanges(ctx, isAtAddress(address));
}

/**
 * Applies everything that is due in the background. Returns the number of contracts. Safe to run in several processes at
 * once: each skips contracts that another has locked.
 */
export async function sweepDueChanges(ctx: Context): Promise<number> {
  for (let applied = 0; ;) {
    const found = await transaction(ctx, async (ctx) => {
      const ids = await findDue(ctx, undefined);
      const lockedServices = await lockServicesOf(ctx, ids);
      const rows = await lockDue(ctx, ids, { skipLocked: true });
      await recordEvents(ctx.db, await applyTo(ctx, rows, lockedServices));
      return rows.length;
    });
    applied += found;
    if (found === 0) return applied;
  }
}

/**
 * Applies what is due of locked contracts in the caller's transaction. Returns these contracts and the events. Their services should be
 * locked before the contracts, with lockServicesOfPending.
 */
export async function applyDueNow(
  ctx: Context,
  contractIds: readonly string[],
): Promise<{ contractIds: ReadonlySet<string>; events: Addressed[] }> {
  const due = await lockDue(ctx, contractIds, undefined);
  return { contractIds: new Set(due), events: await applyTo(ctx, due, await lockServicesOf(ctx, due)) };
}

/** Locks the services that pending changes of the matching contracts name. Call it before locking the contracts. */
export async function lockServicesOfPending(ctx: Context, where: SQL | undefined): Promise<void> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(and(sql`${contracts.changeAt} is not null`, where));
  await lockServicesOf(
    ctx,
    rows.map(({ id }) => id),
  );
}

/** SQL condition: the contract has a change that is due. */
const isDueAt = (now: Date) => sql`${contracts.changeAt} <= ${now.toISOString()}::timestamptz`;

async function findKindsDue(ctx: Context, where: SQL | undefined): Promise<{ changes: boolean; holds: boolean }> {
  const now = ctx.resources.now();
  const isAny = (condition: SQL) => sql`exists (select from ${contracts} where ${and(condition, where)})`;
  const [row] = await ctx.db.execute<{ changes: boolean; holds: boolean }>(
    sql`select ${isAny(isDueAt(now))} as changes, ${isAny(hasDueEnd(now))} as holds`,
  );
  return row ?? { changes: false, holds: false };
}

async function findDue(ctx: Context, where: SQL | undefined): Promise<string[]> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(and(isDueAt(ctx.resources.now()), where))
    .orderBy(asc(contracts.changeAt), asc(contracts.id))
    .limit(BATCH);
  return rows.map(({ id }) => id);
}

/** Locks contracts that are still due, in id order. */
async function lockDue(
  ctx: Context,
  ids: readonly string[],
  options: { skipLocked: true } | undefined,
): Promise<string[]> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(and(isAnyOf(contracts.id, ids), isDueAt(ctx.resources.now())))
    .orderBy(asc(contracts.id))
    .for("update", options);
  return rows.map(({ id }) => id);
}

/** Enabled services by organization, and the ids of all locked ones. */
interface Locked {
  ids: ReadonlySet<string>;
  byOrganization: ReadonlyMap<string, LockedServices>;
}

async function lockServicesOf(ctx: Context, contractIds: readonly string[]): Promise<Locked> {
  const ids = await servicesOfPending(ctx.db, contractIds);
  const { id, nameKey: key, organizationId, disabled } = services;
  const rows =
    ids.length === 0
      ? []
      : await ctx.db
          .select({ id, key, organizationId, disabled })
          .from(services)
          .where(isAnyOf(id, ids))
          .orderBy(asc(id))
          .for("share");
  const byOrganization = new Map<string, Map<string, string>>();
  for (const row of rows) {
    if (row.disabled) continue;
    const theirs = byOrganization.get(row.organizationId) ?? new Map<string, string>();
    byOrganization.set(row.organizationId, theirs.set(row.key, row.id));
  }
  return { ids: new Set(ids), byOrganization };
}

/** Pending changes with the same subscription from the same moment. */
interface Alike {
  first: PendingChange;
  /** From when on the subscription holds. */
  effectiveAt: Date;
  changes: PendingChange[];
}

async function applyTo(ctx: Context, contractIds: readonly string[], locked: Locked): Promise<Addressed[]> {
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
    const follow = (ctx: Context) =>
      followSubscriptions(ctx, { organizationId, userId, contract, locked, cause: undefined });
    try {
      events.push(...(await transaction({ ...ctx, author: change }, follow)).events);
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
