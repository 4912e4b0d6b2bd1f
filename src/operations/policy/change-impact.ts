import type { Proposal } from "../../core/change/best-fit/best-fit.ts";
import { configurationKey, configurationOf } from "../../core/change/configuration.ts";
import type { Configuration } from "../../core/change/configuration.ts";
import { sideSteps } from "../../core/change/entitlements.ts";
import type { Side } from "../../core/change/entitlements.ts";
import { Impact } from "../../core/change/impact/impact.ts";
import { COUNTS, emptyCounts } from "../../core/change/impact/report.ts";
import type { ConfigurationImpact, ImpactReport } from "../../core/change/impact/report.ts";
import {
  countSubscribers,
  type Subscriber,
  type SubscriberFilter,
  listConfigurations,
  readSubscribers,
} from "../../db/queries/subscribers.ts";
import { listVersions, type ServiceRow, type VersionRow, versionKey } from "../../db/queries/pricings.ts";
import type { HoldingComparison } from "../../core/change/compare.ts";
import type { Verdict } from "../../core/change/best-fit/certificate.ts";
import { clientClosed, inSlices, pause } from "../state/analysis.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { type Answers, MissingAnswers, type Question, questionKey, type QuestionsAbout } from "./proposals.ts";
import { versionNotFound } from "../service-address.ts";
import { compiledPricings } from "../subscriptions.ts";

/** Target of the contracts with one configuration. */
export interface GroupTarget {
  /** Their current version. Default: any. */
  pricingVersion?: string | undefined;
  configuration: Configuration;
  target: Configuration;
}

/** Targets of moved contracts. A configuration's own target comes first, then the fallback, then the best fit. */
export interface Targets {
  fallback?: Configuration | undefined;
  groups: readonly GroupTarget[];
}

/** An action that changes the entitlements of a service's contracts. */
export type ChangeAction =
  | { action: "archive"; pricingVersion: string; targets: Targets }
  | { action: "activate"; pricingVersion: string }
  | ({ action: "disable" } & Among)
  /**
   * Moves contracts to a version. Default: the newest active one. `from` limits it to contracts on those versions.
   * Default: all other versions.
   */
  | ({
      action: "novation";
      pricingVersion?: string | undefined;
      from?: readonly string[] | undefined;
      targets: Targets;
    } & Among);

/** Limits a change to chosen contracts. These may also move to an archived version. */
interface Among {
  contractIds?: readonly string[] | undefined;
}

/** A change with its resolved versions and contracts. */
export interface ChangePlan {
  readonly service: ServiceRow;
  readonly action: ChangeAction["action"];
  /** The version that is archived or activated. */
  readonly version: VersionRow | undefined;
  /** The version that contracts move to. For an activation: the version that they could move to. */
  readonly target: VersionRow | undefined;
  readonly versions: ReadonlyMap<string, VersionRow>;
  readonly holders: SubscriberFilter;
  readonly targets: Targets;
}

/** How a group's target was chosen; null if it has none. */
export type ChosenBy = "group" | "fallback" | "bestFit" | "unchanged" | null;

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

const NO_TARGETS: Targets = { groups: [] };

/**
 * Resolves the versions of a change.
 * @throws Failure notFound for an unknown version; invalid for a version that contracts cannot move to, and for
 * archiving the last active one.
 */
export async function planChange(ctx: Context, service: ServiceRow, change: ChangeAction): Promise<ChangePlan> {
  const versions = await listVersions(ctx.db, service.id);
  const find = (version: string): VersionRow => {
    const found = versions.find(({ key }) => key === versionKey(version));
    if (found === undefined) {
      throw versionNotFound({ organizationId: service.organizationId, serviceName: service.name, version });
    }
    return found;
  };
  const newest = (except?: VersionRow) => versions.find((row) => row.state === "active" && row !== except);
  const plan = {
    service,
    action: change.action,
    version: undefined,
    target: undefined,
    versions: new Map(versions.map((row) => [row.id, row])),
    holders: { serviceIds: [service.id], contractIds: "contractIds" in change ? change.contractIds : undefined },
    targets: NO_TARGETS,
  };
  if (change.action === "disable") return plan;
  if (change.action === "activate") {
    const version = find(change.pricingVersion);
    return { ...plan, version, target: version };
  }
  const { targets } = change;
  requireDifferent(targets.groups);
  if (change.action === "archive") {
    const version = find(change.pricingVersion);
    const target = newest(version);
    // An archived version stays archived, and its contracts do not move.
    const pricingIds = version.state === "archived" ? [] : [version.id];
    if (target === undefined && version.state === "active") {
      throw new Failure("invalid", `You cannot archive the last active pricing for service ${service.name}`);
    }
    return { ...plan, version, target, targets, holders: { serviceIds: [service.id], pricingIds } };
  }
  const target = change.pricingVersion === undefined ? newest() : find(change.pricingVersion);
  if (target === undefined) throw new Failure("invalid", `No active pricing found for service ${service.name}`);
  if (target.state === "archived" && change.contractIds === undefined) {
    throw new Failure("invalid", `Pricing version ${target.version} of service ${service.name} is archived`);
  }
  const sources = change.from === undefined ? versions.filter((row) => row !== target) : change.from.map(find);
  return {
    ...plan,
    target,
    targets,
    holders: { ...plan.holders, pricingIds: sources.map((row) => row.id) },
  };
}

function requireDifferent(groups: readonly GroupTarget[]): void {
  const known = new Set<string>();
  for (const [index, { pricingVersion, configuration }] of groups.entries()) {
    const key = keyOf(pricingVersion, configuration);
    if (known.has(key)) {
      throw new Failure("invalid", `INVALID DATA: groups[${index}] has a configuration that another one has`);
    }
    known.add(key);
  }
}

/** Progress callback and cancellation of an assessment. */
export interface Watch {
  /** Aborted when the client no longer waits. */
  signal?: AbortSignal | undefined;
  onProgress?: ((done: { contracts: number; of: number }) => void) | undefined;
}

/** Time slice, after which counting yields to the event loop. */
const SLICE_MS = 10;

/**
 * Compares every contract before and after the change, including expired ones, because they move too. It reads 1,000
 * contracts at a time and yields in between. Call it inside a transaction; it writes nothing. With `certifies`, best
 * fits are certified.
 * @throws Failure invalid for a target group without contracts.
 * @throws MissingAnswers for configurations that `answers` lacks. Answer them outside the transaction, see
 * answerQuestions.
 */
export async function assessChange(
  ctx: Context,
  plan: ChangePlan,
  { answers, certifies = false, signal, onProgress }: Watch & { answers: Answers; certifies?: boolean },
): Promise<Assessment> {
  const about = aboutOf(plan, certifies);
  const grouping = new Grouping(ctx, plan, await loadSide(ctx, plan.service, plan.target), about, answers);
  // Distinct configurations suffice to find missing answers, before any contract is read.
  for (const holding of await listConfigurations(ctx.db, plan.holders)) await grouping.open(holding);
  grouping.requireAllUsed();
  if (grouping.missing.size > 0) throw new MissingAnswers(about, [...grouping.missing.values()]);
  const of = await countSubscribers(ctx.db, plan.holders);
  let contracts = 0;
  let since = performance.now();
  for await (const page of readSubscribers(ctx.db, plan.holders, ctx.resources.now())) {
    for (const holder of page) {
      if (signal?.aborted === true) throw clientClosed();
      const counted = grouping.find(holder) ?? (await grouping.open(holder));
      counted?.impact.add({ configuration: counted.group.configuration, usage: holder.usage });
      counted?.group.contractIds.push(holder.contractId);
      if (performance.now() - since < SLICE_MS) continue;
      await pause();
      since = performance.now();
    }
    contracts += page.length;
    onProgress?.({ contracts, of: Math.max(contracts, of) });
  }
  // Without locks, contracts may have been added in the meantime.
  if (grouping.missing.size > 0) throw new MissingAnswers(about, [...grouping.missing.values()]);
  return grouping.assessment();
}

function aboutOf({ service, action, target }: ChangePlan, certifies: boolean): QuestionsAbout {
  const moves = action === "archive" || action === "novation";
  return {
    service,
    after: target,
    proposes: target !== undefined,
    certifies: certifies && moves,
  };
}

async function loadSide(ctx: Context, service: ServiceRow, row: VersionRow | undefined): Promise<Side | undefined> {
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

class Grouping {
  readonly #ctx: Context;
  readonly #plan: ChangePlan;
  readonly #target: Side | undefined;
  /** By the row's literal values, and by normalized configuration. The first lookup saves normalizing every row. */
  readonly #byRow = new Map<string, Counted>();
  readonly #byKey = new Map<string, Counted>();
  readonly #versions = new Map<string, OpenVersion>();
  readonly #given = new Map<string, { readonly given: GroupTarget; isUsed: boolean }>();
  readonly #about: QuestionsAbout;
  readonly #answers: Answers;
  readonly #rowsMissing = new Set<string>();
  /** Configurations that need an assessment first; their contracts are not counted. */
  readonly missing = new Map<string, Question>();

  constructor(ctx: Context, plan: ChangePlan, target: Side | undefined, about: QuestionsAbout, answers: Answers) {
    this.#ctx = ctx;
    this.#plan = plan;
    this.#target = target;
    this.#about = about;
    this.#answers = answers;
    for (const given of plan.targets.groups) {
      this.#given.set(keyOf(given.pricingVersion, given.configuration), { given, isUsed: false });
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
        usage: action === "archive" ? "reset" : "kept",
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
    const said =
      this.#given.get(keyOf(version.version, configuration)) ?? this.#given.get(keyOf(undefined, configuration));
    if (said !== undefined) {
      said.isUsed = true;
      return { target: said.given.target, chosenBy: "group" };
    }
    if (targets.fallback !== undefined) return { target: targets.fallback, chosenBy: "fallback" };
    return { target: proposal?.target, chosenBy: proposal === undefined ? null : "bestFit" };
  }

  requireAllUsed(): void {
    const unused = [...this.#given.values()].findIndex(({ isUsed }) => !isUsed);
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

const keyOf = (version: string | undefined, configuration: Configuration) =>
  `${version === undefined ? "" : versionKey(version)} ${configurationKey(configuration)}`;

export type ImpactView = ReturnType<typeof viewImpact>;

export function viewImpact(plan: ChangePlan, { report, groups }: Assessment) {
  const { service, action, version, target } = plan;
  return {
    action,
    serviceName: service.name,
    pricingVersion: version?.version ?? null,
    targetVersion: action === "activate" ? null : (target?.version ?? null),
    usage: action === "archive" ? ("reset" as const) : ("kept" as const),
    counts: report.counts,
    groups: groups.map((group, index) => ({
      pricingVersion: group.version.version,
      ...report.configurations[index],
      chosenBy: group.chosenBy,
      proposal: viewProposal(group.proposal),
    })),
    unforeseen: report.unforeseen,
  };
}

function viewProposal(proposal: Proposal | undefined) {
  if (proposal === undefined) return null;
  const { target, keepsEverything, complete, certificate } = proposal;
  return { target, keepsEverything, complete, certificate };
}
