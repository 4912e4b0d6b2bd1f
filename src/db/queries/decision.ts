import type { BudgetMovement } from "../../core/pricing/budgets.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import type { BudgetChange } from "./budgets.ts";
import type { ContractSnapshot } from "./contract-snapshots.ts";
import type { HoldEnd, NewHold } from "./holds.ts";
import type { Addressed } from "./outbox.ts";
import type { RaisedLevel } from "./usage-alerts.ts";

/** Granted consumption of one limit. */
export interface Consumption {
  contractId: string;
  serviceId: string;
  limitName: string;
  /** Zero or more. */
  amount: number;
  featureId: string;
  operationId: string;
  /** Moment of use, of a batch item only. Default: now. */
  usedAt?: Date | undefined;
  /** Path of the spender. Default: none. */
  spender?: string | null | undefined;
  /** Balances of budgets that it moves. Default: none. */
  budgets?: readonly BudgetMovement[] | undefined;
  /** Units that the amount stands for. Default: none. */
  units?: CountedUnits | undefined;
}

/** Consumption granted for one contract, with the events to record; usually there are none. */
export interface Decision {
  organizationId: string;
  /** The snapshot that the decision is based on. */
  contract: ContractSnapshot;
  consumptions: readonly Consumption[];
  /** Holds taken and ended. */
  takes: readonly NewHold[];
  ends: readonly HoldEnd[];
  /** Changes of balances of budgets, each balance once. */
  budgets: readonly BudgetChange[];
  events: readonly Addressed[];
  /** Thresholds among the events. */
  raised: readonly RaisedLevel[];
}

/**
 * Change of one balance, as faregate_consume_or_hold reads it. One with an `amount` is a movement, and names its organization,
 * feature and operation.
 */
interface Change {
  contractId: string;
  serviceId: string;
  limitName: string;
  amount?: number;
  organizationId?: string;
  featureId?: string;
  operationId?: string;
  spender?: string | null | undefined;
  budgets?: readonly BudgetMovement[] | undefined;
  units?: CountedUnits | undefined;
  held?: number;
  openHolds?: number;
  holdDue?: number;
}

/** Returns the changes of balances by a decision: by its consumption, and by the holds that it takes and ends. */
export function changesOf({ organizationId, contract, consumptions, takes, ends }: Decision): Change[] {
  const { contractId } = contract;
  const changes = consumptions.map((one): Change => ({
    contractId,
    serviceId: one.serviceId,
    limitName: one.limitName,
    amount: one.amount,
    organizationId,
    featureId: one.featureId,
    operationId: one.operationId,
    spender: one.spender,
    budgets: one.budgets,
    units: one.units,
  }));
  for (const { amounts, until } of takes) {
    for (const { serviceId, limitName, amount } of amounts) {
      changes.push({ contractId, serviceId, limitName, held: amount, openHolds: 1, holdDue: until.getTime() });
    }
  }
  for (const { hold, counted, budgets, units } of ends) {
    const { id: operationId, featureId } = hold;
    for (const { serviceId, limitName, id, amount: held } of hold.amounts) {
      const change: Change = { contractId, serviceId, limitName, held: -held, openHolds: -1 };
      const amount = counted?.[id];
      if (amount !== undefined && amount > 0) {
        change.amount = amount;
        change.organizationId = organizationId;
        change.featureId = featureId;
        change.operationId = operationId;
        change.spender = hold.spender;
        change.budgets = budgets?.[id];
        change.units = units?.[id];
      }
      changes.push(change);
    }
  }
  return changes;
}

/** Returns a taken hold, as the functions of the database read it. */
export const takeOf = ({
  id,
  contractId,
  organizationId,
  featureId,
  amounts,
  onExpiry,
  until,
  spender,
  budgets,
}: NewHold) => ({
  id,
  contractId,
  organizationId,
  featureId,
  amounts,
  onExpiry,
  until: until.getTime(),
  spender,
  budgets,
});

/** Returns the end of a hold, as the functions of the database read it. */
export const endOf = ({ hold: { id, contractId, until }, state, counted }: HoldEnd) => ({
  id,
  contractId,
  until: until.getTime(),
  state,
  counted,
});
