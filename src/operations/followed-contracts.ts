import { eq } from "drizzle-orm";
import type { BillingTarget } from "../core/billing/target.ts";
import { nextChangeAt, shownAt, targetAt } from "../core/billing/target.ts";
import { type ContractPlan, type CurrentServices, planContract } from "../core/billing/plan.ts";
import type { BillingCause } from "../core/event-messages.ts";
import { addPeriod, RENEWAL_UNITS } from "../core/period.ts";
import type { Period } from "../core/pricing/model.ts";
import { putApplied } from "../db/queries/billing.ts";
import { changeEvents, type FactsById, namedEvents, readFacts } from "../db/queries/contract-facts.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { type ContractView, viewSubscriptions } from "../db/queries/contract-view.ts";
import { addSubscriptions, appendHistory, replaceSubscriptions, USUAL_RENEWAL_DAYS } from "../db/queries/contracts.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import { cancelPending, followPeriodEnds, trialEvent } from "../db/queries/scheduled.ts";
import { contracts } from "../db/schema.ts";
import { billingOf, factsOf } from "./contract-audit.ts";
import type { Change } from "./audit.ts";
import { planNext, type ResolvedTerms } from "./billed-changes.ts";
import { type Context, newId } from "./context.ts";
import { expireHoldsOf } from "./due-holds.ts";
import { type FollowedState, type HeldService, readServices, readVersions } from "./followed-state.ts";
import { type LockedServices, resolveSubscription, type Subscription } from "./subscriptions.ts";

/*
 * Contracts that follow the subscriptions of a payment provider. What a contract becomes is decided in core/billing; here it
 * is written. Source: contract billing §3, "Effect".
 */

type ContractRow = typeof contracts.$inferSelect;

const termsOf = (held: readonly HeldService[]): CurrentServices =>
  Object.fromEntries(held.map(({ key, plan, addOns }) => [key, { plan, addOns: addOns ?? {} }]));

/** Result of following: whether the contract was changed, and what the caller records of it. */
interface FollowedResult {
  isChanged: boolean;
  /** Id of the subscription that the contract shows. Null: none. */
  shown: string | null;
  events: Addressed[];
  audits: Change[];
}

const NOTHING: FollowedResult = { isChanged: false, shown: null, events: [], audits: [] };

/**
 * Makes a contract what the subscriptions of its user buy now. Call it with the contract and `locked`, all services of both,
 * locked. Creates a missing contract; a unique constraint decides races.
 * @throws Failure for a subscription that the pricing refuses.
 */
export async function followSubscriptions(
  ctx: Context,
  input: {
    organizationId: string;
    userId: string;
    contract: ContractRow | undefined;
    state: FollowedState;
    locked: LockedServices;
    /** Undefined where time alone changes the contract. */
    cause: BillingCause | undefined;
  },
): Promise<FollowedResult> {
  const { organizationId, contract, state } = input;
  const { followed, held, applied } = state;
  if (followed.length === 0) return NOTHING;
  const now = ctx.resources.now();
  const at = now.getTime();
  const isOver = contract !== undefined && !contract.autoRenew && contract.endDate.getTime() <= at;
  const current = contract === undefined ? null : { services: termsOf(held), isOver };
  const plan = planContract(current, applied, targetAt(followed, at));
  if (plan === null) return NOTHING;
  const shown = shownAt(followed, at);
  const connectionId = followed.find(
    ({ provider, register }) => provider === shown?.provider && register.subscription === shown.subscription,
  )?.connectionId;
  const apply = (contractId: string) =>
    putApplied(ctx.db, {
      contractId,
      organizationId,
      applied: plan.applied,
      shown: shown === null || connectionId === undefined ? null : { ...shown, connectionId },
    });
  const target = { ...input, held, plan, now };
  const written =
    contract === undefined ? await create(ctx, target, apply) : await change(ctx, { ...target, contract });
  const [next] = await Promise.all([
    planNext(ctx, {
      row: written.row,
      plan,
      followed,
      nextAt: nextChangeAt(followed, at),
      resolve: async (wanted) => resolveTerms(ctx, { ...target, held: await written.held() }, wanted),
    }),
    contract === undefined ? undefined : apply(contract.id),
  ]);
  return {
    isChanged: written.isChanged || next.isChanged,
    shown: shown?.subscription ?? null,
    events: [...written.events, ...next.events],
    audits: [...written.audits, ...next.audits],
  };
}

interface Target {
  organizationId: string;
  userId: string;
  locked: LockedServices;
  cause: BillingCause | undefined;
  state: FollowedState;
  held: readonly HeldService[];
  plan: ContractPlan;
  now: Date;
}

interface Written extends Pick<FollowedResult, "isChanged" | "events" | "audits"> {
  row: ContractRow;
  /** Services of the contract now. */
  held: () => Promise<readonly HeldService[]>;
}

/**
 * Resolves services on the versions that offers.md calls offered: the version held where it is active, else the newest
 * active one. A service that stays as it is keeps its version.
 */
async function resolveTerms(
  ctx: Context,
  {
    organizationId,
    locked,
    held,
    ...rest
  }: Pick<Target, "organizationId" | "locked" | "held" | "state"> & {
    isNew?: boolean;
  },
  wanted: CurrentServices,
): Promise<ResolvedTerms> {
  const heldByKey = new Map(held.map((service) => [service.key, service]));
  const missing = Object.keys(wanted).filter((key) => heldByKey.get(key)?.active !== true);
  const unread = missing.filter((key) => !rest.state.newest.has(key));
  const newest = new Map([...rest.state.newest, ...(await readVersions(ctx, organizationId, unread))]);
  const versionOf = (key: string) => {
    const service = heldByKey.get(key);
    return (service?.active === true ? service : newest.get(key))?.version ?? service?.version ?? "";
  };
  const entries = Object.entries(wanted);
  const subscription: Subscription = {
    contractedServices: Object.fromEntries(entries.map(([key]) => [key, versionOf(key)])),
    subscriptionPlans: Object.fromEntries(entries.flatMap(([key, { plan }]) => (plan === null ? [] : [[key, plan]]))),
    subscriptionAddOns: Object.fromEntries(
      entries.flatMap(([key, { addOns }]) => (Object.keys(addOns).length === 0 ? [] : [[key, { ...addOns }]])),
    ),
  };
  const occasion = rest.isNew === true ? "creation" : "novation";
  const heldIds = new Set(held.map(({ pricingId }) => pricingId));
  return {
    wanted: subscription,
    next: await resolveSubscription(ctx, locked, subscription, occasion, heldIds, [...held, ...newest.values()]),
  };
}

/** Longest period on the calendar. */
const MAX_PERIODS = 120;

const DAY_MS = 86_400_000;

/** Returns a period of a subscription if contracts can have it. */
function renewalOf(period: Period | null): Pick<ContractRow, "renewalValue" | "renewalUnit"> {
  const unit = RENEWAL_UNITS.find((each) => each === period?.unit);
  const value = period?.value ?? 0;
  return unit === undefined || !Number.isInteger(value) || value < 1 || value > MAX_PERIODS
    ? { renewalValue: null, renewalUnit: null }
    : { renewalValue: value, renewalUnit: unit };
}

type BillingColumns = Pick<
  ContractRow,
  "startDate" | "endDate" | "autoRenew" | "renewalDays" | "renewalValue" | "renewalUnit"
>;

function columnsOf({ start, end, autoRenew, renewalPeriod }: BillingTarget): BillingColumns {
  const startDate = new Date(start);
  const usual = renewalPeriod ?? { value: USUAL_RENEWAL_DAYS, unit: "DAY" as const };
  const endDate = end === null ? addPeriod(startDate, usual) : new Date(end);
  const renewalDays = Math.max(1, Math.round((endDate.getTime() - start) / DAY_MS));
  return { startDate, endDate, autoRenew, renewalDays, ...renewalOf(renewalPeriod) };
}

const sameColumns = (row: ContractRow, columns: BillingColumns) =>
  JSON.stringify(billingOf({ ...row, ...columns })) === JSON.stringify(billingOf(row));

/** Creates a contract. `apply` stores the target that it gets. */
async function create(ctx: Context, target: Target, apply: (contractId: string) => Promise<void>): Promise<Written> {
  const { organizationId, userId, plan, now, cause } = target;
  const { next } = await resolveTerms(ctx, { ...target, isNew: true }, plan.services);
  const columns = columnsOf(plan.billing ?? { start: now.getTime(), end: null, autoRenew: true, renewalPeriod: null });
  const id = newId(now);
  const insert = async () =>
    ctx.db
      .insert(contracts)
      .values({ id, organizationId, userId, username: userId, ...columns })
      .returning();
  const [[row], , , , facts] = await Promise.all([
    insert(),
    addSubscriptions(ctx.db, { contractIds: [id], next, now }),
    apply(id),
    recordStates(ctx.db, { contractIds: [id], cause: "creation", now }),
    readFacts(ctx.db, [id]),
  ]);
  if (row === undefined) throw new Error("an inserted contract vanished");
  const fields = cause === undefined ? {} : { fields: { billing: cause } };
  return {
    row,
    held: () => readServices(ctx, target),
    isChanged: true,
    events: namedEvents([{ code: "CONTRACT_CREATED", contractId: id, ...fields }], new Map(), facts),
    audits: [{ action: "contract.create", organizationId, target: userId, after: factsIn(facts, id) }],
  };
}

/** The audited fields of a contract whose facts were read. */
function factsIn(facts: FactsById, contractId: string) {
  const text = facts.get(contractId)?.text;
  if (text === undefined) throw new Error(`contract ${contractId} vanished inside its transaction`);
  // readFacts writes a view without levels and history.
  return factsOf(JSON.parse(text) as ContractView);
}

async function change(ctx: Context, target: Target & { contract: ContractRow }): Promise<Written> {
  const { contract, plan, held, now } = target;
  const columns = plan.billing === null ? undefined : columnsOf(plan.billing);
  const movesPeriod = columns !== undefined && !sameColumns(contract, columns);
  if (!plan.changesServices && !movesPeriod) {
    return { row: contract, held: async () => held, isChanged: false, events: [], audits: [] };
  }
  const ids = [contract.id];
  const moved = columns === undefined ? { updatedAt: now } : { ...columns, updatedAt: now };
  const update = async () => ctx.db.update(contracts).set(moved).where(eq(contracts.id, contract.id)).returning();
  const [before, [updated]] = await Promise.all([
    readFacts(ctx.db, ids),
    plan.changesServices ? [undefined] : update(),
  ]);
  const novated = plan.changesServices ? await novate(ctx, target) : [];
  const [row] = updated === undefined ? await update() : [updated];
  if (row === undefined) throw new Error(`contract ${contract.id} vanished inside its transaction`);
  const trials = row.changeAt === null ? [] : await endTrial(ctx, ids);
  const [, [view], after] = await Promise.all([
    recordStates(ctx.db, { contractIds: ids, cause: plan.changesServices ? "novation" : "billing", now }),
    plan.changesServices ? viewSubscriptions(ctx.db, ids) : [undefined],
    readFacts(ctx.db, ids),
  ]);
  const fields = target.cause === undefined ? undefined : { billing: target.cause };
  const events = plan.changesServices
    ? namedEvents(
        [{ code: "CONTRACT_NOVATED", contractId: contract.id, ...(fields === undefined ? {} : { fields }) }],
        before,
        after,
      )
    : changeEvents(before, after, fields);
  return {
    row,
    held: async () => (plan.changesServices ? readServices(ctx, target) : held),
    isChanged: true,
    audits: [auditOf(target, row, view)],
    events: [
      ...novated.filter(isFirst),
      ...events,
      ...novated.filter((event) => !isFirst(event)),
      ...trials.map((trial) => trialEvent(trial, "novated")),
    ],
  };
}

/** Ends a trial with the first payment, and moves what waits for the end of the period. */
async function endTrial(ctx: Context, contractIds: readonly string[]) {
  const trials = await cancelPending(ctx.db, contractIds, "Novated before its end", "trialEnd");
  await followPeriodEnds(ctx.db, contractIds);
  return trials;
}

/** Events of holds that end come before the novation, those of overrides and trials after it. */
const isFirst = ({ event }: Addressed) => event.code.startsWith("USAGE_");

/** Replaces the subscription of a contract, keeping its usage. Returns the events beside the novation's. */
async function novate(ctx: Context, target: Target & { contract: ContractRow }): Promise<Addressed[]> {
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
