import { coverageOf } from "../../core/change/expectations/coverage.ts";
import { parseExpectations } from "../../core/change/expectations/expectations.ts";
import { runExpectation } from "../../core/change/expectations/run.ts";
import { createSide } from "../../core/change/entitlements.ts";
import { type PricingDiff, diffSteps } from "../../core/change/diff/diff.ts";
import type { Severity } from "../../core/change/finding.ts";
import { lintPricing } from "../../core/change/lint/lint.ts";
import { compilePricing } from "../../core/pricing/compile.ts";
import type { Pricing } from "../../core/pricing/model.ts";
import { parsePricing } from "../../core/pricing/parse/pricing.ts";
import { finish } from "../../core/steps.ts";
import type { Io } from "../command.ts";
import { type FolderService, type FolderVersion, versionKey, withoutMark } from "./folder.ts";
import type { ExpectationsReport, FileFinding } from "./plan.ts";
import type { Server } from "./server.ts";
import { newestOf, type ServiceChanges, storedOf } from "./steps.ts";

export const SEVERITIES: readonly Severity[] = ["error", "warning", "info"];
/** Maximum plans × features for which coverage is computed, as on the server. */
const MAX_COVERED = 20_000;
/** Time limit of a comparison. A diff that reaches it names what was not compared. */
const DIFF_MS = 10_000;

/** Lints the versions that are uploaded. */
export const lintOf = (missing: readonly FolderVersion[]): FileFinding[] =>
  missing.flatMap(({ source: { file, text }, pricing }) =>
    lintPricing(pricing, text).map((finding) => ({ file, ...finding })),
  );

/** Formats the findings that are as severe as `failOn`. */
export function refusedFindings(findings: readonly FileFinding[], failOn: Severity | "never"): string[] {
  if (failOn === "never") return [];
  return findings
    .filter(({ severity }) => SEVERITIES.indexOf(severity) <= SEVERITIES.indexOf(failOn))
    .map(
      ({ file, line, column, severity, code, message }) => `${file}:${line}:${column} ${severity} ${code}: ${message}`,
    );
}

/** Runs the expectations of the versions that are uploaded, and those that change. */
export function checkExpectations(
  { versions }: FolderService,
  { missing, steps }: Pick<ServiceChanges, "missing" | "steps">,
): ExpectationsReport[] {
  const changed = new Set(
    steps.flatMap((step) => (step.do === "expectations" ? [versionKey(step.pricingVersion)] : [])),
  );
  return versions
    .filter((version) => missing.includes(version) || changed.has(versionKey(version.pricing.version)))
    .flatMap((version) => reportOf(version) ?? []);
}

function reportOf({ pricing, expectations }: FolderVersion): ExpectationsReport | undefined {
  if (expectations === undefined) return undefined;
  const { file, text } = expectations;
  const read = parseExpectations(text, pricing);
  // The folder lists what cannot be read.
  if (!read.ok) return undefined;
  const side = createSide(compilePricing(pricing));
  const results = read.expectations.map((expectation) => runExpectation(side, expectation));
  const failed = results.filter(({ misses }) => misses.length > 0);
  const isCounted = Math.max(1, pricing.plans.length) * pricing.features.length <= MAX_COVERED;
  return {
    pricingVersion: pricing.version,
    met: results.length - failed.length,
    failed: failed.map(({ expectation, misses }) => {
      const [miss] = misses;
      return `${file}:${miss?.line ?? expectation.line} ${expectation.name}: ${miss?.message ?? ""}`;
    }),
    percent: isCounted ? coverageOf(side, read.expectations).percent : null,
  };
}

/** Compares the server's newest active version with the one that the folder makes the newest. */
export async function diffOf(
  service: FolderService,
  { current }: Pick<ServiceChanges, "current">,
  { server, io }: { server: Server; io: Io },
): Promise<PricingDiff | null> {
  const before = newestOf(
    (current?.versions ?? []).map((version) => ({
      version,
      createdAt: Date.parse(version.createdAt),
      isActive: version.state === "active",
    })),
  );
  const after = newestOf(
    service.versions.map((version) => ({
      version,
      createdAt: Date.parse(version.pricing.createdAt),
      isActive: version.entry.state === "active",
    })),
  );
  if (current === undefined || before === undefined || after === undefined) return null;
  if (storedOf(current, after.version) === before.version) return null;
  const source = withoutMark(await server.source(current.name, before.version.pricingVersion));
  const parsed = parsePricing(source, io.now());
  return parsed.ok ? compare(parsed.pricing, after.version.pricing, io) : null;
}

function compare(before: Pricing, after: Pricing, io: Io): PricingDiff {
  const until = io.now().getTime() + DIFF_MS;
  return finish(diffSteps(before, after, { isOver: () => io.now().getTime() > until }));
}
