import { z } from "zod";
import { describeConfiguration } from "../configuration.ts";
import type { ConfigurationImpact, ImpactCounts, ImpactReport } from "./report.ts";

/** Promises that a gate can make to contracts, with the phrase that reports a violation. */
const MEASURES = {
  /** Every contract has a valid configuration to go to. */
  everyContractIsPlaced: "are left without a valid configuration",
  /** Nobody loses a feature that they could use at some level of consumption. */
  noFeatureLost: "lose a feature",
  /** Every feature that is on for a contract now stays on right after the change. */
  nothingTurnedOff: "lose a feature that is on now",
  /** No usage limit is lowered, renewed less often, or removed. */
  noQuotaLost: "lose quota",
  /** Afterwards, the consumption of every contract is within its limits. */
  nobodyAboveLimit: "are above a limit afterwards",
  /** Like `nobodyAboveLimit`, but ignores contracts that are already above a limit. */
  nobodyNewlyAboveLimit: "newly exceed a limit",
  /** No price rises or becomes incomparable. */
  noPriceRise: "pay more",
  /** Nobody gets less of anything. */
  nobodyLoses: "lose something",
  /** Nobody gets something that is neither more nor less, such as another text of a feature. */
  nothingDifferent: "get something different",
} as const;

export type GateMeasure = keyof typeof MEASURES;

/**
 * Maps each measure to its count of contracts. Measures with `features` or `limits` count per configuration instead.
 */
const COUNTED: Readonly<Record<GateMeasure, keyof ImpactCounts>> = {
  everyContractIsPlaced: "unplaced",
  noFeatureLost: "losingFeatures",
  nothingTurnedOff: "turnedOff",
  noQuotaLost: "losingQuota",
  nobodyAboveLimit: "over",
  nobodyNewlyAboveLimit: "newlyOver",
  noPriceRise: "payingMore",
  nobodyLoses: "losing",
  nothingDifferent: "differing",
};

const measure = z.enum(Object.keys(MEASURES) as [GateMeasure, ...GateMeasure[]]);
const name = z.string().min(1).max(512, "must not be longer than 512 characters");
const names = z.array(name).min(1).max(1_000);

/**
 * One rule of a gate. `atMost` tolerates a share or a number of contracts; if both are given, both apply. Default:
 * none. `features` and `limits` restrict the rule to these names. `byMoreThanPercent` tolerates small price rises.
 */
export const gateRule = z
  .strictObject({
    rule: measure,
    atMost: z
      .strictObject({ percent: z.number().min(0).max(100).optional(), contracts: z.int().min(0).optional() })
      .refine(({ percent, contracts }) => percent !== undefined || contracts !== undefined, {
        error: "Give percent, contracts, or both",
      })
      .optional(),
    features: names.optional(),
    limits: names.optional(),
    byMoreThanPercent: z.number().min(0).max(10_000).optional(),
  })
  .superRefine(({ rule, features, limits, byMoreThanPercent }, context) => {
    const misplaced = (path: string, wanted: GateMeasure): void => {
      context.addIssue({ code: "custom", path: [path], message: `${path} applies only to the rule ${wanted}` });
    };
    if (features !== undefined && rule !== "noFeatureLost") misplaced("features", "noFeatureLost");
    if (limits !== undefined && rule !== "noQuotaLost") misplaced("limits", "noQuotaLost");
    if (byMoreThanPercent !== undefined && rule !== "noPriceRise") misplaced("byMoreThanPercent", "noPriceRise");
  });

export type GateRule = z.infer<typeof gateRule>;

/** The rules of one organization. The order is kept, and several rules may use the same measure. */
export const gateRules = z.array(gateRule).max(100);

const NOUNS: Readonly<Record<string, string>> = { array: "list", int: "whole number", string: "text" };
const UNITS: Readonly<Record<string, string>> = { array: " elements", string: " characters" };

/** Words what is wrong with a part of a rule. Undefined where the schema has its own sentence. */
export function gateSentence(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${/^[aeiou]/.test(NOUNS[issue.expected] ?? issue.expected) ? "an" : "a"} ${NOUNS[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `must be one of ${issue.values.join(", ")}`;
    case "too_big":
      return `must ${issue.origin in UNITS ? "have" : "be"} at most ${issue.maximum}${UNITS[issue.origin] ?? ""}`;
    case "too_small":
      return `must ${issue.origin in UNITS ? "have" : "be"} at least ${issue.minimum}${UNITS[issue.origin] ?? ""}`;
    case "unrecognized_keys":
      return `has the unknown field ${issue.keys[0]}`;
    default:
      return undefined;
  }
}

/** Result of one rule for one change. */
export interface GateResult {
  readonly rule: GateRule;
  readonly passed: boolean;
  /** Number of contracts that violate the rule, and their percentage of all contracts. */
  readonly contracts: number;
  readonly percent: number;
  /** One sentence with the figures, the tolerance, and the configurations with the most violations. */
  readonly reason: string;
}

const OF_BALANCES: ReadonlySet<GateMeasure> = new Set(["nobodyAboveLimit", "nobodyNewlyAboveLimit"]);
/** Prices are sums of decimal fractions: 114.99999999999999 stands for 115. */
const ROUNDING = 1 + 1e-9;
/** Maximum configurations named in a reason. */
const MAX_NAMED = 3;

function pricedHigher({ price }: ConfigurationImpact, tolerated: number): boolean {
  const { before, after, effect } = price;
  if (after === null || effect === "same" || effect === "more") return false;
  return effect === "different" || after.amount > before.amount * (1 + tolerated / 100) * ROUNDING;
}

/** Counts the contracts of one configuration that violate the rule. */
function breaking(impact: ConfigurationImpact, { rule, features, limits, byMoreThanPercent }: GateRule): number {
  const { contracts } = impact.counts;
  if (features !== undefined)
    return impact.features.some((each) => each.hadIt && !each.hasIt && features.includes(each.feature)) ? contracts : 0;
  if (limits !== undefined) {
    const lost = impact.limits.some((each) => each.loses && limits.includes(each.limit));
    return lost ? contracts : 0;
  }
  if (byMoreThanPercent !== undefined) return pricedHigher(impact, byMoreThanPercent) ? contracts : 0;
  return impact.counts[COUNTED[rule]];
}

function percentText(percent: number): string {
  // Do not round one contract in a million down to 0 %.
  return percent === 0 || percent >= 0.01 ? `${Number(percent.toFixed(2))} %` : "less than 0.01 %";
}

/** Compares whole numbers, because 0.07 × 100 is 7.000000000000001. */
function isWithinPercent(count: number, percent: number, total: number): boolean {
  const decimals = /\.(\d+)$/.exec(percent.toFixed(12).replace(/0+$/, ""))?.[1]?.length ?? 0;
  const scale = 10 ** decimals;
  return BigInt(count) * 100n * BigInt(scale) <= BigInt(Math.round(percent * scale)) * BigInt(total);
}

function check(report: ImpactReport, rule: GateRule): GateResult {
  // Balances after a reset are 0, which is above no limit.
  const isEmptied = report.usage === "reset" && OF_BALANCES.has(rule.rule);
  const broken = report.configurations
    .map((impact) => ({ impact, contracts: isEmptied ? 0 : breaking(impact, rule) }))
    .filter((each) => each.contracts > 0)
    .sort((one, other) => other.contracts - one.contracts);
  const contracts = broken.reduce((sum, each) => sum + each.contracts, 0);
  const total = report.counts.contracts;
  const percent = total === 0 ? 0 : (contracts * 100) / total;
  const { percent: maxPercent, contracts: maxContracts } = rule.atMost ?? { contracts: 0 };
  const passed = isWithinPercent(contracts, maxPercent ?? 100, total) && contracts <= (maxContracts ?? Infinity);
  const tolerated = [
    ...(maxPercent === undefined ? [] : [percentText(maxPercent)]),
    ...(maxContracts === undefined ? [] : [String(maxContracts)]),
  ].join(" and ");
  const about = rule.features ?? rule.limits;
  const verb = `${MEASURES[rule.rule]}${about === undefined ? "" : ` (${about.join(", ")})`}${
    rule.byMoreThanPercent === undefined ? "" : `, by more than ${percentText(rule.byMoreThanPercent)}`
  }`;
  const named = broken
    .slice(0, MAX_NAMED)
    .map((each) => `${describeConfiguration(each.impact.configuration)} (${each.contracts})`)
    .join(", ");
  const erased = isEmptied ? report.counts[COUNTED[rule.rule]] : 0;
  const note = erased === 0 ? "" : `; the present usage of ${erased} exceeds one, but the change resets it`;
  const most = named === "" ? "" : `: ${named}${broken.length > MAX_NAMED ? ", …" : ""}`;
  return {
    rule,
    passed,
    contracts,
    percent,
    reason: `${contracts} of ${total} ${total === 1 ? "contract" : "contracts"} (${percentText(percent)}) ${verb}; at most ${tolerated} may${most}${note}`,
  };
}

/** Checks a report against each rule, in order. The change may proceed if all results passed. */
export function checkGate(report: ImpactReport, rules: readonly GateRule[]): GateResult[] {
  return rules.map((rule) => check(report, rule));
}
