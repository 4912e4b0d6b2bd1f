import { compilePricing } from "../../pricing/compile.ts";
import type { Pricing } from "../../pricing/model.ts";
import { LINT_CODES, locator } from "../finding.ts";
import type { Finding } from "../finding.ts";
import { createSide, memoizeEntitlements } from "../entitlements.ts";
import { lintFeatures } from "./expressions.ts";
import type { Report } from "./expressions.ts";
import { lintOffers } from "./offers.ts";
import { Space } from "../space.ts";

/** Aborts linting when time is up. Caught in {@link lintPricing}. */
class Over extends Error {}

/**
 * Finds valid but useless parts of a pricing. These are features that are never on, plans and add-ons that nobody would
 * or could buy, limits that restrict nobody, and expressions that fail or decide nothing.
 *
 * Every finding holds for all valid configurations; undecidable cases are not reported. Pass `source`, the text of the
 * pricing, to get lines and file order. A malicious pricing can take minutes to lint, so linting polls `isOver` and
 * returns the findings so far once it is true.
 */
export function lintPricing(pricing: Pricing, source?: string, isOver: () => boolean = () => false): Finding[] {
  const step = () => {
    if (isOver()) throw new Over();
  };
  const compiled = compilePricing(pricing);
  const side = createSide(compiled);
  const space = new Space([compiled], undefined, step);
  const remembered = memoizeEntitlements(side);
  const holdingAt: typeof remembered = (configuration) => {
    step();
    return remembered(configuration);
  };
  const locate = locator(source);
  const findings: Finding[] = [];
  const report: Report = (code, path, message) => {
    const place = path.filter((part) => part !== undefined).join(".");
    findings.push({ code, severity: LINT_CODES[code], path: place, ...locate(path), message });
  };
  try {
    lintFeatures({ side, space, holdingAt, report, step });
    lintOffers({ side, space, holdingAt, report, step });
  } catch (error) {
    if (!(error instanceof Over)) throw error;
  }
  return findings.sort((one, other) => one.line - other.line || one.column - other.column);
}
