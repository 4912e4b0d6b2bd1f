import { compilePricing } from "../../pricing/compile.ts";
import type { Pricing } from "../../pricing/model.ts";
import { LINT_CODES, locator } from "../finding.ts";
import type { Finding } from "../finding.ts";
import { createSide, rememberHoldings } from "../holding.ts";
import { lintFeatures } from "./expressions.ts";
import type { Report } from "./expressions.ts";
import { lintOffers } from "./offers.ts";
import { Space } from "../space.ts";

/** Thrown in the middle of linting, and caught where it began. */
class Over extends Error {}

/**
 * What is allowed in a pricing and does no good: features that are never on, plans and add-ons that nobody would or could
 * buy, limits that hold nobody back, expressions that fail or decide nothing. Every finding is true of every configuration
 * that can be subscribed to; what cannot be decided is not reported. In the order of the file when `source`, the text that
 * the pricing was read from, is given: then each finding has its line. A pricing may be made to take minutes: `isOver` is
 * asked often, and what was found until it says true is returned.
 */
export function lintPricing(pricing: Pricing, source?: string, isOver: () => boolean = () => false): Finding[] {
  const step = () => {
    if (isOver()) throw new Over();
  };
  const compiled = compilePricing(pricing);
  const side = createSide(compiled);
  const space = new Space([compiled], undefined, step);
  const remembered = rememberHoldings(side);
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
