import type { ScheduledChange, Subscription, Trial } from "../answers.ts";
import { texts } from "../texts.ts";

/** Names the plans of a subscription: `PRO`, or `PRO + BASIC` for two services. */
export function plansOf({
  contractedServices,
  subscriptionPlans,
}: Pick<Subscription, "contractedServices" | "subscriptionPlans">): string {
  const names = Object.keys(contractedServices).map((service) => subscriptionPlans[service] ?? texts.novation.noPlan);
  return names.length === 0 ? texts.novation.notContracted : names.join(" + ");
}

/** Names what follows a trial. */
export function plansAfter(then: Trial["then"]): string {
  if (then === "end") return texts.upcoming.contractEnds;
  return Object.values(then.subscriptionPlans).join(" + ") || texts.novation.noPlan;
}

/** Names what a scheduled change leads to. */
export function plansThen(change: ScheduledChange): string {
  if (change.kind === "trialEnd") return plansAfter(change.then);
  if (change.kind === "novation") return plansOf(change);
  return texts.upcoming.become[change.availability](change.pricingVersion);
}
