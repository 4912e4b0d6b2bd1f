import { prepareEvaluation } from "../../pricing/evaluate.ts";
import { UNLIMITED } from "../../pricing/model.ts";
import type { FeatureValue, LimitValue } from "../../pricing/model.ts";
import { accessOf } from "../access.ts";
import { configurationOf } from "../configuration.ts";
import type { ExpressionFacts } from "../expression-facts.ts";
import type { FindingPath } from "../finding.ts";
import type { Entitlements, Mode, memoizeEntitlements, Side } from "../entitlements.ts";
import type { Space } from "../space.ts";
import { addOnsOfFeature } from "../add-on-index.ts";
import { lintLimits } from "./limits.ts";
import type { Report } from "./report.ts";
import type { Steps } from "../../steps.ts";

/** Shared context of all lint rules. */
export interface Linting {
  readonly side: Side;
  readonly space: Space;
  readonly holdingAt: ReturnType<typeof memoizeEntitlements>;
  readonly report: Report;
  /** Call before each expensive operation. Throws when time is up. */
  readonly step: () => void;
}

/** Maximum combinations of values to try per expression. */
const MAX_ASSIGNMENTS = 1_024;

const FIELDS: Readonly<Record<Mode, "expression" | "serverExpression">> = {
  client: "expression",
  server: "serverExpression",
};

/** Returns every value that the pricing assigns to a feature or limit, plus typical values of its type. */
function possibleValues(side: Side, to: "features" | "usageLimits", name: string, numbers: readonly number[]) {
  const { pricing } = side.pricing;
  const item = (to === "features" ? pricing.features : pricing.usageLimits).find((each) => each.name === name);
  if (item === undefined) return [];
  if (item.valueType === "BOOLEAN") return [true, false];
  const owned = [...pricing.plans, ...pricing.addOns].map((owner): FeatureValue | LimitValue | undefined =>
    Object.hasOwn(owner[to], name) ? owner[to][name] : undefined,
  );
  const values = [item.defaultValue, item.value, ...owned].filter((value) => value !== undefined);
  return item.valueType === "TEXT" ? [...new Set(values)] : [...new Set([...values, ...numbers, 0, 1, UNLIMITED])];
}

/** Returns the numbers in an expression with both signs, and their neighbours. */
function numbersIn(text: string): number[] {
  const numbers = [...text.matchAll(/(?<![\w.])\d+(?:\.\d+)?/g)].map((match) => Number(match[0]));
  return [...numbers, ...numbers.map((number) => -number)].flatMap((number) => [number - 1, number, number + 1]);
}

/** Returns true if add-ons extend a limit that the expression reads in arithmetic: it may have any value. */
function readsAnyValue({ pricing }: Side, { thresholds }: ExpressionFacts): boolean {
  return pricing.pricing.addOns.some((addOn) =>
    Object.entries(addOn.usageLimitsExtensions).some(([name, each]) => each !== 0 && thresholds.get(name) === null),
  );
}

/** Enumerates all combinations of the values that an expression reads. Undefined when there are too many. */
function assignments(side: Side, facts: ExpressionFacts, text: string): Iterable<Entitlements> | undefined {
  const { pricing, serviceName } = side;
  const numbers = numbersIn(text);
  const axes = [
    ...facts.features.map((name) => ({
      to: "features",
      name,
      values: possibleValues(side, "features", name, numbers),
    })),
    ...facts.limits.map((name) => ({
      to: "usageLimits",
      name,
      values: possibleValues(side, "usageLimits", name, numbers),
    })),
  ];
  const total = axes.reduce((product, axis) => product * axis.values.length, 1);
  if (total > MAX_ASSIGNMENTS) return undefined;
  return (function* () {
    for (let count = 0; count < total; count++) {
      const features = new Map(pricing.pricing.features.map((each) => [each.name, each.defaultValue]));
      const usageLimits = new Map<string, LimitValue>();
      let rest = count;
      for (const { to, name, values } of axes) {
        const value = values[rest % values.length];
        rest = Math.floor(rest / values.length);
        if (value === undefined) continue;
        if (to === "features") features.set(name, value);
        else if (typeof value === "number" || typeof value === "boolean") usageLimits.set(name, value);
      }
      const grant = { features, usageLimits };
      const evaluation = prepareEvaluation([{ serviceName, pricing, grant }]);
      yield { side, configuration: { addOns: {} }, grant, evaluation };
    }
  })();
}

/**
 * Returns `always` or `never` when an expression has the same result for all grants and consumptions. Undefined when it
 * varies.
 */
function* constancy(
  { side, step }: Linting,
  feature: string,
  mode: Mode,
  facts: ExpressionFacts,
  text: string,
): Steps<"always" | "never" | undefined> {
  const holdings = readsAnyValue(side, facts) ? undefined : assignments(side, facts, text);
  if (holdings === undefined) return undefined;
  let [always, never] = [true, true];
  for (const holding of holdings) {
    step();
    yield;
    const { some, all, decided } = accessOf(holding, feature, mode);
    always &&= all;
    never &&= !some;
    // Return early: nearly every expression varies within its first few combinations.
    if (!decided || (!always && !never)) return undefined;
  }
  return always ? "always" : "never";
}

/** Reports wrong names in one expression. Returns true if any exist; further analysis would be meaningless. */
function lintNames(side: Side, facts: ExpressionFacts, path: FindingPath, report: Report): boolean {
  const { pricing, tracked } = side;
  let found = false;
  const say: Report = (...finding) => {
    found = true;
    report(...finding);
  };
  for (const name of facts.features)
    if (!pricing.features.has(name))
      say(
        "unknown-name",
        path,
        `It reads the feature ${name}, which the pricing does not have, and so always fails. Correct the name or add the feature.`,
      );
  for (const name of new Set([...facts.limits, ...facts.usage]))
    if (!pricing.usageLimits.has(name))
      say(
        "unknown-name",
        path,
        `It reads the usage limit ${name}, which the pricing does not have. Correct the name or add the limit.`,
      );
    else if (facts.usage.includes(name) && !tracked.has(name))
      say(
        "untracked-usage",
        path,
        `It reads the consumption of ${name}, which is not counted, and so always fails. Make the limit RENEWABLE, or give it trackable: true.`,
      );
  for (const name of facts.foreign) {
    if (!pricing.features.has(name) && !pricing.usageLimits.has(name)) continue;
    say(
      "unprefixed-name",
      path,
      `It reads ${name} with double quotes, a dot or blanks, which is looked up as it stands, without the service's name, and finds nothing. Write ['${name}'].`,
    );
  }
  return found;
}

/** Reports mistakes of one expression that do not depend on grants. Returns true when the feature can never be on. */
function* lintExpression(linting: Linting, feature: string, mode: Mode, text: string): Steps<boolean> {
  const { side, report } = linting;
  const path: FindingPath = ["features", feature, FIELDS[mode]];
  const facts = side.expressions.get(feature)?.[mode];
  if (facts === undefined) return false;
  if (!facts.mentionsContext) {
    report(
      "constant-expression",
      path,
      `It reads nothing of the pricing or the subscription, which evaluation refuses: the feature is never on. Write pricingContext['features']['${feature}'].`,
    );
    return true;
  }
  if (lintNames(side, facts, path, report)) return true;
  const constant = yield* constancy(linting, feature, mode, facts, text);
  if (constant === "never")
    report(
      "never-true",
      path,
      "It is true for no value of what it reads: the feature is never on. Correct it, or remove the feature.",
    );
  if (constant === "always")
    report(
      "always-true",
      path,
      "It is true for every value of what it reads, so it decides nothing. Correct it, or leave the decision to the feature's own value.",
    );
  return constant === "never";
}

/** Returns true if some valid configuration turns the feature on, or if that is undecidable. */
function* isEverOn({ side, space, holdingAt }: Linting, feature: string): Steps<boolean> {
  const modes = side.expressions.get(feature);
  const valueType = side.pricing.features.get(feature)?.feature.valueType;
  if (modes?.server === undefined && valueType !== "BOOLEAN") return true;
  for (const plan of space.plans) {
    const { list, complete } = yield* space.selectionSteps(plan, addOnsOfFeature(side, feature));
    if (!complete) return true;
    for (const { whole } of list) {
      yield;
      const holding = holdingAt(configurationOf(plan, whole));
      const isOn =
        modes?.server === undefined
          ? holding.grant.features.get(feature) === true
          : (["client", "server"] as const).some((mode) => {
              const { some, decided } = accessOf(holding, feature, mode);
              return some || !decided;
            });
      if (isOn) return true;
    }
  }
  return false;
}

/** Lints features and the names that their expressions read. */
export function* lintFeatures(linting: Linting): Steps<void> {
  const { side, report } = linting;
  for (const { name, expression, serverExpression } of side.pricing.pricing.features) {
    const isClientBroken = expression !== undefined && (yield* lintExpression(linting, name, "client", expression));
    const isServerBroken =
      serverExpression !== undefined && (yield* lintExpression(linting, name, "server", serverExpression));
    if (!isClientBroken && !isServerBroken && !(yield* isEverOn(linting, name)))
      report(
        "dead-feature",
        ["features", name],
        `No plan and no add-on ever turns the feature ${name} on. Give it to one, or remove it.`,
      );
    yield;
  }
  lintLimits(side, report);
}
