import { and, eq, lte } from "drizzle-orm";
import { evaluateBoolean, evaluateFeature, featureIds, type FeatureResult } from "../../core/pricing/evaluate.ts";
import { findBlockHolders } from "../../db/queries/block-listing.ts";
import { readBlocksAt } from "../../db/queries/blocks.ts";
import { type PastState, readRecord } from "../../db/queries/contract-states.ts";
import { readLedgerStart } from "../../db/queries/ledger-partitions.ts";
import type { StateCause } from "../../db/schema.ts";
import { type ContractView, viewOf } from "../../db/queries/contract-view.ts";
import { contractHistory, type contracts } from "../../db/schema.ts";
import { holdsAt, type TimedOverride } from "../../core/pricing/overrides.ts";
import { NONE_RAISED } from "../../core/usage-alerts.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import type { Context } from "../context.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { withCustomTerms } from "../contract-views.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { decide, explained, isOffByBudget, priced, withCost } from "./decision.ts";
import { Failure } from "../errors.ts";
import { evaluatedOrganization, prepare, type Prepared, withLockedHolder } from "./prepare.ts";
import { asRenewed } from "./renewal.ts";
import type { Spender } from "../../core/pricing/budgets.ts";
import { loadPastBudgets } from "./past-budgets.ts";
import type { EvaluationRequest, FeatureAnswer, Mode } from "./request.ts";

/*
 * Answers questions about past moments from recorded contract states and the usage ledger. A moment before the records
 * begin is rejected: a guessed number is worse than none.
 */

/** The contract state that an answer about a past moment is based on. */
export interface AsOf {
  at: Date;
  /** When the contract entered this state; `cause` is the reason. */
  since: Date;
  cause: StateCause;
  /** When the state ended; null if it is still current. */
  until: Date | null;
}

/** Adds the subscription and the balances that the decision used. */
export interface AsOfContract extends AsOf {
  contract: Pick<
    ContractView,
    "id" | "billingPeriod" | "contractedServices" | "subscriptionPlans" | "subscriptionAddOns" | "usageLevels"
  > & {
    /** Service -> id of its version. The id stays unambiguous when a version of the same name is uploaded later. */
    pricingIds: Record<string, string>;
    /** The overrides that held, if any. */
    overrides?: (TimedOverride & { service: string })[];
  };
}

interface Past {
  row: typeof contracts.$inferSelect;
  state: PastState;
  /** Movements up to this moment are compacted into sums. Null: none are. */
  ledgerStart: Date | null;
  asOf: AsOf;
}

/**
 * Finds the contract and its state at that moment.
 * @throws Failure notFound for a contract that did not exist yet, or was deleted; invalid for a moment in the future,
 * or before the records begin.
 */
async function findPast(ctx: Context, address: ContractAddress, at: Date): Promise<Past> {
  if (at.getTime() > ctx.resources.now().getTime()) {
    throw new Failure("invalid", "INVALID DATA: at must not be in the future");
  }
  const { userId } = address;
  await applyDueChangesOf(ctx, address);
  const row = await findContract(ctx, address);
  const record = await readRecord(ctx.db, row.id, at);
  // After the record: if a compaction ends meanwhile, the moment is refused, and not answered from sums.
  const ledgerStart = await readLedgerStart(ctx.db);
  if (record === undefined)
    throw new Failure("invalid", `INVALID DATA: There is no record of the contract of ${userId}`);
  const { first, state } = record;
  const start = first.since.toISOString();
  if (state === null && first.cause === "creation") {
    throw new Failure(
      "notFound",
      `Contract with userId ${userId} not found at ${at.toISOString()}: it begins at ${start}`,
    );
  }
  if (ledgerStart !== null && at.getTime() < ledgerStart.getTime()) {
    throw new Failure("invalid", `INVALID DATA: The record of usage starts at ${ledgerStart.toISOString()}`);
  }
  if (state === null) {
    throw new Failure("invalid", `INVALID DATA: The record of the contract of ${userId} starts at ${start}`);
  }
  if (!record.isComplete) {
    throw new Failure(
      "invalid",
      `INVALID DATA: The record of the contract of ${userId} is incomplete since ${state.since.toISOString()}`,
    );
  }
  return { row, state, ledgerStart, asOf: { at, since: state.since, cause: state.cause, until: state.until } };
}

function viewAt({ row, state }: Past, past: ContractView["history"] = []): ContractView {
  const { startDate, endDate, autoRenew, renewalDays, renewalValue, renewalUnit } = state;
  return viewOf(
    { ...row, startDate, endDate, autoRenew, renewalDays, renewalValue, renewalUnit },
    {
      contracted: state.services,
      levels: state.services.flatMap(({ key, serviceId }) =>
        state.levels
          .filter((level) => level.serviceId === serviceId)
          .map(({ limitName, consumed, held, resetAt }) => ({
            service: key,
            limit: limitName,
            consumed,
            held,
            resetAt,
          })),
      ),
      past,
    },
  );
}

/** The contract as it was at that moment, except for contact and group, which are current. */
export async function showContractAt(
  ctx: Context,
  { at, ...address }: ContractAddress & { at: Date },
): Promise<ContractView & { asOf: AsOf }> {
  const past = await findPast(ctx, address, at);
  const history = await ctx.db
    .select()
    .from(contractHistory)
    .where(and(eq(contractHistory.contractId, past.row.id), lte(contractHistory.endDate, at)))
    .orderBy(contractHistory.id);
  const { services, overrides, trial } = past.state;
  const shown = await withCustomTerms(
    ctx,
    [{ view: viewAt(past, history), services, overrides, scheduled: null, trial, billing: null }],
    at,
  );
  return { ...(shown[0] ?? viewAt(past, history)), asOf: past.asOf };
}

/** Returns the overrides that held at that moment, with the service name of that time. */
function overridesAt({ services, overrides }: PastState, at: Date): (TimedOverride & { service: string })[] {
  return overrides
    .filter((override) => holdsAt(override, at))
    .map(({ serviceId, kind, name, mode, value, from, until }) => {
      const service = services.find((each) => each.serviceId === serviceId)?.key ?? "";
      return { service, kind, name, mode, value, from, until };
    });
}

/** Prepares the past contract for evaluation, with the budgets of the spender. */
async function prepareAt(
  ctx: Context,
  { userId, at, spender = [] }: { userId: string; at: Date; spender?: Spender | undefined },
): Promise<Prepared & { asOf: AsOfContract }> {
  const past = await findPast(ctx, { organizationId: evaluatedOrganization(ctx), userId }, at);
  const { row, state } = past;
  // Write the draws at ends that have passed before reading them.
  const [holder] = await findBlockHolders(ctx.db, [row.id]);
  if (holder !== undefined) await withLockedHolder(ctx, holder, async () => {});
  const blocks = await readBlocksAt(ctx.db, row.id, at);
  const contractThen: ContractSnapshot = {
    contractId: row.id,
    version: "",
    startDate: state.startDate,
    endDate: state.endDate,
    autoRenew: state.autoRenew,
    renewalDays: state.renewalDays,
    renewalValue: state.renewalValue,
    renewalUnit: state.renewalUnit,
    changeAt: null,
    // The list of members has no past.
    memberCount: 0,
    services: state.services,
    levels: state.levels.map((level) => ({ ...level, ...NONE_RAISED, version: "" })),
    overrides: state.overrides,
    blocks,
    budgets: state.budgets,
    thresholds: [],
  };
  const renewed = asRenewed(contractThen, at);
  const used = viewAt({ ...past, state: { ...state, endDate: renewed.endDate, levels: renewed.levels } });
  const { id, billingPeriod, contractedServices, subscriptionPlans, subscriptionAddOns, usageLevels } = used;
  const pricingIds = Object.fromEntries(state.services.map(({ key, pricingId }) => [key, pricingId]));
  const held = overridesAt(state, at);
  const contract = {
    id,
    billingPeriod,
    contractedServices,
    pricingIds,
    subscriptionPlans,
    subscriptionAddOns,
    usageLevels,
    ...(held.length === 0 ? {} : { overrides: held }),
  };
  const prepared = await prepare(ctx, renewed, at);
  const budgets = await loadPastBudgets(ctx, prepared, {
    spender,
    levels: state.levels,
    ledgerStart: past.ledgerStart,
  });
  return { ...prepared, budgets, asOf: { ...past.asOf, contract } };
}

/** Evaluates one feature as of that moment, and returns the state used. Consumes nothing. */
export async function evaluateOneAt(
  ctx: Context,
  { at, ...request }: EvaluationRequest & { at: Date },
): Promise<FeatureAnswer & { asOf: AsOfContract }> {
  const prepared = await prepareAt(ctx, { ...request, at });
  const tried = { ...priced(prepared, request), strict: true };
  const { result } = decide(prepared, { ...tried, strict: request.strict });
  return { ...withCost(explained(prepared, result, tried, prepared.usage), tried), asOf: prepared.asOf };
}

/** Evaluates every feature as of that moment, as booleans or with details. */
export async function evaluateAllAt(
  ctx: Context,
  {
    at,
    userId,
    mode,
    details,
    spender,
  }: { at: Date; userId: string; mode: Mode; details: boolean; spender?: Spender | undefined },
): Promise<{ features: Record<string, boolean | FeatureResult>; asOf: AsOfContract }> {
  const prepared = await prepareAt(ctx, { userId, at, spender });
  const { evaluation, usage, asOf } = prepared;
  const evaluate = details ? evaluateFeature : evaluateBoolean;
  const features: Record<string, boolean | FeatureResult> = {};
  for (const id of featureIds(evaluation, mode)) {
    const result = evaluate(evaluation, id, usage, mode);
    const isOff = isOffByBudget(prepared, { featureId: id, mode, spender });
    features[id] = !isOff ? result : typeof result === "boolean" ? false : { ...result, eval: false };
  }
  return { features, asOf };
}
