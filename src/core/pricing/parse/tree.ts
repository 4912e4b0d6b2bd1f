/**
 * Syntax tree of a document: values with offsets, so that every later problem can report a line. Independent of
 * pricings and of the YAML library.
 */

/** A mapping entry. `at` is the offset of its key, `valueAt` of its value, both in UTF-16 code units. */
export interface TreeEntry {
  value: TreeValue;
  readonly at: number;
  readonly valueAt: number;
  /** True if the source text at `valueAt` equals the value, so offsets inside the value map to the source. */
  readonly verbatim: boolean;
}

export interface TreeMap {
  readonly kind: "map";
  readonly at: number;
  readonly entries: Map<string, TreeEntry>;
}

export interface TreeList {
  readonly kind: "list";
  readonly at: number;
  readonly items: TreeEntry[];
}

/** An unquoted date or timestamp. `time` is NaN when the calendar has no such day. */
export interface TreeDate {
  readonly kind: "date";
  readonly text: string;
  readonly time: number;
}

export type TreeValue = string | number | boolean | null | TreeMap | TreeList | TreeDate;

export function isMap(value: TreeValue | undefined): value is TreeMap {
  return typeof value === "object" && value !== null && value.kind === "map";
}

export function isList(value: TreeValue | undefined): value is TreeList {
  return typeof value === "object" && value !== null && value.kind === "list";
}

export function isDate(value: TreeValue | undefined): value is TreeDate {
  return typeof value === "object" && value !== null && value.kind === "date";
}

/** Returns the value under `key`; null when absent. A pricing treats absent and null alike. */
export function valueOf(map: TreeMap, key: string): TreeValue {
  return map.entries.get(key)?.value ?? null;
}

/** Sets `key` and keeps its position if it exists. A new entry takes its offsets from `like`. */
export function setValue(map: TreeMap, key: string, value: TreeValue, like?: TreeEntry): void {
  const at = map.entries.get(key) ?? like;
  map.entries.set(key, { value, at: at?.at ?? map.at, valueAt: at?.valueAt ?? map.at, verbatim: false });
}

/** Returns true for a list or map. */
export function isNested(value: TreeValue): boolean {
  return isMap(value) || isList(value);
}

/** Formats a value for messages, like JavaScript's template strings. Dates appear as written. */
export function shown(value: TreeValue): string {
  if (isMap(value)) return "[object Object]";
  if (isList(value)) return value.items.map((item) => (item.value === null ? "" : shown(item.value))).join(",");
  return isDate(value) ? value.text : String(value);
}
