import type { Proposal } from "../core/change/best-fit/best-fit.ts";
import { configurationKey, configurationOf } from "../core/change/configuration.ts";
import type { Configuration } from "../core/change/configuration.ts";
import { sideSteps } from "../core/change/holding.ts";
import type { Side } from "../core/change/holding.ts";
import { Impact } from "../core/change/impact/impact.ts";
import { COUNTS, emptyCounts } from "../core/change/impact/report.ts";
import type { ConfigurationImpact, ImpactReport } from "../core/change/impact/report.ts";
import { countHolders, type Holder, type HolderFilter, listHoldings, readHolders } from "../db/queries/holders.ts";
import { listVersions, type ServiceRow, type VersionRow, versionKey } from "../db/queries/pricings.ts";
import type { HoldingComparison } from "../core/change/compare.ts";
import type { Verdict } from "../core/change/best-fit/certificate.ts";
import { inSlices, pause } from "./analysis.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";
import { type Answers, MissingAnswers, type Question, questionKey, type QuestionsAbout } from "./proposals.ts";
import { versionNotFound } from "./service-address.ts";
import { compiledPricings } from "./subscriptions.ts";

/** Contracts of one configuration, and where they go. */
export interface GroupTarget {
  /** The version that they have now; without it, any. */
  pricingVersion?: string | undefined;
  configuration: Configuration;
  target: Configuration;
}

/** Where contracts go: as said of their configuration, else as said of all, else where it fits best. */
export interface Targets {
  fallback?: Configuration | undefined;
  groups: readonly GroupTarget[];
}

/** Something that changes what contracts of a service have. */
export type ChangeAction =
  | { action: "archive"; pricingVersion: string; targets: Targets }
  | { action: "activate"; pricingVersion: string }
  | ({ action: "disable" } & Among)
  /** Moves contracts to the version, the newest active one by default; all that are not on it, or those on the versions in `from`. */
  | ({
      action: "novation";
      pricingVersion?: string | undefined;
      from?: readonly string[] | undefined;
      targets: Targets;
    } & Among);

/** Restricts a change to contracts that are chosen already, which may stay on an archived version. */
interface Among {
  contractIds?: readonly string[] | undefined;
}

/** A change, and what it is about. */
export interface ChangePlan {
  readonly service: ServiceRow;
  readonly action: ChangeAction["action"];
  /** The version that is archived or activated. */
  readonly version: VersionRow | undefined;
  /** The version that contracts go to; for an activation, the one that they could go to. */
  readonly target: VersionRow | undefined;
  readonly versions: ReadonlyMap<string, VersionRow>;
  readonly holders: HolderFilter;
  readonly targets: Targets;
}

/** Why contracts of a group go where they go; null when nowhere. */
export type ChosenBy = "group" | "fallback" | "bestFit" | "unchanged" | null;

/** Contracts that have the same of the same version. */
export interface Group {
  readonly version: VersionRow;
  readonly side: Side;
  readonly configuration: Configuration;
  readonly target: Configuration | undefined;
  readonly chosenBy: ChosenBy;
  /** The best fit, whoever has chosen. */
  readonly proposal: Proposal | undefined;
  /** What the check of the best fit says; undefined where nobody goes there. */
  readonly verdict: Verdict | undefined;
  readonly contractIds: string[];
}

/** What a change does, and to whom. */
export interface Assessment {
  /** Its configurations are those of `groups`, in the same order. */
  readonly report: ImpactReport;
  readonly groups: readonly Group[];
  /** The version that contracts go to. */
  readonly after: Side | undefined;
}

const NO_TARGETS: Targets = { groups: [] };

/**
 * Finds the versions that a change is about. Failure notFound for an unknown one, invalid for one that contracts cannot
 * go to, and for archiving the last active one.
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
    // A version that is archived already stays as it is, and so do its contracts.
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

/** What whoever waits for an assessment wants to hear of it. */
export interface Watch {
  /** Aborted when nobody waits any more. */
  signal?: AbortSignal | undefined;
  onProgress?: ((done: { contracts: number; of: number }) => void) | undefined;
}

/** How long contracts are counted before others have their turn. */
const SLICE_MS = 10;

/**
 * Holds every contract against what the change makes of it, those that have ended included, for they are moved too. Reads
 * them a thousand at a time and lets others work in between. Call it inside a transaction; changes nothing. With
 * `certifies`, best fits are checked.
 * Failure invalid for a group among the targets that no contract is in.
 * @throws MissingAnswers for configurations that `answers` lacks: to be answered outside, see answerQuestions.
 */
export async function assessChange(
  ctx: Context,
  plan: ChangePlan,
  { answers, certifies = false, signal, onProgress }: Watch & { answers: Answers; certifies?: boolean },
): Promise<Assessment> {
  const about = aboutOf(plan, certifies);
  const grouping = new Grouping(ctx, plan, await loadSide(ctx, plan.service, plan.target), about, answers);
  // What has to be answered first is known without reading every contract.
  for (const holding of await listHoldings(ctx.db, plan.holders)) await grouping.open(holding);
  grouping.requireAllUsed();
  if (grouping.missing.size > 0) throw new MissingAnswers(about, [...grouping.missing.values()]);
  const of = await countHolders(ctx.db, plan.holders);
  let contracts = 0;
  let since = performance.now();
  for await (const page of readHolders(ctx.db, plan.holders, ctx.now())) {
    for (const holder of page) {
      if (signal?.aborted === true) throw new Failure("invalid", "The request was given up by who sent it");
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
  // Without locks, contracts may have come in between.
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

/** What one contract has, without what it has consumed. */
type Holding = Pick<Holder, "contractId" | "pricingId" | "plan" | "addOns">;

/** A version that contracts have. */
interface OpenVersion {
  readonly side: Side;
  readonly impact: Impact;
  /** By configuration: what its contracts have now, against what they get. */
  readonly comparisons: Map<string, HoldingComparison>;
}

class Grouping {
  readonly #ctx: Context;
  readonly #plan: ChangePlan;
  readonly #target: Side | undefined;
  /** By the row's own text, and by what it means. */
  readonly #byRow = new Map<string, Counted>();
  readonly #byKey = new Map<string, Counted>();
  readonly #versions = new Map<string, OpenVersion>();
  readonly #given = new Map<string, { readonly given: GroupTarget; isUsed: boolean }>();
  readonly #about: QuestionsAbout;
  readonly #answers: Answers;
  readonly #rowsMissing = new Set<string>();
  /** Configurations that have to be assessed before anything can be said; nothing is counted for them. */
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

  find(holder: Holder): Counted | undefined {
    return this.#byRow.get(this.#rowKey(holder));
  }

  /** The group of a row that none like it was before; undefined for one that has to be assessed first. */
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

  /** Where contracts go, before it is known what fits them best. */
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

/** An assessment as answers show it. */
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
