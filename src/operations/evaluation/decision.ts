import { sum } from "../../core/exact.ts";
import type { OffReason } from "../../core/ofrep.ts";
import { firstDenying } from "../../core/pricing/budget-decision.ts";
import { decideConsumption, offReasonOf } from "../../core/pricing/decide.ts";
import { type Evaluation, evaluateBoolean, type FeatureResult } from "../../core/pricing/evaluate.ts";
import { involvedLimits } from "../../core/pricing/involved-limits.ts";
import { limitValue } from "../../core/pricing/evaluation.ts";
import { isBound } from "../../core/pricing/model.ts";
import { holdsAt } from "../../core/pricing/overrides.ts";
import { type LimitStep, limitSteps } from "../../core/pricing/sources.ts";
import type { SeenLevel } from "../../db/queries/contract-snapshots.ts";
import { grantedLimit } from "../evaluations.ts";
import type { BalanceChange } from "../usage-events.ts";
import { viewDenying } from "./budget-denials.ts";
import { type BudgetPart, budgetParts, remainingOfPart, viewBudget } from "./budget-parts.ts";
import type { Prepared } from "./prepare.ts";
import type { DecidedResult, EvaluationRequest, FeatureAnswer, Mode } from "./request.ts";
import { refuseSeats } from "./seats.ts";
import { recordedSpender, refuseStranger } from "./spenders.ts";
import { costOf, priceUnits, ratesIn } from "./units.ts";

/** Returns the evaluation that decides about a request: with blocks, unless it says otherwise. */
export const evaluationFor = (
  { evaluation, withoutBlocks }: Pick<Prepared, "evaluation" | "withoutBlocks">,
  { blocks }: Pick<EvaluationRequest, "blocks">,
): Evaluation => (blocks === false ? (withoutBlocks ?? evaluation) : evaluation);

/**
 * Returns the request with the amounts that its units cost now.
 * @throws Failure unprocessable for a limit without rates, an unknown unit, too large a cost, and an amount of a limit that
 * counts members; notFound for a spender that is no member.
 */
export function priced<Request extends EvaluationRequest>(
  prepared: Pick<Prepared, "evaluation" | "strangers">,
  request: Request,
): Request {
  const { evaluation } = prepared;
  refuseStranger(prepared, request);
  const pricedUnits = request.units && priceUnits(request.units, ratesIn(evaluation));
  const expected = pricedUnits === undefined ? request.expected : { ...request.expected, ...costOf(pricedUnits) };
  refuseSeats(evaluation, expected);
  return pricedUnits === undefined ? request : { ...request, expected, pricedUnits };
}

/** Returns an answer with what the units of its request cost. */
export const withCost = (answer: FeatureAnswer, { units, expected }: EvaluationRequest): FeatureAnswer =>
  units === undefined ? answer : { ...answer, amounts: expected };

/** Evaluates a request against the balances as read, and decides if its consumption is counted. `involved`: of one that counts. */
export function decide(
  prepared: Prepared,
  request: EvaluationRequest,
): { result: DecidedResult; counts: boolean; parts: BudgetPart[]; involved: InvolvedLevels } {
  const decided = decideByLimits(prepared, request);
  const isNeeded = decided.counts || prepared.budgets !== undefined;
  const involved = isNeeded ? involvedLevels(prepared, request) : [];
  const parts = prepared.budgets === undefined ? [] : budgetParts(prepared, involved, request);
  const denying = decided.result.eval ? firstDenying(parts) : undefined;
  // A literal: V8 takes microseconds for each field that is added to a copy.
  if (denying === undefined) return { result: decided.result, counts: decided.counts, parts, involved };
  const budget = viewDenying(prepared.contract, denying, recordedSpender(request.spender));
  return { result: { ...decided.result, eval: false, budget }, counts: false, parts, involved };
}

/** True if a budget that fits the spender is used up. The feature is off then, whatever its limits say. */
export function isOffByBudget(
  prepared: Prepared,
  request: Pick<EvaluationRequest, "featureId" | "mode" | "spender">,
): boolean {
  if (prepared.budgets === undefined) return false;
  return firstDenying(budgetParts(prepared, involvedLevels(prepared, request), request)) !== undefined;
}

/** Decides as {@link decide}, by limits alone. */
export function decideByLimits(
  prepared: Pick<Prepared, "evaluation" | "withoutBlocks" | "usage">,
  request: EvaluationRequest,
): { result: FeatureResult; counts: boolean } {
  const { expected, strict, hold } = request;
  const evaluation = evaluationFor(prepared, request);
  return decideConsumption(evaluation, prepared.usage, { ...request, expected, strict: strict || hold !== undefined });
}

/** Returns the usage levels that the feature's expression reads, with their identifiers in it. */
export function involvedLevels(
  { evaluation, contract }: Prepared,
  { featureId, mode }: Pick<EvaluationRequest, "featureId" | "mode">,
) {
  return involvedLimits(evaluation, featureId, mode).flatMap(({ id, serviceName, limitName }) => {
    const service = contract.services.find((one) => one.key === serviceName);
    const level = contract.levels.find((one) => one.serviceId === service?.serviceId && one.limitName === limitName);
    return level === undefined ? [] : [{ id, level }];
  });
}

export type InvolvedLevels = ReturnType<typeof involvedLevels>;

/** Returns the changes of balances by a consumption. `answer.used` is the usage after it. */
export function balanceChanges(
  { usage, held, evaluation, withoutBlocks }: Prepared,
  involved: InvolvedLevels,
  answer: FeatureResult,
): BalanceChange[] {
  return involved.map(({ id, level }) => {
    const before = consumedOf(usage.get(id) ?? 0, held.get(id));
    const after = consumedOf(answer.used?.[id] ?? 0, held.get(id));
    // Alerts are about the limit with blocks, also where the request was decided without.
    const limit = withoutBlocks === undefined ? answer.limit?.[id] : limitValue(evaluation, id);
    return { level, before, after, limit };
  });
}

/** Returns the consumed part of a usage. */
export const consumedOf = (usage: number, held: number | undefined): number =>
  held === undefined ? usage : sum(usage, -held);

/** The parts of a request that its answer depends on. `expected` and `blocks` matter for the reason alone. */
type Explained = Pick<EvaluationRequest, "featureId" | "mode" | "explain" | "strict" | "dryRun" | "hold"> &
  Partial<Pick<EvaluationRequest, "expected" | "units" | "blocks" | "spender">>;

/**
 * Adds the remaining amounts and reset times to a result, and why it is so, where the request includes them. `taken`: the hold
 * that was taken, of a request for one.
 */
export function explained(
  prepared: Prepared,
  result: DecidedResult,
  request: Explained,
  usage: ReadonlyMap<string, number>,
  taken: FeatureAnswer["hold"] = null,
): FeatureAnswer {
  const { explain, strict, dryRun, hold } = request;
  if (!explain && !strict && !dryRun && hold === undefined) return result;
  const parts = prepared.budgets === undefined ? [] : budgetParts(prepared, involvedLevels(prepared, request), request);
  const answer = { ...result, ...balancesAfter(prepared, result, request, usage, parts) };
  if (explain) Object.assign(answer, reasoned(prepared, result, request));
  if (explain && parts.length > 0) {
    Object.assign(answer, { budgets: parts.map((part) => viewBudget(part, dryRun && result.eval)) });
  }
  return hold === undefined ? answer : { ...answer, hold: taken };
}

/** Returns the balances after a call. Those after a dry run are the ones that it would leave. */
function balancesAfter(
  prepared: Prepared,
  { eval: granted, used, limit }: FeatureResult,
  request: Pick<EvaluationRequest, "featureId" | "mode" | "dryRun">,
  usage: ReadonlyMap<string, number>,
  parts: readonly BudgetPart[],
): Required<Pick<FeatureAnswer, "remaining" | "resetAt">> {
  if (used === null) return { remaining: null, resetAt: null };
  const levels = involvedLevels(prepared, request);
  const after = request.dryRun && granted ? used : undefined;
  const remaining: Record<string, number | null> = {};
  const resetAt: Record<string, string | null> = {};
  for (const id of Object.keys(used)) {
    const ofLimit = remainingOf(limit?.[id], after?.[id] ?? usage.get(id) ?? 0);
    remaining[id] = parts.length === 0 ? ofLimit : smallest(ofLimit, parts, id, after !== undefined);
    resetAt[id] = levels.find((one) => one.id === id)?.level.resetAt?.toISOString() ?? null;
  }
  return { remaining, resetAt };
}

/** Returns what limit and budgets leave together. Budgets for some units count where the call has such units. */
function smallest(ofLimit: number | null, parts: readonly BudgetPart[], id: string, counts: boolean): number | null {
  const counted = parts.filter(
    (part) => part.id === id && part.fit.budget.mode === "stop" && (part.fit.budget.unit === null || part.amount > 0),
  );
  const all = [ofLimit, ...counted.map((part) => remainingOfPart(part, counts))].filter((left) => left !== null);
  return all.length === 0 ? null : Math.min(...all);
}

/** Returns what is left of a limit; null if it is not numeric. */
export const remainingOf = (limit: unknown, usage: number): number | null =>
  typeof limit === "number" ? Math.max(0, sum(limit, -usage)) : null;

function reasoned(
  prepared: Prepared,
  result: DecidedResult,
  request: Explained,
): Required<Pick<FeatureAnswer, "reason" | "held" | "sources">> {
  const { usage, held } = prepared;
  const { featureId, mode, expected = {}, blocks } = request;
  const evaluation = evaluationFor(prepared, { blocks });
  const onlyBlocks = () =>
    blocks === false &&
    prepared.withoutBlocks !== undefined &&
    decide(prepared, { userId: "", ...request, expected, blocks: true }).result.eval;
  const onlyAmounts = () => evaluateBoolean(evaluation, featureId, usage, mode);
  const off = () => {
    if (result.budget !== undefined) return "BUDGET_REACHED";
    if (onlyBlocks()) return "BLOCKS_ONLY";
    return onlyAmounts() ? "LIMIT_REACHED" : offReason({ ...prepared, evaluation }, featureId, result, mode);
  };
  const reason = result.eval ? "GRANTED" : (result.error?.code ?? off());
  if (result.used === null) return { reason, held: null, sources: null };
  const sources = new Map(
    involvedLevels(prepared, { featureId, mode }).map(({ id, level }) => [id, sourcesOf(prepared, level, blocks)]),
  );
  return {
    reason,
    held: mapValues(result.used, (id) => held.get(id) ?? 0),
    sources: Object.fromEntries(
      Object.keys(result.used).map((id) => [id, result.limit?.[id] === null ? [] : (sources.get(id) ?? [])]),
    ),
  };
}

function sourcesOf(prepared: Prepared, level: SeenLevel, countsBlocks = true): LimitStep[] {
  const { contract, evaluation, withoutBlocks, at } = prepared;
  const { serviceId, limitName } = level;
  const service = contract.services.find((one) => one.serviceId === serviceId);
  const pricing = evaluation.services.find(({ serviceName }) => serviceName === service?.key)?.pricing;
  if (service === undefined || pricing === undefined) return [];
  const overrides = contract.overrides.filter((override) => override.serviceId === serviceId && holdsAt(override, at));
  const steps = limitSteps({ ...service, pricing, overrides }, limitName);
  if (withoutBlocks === undefined || !countsBlocks) return steps;
  const [limit, granted] = [evaluation, withoutBlocks].map((each) => grantedLimit(contract, each, level));
  const adds = isBound(limit) && isBound(granted) ? sum(limit, -granted) : 0;
  return adds === 0 ? steps : [...steps, { from: "blocks", adds }];
}

export function mapValues<T>(map: Record<string, T>, change: (key: string, value: T) => T): Record<string, T> {
  const result: Record<string, T> = {};
  for (const [key, value] of Object.entries(map)) result[key] = change(key, value);
  return result;
}

/** Determines why a feature is off; see {@link offReasonOf}. */
export const offReason = (
  { evaluation, usage }: Prepared,
  featureId: string,
  { used }: FeatureResult,
  mode: Mode,
): OffReason => offReasonOf(evaluation, usage, featureId, { mode, used });

/**
 * Guesses why a feature is off from the answer alone. An exhausted limit that ever granted something is the reason,
 * otherwise the plan.
 */
export function likelyOffReason({ limit, used, budget }: DecidedResult): OffReason {
  const isUsedUp =
    budget !== undefined ||
    Object.entries(limit ?? {}).some(
      ([id, allowed]) => isBound(allowed) && allowed > 0 && (used?.[id] ?? 0) >= allowed,
    );
  return isUsedUp ? "LIMIT_REACHED" : "NOT_GRANTED";
}
