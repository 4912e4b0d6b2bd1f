import { describeConfiguration } from "../../core/change/configuration.ts";
import { diffAsMarkdown } from "../../core/change/diff/text.ts";
import { describePartStep } from "./parts.ts";
import type { PartPlan, Plan, ServicePlan, Verdict } from "./plan.ts";
import type { Impact } from "./server.ts";
import { describeStep } from "./steps.ts";

const VERDICTS: Readonly<Record<Verdict, string>> = {
  nothing: "nothing to do",
  changes: "changes",
  refused: "refused",
};

/** Rows of a table of groups. A plan with thousands of configurations must stay readable. */
const MAX_GROUPS = 20;

/** Keeps names from being read as Markdown. */
const escaped = (text: string) => text.replaceAll(/[\\`*_{}[\]<>|#]/g, String.raw`\$&`).replaceAll("\n", " ");

const bullets = (lines: readonly string[]) => lines.map((line) => `- ${escaped(line)}`).join("\n");
const section = (title: string, lines: readonly string[]) =>
  lines.length === 0 ? [] : [`### ${title}\n\n${bullets(lines)}`];
const counted = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Renders a plan as Markdown that also reads well on a terminal: the summary of a pull request has nothing else. */
export function planText(plan: Plan): string {
  const { organization, verdict, services, parts, notes } = plan;
  const blocks = [
    `# Plan for ${escaped(organization.name)}: ${VERDICTS[verdict]}`,
    ...services.flatMap(serviceText),
    ...parts.flatMap(partText),
    ...(notes.length === 0 ? [] : [`## Notes\n\n${bullets(notes)}`]),
  ];
  return `${blocks.join("\n\n")}\n`;
}

function serviceText(service: ServicePlan): string[] {
  const { name, verdict, steps, diff, lint, expectations, impact, gate, refusals } = service;
  if (verdict === "nothing") return [`## ${escaped(name)}: ${VERDICTS.nothing}`];
  return [
    `## ${escaped(name)}: ${VERDICTS[verdict]}`,
    ...section("Refused", refusals),
    ...section("Steps", steps.map(describeStep)),
    ...(diff === null ? [] : [diffAsMarkdown(diff).trimEnd().replaceAll(/^#/gm, "##")]),
    ...section(
      "Lint",
      lint.map(
        ({ file, line, column, severity, code, message }) =>
          `${file}:${line}:${column} ${severity} ${code}: ${message}`,
      ),
    ),
    ...section(
      "Expectations",
      expectations.map(({ pricingVersion, met, failed, percent }) => {
        const covered = percent === null ? "" : `, ${percent} % of plans, features and limit edges covered`;
        return `${pricingVersion}: ${met} of ${met + failed.length} met${covered}`;
      }),
    ),
    ...impact.map(impactText),
    ...(gate.rules.length === 0 ? [] : [gateText(service)]),
  ];
}

function impactText({ action, pricingVersion, targetVersion, counts, groups }: Omit<Impact, "gate">): string {
  const what = action === "activate" ? `activating ${pricingVersion}` : `archiving ${pricingVersion}`;
  const title = `### Impact of ${escaped(what)}`;
  if (counts.contracts === 0) return `${title}\n\nNo contract is affected.`;
  const facts = Object.entries(COUNTS).flatMap(([count, words]) => {
    const number = counts[count] ?? 0;
    return number === 0 ? [] : [`${number} ${words}`];
  });
  const summary = `${counted(counts.contracts, "contract")}${targetVersion === null ? "" : ` to ${targetVersion}`}: ${facts.join(", ") || "nobody gains or loses anything"}.`;
  const rows = groups
    .slice(0, MAX_GROUPS)
    .map(({ pricingVersion: from, configuration, target, problem, counts: { contracts, losing, gaining } }) => {
      const to = problem === null && target !== null ? describeConfiguration(target) : "no valid target";
      return `| ${[from, describeConfiguration(configuration), to, contracts, losing, gaining].map((cell) => escaped(String(cell))).join(" | ")} |`;
    });
  const more = groups.length > MAX_GROUPS ? [`\n${groups.length - MAX_GROUPS} more configurations are in --json.`] : [];
  const head = "| version | has | gets | contracts | losing | gaining |\n|---|---|---|---|---|---|";
  return [`${title}\n\n${escaped(summary)}\n`, head, ...rows, ...more].join("\n");
}

/** Counts of a prediction that a plan names, with their words. */
const COUNTS: Readonly<Record<string, string>> = {
  gaining: "gain something",
  losing: "lose something",
  losingFeatures: "lose a feature",
  losingQuota: "lose quota",
  turnedOff: "lose a feature that is on now",
  newlyOver: "newly exceed a limit",
  payingMore: "pay more",
  unplaced: "have no valid target",
};

function gateText({ gate }: ServicePlan): string {
  const rules = gate.rules.map(
    ({ passed, rule, reason }) => `${passed ? "passed" : "BROKEN"}: ${rule.rule}. ${reason}`,
  );
  return `### Gate: ${gate.passed ? "open" : "closed"}\n\n${bullets(rules)}`;
}

function partText({ part, steps, refusals = [] }: PartPlan): string[] {
  const verdict = refusals.length > 0 ? "refused" : steps.length > 0 ? "changes" : "nothing";
  return [
    `## ${part}: ${VERDICTS[verdict]}`,
    ...(refusals.length === 0 ? [] : [bullets(refusals)]),
    ...(steps.length === 0 ? [] : [bullets(steps.map(describePartStep))]),
  ];
}
