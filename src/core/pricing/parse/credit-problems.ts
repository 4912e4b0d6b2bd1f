import { readBudgetTerms } from "../budget-terms.ts";
import { readCreditTerms } from "../credits.ts";
import { writtenSeats } from "../seats.ts";
import type { PricingProblem } from "../model.ts";
import type { ParsedPricing } from "./pricing.ts";
import { isMap } from "./tree.ts";
import type { TreeEntry, TreeMap } from "./tree.ts";
import { positions, readYaml } from "./yaml.ts";

/**
 * Refuses a pricing whose terms of credits, budgets or seats are wrong, each at its line. Apart from parsing, so that pages which only parse and
 * evaluate do not carry it.
 */
export function refuseWrongCredits(parsed: ParsedPricing, text: string): ParsedPricing {
  if (!parsed.ok) return parsed;
  const { problems } = readCreditTerms(parsed.pricing);
  problems.push(...readBudgetTerms(parsed.pricing).problems);
  const seats = writtenSeats(parsed.pricing);
  if (seats !== undefined && (typeof seats !== "string" || seats === "")) {
    problems.push({ path: ["faregate", "seats"], message: "custom.faregate.seats must be the name of a usage limit" });
  }
  if (problems.length === 0) return parsed;
  const source = text.startsWith("\uFEFF") ? text.slice(1) : text;
  const document = readYaml(source);
  const root = document.ok && isMap(document.root) ? document.root : undefined;
  const locate = positions(source);
  return {
    ok: false,
    problems: problems.map(({ path, message }): PricingProblem => {
      const keys = ["custom", ...path];
      return { kind: "pricing", message, path: keys.join("."), ...locate(offsetOf(root, keys)) };
    }),
    pricing: parsed.pricing,
  };
}

/** Offset of the innermost of these keys that the document has. */
function offsetOf(root: TreeMap | undefined, keys: readonly string[]): number {
  let at = 0;
  let map = root;
  for (const key of keys) {
    const entry: TreeEntry | undefined = map?.entries.get(key);
    if (entry === undefined) break;
    at = entry.at;
    map = isMap(entry.value) ? entry.value : undefined;
  }
  return at;
}
