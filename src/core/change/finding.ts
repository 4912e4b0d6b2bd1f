import { namedItems } from "../pricing/parse/value.ts";
import { isMap } from "../pricing/parse/tree.ts";
import { positions, readYaml } from "../pricing/parse/yaml.ts";

/**
 * What lint finds, and how bad it is: an `error` cannot be meant (a feature that always fails), a `warning` is most
 * probably a mistake, an `info` is worth knowing.
 */
export const LINT_CODES = {
  "constant-expression": "error",
  "unknown-name": "error",
  "unprefixed-name": "error",
  "untracked-usage": "error",
  "never-true": "error",
  "shadowed-name": "error",
  "always-true": "warning",
  "dead-feature": "warning",
  "dominated-plan": "warning",
  "idle-add-on": "warning",
  "unreachable-add-on": "warning",
  "unread-limit": "warning",
  "idle-in-plan": "info",
  "unreachable-in-plan": "info",
  "unreachable-quantity": "info",
  "unread-value": "info",
} as const;

export type LintCode = keyof typeof LINT_CODES;
export type Severity = "error" | "warning" | "info";

/** Where something was found: one of the four maps, the name in it, and perhaps a field. */
export type FindingPath = readonly [map: "features" | "usageLimits" | "plans" | "addOns", name: string, field?: string];

/** Something in a pricing that is allowed and does no good. */
export interface Finding {
  readonly code: LintCode;
  readonly severity: Severity;
  /** Keys joined with dots: `plans.PRO`. */
  readonly path: string;
  /** From 1; of the file's first line when the text is not known. */
  readonly line: number;
  readonly column: number;
  /** What is wrong, and what to do about it. */
  readonly message: string;
}

/** Finds where items stand in the text that a pricing was read from, whatever its syntax version. */
export function locator(source: string | undefined): (path: FindingPath) => { line: number; column: number } {
  const start = { line: 1, column: 1 };
  if (source === undefined) return () => start;
  const text = source.startsWith("\uFEFF") ? source.slice(1) : source;
  const document = readYaml(text);
  const root = document.ok && isMap(document.root) ? document.root : undefined;
  if (root === undefined) return () => start;
  const locate = positions(text);
  const items = new Map(
    [...root.entries].map(([key, { value }]) => [
      key,
      new Map(namedItems(value).map((item) => [item.name, { at: item.entry.at, map: item.map }])),
    ]),
  );
  return ([map, name, field]) => {
    const item = items.get(map)?.get(name);
    const at = (field === undefined ? undefined : item?.map?.entries.get(field)?.at) ?? item?.at;
    return at === undefined ? start : locate(at);
  };
}
