import type { Proposal } from "../../core/change/best-fit/best-fit.ts";
import type { HoldingComparison } from "../../core/change/compare.ts";
import { type Configuration, configurationKey, configurationOf } from "../../core/change/configuration.ts";
import { type Side, withOverridesOf } from "../../core/change/entitlements.ts";
import { Impact } from "../../core/change/impact/impact.ts";
import { type ConfigurationImpact, COUNTS, emptyCounts, type ImpactReport } from "../../core/change/impact/report.ts";
import { findPlan } from "../../core/pricing/compile.ts";
import type { Override } from "../../core/pricing/overrides.ts";
import { checkSubscription } from "../../core/pricing/subscription.ts";
import type { VersionRow } from "../../db/queries/pricings.ts";
import type { Subscriber } from "../../db/queries/subscribers.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import type { Assessment, Group, OverrideOutcome } from "./assessment.ts";
import { type ChangePlan, targetKey } from "./change-plan.ts";
import { loadSide } from "./load-side.ts";
import { outcomeOf } from "./override-outcome.ts";
import { type Answers, type Question, questionKey, type QuestionsAbout } from "./proposals.ts";

interface Counted {
  readonly group: Group;
  readonly impact: Impact;
}

/** A contract's version, configuration and overrides, without its consumption. */
type Holding = Omit<Subscriber, "usage">;

/** A version that contracts with the same overrides are on. */
interface OpenVersion {
  readonly side: Side;
  readonly impact: Impact;
  /** By configuration: entitlements before and after the change. */
  readonly comparisons: Map<string, HoldingComparison>;
}

/** Key of a version and of overrides, which the database lists in one order. */
const versionKeyOf = (version: VersionRow, overrides: readonly Override[]) =>
  overrides.length === 0 ? version.id : `${version.id} ${JSON.stringify(overrides)}`;

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
  readonly #sides = new Map<string, Side>();
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

  #rowKey({ pricingId, plan, addOns, overrides }: Holding): string {
    return `${pricingId} ${JSON.stringify([plan, addOns, overrides])}`;
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
    const key = `${versionKeyOf(version, holder.overrides)} ${configurationKey(configuration)}`;
    const counted = this.#byKey.get(key) ?? (await this.#newGroup(version, configuration, holder.overrides));
    if (counted === undefined) {
      this.#rowsMissing.add(row);
      return undefined;
    }
    this.#byKey.set(key, counted);
    this.#byRow.set(row, counted);
    return counted;
  }

  async #newGroup(
    version: VersionRow,
    configuration: Configuration,
    overrides: readonly Override[],
  ): Promise<Counted | undefined> {
    const place = this.#placeOf(version, configuration);
    const question = { version, configuration, place, overrides };
    const asked = questionKey(this.#about, question);
    const answer = this.#answers.get(asked);
    if (answer === undefined) {
      this.missing.set(asked, question);
      return undefined;
    }
    const key = versionKeyOf(version, overrides);
    const { side, impact, comparisons } = this.#versions.get(key) ?? (await this.#openVersion(version, overrides));
    comparisons.set(configurationKey(configuration), answer.comparison);
    const { proposal, verdict } = answer;
    const chosen = this.#choose(version, configuration, proposal);
    const outcomes = overrides.map((override): OverrideOutcome => ({
      ...override,
      after: outcomeOf(override, this.#target, chosen),
    }));
    const group = { version, side, configuration, overrides: outcomes, proposal, verdict, ...chosen, contractIds: [] };
    return { group, impact };
  }

  /** The target as far as it is known before the best fit is computed. */
  #placeOf(version: VersionRow, configuration: Configuration): Question["place"] {
    const { target, chosenBy } = this.#choose(version, configuration, undefined);
    if (chosenBy === "unchanged") return "unchanged";
    if (target !== undefined) return target;
    return this.#plan.target === undefined ? "nowhere" : "bestFit";
  }

  async #openVersion(version: VersionRow, overrides: readonly Override[]): Promise<OpenVersion> {
    const { action } = this.#plan;
    const before = withOverridesOf(await this.#sideOf(version), overrides);
    const after = this.#target === undefined ? undefined : withOverridesOf(this.#target, overrides);
    const key = versionKeyOf(version, overrides);
    const comparisons: OpenVersion["comparisons"] = new Map();
    const opened = {
      side: before,
      comparisons,
      impact: new Impact({
        before,
        after: action === "activate" ? before : after,
        place: (configuration) => this.#byKey.get(`${key} ${configurationKey(configuration)}`)?.group.target,
        compared: (configuration) => comparisons.get(configurationKey(configuration)),
        usage: usageAfter(action),
      }),
    };
    this.#versions.set(key, opened);
    return opened;
  }

  /** Returns the version for contracts without overrides, which is analysed once. */
  async #sideOf(version: VersionRow): Promise<Side> {
    const side = this.#sides.get(version.id) ?? (await loadSide(this.#ctx, this.#plan.service, version));
    if (side === undefined) throw new Error("a version was asked for and none found");
    this.#sides.set(version.id, side);
    return side;
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
    const { approval } = this.#ctx;
    if (approval !== undefined) {
      throw new Failure(
        "conflict",
        `CONFLICT: Change request ${approval.requestId} cannot be approved: no contract has the configuration of groups[${unused}] any more. Reject or withdraw it`,
      );
    }
    throw new Failure("invalid", `INVALID DATA: groups[${unused}] has a configuration that no contract has`);
  }

  /** Everything but what pending changes add. */
  assessment(): Omit<Assessment, "pending" | "scheduled" | "blocks"> {
    const reports = [...this.#versions].map(([key, { impact }]) => ({ key, report: impact.report() }));
    const counts = emptyCounts();
    for (const { report } of reports) for (const name of COUNTS) counts[name] += report.counts[name];
    const merged = reports
      .flatMap(({ key, report }) =>
        report.configurations.map((impact) => ({ impact, group: this.#groupOf(key, impact) })),
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

  #groupOf(versionKey: string, { configuration }: ConfigurationImpact): Group {
    const counted = this.#byKey.get(`${versionKey} ${configurationKey(configuration)}`);
    if (counted === undefined) throw new Error("a configuration was counted without its group");
    return counted.group;
  }
}
