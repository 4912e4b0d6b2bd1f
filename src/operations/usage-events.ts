import type { PrivateEvent } from "../core/event-messages.ts";
import { isBound } from "../core/pricing/model.ts";
import { hasAlerts, reachedThresholds, type RaisedThreshold } from "../core/usage-alerts.ts";
import type { ContractSnapshot, Level } from "../db/queries/contract-snapshots.ts";
import { sameLevel } from "../db/queries/usage.ts";
import type { RaisedLevel } from "../db/queries/usage-alerts.ts";

/** A level with what has been raised of it. */
export type AlertedLevel = Level & RaisedThreshold;

/** Change of one balance by a movement, with the limit as it is then. Amounts that are held do not count. */
export interface BalanceChange {
  level: AlertedLevel;
  before: number;
  after: number;
  limit: unknown;
}

/** Threshold to remember, with the level that it was raised for. */
export type Raised = RaisedLevel & { level: AlertedLevel };

/** Events of movements, and the thresholds to remember in the same transaction. */
export interface UsageEvents {
  events: PrivateEvent[];
  raised: Raised[];
}

type Owner = Pick<ContractSnapshot, "contractId" | "services" | "thresholds">;

/**
 * Returns what movements raise: of each USAGE_LIMIT_REACHED if it brings the balance to or past its limit, then the
 * thresholds that it reaches. Source: contract usage-records §6.
 */
export function usageEvents(owner: Owner, userId: string, changes: readonly BalanceChange[]): UsageEvents {
  const all: UsageEvents = { events: [], raised: [] };
  for (const change of changes) {
    const { limit, before, after: consumed } = change;
    if (isBound(limit) && consumed >= limit && before < limit) {
      all.events.push({ code: "USAGE_LIMIT_REACHED", details: { ...named(owner, userId, change), limit, consumed } });
    }
    raiseThresholds(owner, userId, change, all);
  }
  return all;
}

/** Returns the thresholds that movements reach. */
export function thresholdEvents(owner: Owner, userId: string, changes: readonly BalanceChange[]): UsageEvents {
  const all: UsageEvents = { events: [], raised: [] };
  for (const change of changes) raiseThresholds(owner, userId, change, all);
  return all;
}

/** Returns the level with the last threshold that was raised for it. */
export function withRaised<L extends AlertedLevel>(level: L, raised: readonly Raised[]): L {
  const last = raised.findLast((one) => sameLevel(one, level));
  return last === undefined ? level : { ...level, alertedThreshold: last.threshold, alertedLimit: last.limit };
}

/** Adds the thresholds that one movement reaches. */
function raiseThresholds(owner: Owner, userId: string, change: BalanceChange, all: UsageEvents): void {
  const { level, before, after: consumed, limit } = change;
  if (consumed <= before || !hasAlerts(limit)) return;
  const reached = reachedThresholds(owner.thresholds, { consumed, limit }, level);
  const highest = reached.at(-1);
  if (highest === undefined) return;
  const resetTimeStamp = level.resetAt?.toISOString() ?? null;
  for (const threshold of reached) {
    const details = { ...named(owner, userId, change), threshold, limit, consumed, resetTimeStamp };
    all.events.push({ code: "USAGE_THRESHOLD_REACHED", details });
  }
  const { serviceId, limitName } = level;
  all.raised.push({ contractId: owner.contractId, serviceId, limitName, threshold: highest, limit, level });
}

function named({ contractId, services }: Owner, userId: string, { level }: BalanceChange) {
  const serviceName = services.find(({ serviceId }) => serviceId === level.serviceId)?.key ?? "";
  return { contractId, userId, serviceName, limitName: level.limitName };
}
