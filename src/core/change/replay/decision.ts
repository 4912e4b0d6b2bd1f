import { sum, total } from "../../exact.ts";
import { costOfUnits, deniesSettlement, firstDenying } from "../../pricing/budget-decision.ts";
import type { Budget } from "../../pricing/budgets.ts";
import { creditTermsOf, type Rates } from "../../pricing/credits.ts";
import { decideConsumption, offReasonOf } from "../../pricing/decide.ts";
import type { Evaluation } from "../../pricing/evaluate.ts";
import { involvedLimits } from "../../pricing/involved-limits.ts";
import { limitValue, locateFeature } from "../../pricing/evaluation.ts";
import { isBound } from "../../pricing/model.ts";
import type { ActualContract } from "./actual.ts";
import type { ReplayedBudgets, ReplayedPart } from "./budgets.ts";
import { type Call, pricedAmount, unitCosts } from "./calls.ts";
import type { ReplaySetting } from "./entitled.ts";
import type { RecordedHold, RecordedMovement } from "./record.ts";
import type { ReplayedUsage } from "./usage.ts";

/** Reason why a replayed call is denied. `gone`: the target lacks the feature or a limit of the call. */
export type DenialReason = "LIMIT_REACHED" | "NOT_GRANTED" | "BUDGET_REACHED" | "gone";

/** A granted call has what it counts: limit ids, and what it takes of budgets. */
export type Decided =
  | { readonly ids: ReadonlySet<string>; readonly budgets: readonly ReplayedPart[] }
  | { readonly reason: DenialReason };

/** A call to decide. */
interface Decision extends Pick<Call, "spender"> {
  readonly featureId: string;
  readonly amounts: Readonly<Record<string, number>>;
  readonly at: number;
  readonly usedAt: number;
  /** Also denies amounts that do not fit into a limit. */
  readonly strict: boolean;
  /** Movements with units, for budgets that count some of them. */
  readonly rows: readonly RecordedMovement[];
}

/** Decides the calls of one contract by the code that decides them on the server: core/pricing/decide.ts and budget-decision.ts. */
export class Decisions {
  readonly #setting: ReplaySetting;
  readonly #usage: ReplayedUsage;
  readonly #budgets: ReplayedBudgets;
  readonly #actual: ActualContract;

  constructor(
    setting: ReplaySetting,
    { usage, budgets, actual }: { usage: ReplayedUsage; budgets: ReplayedBudgets; actual: ActualContract },
  ) {
    this.#setting = setting;
    this.#usage = usage;
    this.#budgets = budgets;
    this.#actual = actual;
  }

  /** Decides a call by the expression that decided it in reality, and by the budgets that fit its spender. */
  decide(evaluation: Evaluation, call: Decision): Decided {
    const { featureId, amounts, at, strict } = call;
    const usage = this.#usage.byId;
    const feature = locateFeature(evaluation, featureId)?.feature;
    const mode = feature?.client === feature?.server ? { server: false } : this.#actual.modeOf(featureId, at);
    // A limit that only the target has is not consumed: nobody reported it.
    const expected: Record<string, number> = {};
    const involved = involvedLimits(evaluation, featureId, mode);
    for (const { id } of involved) expected[id] = amounts[id] ?? 0;
    const { result } = decideConsumption(evaluation, usage, { featureId, expected, mode, strict });
    if (!result.eval || result.error !== null)
      return { reason: offReasonOf(evaluation, usage, featureId, { mode, used: result.used }) };
    const budgets = this.#budgets.isEmpty
      ? []
      : this.#budgetParts(evaluation, involved, { ...call, amounts: expected });
    if (firstDenying(budgets) !== undefined) return { reason: "BUDGET_REACHED" };
    return { ids: new Set(Object.keys(expected)), budgets };
  }

  #budgetParts(evaluation: Evaluation, involved: ReturnType<typeof involvedLimits>, call: Decision): ReplayedPart[] {
    const levels = involved.flatMap(({ id, ...named }) => {
      const level = this.#usage.levelOf(named);
      return level === undefined ? [] : [{ id, level }];
    });
    const costOf = (budget: Budget, beginning: string) => this.#costOfUnits(call.rows, budget, beginning);
    return this.#budgets.parts(levels, { ...call, evaluation, costOfUnits: costOf });
  }

  /** Settles a hold that the target granted: up to the held amounts always, and more within numeric limits and budgets. */
  settle(
    evaluation: Evaluation,
    hold: RecordedHold,
    { amounts, rows, budgets }: Pick<Decision, "amounts" | "rows"> & { budgets: readonly ReplayedPart[] },
  ): Decided {
    const isAbove = hold.amounts.some(({ serviceId, limitName, amount: held }) => {
      const id = this.#usage.idOf({ serviceId, limitName }) ?? "";
      const [limit, amount] = [limitValue(evaluation, id), amounts[id] ?? 0];
      return isBound(limit) && amount > held && sum(this.#usage.byId.get(id) ?? 0, amount) > limit;
    });
    if (isAbove) return { reason: "LIMIT_REACHED" };
    const counted = budgets.map((part): ReplayedPart => {
      const { budget } = part.fit;
      const all = amounts[part.id] ?? 0;
      if (budget.unit === null) return { ...part, amount: all };
      const hasUnits = rows.some(([, , , , , , , , , units]) => units !== null);
      const amount = hasUnits ? this.#costOfUnits(rows, budget, budget.unit) : Math.min(part.amount, all);
      return { ...part, amount };
    });
    const isDenied = budgets.some((part, index) => deniesSettlement(part, counted[index]?.amount ?? 0));
    return isDenied ? { reason: "BUDGET_REACHED" } : { ids: new Set(Object.keys(amounts)), budgets: counted };
  }

  /** True if the target lacks the feature, or a limit that the call consumed. */
  isGone(
    evaluation: Evaluation,
    featureId: string | null,
    limits: readonly { serviceId: string; limitName: string }[],
  ): boolean {
    const { serviceId, target } = this.#setting;
    if (featureId === null || locateFeature(evaluation, featureId) === undefined) return true;
    return limits.some((limit) => limit.serviceId === serviceId && !target.usageLimits.has(limit.limitName));
  }

  /** Returns what a movement counts under the target: its units at the target's rates. Undefined if they have no price. */
  amountOf(row: RecordedMovement): number | undefined {
    const [, serviceId, , , , amount, , , , units] = row;
    const isPriced = units !== null && serviceId === this.#setting.serviceId;
    return isPriced ? pricedAmount(row, this.#ratesOf(row)) : amount;
  }

  #ratesOf([, serviceId, limitName]: RecordedMovement): Rates | undefined {
    if (serviceId !== this.#setting.serviceId) return undefined;
    return creditTermsOf(this.#setting.target.pricing).rates.get(limitName);
  }

  /** Returns what units with this beginning cost in the movements of one limit. */
  #costOfUnits(rows: readonly RecordedMovement[], { serviceId, limitName }: Budget, beginning: string): number {
    const those = rows.filter((row) => row[1] === serviceId && row[2] === limitName);
    return total(those.map((row) => costOfUnits(unitCosts(row, this.#ratesOf(row)), beginning)));
  }
}
