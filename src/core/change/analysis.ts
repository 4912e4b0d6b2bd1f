import { compileSteps } from "../pricing/compile.ts";
import type { Pricing } from "../pricing/model.ts";
import { parsePricing } from "../pricing/parse/pricing.ts";
import { proposeSteps } from "./best-fit/best-fit.ts";
import type { Proposal } from "./best-fit/best-fit.ts";
import { checkSteps } from "./best-fit/certificate.ts";
import type { Verdict } from "./best-fit/certificate.ts";
import type { HoldingComparison } from "./compare.ts";
import type { Configuration } from "./configuration.ts";
import { diffAsMarkdown } from "./diff/text.ts";
import { diffSteps } from "./diff/diff.ts";
import { sideSteps } from "./holding.ts";
import type { Side } from "./holding.ts";
import { compareConfiguration } from "./impact/configuration.ts";
import { reviewPricing } from "./review.ts";
import type { Review } from "./review.ts";
import type { IsOver, Steps } from "../steps.ts";

/*
 * Work whose size only the pricings decide, as messages: inputs and results are plain data that can be sent to another
 * thread. Models are sent as JSON text, which copies faster than objects.
 */

/** A diff of two models, rendered: its text is all that an answer needs. */
export interface DiffTask {
  readonly kind: "diff";
  readonly before: string;
  readonly after: string;
  readonly format: "json" | "markdown";
  /** Afterwards the diff names what was not looked at. */
  readonly limitMs: number;
}

/** A model with the hash of its content, by which a thread remembers what it made of it. */
export interface HashedModel {
  readonly hash: string;
  readonly text: string;
}

/** What contracts of one configuration have now, and where they go. */
export interface ConfigurationItem {
  readonly configuration: Configuration;
  /**
   * Where they were told to go; `bestFit` where the search decides, `nowhere` when the service is taken away, `unchanged`
   * when they stay on their version.
   */
  readonly place: Configuration | "bestFit" | "nowhere" | "unchanged";
  /** The best fit where it is known already. */
  readonly proposal?: Proposal | undefined;
}

/** Everything about configurations that takes long: where they fit best, and how that compares with what they have. */
export interface ConfigurationsTask {
  readonly kind: "configurations";
  readonly serviceName: string;
  readonly before: HashedModel;
  readonly after: HashedModel | undefined;
  /** Whether a best fit is looked for, and whether it is checked. */
  readonly proposes: boolean;
  readonly certifies: boolean;
  readonly items: readonly ConfigurationItem[];
  /** For each item: afterwards the proposal is not `complete`. */
  readonly limitMs: number;
}

export interface AssessedConfiguration {
  readonly proposal: Proposal | undefined;
  readonly comparison: HoldingComparison;
  /** What the check of a best fit says; absent where none was asked for. */
  readonly verdict?: Verdict;
}

/** Reads an upload and, where asked for, reviews it. */
export interface UploadTask {
  readonly kind: "upload";
  readonly text: string;
  /** Epoch milliseconds: decides which dates lie in the future. */
  readonly now: number;
  readonly maxDepth: number | undefined;
  readonly reviews: boolean;
  readonly expectations: string | undefined;
  readonly lintMs: number;
  readonly expectationsMs: number;
}

export interface ReadUpload {
  readonly parsed: ReturnType<typeof parsePricing>;
  /** Absent for a pricing that is refused, or was not to be reviewed. */
  readonly review?: Review;
}

export type AnalysisTask = DiffTask | ConfigurationsTask | UploadTask;

export type AnalysisResult<Task extends AnalysisTask> = Task extends DiffTask
  ? { readonly text: string; readonly complete: boolean }
  : Task extends ConfigurationsTask
    ? readonly AssessedConfiguration[]
    : ReadUpload;

/** Sides by hash and name of the service: one change asks for the same two many times. */
const MAX_SIDES = 4;
const sides = new Map<string, Side>();

function* sideOf({ hash, text }: HashedModel, serviceName: string): Steps<Side> {
  const key = `${hash} ${serviceName}`;
  const known = sides.get(key);
  if (known !== undefined) return known;
  const side = yield* sideSteps(yield* compileSteps(JSON.parse(text) as Pricing), serviceName);
  for (const oldest of sides.keys()) {
    if (sides.size < MAX_SIDES) break;
    sides.delete(oldest);
  }
  sides.set(key, side);
  return side;
}

function* diff({ before, after, format, limitMs }: DiffTask, within: Within) {
  const result = yield* diffSteps(JSON.parse(before) as Pricing, JSON.parse(after) as Pricing, within(limitMs));
  const text = format === "json" ? JSON.stringify(result) : diffAsMarkdown(result);
  return { text, complete: result.space.complete };
}

function* assess(task: ConfigurationsTask, item: ConfigurationItem, within: Within): Steps<AssessedConfiguration> {
  const { serviceName, proposes, certifies, limitMs } = task;
  const { configuration, place } = item;
  const before = yield* sideOf(task.before, serviceName);
  const after = task.after === undefined ? undefined : yield* sideOf(task.after, serviceName);
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
  // Its own time: a proposal that took all of it is still checked.
  const { certificate } = proposal;
  // Of the target that they go to, whatever the proposal's own text says.
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
  const parsed = parsePricing(text, new Date(task.now), task.maxDepth);
  yield;
  if (!parsed.ok || !task.reviews) return { parsed };
  const review = reviewPricing(
    parsed.pricing,
    { text, expectations },
    { lintOver: within(task.lintMs), expectationsOver: within(task.expectationsMs) },
  );
  return { parsed, review };
}

/** Starts a clock that says when so many milliseconds are over. It begins when it is first asked. */
export type Within = (milliseconds: number) => IsOver;

/** Clocks over a function that returns milliseconds. */
export function clocksOf(now: () => number): Within {
  return (milliseconds) => {
    let until: number | undefined;
    return () => now() > (until ??= now() + milliseconds);
  };
}

/** Does a task in steps; the caller brings the clock. */
export function analyse<Task extends AnalysisTask>(task: Task, within: Within): Steps<AnalysisResult<Task>> {
  const steps: Steps<unknown> =
    task.kind === "diff"
      ? diff(task, within)
      : task.kind === "configurations"
        ? assessAll(task, within)
        : readUpload(task, within);
  // Each kind returns its own result, which the compiler cannot follow through the choice above.
  return steps as Steps<AnalysisResult<Task>>;
}

/** About how much a task has to read, in characters. */
export function sizeOf(task: AnalysisTask): number {
  if (task.kind === "diff") return task.before.length + task.after.length;
  if (task.kind === "configurations") return task.before.text.length + (task.after?.text.length ?? 0);
  return task.text.length + (task.expectations?.length ?? 0);
}
