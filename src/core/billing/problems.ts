import type { CompiledPricing } from "../pricing/compile.ts";
import { serviceKey } from "../pricing/names.ts";
import { findAddOn, findPlan } from "../pricing/compile.ts";
import type { MappedPrice, PriceMap } from "./terms.ts";

/** A gap of a map, or a name in it that a pricing lacks. */
export interface MapProblem {
  /** Null: the target has no price id. */
  readonly price: string | null;
  readonly service: string;
  readonly plan: string | null;
  readonly addOn: string | null;
  readonly limit: string | null;
  readonly message: string;
}

type Target = Pick<MapProblem, "service" | "plan" | "addOn" | "limit">;

const targetOf = (mapped: MappedPrice): Target => ({
  service: mapped.service,
  plan: "plan" in mapped ? mapped.plan : null,
  addOn: "addOn" in mapped ? mapped.addOn : null,
  limit: "limit" in mapped ? mapped.limit : null,
});

function nameOf({ plan, addOn, limit }: Target): string {
  if (plan !== null) return `Plan ${plan}`;
  return addOn === null ? `Usage limit ${limit}` : `Add-on ${addOn}`;
}

function isKnown(pricing: CompiledPricing, { plan, addOn, limit }: Target): boolean {
  if (plan !== null) return findPlan(pricing, plan) !== undefined;
  if (addOn !== null) return findAddOn(pricing, addOn) !== undefined;
  return pricing.usageLimits.has(limit ?? "");
}

/**
 * Compares a map with the newest active version of each service: what it names and the version lacks, then what the
 * version sells for money and the map lacks. `versions` by service key. Source: contract billing §2.
 */
export function mapProblems(
  prices: PriceMap,
  ended: Readonly<Record<string, string | null>>,
  versions: ReadonlyMap<string, CompiledPricing>,
): MapProblem[] {
  const problems: MapProblem[] = [];
  const leaving = Object.entries(ended).flatMap(([service, plan]): [null, Target][] =>
    plan === null ? [] : [[null, { service, plan, addOn: null, limit: null }]],
  );
  const named = Object.entries(prices).map(([price, mapped]): [string, Target] => [price, targetOf(mapped)]);
  for (const [price, target] of [...named, ...leaving]) {
    const { service } = target;
    const pricing = versions.get(serviceKey(service));
    if (pricing === undefined) {
      problems.push({ price, ...target, message: `Service ${service} has no active version` });
    } else if (!isKnown(pricing, target)) {
      const { version } = pricing.pricing;
      problems.push({ price, ...target, message: `${nameOf(target)} is not in version ${version} of ${service}` });
    }
  }
  return [...problems, ...unpriced(named, versions)];
}

function unpriced(named: readonly [string, Target][], versions: ReadonlyMap<string, CompiledPricing>): MapProblem[] {
  const services = new Map(named.map(([, { service }]) => [serviceKey(service), service]));
  return [...services].flatMap(([key, service]) => {
    const pricing = versions.get(key);
    if (pricing === undefined) return [];
    const theirs = named.map(([, target]) => target).filter((target) => serviceKey(target.service) === key);
    const has = (kind: "plan" | "addOn", name: string) =>
      theirs.some((target) => target[kind]?.toLowerCase() === name.toLowerCase());
    const missing = (kind: "plan" | "addOn", items: CompiledPricing["pricing"]["plans" | "addOns"]) =>
      items
        .filter(({ name, price }) => typeof price === "number" && price > 0 && !has(kind, name))
        .map(({ name }): MapProblem => {
          const target: Target = { service, plan: null, addOn: null, limit: null, [kind]: name };
          return { price: null, ...target, message: `${nameOf(target)} of ${service} has a price and no price id` };
        });
    return [...missing("plan", pricing.pricing.plans), ...missing("addOn", pricing.pricing.addOns)];
  });
}
