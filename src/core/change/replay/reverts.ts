import { sum } from "../../exact.ts";
import type { ReplayedLevel } from "./balances.ts";
import type { ReplayedBudgets, ReplayedPart } from "./budgets.ts";
import type { RecordedMovement } from "./record.ts";

/** Amount of one level that a call counted, in the replay and in the ledger. */
export interface CountedPart {
  readonly serviceId: string;
  readonly limitName: string;
  readonly recorded: number;
  /** Number of resets of the level at the call. */
  readonly resets: number;
  counted: number;
}

/** A call that is reverted later. */
interface Reverted {
  readonly featureId: string | null;
  readonly parts: readonly CountedPart[];
  /** Amounts of budgets that it counted. */
  readonly budgets: readonly ReplayedPart[];
}

/** Calls of one contract that are reverted later, by the moment of the revert, and by operation. */
export class Reverts {
  readonly #calls = new Map<number | string, Reverted[]>();
  /** Operations that are given back in part, such as leases that end early. */
  readonly #givenBack = new Set<string>();

  constructor(movements: Iterable<RecordedMovement>) {
    for (const [kind, , , , operationId] of movements) if (kind === "revert") this.#givenBack.add(operationId);
  }

  /** Keeps a call if the ledger says that it is reverted. */
  keep(
    call: Reverted,
    { operationId, revertedAt }: { operationId: string; revertedAt: number | null | undefined },
  ): void {
    for (const key of [revertedAt, this.#givenBack.has(operationId) ? operationId : undefined])
      if (key !== undefined && key !== null) this.#calls.set(key, [...(this.#calls.get(key) ?? []), call]);
  }

  /** Gives back what the replay counted for the reverted calls, and what was counted before the range. Returns the change of the level. */
  revert(
    [, serviceId, limitName, featureId, operationId, amount, at]: RecordedMovement,
    level: ReplayedLevel,
    budgets: ReplayedBudgets,
  ): number {
    const isPart = this.#calls.has(operationId);
    let earlier = -amount;
    let change = 0;
    for (const call of this.#calls.get(isPart ? operationId : at) ?? []) {
      if (call.featureId !== featureId) continue;
      for (const part of call.parts) {
        if (part.serviceId !== serviceId || part.limitName !== limitName) continue;
        const given = isPart ? Math.min(-amount, part.counted) : part.counted;
        earlier = isPart ? 0 : sum(earlier, -part.recorded);
        if (part.resets === level.resets) change = sum(change, -given);
        for (const taken of call.budgets) {
          if (taken.level === level && part.counted > 0)
            budgets.giveBack(taken, isPart ? Math.min(given, taken.amount) : taken.amount);
        }
        part.counted = sum(part.counted, -given);
      }
    }
    return earlier > 0 && level.resets === 0 ? sum(change, -earlier) : change;
  }
}
