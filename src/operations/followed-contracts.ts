import { and, asc, eq, sql } from "drizzle-orm";
import type { BillingTarget } from "../core/billing/target.ts";
import { nextChangeAt, shownAt, targetAt } from "../core/billing/target.ts";
import { type ContractPlan, type CurrentServices, planContract } from "../core/billing/plan.ts";
import type { BillingCause } from "../core/event-messages.ts";
import { addPeriod, RENEWAL_UNITS } from "../core/period.ts";
import type { Period } from "../core/pricing/model.ts";
import { putApplied, readApplied, readFollowed } from "../db/queries/billing.ts";
import { changeEvents, namedEvents, readFacts } from "../db/queries/contract-facts.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { viewSubscriptions } from "../db/queries/contract-view.ts";
import { addSubscriptions, appendHistory, replaceSubscriptions, USUAL_RENEWAL_DAYS } from "../db/queries/contracts.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import { newestActiveVersions } from "../db/queries/pricings.ts";
import { cancelPending, followPeriodEnds, trialEvent } from "../db/queries/scheduled.ts";
import { contracts, contractServices, pricings, services } from "../db/schema.ts";
import { billingOf, factsOf } from "./contract-audit.ts";
import { audit } from "./audit.ts";
import { planNext, type ResolvedTerms } from "./billed-changes.ts";
import { type Context, newId } from "./context.ts";
import { expireHoldsOf } from "./due-holds.ts";
import { type LockedServices, resolveSubscription, type Subscription } from "./subscriptions.ts";

/*
 * Contracts that follow the subscriptions of a payment provider. What a contract becomes is decided in core/billing; here it
 * is written. Source: contract billing §3, "Effect".
 */

type ContractRow = typeof contracts.$inferSelect;

/** Services of a contract as they matter to a plan, with the versions held. */
interface HeldService {
  key: string;
  pricingId: string;
  version: string;
  isActive: boolean;
  plan: string | null;
  addOns: Record<string, number> | null;
}

/** Reads the services of a contract, in its order. */
async function readServices(ctx: Context, contractId: string): Promise<HeldService[]> {
  return ctx.db
    .select({
      key: services.nameKey,
      pricingId: pricings.id,
      version: pricings.version,
      isActive: sql<boolean>`${pricings.availability} = 'active'`,
      plan: contractServices.plan,
      addOns: contractServices.addOns,
    })
    .from(contractServices)
    .innerJoin(services, eq(services.id, contractServices.serviceId))
    .innerJoin(pricings, eq(pricings.id, contractServices.pricingId))
    .where(eq(contractServices.contractId, contractId))
    .orderBy(asc(contractServices.position));
}

const termsOf = (held: readonly HeldService[]): CurrentServices =>
  Object.fromEntries(held.map(({ key, plan, addOns }) => [key, { plan, addOns: addOns ?? {} }]));

/** Result of following: whether the contract was changed, and the events of the changes. */
interface FollowedResult {
  isChanged: boolean;
  /** Id of the subscription that the contract shows. Null: none. */
  shown: string | null;
  events: Addressed[];
}

const NOTHING: FollowedResult = { isChanged: false, shown: null, events: [] };

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
    locked: LockedServices;
    /** Undefined where time alone changes the contract. */
    cause: BillingCause | undefined;
  },
): Promise<FollowedResult> {
  const { organizationId, userId, contract } = input;
  const followed = await readFollowed(ctx.db, { organizationId, userId });
  if (followed.length === 0) return NOTHING;
  const now = ctx.resources.now();
  const at = now.getTime();
  const held = contract === undefined ? [] : await readServices(ctx, contract.id);
  const applied = contract === undefined ? null : await readApplied(ctx.db, contract.id);
  const isOver = contract !== undefined && !contract.autoRenew && contract.endDate.getTime() <= at;
  const current = contract === undefined ? null : { services: termsOf(held), isOver };
  const plan = planContract(current, applied, targetAt(followed, at));
  if (plan === null) return NOTHING;
  const target = { ...input, held, plan, now };
  const written = contract === undefined ? await create(ctx, target) : await change(ctx, { ...target, contract });
  const next = await planNext(ctx, {
    row: written.row,
    plan,
    followed,
    nextAt: nextChangeAt(followed, at),
    resolve: (wanted) => resolveTerms(ctx, { ...target, held: written.held }, wanted),
  });
  const shown = shownAt(followed, at);
  const connectionId = followed.find(
    ({ provider, register }) => provider === shown?.provider && register.subscription === shown.subscription,
  )?.connectionId;
  await putApplied(ctx.db, {
    contractId: written.row.id,
    organizationId,
    applied: plan.applied,
    shown: shown === null || connectionId === undefined ? null : { ...shown, connectionId },
  });
  return {
    isChanged: written.isChanged || next.isChanged,
    shown: shown?.subscription ?? null,
    events: [...written.events, ...next.events],
  };
}

interface Target {
  organizationId: string;
  userId: string;
  locked: LockedServices;
  cause: BillingCause | undefined;
  held: readonly HeldService[];
  plan: ContractPlan;
  now: Date;
}

interface Written {
  row: ContractRow;
  held: readonly HeldService[];
  isChanged: boolean;
  events: Addressed[];
}

/**
 * Resolves services on the versions that offers.md calls offered: the version held where it is active, else the newest
 * active one. A service that stays as it is keeps its version.
 */
async function resolveTerms(
  ctx: Context,
  { organizationId, locked, held, ...rest }: Pick<Target, "organizationId" | "locked" | "held"> & { isNew?: boolean },
  wanted: CurrentServices,
): Promise<ResolvedTerms> {
  const heldByKey = new Map(held.map((service) => [service.key, service]));
  const missing = Object.keys(wanted).filter((key) => heldByKey.get(key)?.isActive !== true);
  const newest = new Map(
    (await newestActiveVersions(ctx.db, organizationId, missing)).map(({ key, version }) => [key, version]),
  );
  const versionOf = (key: string) => {
    const service = heldByKey.get(key);
    return (service?.isActive === true ? service.version : newest.get(key)) ?? service?.version ?? "";
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
    next: await resolveSubscription(ctx, locked, subscription, occasion, heldIds),
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

async function create(ctx: Context, target: Target): Promise<Written> {
  const { organizationId, userId, plan, now, cause } = target;
  const { next } = await resolveTerms(ctx, { ...target, isNew: true }, plan.services);
  const columns = columnsOf(plan.billing ?? { start: now.getTime(), end: null, autoRenew: true, renewalPeriod: null });
  const [row] = await ctx.db
    .insert(contracts)
    .values({ id: newId(now), organizationId, userId, username: userId, ...columns })
    .returning();
  if (row === undefined) throw new Error("an inserted contract vanished");
  await addSubscriptions(ctx.db, { contractIds: [row.id], next, now });
  await recordStates(ctx.db, { contractIds: [row.id], cause: "creation", now });
  const [view] = await viewSubscriptions(ctx.db, [row.id]);
  if (view === undefined) throw new Error(`contract ${row.id} vanished inside its transaction`);
  await audit(ctx, { action: "contract.create", organizationId, target: userId, after: factsOf(view) });
  const facts = await readFacts(ctx.db, [row.id]);
  const fields = cause === undefined ? {} : { fields: { billing: cause } };
  return {
    row,
    held: await readServices(ctx, row.id),
    isChanged: true,
    events: namedEvents([{ code: "CONTRACT_CREATED", contractId: row.id, ...fields }], new Map(), facts),
  };
}

async function change(ctx: Context, target: Target & { contract: ContractRow }): Promise<Written> {
  const { contract, plan, held, now } = target;
  const columns = plan.billing === null ? undefined : columnsOf(plan.billing);
  const movesPeriod = columns !== undefined && !sameColumns(contract, columns);
  if (!plan.changesServices && !movesPeriod) return { row: contract, held, isChanged: false, events: [] };
  const ids = [contract.id];
  const before = await readFacts(ctx.db, ids);
  const novated = plan.changesServices ? await novate(ctx, target) : [];
  const moved = columns === undefined ? { updatedAt: now } : { ...columns, updatedAt: now };
  const [row] = await ctx.db.update(contracts).set(moved).where(eq(contracts.id, contract.id)).returning();
  if (row === undefined) throw new Error(`contract ${contract.id} vanished inside its transaction`);
  // A trial ends with the first payment.
  const trials = await cancelPending(ctx.db, ids, "Novated before its end", "trialEnd");
  await followPeriodEnds(ctx.db, ids);
  await recordStates(ctx.db, { contractIds: ids, cause: plan.changesServices ? "novation" : "billing", now });
  await auditChange(ctx, target, row);
  const after = await readFacts(ctx.db, ids);
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
    held: plan.changesServices ? await readServices(ctx, contract.id) : held,
    isChanged: true,
    events: [
      ...novated.filter(isFirst),
      ...events,
      ...novated.filter((event) => !isFirst(event)),
      ...trials.map((trial) => trialEvent(trial, "novated")),
    ],
  };
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

async function auditChange(
  ctx: Context,
  { contract, plan }: Target & { contract: ContractRow },
  row: ContractRow,
): Promise<void> {
  const { organizationId, userId } = row;
  if (!plan.changesServices) {
    const [before, after] = [billingOf(contract), billingOf(row)];
    return audit(ctx, { action: "contract.billing", organizationId, target: userId, before, after });
  }
  const [view] = await viewSubscriptions(ctx.db, [row.id]);
  if (view === undefined) throw new Error(`contract ${row.id} vanished inside its transaction`);
  return audit(ctx, {
    action: "contract.novate",
    organizationId,
    target: userId,
    before: view.history.at(-1),
    after: factsOf(view),
  });
}

/** Finds the services that a contract has or that its user ever bought. Lock them before the contract. */
export async function servicesToLock(
  ctx: Context,
  { organizationId, userId }: { organizationId: string; userId: string },
  more: readonly string[],
): Promise<string[]> {
  const rows = await ctx.db
    .select({ key: services.nameKey })
    .from(contracts)
    .innerJoin(contractServices, eq(contractServices.contractId, contracts.id))
    .innerJoin(services, eq(services.id, contractServices.serviceId))
    .where(and(eq(contracts.organizationId, organizationId), eq(contracts.userId, userId)));
  const followed = await readFollowed(ctx.db, { organizationId, userId });
  return [
    ...new Set([...rows.map(({ key }) => key), ...followed.flatMap(({ register }) => register.everServices), ...more]),
  ];
}
