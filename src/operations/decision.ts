import type { PrivateEvent } from "../core/event-messages.ts";
import type { OffReason } from "../core/ofrep.ts";
import {
  checkExpectedConsumption,
  evaluateBoolean,
  evaluateFeature,
  type FeatureResult,
  involvedLimits,
} from "../core/pricing/evaluate.ts";
import type { Mode, Prepared } from "./subject.ts";

/** One feature asked for one end user, with the use that is to be counted if it is granted. */
export interface Ask {
  userId: string;
  featureId: string;
  /** `<service>-<limit>` -> amount; empty to ask only. */
  expected: Readonly<Record<string, number>>;
  mode: Mode;
  /** Refuses what would pass a limit, where the contract alone lets one call pass it. */
  strict: boolean;
  /** Answers what would happen, and counts nothing. */
  dryRun: boolean;
  /** Adds what is left and when it resets to the answer; strict and dry calls always have it. */
  explain: boolean;
}

/** A feature's result; the additional fields speak of the balances as they are after the call. */
export interface FeatureAnswer extends FeatureResult {
  /** By limit: how much may still be consumed; null for a limit that is not a number. */
  readonly remaining?: Record<string, number | null> | null;
  /** By limit: when its balance starts again at zero, ISO 8601; null for one that never does. */
  readonly resetAt?: Record<string, string | null> | null;
}

/** What the balances as read say to it, and whether the use is to be counted. */
export function decide(
  { evaluation, usage }: Prepared,
  { featureId, expected, mode, strict }: Ask,
): { result: FeatureResult; counts: boolean } {
  const result = evaluateFeature(evaluation, featureId, usage, mode);
  if (result.error !== null || Object.keys(expected).length === 0) return { result, counts: false };
  const incomplete = checkExpectedConsumption(evaluation, featureId, expected, mode);
  if (incomplete !== undefined) return { result: incomplete, counts: false };
  if (result.used === null) return { result, counts: false };
  const used = mapValues(result.used, (id, consumed) => sum(consumed, expected[id] ?? 0));
  const fits = Object.entries(used).every(([id, total]) => {
    const limit = result.limit?.[id];
    return typeof limit !== "number" || total <= limit || (expected[id] ?? 0) === 0;
  });
  const granted = result.eval && (fits || !strict);
  return { result: { ...result, eval: granted, used }, counts: granted };
}

/** The sum without the noise of binary fractions: 0.1 and 0.2 are 0.3, as they are in the database. */
function sum(a: number, b: number): number {
  const total = a + b;
  return Number.isInteger(total) ? total : Number(total.toPrecision(15));
}

/** The levels that the feature's expression reads, with the identifiers under which it does. */
export function involvedLevels(
  { evaluation, subject }: Prepared,
  { featureId, mode }: Pick<Ask, "featureId" | "mode">,
) {
  return involvedLimits(evaluation, featureId, mode).flatMap(({ id, serviceName, limitName }) => {
    const service = subject.services.find((one) => one.key === serviceName);
    const level = subject.levels.find((one) => one.serviceId === service?.serviceId && one.limitName === limitName);
    return level === undefined ? [] : [{ id, level }];
  });
}

/** What to record of a use that takes balances to their limits or past them; nothing for one that was there already. */
export function limitsReached(
  prepared: Prepared,
  ask: Ask,
  involved: ReturnType<typeof involvedLevels>,
  limits: FeatureResult["limit"],
  before: ReadonlyMap<string, number>,
  after: (id: string) => number,
): PrivateEvent[] {
  return involved.flatMap(({ id, level }): PrivateEvent[] => {
    const limit = limits?.[id];
    const consumed = after(id);
    if (typeof limit !== "number" || consumed < limit || (before.get(id) ?? 0) >= limit) return [];
    const { contractId, services } = prepared.subject;
    const serviceName = services.find(({ serviceId }) => serviceId === level.serviceId)?.key ?? "";
    const { limitName } = level;
    const details = { contractId, userId: ask.userId, serviceName, limitName, limit, consumed };
    return [{ code: "USAGE_LIMIT_REACHED", details }];
  });
}

export function explained(
  prepared: Prepared,
  result: FeatureResult,
  ask: Ask,
  balances: ReadonlyMap<string, number>,
): FeatureAnswer {
  if (!ask.explain && !ask.strict && !ask.dryRun) return result;
  if (result.used === null) return { ...result, remaining: null, resetAt: null };
  const levels = new Map(involvedLevels(prepared, ask).map(({ id, level }) => [id, level]));
  // A dry call speaks of the balances that it would leave.
  const after = ask.dryRun && result.eval ? result.used : undefined;
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

/** Why a feature is off: tells by evaluating once more as if nothing had been used. */
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

/** The same as far as the answer alone tells: a limit without anything left is why, if there is one that ever gave something. */
export function likelyOffReason({ limit, used }: FeatureResult): OffReason {
  const isUsedUp = Object.entries(limit ?? {}).some(
    ([id, allowed]) => typeof allowed === "number" && allowed > 0 && (used?.[id] ?? 0) >= allowed,
  );
  return isUsedUp ? "LIMIT_REACHED" : "NOT_GRANTED";
}
