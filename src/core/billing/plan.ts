import type { BillingTarget, ContractTarget, ServiceTarget } from "./target.ts";
import { entryOf, type ServiceTerms } from "./terms.ts";

/*
 * From a target to what changes in a contract. Only what differs from the target that was applied last is changed, so
 * that a change by hand lasts until the provider says something new. Source: contract billing §3, "Effect".
 */

/** The part of a target that was applied to a contract. */
export interface AppliedTarget extends Pick<ContractTarget, "services" | "period" | "stopped"> {
  /** True if the contract was ended, and so kept services that nobody pays for. */
  readonly ends: boolean;
}

/** The subscription of a contract by service key, as far as it matters here. */
export type CurrentServices = Readonly<Record<string, ServiceTerms>>;

export interface ContractPlan {
  /** All services of the contract afterwards. */
  readonly services: CurrentServices;
  /** True if they are not those of now. */
  readonly changesServices: boolean;
  /** Null: stays as it is. */
  readonly billing: BillingTarget | null;
  readonly applied: AppliedTarget;
}

/** Plan and add-on names are equal whatever their case. A service without add-ons has an empty map or none. */
const textOf = ({ plan, addOns }: ServiceTerms) =>
  JSON.stringify([
    plan?.toLowerCase() ?? null,
    Object.entries(addOns)
      .map(([name, quantity]) => [name.toLowerCase(), quantity] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  ]);

const same = (a: ServiceTarget | undefined, b: ServiceTarget | undefined) =>
  a === b || (!!a && !!b && textOf(a) === textOf(b));

function sameServices(a: CurrentServices, b: CurrentServices): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => same(entryOf(a, key), entryOf(b, key)));
}

const sameBilling = (target: ContractTarget, applied: AppliedTarget | null) =>
  applied !== null &&
  JSON.stringify([target.period, target.stopped]) === JSON.stringify([applied.period, applied.stopped]);

/**
 * Plans a contract for a target; null if there is nothing to make a contract of. `current`: null without a contract.
 * `isOver`: the contract has ended and does not renew.
 */
export function planContract(
  contract: { readonly services: CurrentServices; readonly isOver: boolean } | null,
  applied: AppliedTarget | null,
  target: ContractTarget,
): ContractPlan | null {
  const current = contract?.services ?? {};
  const services = new Map(Object.entries(current));
  for (const [key, wanted] of Object.entries(target.services)) {
    if (contract !== null && applied !== null && same(wanted, entryOf(applied.services, key))) continue;
    if (wanted === null) services.delete(key);
    else services.set(key, wanted);
  }
  // An ended contract keeps services that nobody pays for. They do not come back with another service.
  if (applied?.ends === true && contract?.isOver === true) {
    for (const [key, wanted] of Object.entries(target.services)) if (wanted === null) services.delete(key);
  }
  const ends = target.stopped !== null && services.size === 0;
  const next = ends ? keptAtEnd(current, applied, target) : Object.fromEntries(services);
  if (contract === null && Object.keys(next).length === 0) return null;
  return {
    services: next,
    changesServices: !sameServices(next, current),
    billing: sameBilling(target, contract === null ? null : applied) ? null : billingOf(target, ends),
    applied: { services: target.services, period: target.period, stopped: target.stopped, ends },
  };
}

/** Services of a contract that ends: what was bought last, unless somebody changed it by hand. */
function keptAtEnd(current: CurrentServices, applied: AppliedTarget | null, { last }: ContractTarget): CurrentServices {
  if (Object.keys(current).length === 0) return last;
  const entries = Object.entries(current).map(([key, terms]) => {
    const isBought = applied !== null && same(terms, entryOf(applied.services, key));
    return [key, (isBought ? entryOf(last, key) : undefined) ?? terms] as const;
  });
  return Object.fromEntries(entries);
}

function billingOf({ period, stopped }: ContractTarget, ends: boolean): BillingTarget | null {
  if (stopped === null) return period;
  const { at, start, renewalPeriod } = stopped;
  return ends
    ? { start, end: at, autoRenew: false, renewalPeriod }
    : { start: at, end: null, autoRenew: true, renewalPeriod };
}
