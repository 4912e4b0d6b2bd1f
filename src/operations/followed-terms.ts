import type { CurrentServices } from "../core/billing/plan.ts";
import type { BillingTarget } from "../core/billing/target.ts";
import { addPeriod, RENEWAL_UNITS } from "../core/period.ts";
import type { Period } from "../core/pricing/model.ts";
import { type PeriodColumns, USUAL_RENEWAL_DAYS } from "../db/queries/contracts.ts";
import type { contracts } from "../db/schema.ts";
import type { ResolvedTerms } from "./billed-changes.ts";
import type { Context } from "./context.ts";
import { billingOf } from "./contract-audit.ts";
import { type FollowedState, type HeldService, readVersions } from "./followed-state.ts";
import { type LockedServices, resolveSubscription, type Subscription } from "./subscriptions.ts";

/* Services and periods of contracts that follow subscriptions, as their rows have them. */

type ContractRow = typeof contracts.$inferSelect;

/**
 * Resolves services on the versions that offers.md calls offered: the version held where it is active, else the newest
 * active one. A service that stays as it is keeps its version.
 */
export async function resolveTerms(
  ctx: Context,
  {
    organizationId,
    locked,
    held,
    ...rest
  }: {
    organizationId: string;
    locked: LockedServices;
    held: readonly HeldService[];
    state: FollowedState;
    isNew?: boolean;
  },
  wanted: CurrentServices,
): Promise<ResolvedTerms> {
  const heldByKey = new Map(held.map((service) => [service.key, service]));
  const missing = Object.keys(wanted).filter((key) => heldByKey.get(key)?.active !== true);
  const unread = missing.filter((key) => !rest.state.newest.has(key));
  const newest = new Map([...rest.state.newest, ...(await readVersions(ctx, organizationId, unread))]);
  const versionOf = (key: string) => {
    const service = heldByKey.get(key);
    return (service?.active === true ? service : newest.get(key))?.version ?? service?.version ?? "";
  };
  const entries = Object.entries(wanted);
  const subscription: Subscription = {
    contractedServices: Object.fromEntries(entries.map(([key]) => [key, versionOf(key)])),
    subscriptionPlans: Object.fromEntries(entries.flatMap(([key, { plan }]) => (plan === null ? [] : [[key, plan]]))),
    subscriptionAddOns: Object.fromEntries(
      entries.flatMap(([key, { addOns }]) => (Object.keys(addOns).length === 0 ? [] : [[key, { ...addOns }]])),
    ),
  };
  const occasion = rest.isNew === true ? "creation" : "novation";
  const heldIds = new Set(held.map(({ pricingId }) => pricingId));
  return {
    wanted: subscription,
    next: await resolveSubscription(ctx, locked, subscription, occasion, heldIds, [...held, ...newest.values()]),
  };
}

/** Longest period on the calendar. */
const MAX_PERIODS = 120;

const DAY_MS = 86_400_000;

/** Returns a period of a subscription if contracts can have it. */
function renewalOf(period: Period | null): Pick<ContractRow, "renewalValue" | "renewalUnit"> {
  const unit = RENEWAL_UNITS.find((each) => each === period?.unit);
  const value = period?.value ?? 0;
  return unit === undefined || !Number.isInteger(value) || value < 1 || value > MAX_PERIODS
    ? { renewalValue: null, renewalUnit: null }
    : { renewalValue: value, renewalUnit: unit };
}

/** Returns the billing period of a target. */
export function columnsOf({ start, end, autoRenew, renewalPeriod }: BillingTarget): PeriodColumns {
  const startDate = new Date(start);
  const usual = renewalPeriod ?? { value: USUAL_RENEWAL_DAYS, unit: "DAY" as const };
  const endDate = end === null ? addPeriod(startDate, usual) : new Date(end);
  const renewalDays = Math.max(1, Math.round((endDate.getTime() - start) / DAY_MS));
  return { startDate, endDate, autoRenew, renewalDays, ...renewalOf(renewalPeriod) };
}

/** True if a contract has this billing period. */
export const sameColumns = (row: ContractRow, columns: PeriodColumns) =>
  JSON.stringify(billingOf({ ...row, ...columns })) === JSON.stringify(billingOf(row));
