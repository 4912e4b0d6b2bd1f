import { compileSteps } from "../../pricing/compile.ts";
import type { Pricing } from "../../pricing/model.ts";
import { LINT_CODES, sourceFactsSteps } from "../finding.ts";
import type { Finding } from "../finding.ts";
import { memoizeEntitlements, sideSteps } from "../entitlements.ts";
import { lintCredits } from "./credits.ts";
import { lintFeatures } from "./expressions.ts";
import type { Report } from "./report.ts";
import { lintOffers } from "./offers.ts";
import { lintNegatives } from "./limits.ts";
import { unreadKeys } from "./unread-keys.ts";
import { Space } from "../space.ts";
import { finish, NEVER_OVER } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";

/** Aborts linting when time is up. Caught in {@link lintPricing}. */
class Over extends Error {}

/**
 * Finds valid but useless parts of a pricing. These are features that are never on, plans and add-ons that nobody would
 * or could buy, limits that restrict nobody, keys that nothing reads, and expressions that fail or decide nothing.
 *
 * Every finding holds for all valid configurations; undecidable cases are not reported. Pass `source`, the text of the
 * pricing, to get lines and file order. A malicious pricing can take minutes to lint, so linting polls `isOver` and
 * returns the findings so far once it is true.
 */
export function lintPricing(pricing: Pricing, source?: string, isOver?: IsOver): Finding[] {
  return finish(lintSteps(pricing, source, isOver));
}

/** Runs {@link lintPricing} in steps. */
export function* lintSteps(pricing: Pricing, source?: string, isOver: IsOver = NEVER_OVER): Steps<Finding[]> {
  const step = () => {
    if (isOver()) throw new Over();
  };
  const compiled = yield* compileSteps(pricing);
  const side = yield* sideSteps(compiled);
  const space = new Space([side], undefined, step);
  const remembered = memoizeEntitlements(side);
  const holdingAt: typeof remembered = (configuration) => {
    step();
    return remembered(configuration);
  };
  const { locate, ignoredNames, root, locateOffset } = yield* sourceFactsSteps(source);
  const findings: Finding[] = [];
  const report: Report = (code, path, message) => {
    const place = path.filter((part) => part !== undefined).join(".");
    findings.push({ code, severity: LINT_CODES[code], path: place, ...locate(path), message });
  };
  for (const path of ignoredNames)
    report(
      "ignored-name",
      path,
      `The name of an item is its key: ${path[1]}. Remove the field name, or rename the key.`,
    );
  for (const { path, at, message } of root === undefined ? [] : yield* unreadKeys(root)) {
    const code = "unread-key";
    findings.push({ code, severity: LINT_CODES[code], path: path.join("."), ...locateOffset(at), message });
  }
  try {
    lintCredits(side, report);
    yield* lintNegatives(side, report);
    yield* lintFeatures({ side, space, holdingAt, report, step });
    yield* lintOffers({ side, space, holdingAt, report, step });
  } catch (error) {
    if (!(error instanceof Over)) throw error;
  }
  return findings.sort((one, other) => one.line - other.line || one.column - other.column);
}
