import { compileSteps } from "../pricing/compile.ts";
import type { Pricing } from "../pricing/model.ts";
import { coverageOf } from "./expectations/coverage.ts";
import type { Coverage } from "./expectations/coverage.ts";
import { runExpectation } from "./expectations/run.ts";
import { parseExpectations } from "./expectations/expectations.ts";
import type { Finding } from "./finding.ts";
import { sideSteps } from "./entitlements.ts";
import { lintSteps } from "./lint/lint.ts";
import type { IsOver, Steps } from "../steps.ts";

/** Maximum plans × features for which coverage is computed. */
const MAX_COVERED = 20_000;
/** Maximum number of uncovered points listed in a report. */
const MAX_MISSING = 100;

/** Report of an accepted upload. */
export interface UploadReport {
  /** Lint findings in the order of the file. */
  warnings: Finding[];
  /** False when lint ran out of time; otherwise absent. */
  warningsComplete?: false;
  /** Number of expectations met, and how much of the pricing they cover. Absent without expectations. */
  expectations?: { met: number; coverage: Coverage | null };
}

/** Reason for rejecting a pricing: one sentence, plus each problem with its position. */
export interface RejectedUpload {
  readonly message: string;
  readonly problems: readonly { message: string; path: string; line: number; column: number }[];
}

/** Result of a review: a report, or the reason for the rejection. */
export type Review =
  | { readonly ok: true; readonly report: UploadReport }
  | { readonly ok: false; readonly refusal: RejectedUpload };

/**
 * Checks a pricing against its expectations, then lints it. If `expectationsOver` returns true before all expectations
 * have run, the pricing is rejected. Lint stops at `lintOver`.
 */
export function* reviewSteps(
  pricing: Pricing,
  source: { readonly text: string; readonly expectations?: string | undefined },
  time: { readonly lintOver: IsOver; readonly expectationsOver: IsOver },
): Steps<Review> {
  const met =
    source.expectations === undefined
      ? undefined
      : yield* meetExpectations(pricing, source.expectations, time.expectationsOver);
  if (met !== undefined && "message" in met) return { ok: false, refusal: met };
  let isCut = false;
  const warnings = yield* lintSteps(pricing, source.text, () => (isCut ||= time.lintOver()));
  return {
    ok: true,
    report: {
      warnings,
      ...(isCut ? { warningsComplete: false } : {}),
      ...(met === undefined ? {} : { expectations: met }),
    },
  };
}

function* meetExpectations(
  pricing: Pricing,
  text: string,
  isOver: IsOver,
): Steps<NonNullable<UploadReport["expectations"]> | RejectedUpload> {
  const read = parseExpectations(text, pricing);
  if (!read.ok) {
    const [first] = read.problems;
    return {
      message: `Expectations parsing error: ${first?.message ?? "The file cannot be read"}`,
      problems: read.problems.map(({ message, path, line, column }) => ({ message, path, line, column })),
    };
  }
  yield;
  const side = yield* sideSteps(yield* compileSteps(pricing));
  const failed = [];
  for (const [i, expectation] of read.expectations.entries()) {
    if (isOver()) {
      const message = "INVALID DATA: The expectations take too long; run them with npx faregate test";
      return { message, problems: [] };
    }
    const { misses } = runExpectation(side, expectation);
    if (misses.length > 0) failed.push({ expectation, misses, path: `expectations.${i}` });
    yield;
  }
  const [first] = failed;
  if (first !== undefined) {
    const counted = `${failed.length} of ${read.expectations.length} expectations are not met`;
    return {
      message: `Invalid request: ${counted}. ${first.expectation.name}: ${first.misses[0]?.message ?? ""}`,
      problems: failed.flatMap(({ expectation, misses, path }) =>
        misses.map(({ line, message }) => ({ message: `${expectation.name}: ${message}`, path, line, column: 1 })),
      ),
    };
  }
  const isCounted = Math.max(1, pricing.plans.length) * pricing.features.length <= MAX_COVERED;
  const coverage = isCounted ? coverageOf(side, read.expectations) : null;
  return {
    met: read.expectations.length,
    coverage: coverage === null ? null : { ...coverage, missing: coverage.missing.slice(0, MAX_MISSING) },
  };
}
