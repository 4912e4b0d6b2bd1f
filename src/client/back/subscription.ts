import type { Configuration } from "../offer.ts";

/** Every field may be absent or undefined. */
export type Optional<Fields> = { readonly [Name in keyof Fields]?: Fields[Name] | undefined };

/** One page of a list. `page` starts at 1; `limit` is at most 100. Default: 20. */
export type Paging = Optional<{
  page: number;
  limit: number;
}>;

/** Contracted versions, plans and add-ons by service. Responses have service names in lower case. Source: contract contracts §2. */
export interface Subscription {
  /** Pricing version per service. */
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly subscriptionPlans: Readonly<Record<string, string>>;
  /** Quantity per add-on and service. */
  readonly subscriptionAddOns: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** New subscription of a contract. It replaces the former one completely. */
export interface Novation extends Subscription {
  readonly billingPeriod?: { readonly autoRenew?: boolean } | undefined;
}

/**
 * Returns the novation that buys a configuration of one service. Other services of the contract stay as they are.
 */
export function novationTo(
  contract: Subscription,
  service: string,
  { pricingVersion, plan, addOns }: Configuration,
): Novation {
  const key = service.toLowerCase();
  const withoutIt = <T>(map: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(map).filter(([name]) => name.toLowerCase() !== key));
  return {
    contractedServices: { ...withoutIt(contract.contractedServices), [key]: pricingVersion },
    subscriptionPlans: { ...withoutIt(contract.subscriptionPlans), ...(plan === null ? {} : { [key]: plan }) },
    subscriptionAddOns: { ...withoutIt(contract.subscriptionAddOns), [key]: addOns },
  };
}

/**
 * Formats a moment for the service.
 * @internal
 */
export function instant(at: Date | string): string {
  return typeof at === "string" ? at : at.toISOString();
}
