import { budgetTermsOf } from "../../pricing/budget-terms.ts";
import { creditTermsOf, MAX_ROLLOVER_PERIODS } from "../../pricing/credits.ts";
import { seatsOf, writtenSeats } from "../../pricing/seats.ts";
import { isBound, type Pricing, type UsageLimit } from "../../pricing/model.ts";
import type { Side } from "../entitlements.ts";
import type { FindingPath } from "../finding.ts";
import type { Report } from "./report.ts";

/** Returns the most that a configuration can grant of a limit; infinite if an add-on extends it, or it has no bound. */
function mostOf({ name, defaultValue, value }: UsageLimit, { plans, addOns }: Pricing): number {
  if (addOns.some(({ usageLimitsExtensions }) => Object.hasOwn(usageLimitsExtensions, name))) return Infinity;
  const values = [
    defaultValue,
    value,
    ...[...plans, ...addOns].map(({ usageLimits }) =>
      Object.hasOwn(usageLimits, name) ? usageLimits[name] : undefined,
    ),
  ].filter((each) => typeof each === "number");
  return values.every(isBound) ? Math.max(0, ...values) : Infinity;
}

/** Reports terms of credits that have no effect: of limits that are not there or cannot have them, and beyond what is granted. */
export function lintCredits(side: Side, report: Report): void {
  const { pricing } = side.pricing;
  const { rollover, rates } = creditTermsOf(pricing);
  const pathOf = (section: string, limit: string): FindingPath => ["custom", "faregate", section, limit];
  const unknown = (section: string, limit: string) =>
    report(
      "unknown-limit",
      pathOf(section, limit),
      `There is no usage limit ${limit}. Correct the name, or remove it.`,
    );
  for (const [name, { max }] of rollover) {
    const limit = side.pricing.usageLimits.get(name);
    const idle = (message: string) => report("idle-rollover", pathOf("rollover", name), message);
    if (limit === undefined) unknown("rollover", name);
    else if (limit.type !== "RENEWABLE" || limit.period === undefined || limit.valueType !== "NUMERIC") {
      idle(`${name} is not renewed, so nothing of it is ever carried over. Give it a period, or remove its rollover.`);
    } else if (max !== null && max > mostOf(limit, pricing) * MAX_ROLLOVER_PERIODS) {
      idle(
        `No more than ${mostOf(limit, pricing) * MAX_ROLLOVER_PERIODS} of ${name} can be carried over, so the maximum of ${max} has no effect. Lower it, or write null.`,
      );
    }
  }
  for (const { name, limitName, amount } of budgetTermsOf(pricing)) {
    const limits = typeof amount === "string" ? [limitName, amount] : [limitName];
    for (const limit of limits) {
      if (side.pricing.usageLimits.has(limit)) continue;
      const message = `There is no usage limit ${limit}. Correct the name, or remove the budget ${name}.`;
      report("unknown-limit", pathOf("budgets", name), message);
    }
  }
  lintSeats(side, report);
  for (const name of rates.keys()) {
    if (!side.pricing.usageLimits.has(name)) unknown("rates", name);
    else if (!side.tracked.has(name) || (side.governed.get(name)?.size ?? 0) === 0) {
      report(
        "idle-rate",
        pathOf("rates", name),
        `No feature counts ${name}, so none can spend it by unit. Read its consumption in the expression of a feature.`,
      );
    }
  }
}

/** Reports seats that count nobody: of a limit that is not there, is no number, or is renewed. */
function lintSeats({ pricing: { pricing, usageLimits } }: Side, report: Report): void {
  const written = writtenSeats(pricing);
  if (typeof written !== "string" || seatsOf(pricing) !== undefined) return;
  const path: FindingPath = ["custom", "faregate", "seats"];
  if (!usageLimits.has(written)) {
    report("unknown-limit", path, `There is no usage limit ${written}. Correct the name, or remove it.`);
    return;
  }
  report(
    "idle-seats",
    path,
    `${written} is renewed or is no number, so it cannot count members. Name a numeric limit without a period.`,
  );
}
