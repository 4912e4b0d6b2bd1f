import type { Subscription } from "../answers.ts";
import { choiceOf, refusalOf } from "../pricing.ts";
import { serviceKey, usePricingAnswers, useServices } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.novation;

/** Says what a subscription still lacks. Undefined if the server would accept it. */
export function useMissing(value: Subscription): string | undefined {
  const services = useServices();
  const contracted = Object.entries(value.contractedServices);
  const answers = usePricingAnswers(contracted);
  if (contracted.length === 0) return services.data?.length === 0 ? t.noServices : t.chooseServices;
  for (const [key] of contracted) {
    const pricing = answers(key);
    const name = services.data?.find((each) => serviceKey(each.name) === key)?.name ?? key;
    if (pricing === undefined) return texts.common.loading;
    if (value.subscriptionPlans[key] === undefined && value.subscriptionAddOns[key] === undefined)
      return Object.keys(pricing.plans).length > 0 ? t.choosePlan(name) : t.chooseAddOn(name);
    if (refusalOf(key, pricing, choiceOf(value, key)) !== undefined) return texts.contract.notValid;
  }
  return undefined;
}
