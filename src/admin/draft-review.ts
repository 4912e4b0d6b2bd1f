import type { Finding } from "../core/change/finding.ts";
import type { RejectedUpload, Review } from "../core/change/review.ts";
import { type PricingProblem, problemText } from "../core/pricing/model.ts";
import type { LegalKeys } from "../core/pricing/parse/rename-keys.ts";
import type { Steps } from "../core/steps.ts";
import { readable } from "./format.ts";

/** A pricing text that is not saved yet, with the text of the expectations that it must meet. */
export interface Draft {
  readonly text: string;
  readonly expectations: string | undefined;
}

/** Findings about a draft that can be read. */
export interface DraftReview {
  readonly warnings: readonly Finding[];
  /** False when lint ran out of time. */
  readonly isComplete: boolean;
  /** Number of expectations met, or why they are not; undefined without expectations. */
  readonly expectations: { readonly met: number } | RejectedUpload | undefined;
}

/** Result of checking a draft with the server's own parser and lint. */
export type Verdict =
  | {
      readonly state: "broken";
      readonly problems: readonly PricingProblem[];
      /** The draft with legal keys, if some of its keys are not. */
      readonly legal: LegalKeys | undefined;
    }
  | { readonly state: "valid"; readonly name: string; readonly version: string; readonly review: DraftReview };

/** Time limits of lint and of the expectations. The server's are shorter, so it finds nothing more. */
const REVIEW_MS = 2_000;
/** Longest time for which a review keeps the page from reacting. */
const SLICE_MS = 10;

/** Runs work in slices; returns undefined once it is outdated. */
async function inSlices<T>(steps: Steps<T>, isOutdated: () => boolean): Promise<T | undefined> {
  for (;;) {
    const end = performance.now() + SLICE_MS;
    while (performance.now() < end) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (isOutdated()) return undefined;
  }
}

/** Parses a draft, runs its expectations and lints it. Returns undefined once `isOutdated`. */
export async function reviewDraft(draft: Draft, isOutdated: () => boolean): Promise<Verdict | undefined> {
  // Loaded on first use, because sign-in and most pages need neither.
  const [{ parsePricing }, { refuseWrongCredits }, { reviewSteps }] = await Promise.all([
    import("../core/pricing/parse/pricing.ts"),
    import("../core/pricing/parse/credit-problems.ts"),
    import("../core/change/review.ts"),
  ]);
  if (isOutdated()) return undefined;
  const parsed = refuseWrongCredits(parsePricing(draft.text, new Date()), draft.text);
  if (!parsed.ok) {
    const problems = parsed.problems.map((problem) => ({ ...problem, message: readable(problemText(problem)) }));
    const hasKeys = problems.some(({ kind }) => kind === "key");
    const legal = hasKeys ? (await import("../core/pricing/parse/rename-keys.ts")).legalKeys(draft.text) : undefined;
    return isOutdated() ? undefined : { state: "broken", problems, legal };
  }
  const { pricing } = parsed;
  const run = (expectations: string | undefined): Promise<Review | undefined> => {
    const end = performance.now() + REVIEW_MS;
    const isOver = () => performance.now() > end;
    const steps = reviewSteps(
      pricing,
      { text: draft.text, expectations },
      { lintOver: isOver, expectationsOver: isOver },
    );
    return inSlices(steps, isOutdated);
  };
  const first = await run(draft.expectations);
  // Unmet expectations end a review before lint.
  const linted = first?.ok === false ? await run(undefined) : first;
  if (first === undefined || linted?.ok !== true) return undefined;
  return {
    state: "valid",
    name: pricing.saasName,
    version: pricing.version,
    review: {
      warnings: linted.report.warnings,
      isComplete: linted.report.warningsComplete !== false,
      expectations: first.ok ? first.report.expectations : first.refusal,
    },
  };
}

/** Counts what a user must accept before saving: lint errors, and expectations that are not met. */
export function errorsOf({ warnings, expectations }: DraftReview): number {
  const isUnmet = expectations !== undefined && "message" in expectations;
  return warnings.filter(({ severity }) => severity === "error").length + (isUnmet ? 1 : 0);
}
