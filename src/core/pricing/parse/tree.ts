/**
 * The document as written: values with the offsets they stand at, so that every later complaint can name a line.
 * Knows nothing of pricings and nothing of the YAML library.
 */

/** A mapping entry; `at` is the offset of its key, `valueAt` of its value, both in UTF-16 code units. */
export interface TreeEntry {
  value: TreeValue;
  readonly at: number;
  readonly valueAt: number;
  /** Whether the text from `valueAt` on is the value letter for letter, so that offsets inside it can be added. */
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

/** An unquoted date or timestamp; `time` is NaN when the calendar has no such day. */
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

/** The value under `key`; null for an absent key as for an empty value, since both mean the same in a pricing. */
export function valueOf(map: TreeMap, key: string): TreeValue {
  return map.entries.get(key)?.value ?? null;
}

/** Sets `key`, keeping its place in the order when it exists; `like` lends its position to a value made by us. */
export function setValue(map: TreeMap, key: string, value: TreeValue, like?: TreeEntry): void {
  const at = map.entries.get(key) ?? like;
  map.entries.set(key, { value, at: at?.at ?? map.at, valueAt: at?.valueAt ?? map.at, verbatim: false });
}

/** How messages print a value: as JavaScript's template strings would, dates as written. */
export function shown(value: TreeValue): string {
  if (isMap(value)) return "[object Object]";
  if (isList(value)) return value.items.map((item) => (item.value === null ? "" : shown(item.value))).join(",");
  return isDate(value) ? value.text : String(value);
}
