import type { Balances } from "./balances.ts";
import type { ReplayedBudgets, ReplayedPart } from "./budgets.ts";
import type { DenialReason } from "./decision.ts";
import type { RecordedHold } from "./record.ts";
import type { ReplayedUsage } from "./usage.ts";

/** A hold that the target granted, with what it holds of budgets. */
interface OpenHold {
  readonly hold: RecordedHold;
  readonly budgets: readonly ReplayedPart[];
}

/** Holds of one replayed contract: those that are open, and those that the target refused. */
export class ReplayedHolds {
  readonly #balances: Balances;
  readonly #usage: ReplayedUsage;
  readonly #budgets: ReplayedBudgets;
  readonly #open = new Map<string, OpenHold>();
  readonly #refused = new Map<string, DenialReason>();

  constructor({ balances, usage, budgets }: { balances: Balances; usage: ReplayedUsage; budgets: ReplayedBudgets }) {
    this.#balances = balances;
    this.#usage = usage;
    this.#budgets = budgets;
  }

  /** Returns an open hold. */
  get(id: string): OpenHold | undefined {
    return this.#open.get(id);
  }

  /** Returns why the target refused a hold. Undefined if it did not. */
  refusalOf(id: string): DenialReason | undefined {
    return this.#refused.get(id);
  }

  refuse({ id }: RecordedHold, reason: DenialReason): void {
    this.#refused.set(id, reason);
  }

  /** Sets the amounts of a hold aside. */
  take(hold: RecordedHold, budgets: readonly ReplayedPart[]): void {
    const open = { hold, budgets };
    this.#open.set(hold.id, open);
    this.#change(open, 1);
  }

  /** Gives back what a hold holds, if it is open. */
  release(id: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    this.#change(open, -1);
  }

  #change({ hold: { amounts }, budgets }: OpenHold, sign: 1 | -1): void {
    for (const { serviceId, limitName, amount } of amounts) {
      const level = this.#balances.level(serviceId, limitName);
      if (level !== undefined) this.#usage.change(level, { held: sign * amount });
    }
    for (const part of budgets) this.#budgets.hold(part, sign * part.amount);
  }
}
