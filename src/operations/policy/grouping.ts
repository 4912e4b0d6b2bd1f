import type { Proposal } from "../../core/change/best-fit/best-fit.ts";
import type { Verdict } from "../../core/change/best-fit/certificate.ts";
import type { HoldingComparison } from "../../core/change/compare.ts";
import { type Configuration, configurationKey, configurationOf } from "../../core/change/configuration.ts";
import { type Side, sideSteps } from "../../core/change/entitlements.ts";
import { Impact } from "../../core/change/impact/impact.ts";
import { type ConfigurationImpact, COUNTS, emptyCounts, type ImpactReport } from "../../core/change/impact/report.ts";
import { findPlan } from "../../core/pricing/compile.ts";
import { checkSubscription } from "../../core/pricing/subscription.ts";
import type { ServiceRow, VersionRow } from "../../db/queries/pricings.ts";
import type { Subscriber } from "../../db/queries/subscribers.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { inSlices } from "../state/analysis.ts";
import { compiledPricings } from "../subscriptions.ts";
import { type ChangePlan, targetKey } from "./change-plan.ts";
import { type Answers, type Question, questionKey, type QuestionsAbout } from "./proposals.ts";

/** How a group's target was chosen; null if it has none. */
export type ChosenBy = "group" | "fallback" | "rename" | "bestFit" | "unchanged" | null;

/** Contracts with the same configuration of the same version. */
export interface Group {
  readonly version: VersionRow;
  readonly side: Side;
  readonly configuration: Configuration;
  readonly target: Configuration | undefined;
  readonly chosenBy: ChosenBy;
  /** The best fit, also where another target was chosen. */
  readonly proposal: Proposal | undefined;
  /** Result of certifying the best fit; undefined where no contract moves to it. */
  readonly verdict: Verdict | undefined;
  readonly contractIds: string[];
}

/** The effects of a change, per configuration and group. */
export interface Assessment {
  /** `report.configurations` has the order of `groups`. */
  readonly report: ImpactReport;
  readonly groups: readonly Group[];
  /** The version that contracts move to. */
  readonly after: Side | undefined;
}

/** Compiles one version of the service for comparisons. */
export async function loadSide(
  ctx: Context,
  service: ServiceRow,
  row: VersionRow | undefined,
): Promise<Side | undefined> {
  if (row === undefined) return undefined;
  const compiled = await compiledPricings(ctx, [{ pricingId: row.id, hash: row.hash }]);
  const pricing = compiled.get(row.hash);
  if (pricing === undefined) throw new Error(`pricing ${row.id} has no model`);
  return inSlices(sideSteps(pricing, service.nameKey));
}

interface Counted {
  readonly group: Group;
  readonly impact: Impact;
}

/** A contract's version and configuration, without its consumption. */
type Holding = Pick<Subscriber, "contractId" | "pricingId" | "plan" | "addOns">;

/** A version that contracts are on. */
interface OpenVersion {
  readonly side: Side;
  readonly impact: Impact;
  /** By configuration: entitlements before and after the change. */
  readonly comparisons: Map<string, HoldingComparison>;
}

/** Archiving a version resets the usage of its contracts; every other change keeps it. */
const usageAfter = (action: ChangePlan["action"]): ImpactReport["usage"] => (action === "archive" ? "reset" : "kept");

/** Groups the contracts of a change by version and configuration, and counts the effects on each. */
export class Grouping {
  readonly #ctx: Context;
  readonly #plan: ChangePlan;
  readonly #target: Side | undefined;
  /** By the row's literal values, and by normalized configuration. The first lookup saves normalizing every row. */
  readonly #byRow = new Map<string, Counted>();
  readonly #byKey = new Map<string, Counted>();
  readonly #versions = new Map<string, OpenVersion>();
  readonly #ownTargets = new Map<string, { readonly target: Configuration; isUsed: boolean }>();
  readonly #about: QuestionsAbout;
  readonly #answers: Answers;
  readonly #rowsMissing = new Set<string>();
  /** Configurations that need an assessment first; their contracts are not counted. */
  readonly missing = new Map<string, Question>();

  constructor(ctx: Context, plan: ChangePlan, after: Side | undefined, about: QuestionsAbout, answers: Answers) {
    this.#ctx = ctx;
    this.#plan = plan;
    this.#target = after;
    this.#about = about;
    this.#answers = answers;
    for (const { pricingVersion, configuration, target } of plan.targets.groups) {
      this.#ownTargets.set(targetKey(pricingVersion, configuration), { target, isUsed: false });
    }
  }

  #rowKey({ pricingId, plan, addOns }: Holding): string {
    return `${pricingId} ${JSON.stringify([plan, addOns])}`;
  }

  find(holder: Subscriber): Counted | undefined {
    return this.#byRow.get(this.#rowKey(holder));
  }

  /** Creates or finds the group of a row with new values. Returns undefined if it needs an assessment first. */
  async open(holder: Holding): Promise<Counted | undefined> {
    const row = this.#rowKey(holder);
    if (this.#rowsMissing.has(row)) return undefined;
    const version = this.#plan.versions.get(holder.pricingId);
    if (version === undefined) throw new Error(`contract ${holder.contractId} has a version of another service`);
    const configuration = configurationOf(holder.plan ?? undefined, holder.addOns ?? {});
    const key = `${version.id} ${configurationKey(configuration)}`;
    const counted = this.#byKey.get(key) ?? (await this.#newGroup(version, configuration));
    if (counted === undefined) {
      this.#rowsMissing.add(row);
      return undefined;
    }
    this.#byKey.set(key, counted);
    this.#byRow.set(row, counted);
    return counted;
  }

  async #newGroup(version: VersionRow, configuration: Configuration): Promise<Counted | undefined> {
    const place = this.#placeOf(version, configuration);
    const question = { version, configuration, place };
    const key = questionKey(this.#about, question);
    const answer = this.#answers.get(key);
    if (answer === undefined) {
      this.missing.set(key, question);
      return undefined;
    }
    const { side, impact, comparisons } = this.#versions.get(version.id) ?? (await this.#openVersion(version));
    comparisons.set(configurationKey(configuration), answer.comparison);
    const { proposal, verdict } = answer;
    const chosen = this.#choose(version, configuration, proposal);
    return { group: { version, side, configuration, proposal, verdict, ...chosen, contractIds: [] }, impact };
  }

  /** The target as far as it is known before the best fit is computed. */
  #placeOf(version: VersionRow, configuration: Configuration): Question["place"] {
    const { target, chosenBy } = this.#choose(version, configuration, undefined);
    if (chosenBy === "unchanged") return "unchanged";
    if (target !== undefined) return target;
    return this.#plan.target === undefined ? "nowhere" : "bestFit";
  }

  async #openVersion(version: VersionRow): Promise<OpenVersion> {
    const { action, service } = this.#plan;
    const before = await loadSide(this.#ctx, service, version);
    if (before === undefined) throw new Error("a version was asked for and none found");
    const comparisons: OpenVersion["comparisons"] = new Map();
    const opened = {
      side: before,
      comparisons,
      impact: new Impact({
        before,
        after: action === "activate" ? before : this.#target,
        place: (configuration) => this.#byKey.get(`${version.id} ${configurationKey(configuration)}`)?.group.target,
        compared: (configuration) => comparisons.get(configurationKey(configuration)),
        usage: usageAfter(action),
      }),
    };
    this.#versions.set(version.id, opened);
    return opened;
  }

  #choose(
    version: VersionRow,
    configuration: Configuration,
    proposal: Proposal | undefined,
  ): Pick<Group, "target" | "chosenBy"> {
    const { action, targets } = this.#plan;
    if (action === "activate") return { target: configuration, chosenBy: "unchanged" };
    if (action === "disable") return { target: undefined, chosenBy: null };
    const own =
      this.#ownTargets.get(targetKey(version.version, configuration)) ??
      this.#ownTargets.get(targetKey(undefined, configuration));
    if (own !== undefined) {
      own.isUsed = true;
      return { target: own.target, chosenBy: "group" };
    }
    if (targets.fallback !== undefined) return { target: targets.fallback, chosenBy: "fallback" };
    const renamed = this.#renamed(configuration);
    if (renamed !== undefined) return { target: renamed, chosenBy: "rename" };
    return { target: proposal?.target, chosenBy: proposal === undefined ? null : "bestFit" };
  }

  /** Returns the configuration with its plan's new name. Undefined if the plan is not renamed, or does not fit. */
  #renamed({ plan, addOns }: Configuration): Configuration | undefined {
    const target = this.#target;
    if (plan === undefined || target === undefined || findPlan(target.pricing, plan) !== undefined) return undefined;
    const { renames = target.pricing.pricing.renames ?? {} } = this.#plan.targets;
    const name = Object.entries(renames).find(([from]) => from.toLowerCase() === plan.toLowerCase())?.[1];
    const found = name === undefined ? undefined : findPlan(target.pricing, name);
    if (found === undefined) return undefined;
    const renamed = configurationOf(found.name, addOns);
    const { serviceName, pricing } = target;
    const checked = checkSubscription(pricing, { serviceName, version: pricing.pricing.version, ...renamed });
    return checked.ok ? configurationOf(found.name, checked.addOns) : undefined;
  }

  requireAllUsed(): void {
    const unused = [...this.#ownTargets.values()].findIndex(({ isUsed }) => !isUsed);
    if (unused < 0) return;
    throw new Failure("invalid", `INVALID DATA: groups[${unused}] has a configuration that no contract has`);
  }

  assessment(): Assessment {
    const reports = [...this.#versions].map(([id, { impact }]) => ({ id, report: impact.report() }));
    const counts = emptyCounts();
    for (const { report } of reports) for (const name of COUNTS) counts[name] += report.counts[name];
    const merged = reports
      .flatMap(({ id, report }) =>
        report.configurations.map((impact) => ({ impact, group: this.#groupOf(id, impact) })),
      )
      .sort((one, other) => other.impact.counts.contracts - one.impact.counts.contracts);
    return {
      report: {
        usage: usageAfter(this.#plan.action),
        counts,
        configurations: merged.map(({ impact }) => impact),
        unforeseen: [...new Set(reports.flatMap(({ report }) => report.unforeseen))],
      },
      groups: merged.map(({ group }) => group),
      after: this.#target,
    };
  }

  #groupOf(versionId: string, { configuration }: ConfigurationImpact): Group {
    const counted = this.#byKey.get(`${versionId} ${configurationKey(configuration)}`);
    if (counted === undefined) throw new Error("a configuration was counted without its group");
    return counted.group;
  }
}
