import { seatsOf } from "../../pricing/seats.ts";
import type { LimitValue, Pricing, UsageLimit } from "../../pricing/model.ts";
import type { Steps } from "../../steps.ts";
import type { Side } from "../entitlements.ts";
import type { ExpressionFacts } from "../expression-facts.ts";
import type { FindingPath } from "../finding.ts";
import type { Report } from "./report.ts";

/** Returns the facts of all expressions of a pricing. */
function factsOf({ expressions }: Side): ExpressionFacts[] {
  return [...expressions.values()]
    .flatMap((modes) => [modes.client, modes.server])
    .filter((each) => each !== undefined);
}

/**
 * Reports limits that no expression reads. Skips pricings without expressions, where the application enforces limits.
 */
export function lintLimits(side: Side, report: Report): void {
  const { pricing, tracked } = side;
  const facts = factsOf(side);
  if (facts.length === 0) return;
  const seats = seatsOf(pricing.pricing);
  const read = new Set(facts.flatMap((each) => [...each.limits, ...each.usage]));
  for (const { name } of pricing.pricing.usageLimits) {
    // The list of members limits seats.
    if (read.has(name) || name === seats) continue;
    if (tracked.has(name))
      report(
        "unread-limit",
        ["usageLimits", name],
        `${name} is counted, but no expression compares its consumption with it, so it restricts nobody. Read it in the expression of the feature that it limits.`,
      );
    else
      report(
        "unread-value",
        ["usageLimits", name],
        `No expression reads ${name}: only your own application can enforce it.`,
      );
  }
}

/** Maximum plans and add-ons that one finding names. */
const MAX_NAMED = 10;

/** Returns the places where a pricing gives a limit a value below 0. */
function negativesOf({ name, defaultValue, value }: UsageLimit, { plans, addOns }: Pricing) {
  const places: { path: FindingPath; value: LimitValue | undefined }[] = [
    { path: ["usageLimits", name, "defaultValue"], value: defaultValue },
    { path: ["usageLimits", name, "value"], value },
    ...plans.flatMap(({ name: plan, usageLimits }) => {
      const own = usageLimits[name];
      const path = ["plans", plan, "usageLimits", name] as const;
      return own === (value ?? defaultValue) ? [] : [{ path, value: own }];
    }),
    ...addOns.map(({ name: addOn, usageLimits }) => ({
      path: ["addOns", addOn, "usageLimits", name] as const,
      value: Object.hasOwn(usageLimits, name) ? usageLimits[name] : undefined,
    })),
  ];
  return places.filter((place) => typeof place.value === "number" && place.value < 0);
}

/**
 * Reports limits below 0, which many write for unlimited, each at its first place. Skips limits that an expression compares
 * with a negative number, or reads in another form than as a bound: there it may have a meaning.
 */
export function* lintNegatives(side: Side, report: Report): Steps<void> {
  const facts = factsOf(side);
  const hasMeaning = (limit: string): boolean =>
    facts.some(({ thresholds }) => {
      const numbers = thresholds.get(limit);
      return numbers === null || numbers?.some((number) => number < 0) === true;
    });
  const { pricing } = side.pricing;
  for (const limit of pricing.usageLimits) {
    yield;
    const [first, ...others] = negativesOf(limit, pricing);
    if (first === undefined || hasMeaning(limit.name)) continue;
    const names = others.slice(0, MAX_NAMED).map(({ path }) => path[1]);
    if (others.length > MAX_NAMED) names.push(`${others.length - MAX_NAMED} more`);
    const also = names.length === 0 ? "" : ` The same holds in ${names.join(", ")}.`;
    report(
      "negative-limit",
      first.path,
      `Usage is never below 0, so ${first.value} does not mean unlimited but denies everything. Write .inf for unlimited, or 0 to deny everything.${also}`,
    );
  }
}
