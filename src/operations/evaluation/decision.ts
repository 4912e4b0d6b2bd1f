import type { PrivateEvent } from "../../core/event-messages.ts";
import type { OffReason } from "../../core/ofrep.ts";
import {
  checkExpectedConsumption,
  evaluateBoolean,
  evaluateFeature,
  type FeatureResult,
  involvedLimits,
} from "../../core/pricing/evaluate.ts";
import type { Prepared } from "./prepare.ts";
import type { EvaluationRequest, FeatureAnswer, Mode } from "./request.ts";

/** Evaluates a request against the balances as read, and decides if its consumption is counted. */
export function decide(
  { evaluation, usage }: Pick<Prepared, "evaluation" | "usage">,
  { featureId, expected, mode, strict }: EvaluationRequest,
): { result: FeatureResult; counts: boolean } {
  const result = evaluateFeature(evaluation, featureId, usage, mode);
  if (result.error !== null || Object.keys(expected).length === 0) return { result, counts: false };
  const incomplete = checkExpectedConsumption(evaluation, featureId, expected, mode);
  if (incomplete !== undefined) return { result: incomplete, counts: false };
  if (result.used === null) return { result, counts: false };
  const used = mapValues(result.used, (id, consumed) => sum(consumed, expected[id] ?? 0));
  const fits = Object.entries(used).every(([id, balance]) => {
    const limit = result.limit?.[id];
    return typeof limit !== "number" || balance <= limit || (expected[id] ?? 0) === 0;
  });
  const granted = result.eval && (fits || !strict);
  return { result: { ...result, eval: granted, used }, counts: granted };
}

/** Adds without binary rounding noise: 0.1 + 0.2 is 0.3, as in the database. */
function sum(a: number, b: number): number {
  const result = a + b;
  return Number.isInteger(result) ? result : Number(result.toPrecision(15));
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

/**
 * Returns an event for each balance that this consumption brings to or past its limit. Balances already there yield
 * none. `answer.used` are the balances after the consumption.
 */
export function limitsReached(
  { contract, usage }: Prepared,
  { userId }: EvaluationRequest,
  involved: ReturnType<typeof involvedLevels>,
  answer: FeatureResult,
): PrivateEvent[] {
  return involved.flatMap(({ id, level }): PrivateEvent[] => {
    const limit = answer.limit?.[id];
    const consumed = answer.used?.[id] ?? 0;
    if (typeof limit !== "number" || consumed < limit || (usage.get(id) ?? 0) >= limit) return [];
    const { contractId, services } = contract;
    const serviceName = services.find(({ serviceId }) => serviceId === level.serviceId)?.key ?? "";
    const { limitName } = level;
    const details = { contractId, userId, serviceName, limitName, limit, consumed };
    return [{ code: "USAGE_LIMIT_REACHED", details }];
  });
}

/** Adds the remaining amounts and reset times to a result, where the request includes them. */
export function explained(
  prepared: Prepared,
  result: FeatureResult,
  request: Pick<EvaluationRequest, "featureId" | "mode" | "explain" | "strict" | "dryRun">,
  balances: ReadonlyMap<string, number>,
): FeatureAnswer {
  if (!request.explain && !request.strict && !request.dryRun) return result;
  if (result.used === null) return { ...result, remaining: null, resetAt: null };
  const levels = new Map(involvedLevels(prepared, request).map(({ id, level }) => [id, level]));
  // A dry run reports the balances that it would leave.
  const after = request.dryRun && result.eval ? result.used : undefined;
  const remaining: Record<string, number | null> = {};
  const resetAt: Record<string, string | null> = {};
  for (const id of Object.keys(result.used)) {
    const limit = result.limit?.[id];
    const balance = after?.[id] ?? balances.get(id) ?? 0;
    remaining[id] = typeof limit === "number" ? Math.max(0, sum(limit, -balance)) : null;
    resetAt[id] = levels.get(id)?.resetAt?.toISOString() ?? null;
  }
  return { ...result, remaining, resetAt };
}

export function mapValues<T>(map: Record<string, T>, change: (key: string, value: T) => T): Record<string, T> {
  const result: Record<string, T> = {};
  for (const [key, value] of Object.entries(map)) result[key] = change(key, value);
  return result;
}

/** Determines why a feature is off, by a second evaluation with all balances at zero. */
export function offReason(
  { evaluation, usage }: Prepared,
  featureId: string,
  { used }: FeatureResult,
  mode: Mode,
): OffReason {
  if (used === null) return "NOT_GRANTED";
  const unused = new Map(Array.from(usage.keys(), (id) => [id, 0]));
  return evaluateBoolean(evaluation, featureId, unused, mode) ? "LIMIT_REACHED" : "NOT_GRANTED";
}

/**
 * Guesses why a feature is off from the answer alone. An exhausted limit that ever granted something is the reason,
 * otherwise the plan.
 */
export function likelyOffReason({ limit, used }: FeatureResult): OffReason {
  const isUsedUp = Object.entries(limit ?? {}).some(
    ([id, allowed]) => typeof allowed === "number" && allowed > 0 && (used?.[id] ?? 0) >= allowed,
  );
  return isUsedUp ? "LIMIT_REACHED" : "NOT_GRANTED";
}
