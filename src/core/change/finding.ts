import { namedItems } from "../pricing/parse/value.ts";
import { isMap } from "../pricing/parse/tree.ts";
import type { TreeMap } from "../pricing/parse/tree.ts";
import type { Steps } from "../steps.ts";
import { positions, readYamlSteps } from "../pricing/parse/yaml.ts";

/**
 * Severity of every lint finding. `error`: cannot be intended, for example a feature that always fails. `warning`: most
 * probably a mistake. `info`: worth knowing.
 */
export const LINT_CODES = {
  "constant-expression": "error",
  "unknown-limit": "error",
  "unknown-name": "error",
  "unprefixed-name": "error",
  "untracked-usage": "error",
  "never-true": "error",
  "shadowed-name": "error",
  "always-true": "warning",
  "dead-feature": "warning",
  "dominated-plan": "warning",
  "idle-add-on": "warning",
  "idle-rate": "warning",
  "idle-rollover": "warning",
  "idle-seats": "warning",
  "ignored-name": "warning",
  "negative-limit": "warning",
  "unread-key": "warning",
  "unreachable-add-on": "warning",
  "unread-limit": "warning",
  "idle-in-plan": "info",
  "unreachable-in-plan": "info",
  "unreachable-quantity": "info",
  "unread-value": "info",
} as const;

export type LintCode = keyof typeof LINT_CODES;
export type Severity = "error" | "warning" | "info";

/** Path to the item of a finding: one of the four maps, the item's name, and optionally one of its fields, or of its values. */
export type FindingPath = readonly [
  map: "features" | "usageLimits" | "plans" | "addOns" | "custom",
  name: string,
  field?: string,
  valueOf?: string,
];

/** A part of a pricing that is valid but useless. */
export interface Finding {
  readonly code: LintCode;
  readonly severity: Severity;
  /** Keys joined with dots: `plans.PRO`. */
  readonly path: string;
  /** Starts at 1. Points to the first line of the file when the source text is unavailable. */
  readonly line: number;
  readonly column: number;
  /** Describes the problem and how to fix it. */
  readonly message: string;
}

const MAPS = ["features", "usageLimits", "plans", "addOns"] as const;

/** Facts about a pricing that only its text has. Supports every syntax version. */
interface SourceFacts {
  /** Returns the line and column of an item or one of its fields. */
  locate(path: FindingPath): { line: number; column: number };
  /** Paths to the `name` fields of items in maps. The key is the name; the field is ignored. */
  readonly ignoredNames: readonly FindingPath[];
  /** The document; undefined without a text. */
  readonly root: TreeMap | undefined;
  /** Returns the line and column of an offset into the document. */
  locateOffset(at: number): { line: number; column: number };
}

/** Reads the text of a pricing in steps. Without a text, every item is at the start. */
export function* sourceFactsSteps(source: string | undefined): Steps<SourceFacts> {
  const start = { line: 1, column: 1 };
  const nothing: SourceFacts = { locate: () => start, ignoredNames: [], root: undefined, locateOffset: () => start };
  if (source === undefined) return nothing;
  const text = source.startsWith("\uFEFF") ? source.slice(1) : source;
  const document = yield* readYamlSteps(text);
  const root = document.ok && isMap(document.root) ? document.root : undefined;
  if (root === undefined) return nothing;
  const locate = positions(text);
  const items = new Map(
    [...root.entries].map(([key, { value }]) => [
      key,
      new Map(namedItems(value).map((item) => [item.name, { at: item.entry.at, map: item.map }])),
    ]),
  );
  const ignoredNames: FindingPath[] = [];
  for (const map of MAPS) {
    if (!isMap(root.entries.get(map)?.value)) continue;
    for (const [name, item] of items.get(map) ?? [])
      if (item.map?.entries.has("name") === true) ignoredNames.push([map, name, "name"]);
  }
  return {
    locate: ([map, name, field, valueOf]) => {
      const item = items.get(map)?.get(name);
      const entry = field === undefined ? undefined : item?.map?.entries.get(field);
      const value = valueOf !== undefined && isMap(entry?.value) ? entry.value.entries.get(valueOf) : undefined;
      const at = value?.at ?? entry?.at ?? item?.at;
      return at === undefined ? start : locate(at);
    },
    ignoredNames,
    root,
    locateOffset: locate,
  };
}
