import { describeConfiguration } from "../core/change/configuration.ts";
import {
  deniedInReality,
  type DeniedCalls,
  type ReplayedGroup,
  type ReplayReport,
  revenueChange,
} from "../core/change/replay/report.ts";

const percent = (part: number, whole: number): string =>
  whole === 0 ? "0 %" : `${Math.round((part / whole) * 1000) / 10} %`;

const plural = (count: number, one: string): string => `${count} ${count === 1 ? one : `${one}s`}`;

function revenueText(report: ReplayReport): string {
  const { then, replayed, currency, unpriced } = report.totals.revenue;
  const change = revenueChange(report);
  const by = change === undefined ? "" : ` (${change < 0 ? "" : "+"}${Math.round(change * 100 * 10) / 10} %)`;
  const apart = unpriced === 0 ? "" : `; ${plural(unpriced, "contract")} without a comparable price`;
  return `Revenue: ${then} → ${replayed} ${currency}${by}${apart}`;
}

function reasonsText({ reasons }: ReplayReport["totals"]["denied"]): string {
  const parts = [
    [reasons.LIMIT_REACHED, "above a limit"],
    [reasons.NOT_GRANTED, "not granted"],
    [reasons.BUDGET_REACHED, "above a budget"],
    [reasons.gone, "gone"],
  ] as const;
  return parts.flatMap(([count, reason]) => (count === 0 ? [] : [`${count} ${reason}`])).join(", ");
}

const amountsText = ({ amounts }: DeniedCalls): string =>
  Object.entries(amounts)
    .map(([id, amount]) => `${id} ${amount}`)
    .join(", ");

function groupRow({
  pricingVersion,
  configuration,
  target,
  problem,
  contracts,
  denied,
  price,
  ...group
}: ReplayedGroup) {
  const to = problem !== null ? problem.message : target === null ? "nowhere" : describeConfiguration(target);
  const first = group.firstDenialAfterDays === null ? "" : `${group.firstDenialAfterDays.p50} days`;
  const money = `${price.then ?? "?"} → ${price.replayed ?? "?"}`;
  const from = `${describeConfiguration(configuration)} (${pricingVersion})`;
  return `| ${from} | ${to} | ${contracts} | ${denied.contracts} | ${first} | ${money} |`;
}

/** Formats a report for the description of a pull request: the number that matters first, then who and why. */
export function replayAsMarkdown(report: ReplayReport): string {
  const { contracts, movements, totals, groups, top, unknown, complete, from, to } = report;
  const { denied, paying } = totals;
  const then = deniedInReality(report);
  const lines = [
    `**${denied.contracts} of ${plural(contracts, "contract")} would have been stopped (${percent(denied.contracts, contracts)})**`,
    "",
    `${report.serviceName} ${report.targetVersion}, ${from.slice(0, 10)} to ${to.slice(0, 10)}: ${plural(movements, "call")} that consumed something.`,
    "",
    `- Denied: ${plural(denied.movements, "call")}${denied.movements === 0 ? "" : ` (${reasonsText(denied)}; ${amountsText(denied)})`}`,
    ...(then === 0 ? [] : [`- Denied in reality: ${plural(then, "call")}`]),
    `- ${revenueText(report)}`,
    `- Paying: ${paying.more} more, ${paying.less} less, ${paying.same} the same`,
  ];
  if (unknown.length > 0) lines.push(`- Unknown, because nobody reported it: ${unknown.join(", ")}`);
  if (!complete) lines.push("- Incomplete: not all terms are recorded, or a best fit is uncertain");
  if (groups.length > 0) {
    lines.push(
      "",
      "| configuration | becomes | contracts | stopped | first (median) | revenue |",
      "|---|---|---|---|---|---|",
    );
    lines.push(...groups.map(groupRow));
  }
  if (top.length > 0) {
    lines.push("", "| most affected | denied | first |", "|---|---|---|");
    lines.push(...top.map((user) => `| ${user.userId} | ${user.denied} | ${user.firstDenialAt.slice(0, 10)} |`));
  }
  return `${lines.join("\n")}\n`;
}
