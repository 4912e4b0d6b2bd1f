import type { Plan, Pricing } from "../pricing/model.ts";
import { canonical } from "./change.ts";

/** New name by old name of each renamed plan. */
export type Renames = Readonly<Record<string, string>>;

/** A plan that was removed, and an added one with the same content. */
export interface SuggestedRename {
  readonly from: string;
  readonly to: string;
}

const byKey = (plans: readonly Plan[]) => new Map(plans.map((plan) => [plan.name.toLowerCase(), plan]));

/** Selects the renames of plans that only `before` has, to plans that only `after` has. Others mean nothing. */
function applicable(before: Pricing, after: Pricing, renames: Renames): Map<string, string> {
  const [old, now] = [byKey(before.plans), byKey(after.plans)];
  const found = new Map<string, string>();
  for (const [from, to] of Object.entries(renames)) {
    const [removed, added] = [from.toLowerCase(), to.toLowerCase()];
    const name = now.get(added)?.name;
    if (name === undefined || now.has(removed) || old.has(added) || !old.has(removed)) continue;
    if (![...found.values()].includes(name)) found.set(removed, name);
  }
  return found;
}

/** Returns `before` with the new names of its plans, and the renames that apply. */
export function renamePlans(
  before: Pricing,
  after: Pricing,
  renames: Renames,
): { pricing: Pricing; applied: readonly SuggestedRename[] } {
  const found = applicable(before, after, renames);
  if (found.size === 0) return { pricing: before, applied: [] };
  const renamed = (name: string): string => found.get(name.toLowerCase()) ?? name;
  return {
    pricing: {
      ...before,
      plans: before.plans.map((plan) => ({ ...plan, name: renamed(plan.name) })),
      addOns: before.addOns.map((addOn) => ({ ...addOn, availableFor: addOn.availableFor.map(renamed) })),
    },
    applied: before.plans.flatMap(({ name }) => {
      const to = found.get(name.toLowerCase());
      return to === undefined ? [] : [{ from: name, to }];
    }),
  };
}

/**
 * Finds plans that were probably renamed: a removed and an added plan with the same price, features, limits and add-ons.
 * Suggests nothing for contents that several plans share.
 */
export function suggestRenames(before: Pricing, after: Pricing): SuggestedRename[] {
  const [old, now] = [byKey(before.plans), byKey(after.plans)];
  const unmatched = (pricing: Pricing, other: ReadonlyMap<string, Plan>): Map<string, string[]> => {
    const names = new Map<string, string[]>();
    for (const plan of pricing.plans) {
      if (other.has(plan.name.toLowerCase())) continue;
      const content = contentOf(pricing, plan);
      names.set(content, [...(names.get(content) ?? []), plan.name]);
    }
    return names;
  };
  const added = unmatched(after, old);
  return [...unmatched(before, now)].flatMap(([content, [from, ...others]]) => {
    const [to, ...more] = added.get(content) ?? [];
    return from === undefined || to === undefined || others.length > 0 || more.length > 0 ? [] : [{ from, to }];
  });
}

function contentOf({ currency, addOns }: Pricing, plan: Plan): string {
  const { price, unit, private: isPrivate, features, usageLimits } = plan;
  const isFor = (names: readonly string[]) => names.some((each) => each.toLowerCase() === plan.name.toLowerCase());
  const available = addOns.filter(({ availableFor }) => isFor(availableFor)).map((addOn) => addOn.name.toLowerCase());
  return canonical([currency, price, unit, isPrivate, features, usageLimits, available.toSorted()]);
}
