import type { AddOn, Plan } from "../../pricing/model.ts";
import { constraintsOf } from "../../pricing/subscription.ts";
import { compareFeature, compareLimit } from "../compare.ts";
import { configurationOf } from "../configuration.ts";
import { featureValueEffect, limitValueEffect } from "../effect.ts";
import type { Effect } from "../effect.ts";
import type { Side } from "../entitlements.ts";
import type { Linting } from "./expressions.ts";
import type { Report } from "./report.ts";
import type { Space } from "../space.ts";
import { addOnsOfFeature, addOnsOfLimit } from "../add-on-index.ts";
import type { Steps } from "../../steps.ts";

type HoldingAt = Linting["holdingAt"];

function withoutKey(addOns: Readonly<Record<string, number>>, key: string): Record<string, number> {
  return Object.fromEntries(Object.entries(addOns).filter(([name]) => name.toLowerCase() !== key));
}

/**
 * Returns the effects of an add-on with one plan. Considers all selections of the other add-ons that touch the same
 * subjects. Undefined when there are too many selections.
 */
function* effectsOf(
  side: Side,
  space: Space,
  holdingAt: HoldingAt,
  key: string,
  addOn: AddOn,
  plan: string | undefined,
): Steps<ReadonlySet<Effect> | undefined> {
  const effects = new Set<Effect>();
  const features = Object.keys(addOn.features);
  const limits = [...Object.keys(addOn.usageLimits), ...Object.keys(addOn.usageLimitsExtensions)];
  const subjects = [
    ...features.map((name) => ({ name, limit: false, keys: addOnsOfFeature(side, name) })),
    ...limits.map((name) => ({ name, limit: true, keys: addOnsOfLimit(side, name) })),
  ];
  for (const { name, limit, keys } of subjects) {
    const { list, complete } = yield* space.selectionSteps(plan, [...keys, key]);
    if (!complete) return undefined;
    for (const { whole } of list) {
      yield;
      const rest = withoutKey(whole, key);
      if (Object.keys(rest).length === Object.keys(whole).length) continue;
      const [before, after] = [rest, whole].map((addOns) => holdingAt(configurationOf(plan, addOns)).grant);
      effects.add(
        limit
          ? limitValueEffect(before?.usageLimits.get(name), after?.usageLimits.get(name))
          : featureValueEffect(before?.features.get(name), after?.features.get(name)),
      );
    }
  }
  effects.delete("same");
  return effects;
}

function* lintAddOn(
  side: Side,
  space: Space,
  holdingAt: HoldingAt,
  key: string,
  addOn: AddOn,
  report: Report,
): Steps<void> {
  const { name } = addOn;
  const path = ["addOns", name] as const;
  const offered = addOn.availableFor.map((plan) => plan.toLowerCase());
  const plans = space.plans.filter((plan) => plan === undefined || offered.includes(plan.toLowerCase()));
  const reachable = plans.filter((plan) => space.closure(plan, [key]) !== undefined);
  if (reachable.length === 0) {
    report(
      "unreachable-add-on",
      path,
      `The add-on ${name} can be contracted with no plan: ${
        plans.length === 0 ? "it is available for no plan" : "what it depends on is not available with it, or excluded"
      }. Correct availableFor, dependsOn and excludes, or remove it.`,
    );
    return;
  }
  const barred = plans.filter((plan) => !reachable.includes(plan));
  if (barred.length > 0)
    report(
      "unreachable-in-plan",
      path,
      `The add-on ${name} is available for ${barred.join(", ")}, where what it depends on cannot be contracted. Take ${barred.length === 1 ? "that plan" : "those plans"} out of availableFor.`,
    );
  // Skip plans on which another add-on depends on this one: it is needed there even if it adds nothing.
  const others = space.addOnKeys.filter((other) => other !== key);
  const idleAt: typeof reachable = [];
  for (const plan of reachable) {
    yield;
    if (!others.some((other) => space.closure(plan, [other])?.has(key) === true)) idleAt.push(plan);
  }
  const effects: { plan: string | undefined; found: ReadonlySet<Effect> | undefined }[] = [];
  for (const plan of idleAt) effects.push({ plan, found: yield* effectsOf(side, space, holdingAt, key, addOn, plan) });
  const idle = effects.filter(({ found }) => found?.has("more") === false && !found.has("different"));
  if (idle.length === reachable.length) {
    const takes = idle.some(({ found }) => found?.has("less") === true);
    report(
      "idle-add-on",
      path,
      `The add-on ${name} adds nothing to what any plan grants already${takes ? ", and takes something away" : ""}. Remove it, or change what it brings.`,
    );
  } else if (idle.length > 0) {
    const names = idle.map(({ plan }) => plan).join(", ");
    report(
      "idle-in-plan",
      path,
      `The add-on ${name} adds nothing to ${names}: who has ${idle.length === 1 ? "that plan" : "those plans"} would pay for nothing. Take ${idle.length === 1 ? "it" : "them"} out of availableFor.`,
    );
  }
  lintQuantities(addOn, report);
}

function lintQuantities(addOn: AddOn, report: Report): void {
  const { minQuantity, maxQuantity, quantityStep } = constraintsOf(addOn);
  if (addOn.subscriptionConstraints === undefined || maxQuantity === null) return;
  const last = minQuantity + Math.floor((maxQuantity - minQuantity) / quantityStep) * quantityStep;
  if (maxQuantity - last > 1e-9 && maxQuantity < 100_000_000)
    report(
      "unreachable-quantity",
      ["addOns", addOn.name, "subscriptionConstraints"],
      `${maxQuantity} units of ${addOn.name} cannot be contracted: in steps of ${quantityStep} from ${minQuantity}, the last quantity is ${last}. Make that the maxQuantity.`,
    );
}

/**
 * Returns `yes` if `better` gives at least as much as `plan` at no higher price. `equal` means that a buyer sees no
 * difference.
 */
function dominates(side: Side, holdingAt: HoldingAt, better: Plan, plan: Plan): "no" | "yes" | "equal" {
  if (typeof better.price !== "number" || typeof plan.price !== "number" || better.price > plan.price) return "no";
  if (better.unit !== plan.unit || better.private) return "no";
  const available = (name: string): string[] =>
    side.pricing.pricing.addOns
      .filter((addOn) => addOn.availableFor.some((each) => each.toLowerCase() === name.toLowerCase()))
      .map((addOn) => addOn.name);
  const offered = new Set(available(better.name));
  if (available(plan.name).some((addOn) => !offered.has(addOn))) return "no";
  const [before, after] = [plan.name, better.name].map((name) => holdingAt(configurationOf(name, {})));
  if (before === undefined || after === undefined) return "no";
  let equal = better.price === plan.price && available(plan.name).length === offered.size;
  const { usageLimits, features } = side.pricing.pricing;
  // Limits first: they are cheaper to compare and usually decide.
  for (const compare of [
    ...usageLimits.map(
      ({ name }) =>
        () =>
          compareLimit(before, after, name),
    ),
    ...features.map(
      ({ name }) =>
        () =>
          compareFeature(before, after, name),
    ),
  ]) {
    const { effect } = compare();
    if (effect !== "same" && effect !== "more") return "no";
    equal &&= effect === "same";
  }
  return equal ? "equal" : "yes";
}

/** Finds the first plan that dominates the plan at `index`. Of two equal plans, the later one is dominated. */
function* betterPlan(side: Side, holdingAt: HoldingAt, plan: Plan, index: number): Steps<Plan | undefined> {
  for (const [at, other] of [...side.pricing.plans.values()].entries()) {
    if (other === plan) continue;
    yield;
    const verdict = dominates(side, holdingAt, other, plan);
    if (verdict === "yes" || (verdict === "equal" && at < index)) return other;
  }
  return undefined;
}

function* lintPlans(side: Side, holdingAt: HoldingAt, report: Report): Steps<void> {
  const plans = [...side.pricing.plans.values()];
  for (const [index, plan] of plans.entries()) {
    if (plan.private) continue;
    const better = yield* betterPlan(side, holdingAt, plan, index);
    if (better === undefined) continue;
    report(
      "dominated-plan",
      ["plans", plan.name],
      `The plan ${better.name} gives at least as much as ${plan.name} for ${better.price === plan.price ? "the same price" : "less"}. Give ${plan.name} something of its own, or remove it.`,
    );
  }
}

/** Reports names that differ only in case: look-ups ignore case and return the first. */
function lintShadowed(side: Side, report: Report): void {
  const { pricing, plans, addOns } = side.pricing;
  for (const plan of pricing.plans)
    if (plans.get(plan.name.toLowerCase()) !== plan)
      report(
        "shadowed-name",
        ["plans", plan.name],
        `Names match ignoring case, so the plan ${plan.name} is never found: another one comes first. Rename it.`,
      );
  for (const addOn of pricing.addOns)
    if (addOns.get(addOn.name.toLowerCase()) !== addOn)
      report(
        "shadowed-name",
        ["addOns", addOn.name],
        `Names match ignoring case, so the add-on ${addOn.name} is never found: another one comes first. Rename it.`,
      );
}

/** Lints plans and add-ons that nobody would or could buy. */
export function* lintOffers({ side, space, holdingAt, report }: Linting): Steps<void> {
  lintShadowed(side, report);
  yield* lintPlans(side, holdingAt, report);
  for (const [key, addOn] of side.pricing.addOns) {
    yield;
    yield* lintAddOn(side, space, holdingAt, key, addOn, report);
  }
}
