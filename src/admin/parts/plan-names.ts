import type { Subscription } from "../answers.ts";
import { texts } from "../texts.ts";

/** Names the plans of a subscription: `PRO`, or `PRO + BASIC` for two services. */
export function plansOf({
  contractedServices,
  subscriptionPlans,
}: Pick<Subscription, "contractedServices" | "subscriptionPlans">): string {
  const names = Object.keys(contractedServices).map((service) => subscriptionPlans[service] ?? texts.novation.noPlan);
  return names.length === 0 ? texts.novation.notContracted : names.join(" + ");
}
