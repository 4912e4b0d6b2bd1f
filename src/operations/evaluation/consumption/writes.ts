import type { FeatureResult } from "../../../core/pricing/evaluate.ts";
import type { BudgetChange } from "../../../db/queries/budgets.ts";
import type { Consumption } from "../../../db/queries/decision.ts";
import type { HoldEnd, NewHold } from "../../../db/queries/holds.ts";
import type { SeenLevel } from "../../../db/queries/contract-snapshots.ts";
import type { Addressed } from "../../../db/queries/outbox.ts";
import { sameLevel } from "../../../db/queries/usage.ts";
import { moveBudget } from "../budget-moves.ts";
import { type BudgetPart, movementsOf } from "../budget-parts.ts";
import { recordedSpender } from "../spenders.ts";
import { type BalanceChange, type Raised, usageEvents, withRaised } from "../../usage-events.ts";
import { balanceChanges, consumedOf, type InvolvedLevels } from "../decision.ts";
import type { Prepared } from "../prepare.ts";
import type { QueuedEvaluation, QueuedRequest } from "../request.ts";

/** Rows and events that granted requests of a contract write, in their order. */
export interface Writes {
  /** By contract and balance. */
  budgets: Map<string, BudgetChange>;
  consumptions: Consumption[];
  takes: NewHold[];
  ends: HoldEnd[];
  events: Addressed[];
  raised: Raised[];
  /** The levels after the last request that changed them, by the level of the snapshot. */
  levels: Map<SeenLevel, SeenLevel>;
}

/** Creates the empty lists of what moves balances. */
export const noBalanceWrites = (): Pick<Writes, "consumptions" | "events" | "raised" | "levels" | "budgets"> => ({
  consumptions: [],
  events: [],
  raised: [],
  levels: new Map(),
  budgets: new Map(),
});

/**
 * Counts a granted request: adds its consumption and events to what is written, and to the balances that the next request
 * of the contract sees. `result` has the usage after it.
 */
export function countGranted(
  prepared: Prepared,
  request: QueuedEvaluation,
  { result, parts, involved }: { result: FeatureResult; parts: readonly BudgetPart[]; involved: InvolvedLevels },
  writes: ReturnType<typeof noBalanceWrites>,
  { operationId, usedAt }: Pick<Consumption, "operationId" | "usedAt">,
): void {
  const { usage, held } = prepared;
  const { contractId } = prepared.contract;
  const { featureId, expected, pricedUnits } = request;
  const changes = balanceChanges(prepared, involved, result);
  for (const { id, level } of involved) {
    const { serviceId, limitName } = level;
    const after = result.used?.[id] ?? 0;
    const amount = expected[id] ?? 0;
    const spender = recordedSpender(request.spender);
    const budgets = movementsOf(parts, level);
    const units = pricedUnits?.[id];
    writes.consumptions.push({
      contractId,
      serviceId,
      limitName,
      amount,
      featureId,
      spender,
      budgets,
      units,
      operationId,
      usedAt,
    });
    changeLevel(writes, level, (now) => ({ ...now, consumed: consumedOf(after, held.get(id)) }));
    usage.set(id, after);
  }
  raiseEvents(prepared, request, writes, changes);
  for (const part of parts) moveBudget(prepared, request, part, { used: part.amount }, writes);
}

/** Adds the events of changed balances. The levels remember the thresholds that these raise. */
export function raiseEvents(
  { contract }: Prepared,
  { organizationId, userId }: Pick<QueuedRequest, "organizationId" | "userId">,
  writes: Pick<Writes, "events" | "raised" | "levels">,
  changes: readonly BalanceChange[],
): void {
  const earlier = writes.raised.filter(({ contractId }) => contractId === contract.contractId);
  const current = changes.map((change) => ({ ...change, level: withRaised(change.level, earlier) }));
  const { events, raised } = usageEvents(contract, userId, current);
  if (events.length === 0) return;
  for (const event of events) writes.events.push({ organizationId, event });
  writes.raised.push(...raised);
  for (const level of contract.levels) {
    if (raised.some((one) => sameLevel(one, level))) changeLevel(writes, level, (now) => withRaised(now, raised));
  }
}

export function changeLevel(
  { levels }: Pick<Writes, "levels">,
  level: SeenLevel,
  change: (now: SeenLevel) => SeenLevel,
): void {
  levels.set(level, change(levels.get(level) ?? level));
}
