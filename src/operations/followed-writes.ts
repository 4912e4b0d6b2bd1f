import { eq } from "drizzle-orm";
import type { ShownSubscription } from "../core/billing/target.ts";
import type { ContractPlan } from "../core/billing/plan.ts";
import type { BillingCause } from "../core/event-messages.ts";
import { sentInTurns, sentTogether } from "../db/postgres/pipeline.ts";
import { putApplied } from "../db/queries/billing.ts";
import { changeEvents, type FactsById, namedEvents, readFacts } from "../db/queries/contract-facts.ts";
import type { SubscribedService } from "../db/queries/contract-levels.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { type ContractView, viewSubscriptions } from "../db/queries/contract-view.ts";
import {
  addSubscriptions,
  appendHistory,
  insertContract,
  type PeriodColumns,
  replaceSubscriptions,
  setPeriod,
} from "../db/queries/contracts.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import { cancelPending, followPeriodEnds, trialEvent } from "../db/queries/scheduled.ts";
import { contracts } from "../db/schema.ts";
import type { Change } from "./audit.ts";
import type { PlannedRow } from "./billed-changes.ts";
import { type Context, newId } from "./context.ts";
import { billingOf, factsOf } from "./contract-audit.ts";
import { expireHoldsOf } from "./due-holds.ts";
import { type FollowedState, type HeldService, readServices } from "./followed-state.ts";
import { columnsOf, resolveTerms, sameColumns } from "./followed-terms.ts";
import type { LockedServices } from "./subscriptions.ts";

/*
 * Writes contracts that follow subscriptions: several with as few statements as one, but for those whose services change.
 */

type ContractRow = typeof contracts.$inferSelect;

/** A contract and its plan. */
export interface Target {
  organizationId: string;
  userId: string;
  locked: LockedServices;
  cause: BillingCause | undefined;
  state: FollowedState;
  held: readonly HeldService[];
  plan: ContractPlan;
  /** The subscription that the contract shows. */
  shown: (ShownSubscription & { connectionId: string }) | null;
  now: Date;
}

/** A target of an existing contract. */
export type Existing = Target & { contract: ContractRow };

/** A contract that was written, or is as planned already. */
interface Written {
  isChanged: boolean;
  events: Addressed[];
  audits: Change[];
  row: PlannedRow;
  /** Services of the contract now. */
  held: () => Promise<readonly HeldService[]>;
}

/** Stores the target of a contract, and the subscription that it shows. */
const apply = (ctx: Context, { organizationId, plan, shown }: Target, contractId: string) =>
  putApplied(ctx.db, { contractId, organizationId, applied: plan.applied, shown });

/** Written contracts by user. */
export type WrittenByUser = [string, Written][];

/** Creates contracts. */
export async function create(ctx: Context, targets: readonly Target[]): Promise<WrittenByUser> {
  const [first] = targets;
  if (first === undefined) return [];
  const { now } = first;
  const resolved: { target: Target; next: SubscribedService[]; row: PlannedRow & PeriodColumns }[] = [];
  for (const target of targets) {
    const { next } = await resolveTerms(ctx, { ...target, isNew: true }, target.plan.services);
    const { organizationId, userId, plan } = target;
    const usual = { start: now.getTime(), end: null, autoRenew: true, renewalPeriod: null };
    const row = { id: newId(now), organizationId, userId, changeAt: null, ...columnsOf(plan.billing ?? usual) };
    resolved.push({ target, next, row });
  }
  const ids = resolved.map(({ row }) => row.id);
  const groups = resolved.map(({ row, next }) => ({ contractIds: [row.id], next }));
  const sent = await sentInTurns(resolved, ({ target, row }) =>
    sentTogether([insertContract(ctx.db, row), apply(ctx, target, row.id)]),
  );
  const [, , , facts] = await sentTogether([
    sentTogether(sent),
    addSubscriptions(ctx.db, groups, now),
    recordStates(ctx.db, { contractIds: ids, cause: "creation", now }),
    readFacts(ctx.db, ids),
  ]);
  return resolved.map(({ target, row }) => {
    const { id } = row;
    const { organizationId, userId, cause } = target;
    const fields = cause === undefined ? {} : { fields: { billing: cause } };
    const written: Written = {
      row,
      held: () => readServices(ctx, { organizationId, userIds: [userId] }),
      isChanged: true,
      events: namedEvents([{ code: "CONTRACT_CREATED", contractId: id, ...fields }], new Map(), facts),
      audits: [{ action: "contract.create", organizationId, target: userId, after: factsIn(facts, id) }],
    };
    return [userId, written];
  });
}

/** The audited fields of a contract whose facts were read. */
function factsIn(facts: FactsById, contractId: string) {
  const text = facts.get(contractId)?.text;
  if (text === undefined) throw new Error(`contract ${contractId} vanished inside its transaction`);
  // readFacts writes a view without levels and history.
  return factsOf(JSON.parse(text) as ContractView);
}

/** Changes existing contracts, as far as their plans differ from what they are. */
export async function change(ctx: Context, targets: readonly Existing[]): Promise<WrittenByUser> {
  const moving: (Existing & { columns: PeriodColumns })[] = [];
  const novated: Existing[] = [];
  const written: WrittenByUser = [];
  for (const target of targets) {
    const { contract, plan, held, userId } = target;
    const columns = plan.billing === null ? undefined : columnsOf(plan.billing);
    if (plan.changesServices) novated.push(target);
    else if (columns !== undefined && !sameColumns(contract, columns)) moving.push({ ...target, columns });
    else written.push([userId, { row: contract, held: async () => held, isChanged: false, events: [], audits: [] }]);
  }
  const applied = await sentInTurns(targets, (target) => apply(ctx, target, target.contract.id));
  const [moved] = await sentTogether([movePeriods(ctx, moving), ...applied]);
  written.push(...moved);
  for (const target of novated) written.push([target.userId, await novate(ctx, target)]);
  return written;
}

/** Gives contracts the periods of their subscriptions. */
async function movePeriods(
  ctx: Context,
  targets: readonly (Existing & { columns: PeriodColumns })[],
): Promise<WrittenByUser> {
  const [first] = targets;
  if (first === undefined) return [];
  const { now } = first;
  const contractIds = targets.map(({ contract }) => contract.id);
  const [before] = await Promise.all([
    readFacts(ctx.db, contractIds),
    ...targets.map(({ contract, columns }) => setPeriod(ctx.db, contract.id, columns, now)),
  ]);
  const trials = new Map<string, Addressed[]>();
  for (const { contract } of targets) {
    if (contract.changeAt !== null) trials.set(contract.id, await endTrial(ctx, contract.id));
  }
  const [, after] = await Promise.all([
    recordStates(ctx.db, { contractIds, cause: "billing", now }),
    readFacts(ctx.db, contractIds),
  ]);
  return targets.map((target) => {
    const { contract, columns, held, userId } = target;
    const row = { ...contract, ...columns };
    const own = new Map([...before].filter(([id]) => id === contract.id));
    const written: Written = {
      row,
      held: async () => held,
      isChanged: true,
      audits: [auditOf(target, row, undefined)],
      events: [...changeEvents(own, after, billingFields(target)), ...(trials.get(contract.id) ?? [])],
    };
    return [userId, written];
  });
}

const billingFields = ({ cause }: Target) => (cause === undefined ? undefined : { billing: cause });

async function update(ctx: Context, id: string, values: Partial<ContractRow>): Promise<ContractRow> {
  const [row] = await ctx.db.update(contracts).set(values).where(eq(contracts.id, id)).returning();
  if (row === undefined) throw new Error(`contract ${id} vanished inside its transaction`);
  return row;
}

/** Replaces the subscription of a contract, keeping its usage. */
async function novate(ctx: Context, target: Existing): Promise<Written> {
  const { contract, plan, now, organizationId, userId } = target;
  const contractIds = [contract.id];
  const before = await readFacts(ctx.db, contractIds);
  const beside = await replaceServices(ctx, target);
  const columns = plan.billing === null ? {} : columnsOf(plan.billing);
  const row = await update(ctx, contract.id, { ...columns, updatedAt: now });
  const trials = row.changeAt === null ? [] : await endTrial(ctx, contract.id);
  const [, [view], after] = await Promise.all([
    recordStates(ctx.db, { contractIds, cause: "novation", now }),
    viewSubscriptions(ctx.db, contractIds),
    readFacts(ctx.db, contractIds),
  ]);
  const fields = billingFields(target);
  const named = {
    code: "CONTRACT_NOVATED" as const,
    contractId: contract.id,
    ...(fields === undefined ? {} : { fields }),
  };
  return {
    row,
    held: () => readServices(ctx, { organizationId, userIds: [userId] }),
    isChanged: true,
    audits: [auditOf(target, row, view)],
    events: [
      ...beside.filter(isFirst),
      ...namedEvents([named], before, after),
      ...beside.filter((event) => !isFirst(event)),
      ...trials,
    ],
  };
}

/** Ends a trial with the first payment, and moves what waits for the end of the period. Returns the events. */
async function endTrial(ctx: Context, contractId: string): Promise<Addressed[]> {
  const trials = await cancelPending(ctx.db, [contractId], "Novated before its end", "trialEnd");
  await followPeriodEnds(ctx.db, [contractId]);
  return trials.map((trial) => trialEvent(trial, "novated"));
}

/** Events of holds that end come before the novation, those of overrides and trials after it. */
const isFirst = ({ event }: Addressed) => event.code.startsWith("USAGE_");

/** Replaces the services of a contract. Returns the events beside the novation's. */
async function replaceServices(ctx: Context, target: Existing): Promise<Addressed[]> {
  const { contract, plan, now } = target;
  const ids = [contract.id];
  const { next } = await resolveTerms(ctx, target, plan.services);
  const operationId = newId(now);
  const expired = await expireHoldsOf(ctx, ids, now);
  await appendHistory(ctx.db, ids, now);
  const ended = await replaceSubscriptions(ctx.db, { contractIds: ids, next, now, operationId });
  return [...expired, ...ended];
}

/** The audit entry of a change. `view`: the contract afterwards, where its services have changed. */
function auditOf({ contract }: { contract: ContractRow }, row: ContractRow, view: ContractView | undefined): Change {
  const { organizationId, userId } = row;
  if (view === undefined) {
    const [before, after] = [billingOf(contract), billingOf(row)];
    return { action: "contract.billing", organizationId, target: userId, before, after };
  }
  return {
    action: "contract.novate",
    organizationId,
    target: userId,
    before: view.history.at(-1),
    after: factsOf(view),
  };
}
