import { parseJsonSteps, stringifySteps } from "../json-steps.ts";
import { type CompiledPricing, compileSteps } from "../pricing/compile.ts";
import type { Pricing } from "../pricing/model.ts";
import type { Override } from "../pricing/overrides.ts";
import { refuseWrongCredits } from "../pricing/parse/credit-problems.ts";
import { parsePricingSteps } from "../pricing/parse/pricing.ts";
import type { ParsedPricing } from "../pricing/parse/pricing.ts";
import { proposeSteps } from "./best-fit/best-fit.ts";
import type { Proposal } from "./best-fit/best-fit.ts";
import { checkSteps } from "./best-fit/certificate.ts";
import type { Verdict } from "./best-fit/certificate.ts";
import type { HoldingComparison } from "./compare.ts";
import type { Configuration } from "./configuration.ts";
import { diffAsMarkdown } from "./diff/text.ts";
import { diffSteps } from "./diff/diff.ts";
import { sideSteps, withOverridesOf } from "./entitlements.ts";
import type { Side } from "./entitlements.ts";
import { compareConfiguration } from "./impact/configuration.ts";
import type { Renames } from "./renames.ts";
import type { ContractRecord, Placement, RecordedMovement } from "./replay/record.ts";
import { replaySteps } from "./replay/replay.ts";
import type { ReplayPart } from "./replay/tally.ts";
import { reviewSteps } from "./review.ts";
import type { Review } from "./review.ts";
import type { IsOver, Steps } from "../steps.ts";

/*
 * CPU-bound work on pricings, described as messages for worker threads. Inputs and results are plain data. Models
 * travel as JSON text, which copies faster than objects.
 */

/** Requests a diff of two models. The result is rendered text, because an HTTP response needs nothing else. */
export interface DiffTask {
  readonly kind: "diff";
  readonly before: string;
  readonly after: string;
  readonly format: "json" | "markdown";
  /** New names of plans, by their previous names. Default: those that `after` declares. */
  readonly renames?: Renames | undefined;
  /** After this time, the diff stops and lists the subjects that were not compared. */
  readonly limitMs: number;
}

/** A model and the hash of its content. Threads cache compiled models by this hash. */
export interface HashedModel {
  readonly hash: string;
  readonly text: string;
}

/** The current configuration of a group of contracts, and its target. */
export interface ConfigurationItem {
  readonly configuration: Configuration;
  /**
   * The requested target. `bestFit`: the search decides. `nowhere`: the service is removed. `unchanged`: the contracts
   * stay on their version.
   */
  readonly place: Configuration | "bestFit" | "nowhere" | "unchanged";
  /** Overrides of the contracts that are active now. */
  readonly overrides: readonly Override[];
  /** A best fit that was computed earlier; skips the search. */
  readonly proposal?: Proposal | undefined;
}

/**
 * Requests the slow part of assessing configurations: searching the best fit and comparing it with the current
 * configuration.
 */
export interface ConfigurationsTask {
  readonly kind: "configurations";
  readonly serviceName: string;
  readonly before: HashedModel;
  readonly after: HashedModel | undefined;
  /** `proposes` searches a best fit; `certifies` checks its certificate. */
  readonly proposes: boolean;
  readonly certifies: boolean;
  readonly items: readonly ConfigurationItem[];
  /** Time per item. After it, the search stops and the proposal is not `complete`. */
  readonly limitMs: number;
}

export interface AssessedConfiguration {
  readonly proposal: Proposal | undefined;
  readonly comparison: HoldingComparison;
  /** Result of checking the certificate of a best fit. Absent unless a check was requested. */
  readonly verdict?: Verdict;
}

/** Requests parsing of an upload and optionally a review. */
export interface UploadTask {
  readonly kind: "upload";
  readonly text: string;
  /** Current time in epoch milliseconds. Creation dates after it are rejected. */
  readonly now: number;
  readonly maxDepth: number | undefined;
  readonly reviews: boolean;
  readonly expectations: string | undefined;
  readonly lintMs: number;
  readonly expectationsMs: number;
}

export interface ReadUpload {
  readonly parsed: ParsedPricing;
  /** Absent when the pricing was rejected or no review was requested. */
  readonly review?: Review;
}

/** Requests a replay of some contracts. */
export interface ReplayTask {
  readonly kind: "replay";
  readonly serviceId: string;
  readonly target: HashedModel;
  /** Pricings of other services of these contracts. */
  readonly pricings: readonly HashedModel[];
  readonly placements: readonly (readonly [string, Placement])[];
  readonly from: number;
  readonly to: number;
  readonly top: number;
  readonly records: readonly RecordTexts[];
}

/** A contract as the text of its record, then those of its further movements. */
export type RecordTexts = readonly [record: string, ...movements: string[]];

export type AnalysisTask = DiffTask | ConfigurationsTask | UploadTask | ReplayTask;

export type AnalysisResult<Task extends AnalysisTask> = Task extends DiffTask
  ? { readonly text: string; readonly complete: boolean }
  : Task extends ConfigurationsTask
    ? readonly AssessedConfiguration[]
    : Task extends ReplayTask
      ? ReplayPart
      : ReadUpload;

/** Maximum number of cached sides, keyed by hash and service name. One change reads the same two sides many times. */
const MAX_SIDES = 4;
const sides = new Map<string, Side>();

function* sideOf({ hash, text }: HashedModel, serviceName: string): Steps<Side> {
  const key = `${hash} ${serviceName}`;
  const known = sides.get(key);
  if (known !== undefined) return known;
  const side = yield* sideSteps(yield* compileSteps((yield* parseJsonSteps(text)) as Pricing), serviceName);
  for (const oldest of sides.keys()) {
    if (sides.size < MAX_SIDES) break;
    sides.delete(oldest);
  }
  sides.set(key, side);
  return side;
}

function* diff({ before, after, format, renames, limitMs }: DiffTask, within: Within) {
  const old = (yield* parseJsonSteps(before)) as Pricing;
  const now = (yield* parseJsonSteps(after)) as Pricing;
  const result = yield* diffSteps(old, now, { isOver: within(limitMs), renames });
  const text = format === "json" ? yield* stringifySteps(result) : diffAsMarkdown(result);
  return { text, complete: result.space.complete };
}

function* assess(task: ConfigurationsTask, item: ConfigurationItem, within: Within): Steps<AssessedConfiguration> {
  const { serviceName, proposes, certifies, limitMs } = task;
  const { configuration, place } = item;
  const before = withOverridesOf(yield* sideOf(task.before, serviceName), item.overrides);
  const after =
    task.after === undefined ? undefined : withOverridesOf(yield* sideOf(task.after, serviceName), item.overrides);
  const isOver = within(limitMs);
  const proposal =
    item.proposal ??
    (proposes && after !== undefined ? yield* proposeSteps(before, after, configuration, isOver) : undefined);
  if (place === "unchanged") {
    return { proposal, comparison: yield* compareConfiguration(before, before, configuration, configuration) };
  }
  const target = place === "bestFit" ? proposal?.target : place === "nowhere" ? undefined : place;
  const comparison = yield* compareConfiguration(before, after, configuration, target);
  if (!certifies || place !== "bestFit" || proposal === undefined || after === undefined)
    return { proposal, comparison };
  // The check gets its own time limit: a proposal that used up the first one is still checked.
  const { certificate } = proposal;
  // Check the actual target of the contracts, not the one in a proposal that the caller supplied.
  const checked = { ...certificate, to: { version: certificate.to.version, ...proposal.target } };
  const verdict = yield* checkSteps(checked, { before, after, configuration }, within(limitMs));
  return { proposal, comparison, verdict };
}

function* assessAll(task: ConfigurationsTask, within: Within): Steps<readonly AssessedConfiguration[]> {
  const assessed: AssessedConfiguration[] = [];
  for (const item of task.items) assessed.push(yield* assess(task, item, within));
  return assessed;
}

function* readUpload(task: UploadTask, within: Within): Steps<ReadUpload> {
  const { text, expectations } = task;
  const parsed = refuseWrongCredits(yield* parsePricingSteps(text, new Date(task.now), task.maxDepth), text);
  yield;
  if (!parsed.ok || !task.reviews) return { parsed };
  const review = yield* reviewSteps(
    parsed.pricing,
    { text, expectations },
    { lintOver: within(task.lintMs), expectationsOver: within(task.expectationsMs) },
  );
  return { parsed, review };
}

/** Maximum cached pricings of replays, by hash. */
const MAX_COMPILED = 16;
const compiledByHash = new Map<string, CompiledPricing>();

function* compiledOf({ hash, text }: HashedModel): Steps<CompiledPricing> {
  const known = compiledByHash.get(hash);
  if (known !== undefined) return known;
  const compiled = yield* compileSteps((yield* parseJsonSteps(text)) as Pricing);
  for (const oldest of compiledByHash.keys()) {
    if (compiledByHash.size < MAX_COMPILED) break;
    compiledByHash.delete(oldest);
  }
  compiledByHash.set(hash, compiled);
  return compiled;
}

function* recordsIn(records: readonly RecordTexts[]): Generator<ContractRecord> {
  for (const [text, ...more] of records) {
    const record = JSON.parse(text) as ContractRecord;
    yield more.length === 0 ? record : { ...record, movements: movementsIn(record.movements, more) };
  }
}

/** Parses movements when they are read, so that memory holds those of one text. */
const movementsIn = (first: Iterable<RecordedMovement>, more: readonly string[]): Iterable<RecordedMovement> => ({
  *[Symbol.iterator]() {
    yield* first;
    for (const text of more) yield* JSON.parse(text) as RecordedMovement[];
  },
});

function* replay(task: ReplayTask): Steps<ReplayPart> {
  const pricings = new Map<string, CompiledPricing>();
  for (const model of task.pricings) pricings.set(model.hash, yield* compiledOf(model));
  const target = yield* compiledOf(task.target);
  const placements = new Map(task.placements);
  return yield* replaySteps({ ...task, target, pricings, placements, records: recordsIn(task.records) });
}

/** Starts a clock that reports when the given milliseconds have passed. It starts at its first call. */
export type Within = (milliseconds: number) => IsOver;

/** Creates clocks that read the time from `now`, in milliseconds. */
export function clocksOf(now: () => number): Within {
  return (milliseconds) => {
    let until: number | undefined;
    return () => now() > (until ??= now() + milliseconds);
  };
}

/** Runs a task in steps. The caller supplies the clock. */
export function analyse<Task extends AnalysisTask>(task: Task, within: Within): Steps<AnalysisResult<Task>> {
  const steps: Steps<unknown> =
    task.kind === "diff"
      ? diff(task, within)
      : task.kind === "configurations"
        ? assessAll(task, within)
        : task.kind === "replay"
          ? replay(task)
          : readUpload(task, within);
  // Each kind has its own result type, which TypeScript cannot narrow across the conditional above.
  return steps as Steps<AnalysisResult<Task>>;
}

/** Estimates the input size of a task, in characters. */
export function sizeOf(task: AnalysisTask): number {
  if (task.kind === "diff") return task.before.length + task.after.length;
  if (task.kind === "configurations") return task.before.text.length + (task.after?.text.length ?? 0);
  if (task.kind === "replay")
    return task.records.flat().reduce((sum, { length }) => sum + length, task.target.text.length);
  return task.text.length + (task.expectations?.length ?? 0);
}
