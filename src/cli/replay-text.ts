import { describeConfiguration } from "../core/change/configuration.ts";
import type { DeniedCalls, ReplayedGroup, ReplayReport } from "../core/change/replay/report.ts";

const percent = (part: number, whole: number): string =>
  whole === 0 ? "0 %" : `${Math.round((part / whole) * 1000) / 10} %`;

const plural = (count: number, one: string): string => `${count} ${count === 1 ? one : `${one}s`}`;

/** Change of the revenue in percent; undefined without revenue before. */
export function revenueChange({ totals: { revenue } }: ReplayReport): number | undefined {
  return revenue.then === 0 ? undefined : (revenue.replayed / revenue.then - 1) * 100;
}

/** Share of contracts with a denied call, in percent. */
export const deniedShare = ({ contracts, totals }: ReplayReport): number =>
  contracts === 0 ? 0 : (totals.denied.contracts / contracts) * 100;

function revenueText(report: ReplayReport): string {
  const { then, replayed, currency, unpriced } = report.totals.revenue;
  const change = revenueChange(report);
  const by = change === undefined ? "" : ` (${change < 0 ? "" : "+"}${Math.round(change * 10) / 10} %)`;
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

function deniedThenText({ totals: { deniedThen } }: ReplayReport): string[] {
  const calls = Object.values(deniedThen).reduce((sum, each) => sum + each, 0);
  return calls === 0 ? [] : [`- Denied in reality: ${plural(calls, "call")}`];
}

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
  const lines = [
    `**${denied.contracts} of ${plural(contracts, "contract")} would have been stopped (${percent(denied.contracts, contracts)})**`,
    "",
    `${report.serviceName} ${report.targetVersion}, ${from.slice(0, 10)} to ${to.slice(0, 10)}: ${plural(movements, "call")} that consumed something.`,
    "",
    `- Denied: ${plural(denied.movements, "call")}${denied.movements === 0 ? "" : ` (${reasonsText(denied)}; ${amountsText(denied)})`}`,
    ...deniedThenText(report),
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
