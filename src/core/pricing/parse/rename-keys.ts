import { EVENT_ID, getScalarValue, parseEvents, type ScalarEvent } from "js-yaml";
import { renameKeys } from "../language/expression.ts";
import { isLegalKey, KEY_MAPS, legalKey } from "./legal-key.ts";
import type { KeyMap } from "./legal-key.ts";
import { isList, isMap, valueOf } from "./tree.ts";
import type { TreeEntry, TreeMap } from "./tree.ts";
import { namedItems } from "./value.ts";
import type { NamedItem } from "./value.ts";
import { MAX_DEPTH, positions, readYaml } from "./yaml.ts";

/** One key that gets a legal name. `places` counts where the text names it, its definition included. */
export interface KeyRename {
  readonly map: KeyMap;
  readonly from: string;
  readonly to: string;
  readonly line: number;
  readonly column: number;
  readonly places: number;
}

/** A key that cannot be renamed, with its place and the reason. */
export interface KeyConflict {
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

/** The text with legal keys, or why none was renamed. */
export type LegalKeys =
  | { readonly ok: true; readonly text: string; readonly renames: readonly KeyRename[] }
  | { readonly ok: false; readonly conflicts: readonly KeyConflict[] };

/** An illegal key where it is defined. */
interface Definition {
  readonly map: KeyMap;
  readonly from: string;
  readonly to: string;
  readonly at: number;
}

/** Maps and lists that refer to the keys of another map. */
const REFERENCES: readonly (readonly [map: KeyMap, field: string, to: KeyMap])[] = [
  ["usageLimits", "linkedFeatures", "features"],
  ["plans", "features", "features"],
  ["plans", "usageLimits", "usageLimits"],
  ["addOns", "features", "features"],
  ["addOns", "usageLimits", "usageLimits"],
  ["addOns", "usageLimitsExtensions", "usageLimits"],
  ["addOns", "availableFor", "plans"],
  ["addOns", "dependsOn", "addOns"],
  ["addOns", "excludes", "addOns"],
];

const scalarsOf = (source: string, maxDepth: number): ScalarEvent[] =>
  // Leave the room for which yaml.ts says why.
  parseEvents(source, { maxDepth: maxDepth + 2 }).filter((event) => event.type === EVENT_ID.SCALAR);

const textOf = (source: string, scalar: ScalarEvent): string =>
  scalar.valueStart < 0 ? "" : getScalarValue(source, scalar);

/** Collects replacements of scalars, and leaves every other character as it is. */
class Editor {
  /** Value that a scalar must have afterwards, and the source that yields it, by offset. */
  readonly edits = new Map<number, { value: string; source: string }>();
  private readonly places = new Map<Definition, number>();
  private readonly source: string;
  private readonly maxDepth: number;
  private readonly scalars: readonly ScalarEvent[];
  private readonly byStart: ReadonlyMap<number, ScalarEvent>;

  constructor(source: string, maxDepth: number) {
    this.source = source;
    this.maxDepth = maxDepth;
    this.scalars = scalarsOf(source, maxDepth);
    this.byStart = new Map(this.scalars.map((scalar) => [scalar.valueStart, scalar]));
  }

  name(definition: Definition, at: number): void {
    // Aliases and merge keys lead to one scalar several times.
    if (this.edits.has(at)) return;
    this.edits.set(at, { value: definition.to, source: definition.to });
    this.count(definition);
  }

  expression(
    entry: TreeEntry | undefined,
    find: (map: KeyMap, key: string) => { definition: Definition; to: string } | undefined,
  ): void {
    if (entry === undefined || typeof entry.value !== "string" || this.edits.has(entry.valueAt)) return;
    const mapOf = { feature: "features", usageLimit: "usageLimits" } as const;
    const { text, changed } = renameKeys(entry.value, (kind, key) => {
      const found = find(mapOf[kind], key);
      if (found !== undefined) this.count(found.definition);
      return found?.to;
    });
    if (changed.length === 0) return;
    const source = entry.verbatim ? text : this.escaped(entry.valueAt, changed);
    this.edits.set(entry.valueAt, { value: text, source });
  }

  placesOf(definition: Definition): number {
    return this.places.get(definition) ?? 0;
  }

  /** Returns the new text, or the offset of the first scalar that the edits cannot reach. */
  apply(): { text: string } | { lost: number } {
    const starts = [...this.edits.keys()].sort((one, other) => one - other);
    let text = "";
    let end = 0;
    for (const at of starts) {
      const scalar = this.byStart.get(at);
      if (scalar === undefined) return { lost: at };
      text += this.source.slice(end, at) + (this.edits.get(at)?.source ?? "");
      end = scalar.valueEnd;
    }
    text += this.source.slice(end);
    const lost = this.firstLost(text);
    return lost === undefined ? { text } : { lost };
  }

  /** Compares both texts scalar by scalar: the edited ones have their new value, the others their old one. */
  private firstLost(text: string): number | undefined {
    if (!readYaml(text, this.maxDepth).ok) return [...this.edits.keys()][0];
    const after = scalarsOf(text, this.maxDepth);
    return this.scalars.find((scalar, index) => {
      const other = after[index];
      const wanted = this.edits.get(scalar.valueStart)?.value ?? textOf(this.source, scalar);
      return other === undefined || textOf(text, other) !== wanted;
    })?.valueStart;
  }

  /** Renames keys between quotes in the source of a scalar that is folded or has doubled quotes. */
  private escaped(at: number, changed: readonly { from: string; to: string }[]): string {
    const scalar = this.byStart.get(at);
    if (scalar === undefined) return "";
    const names = new Map(changed.map(({ from, to }) => [from, to]));
    const longestFirst = [...names.keys()].sort((one, other) => other.length - one.length);
    const pattern = longestFirst.map((name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|");
    return this.source
      .slice(scalar.valueStart, scalar.valueEnd)
      .replace(new RegExp(`(?<=['"])(?:${pattern})(?=['"\\\\])`, "gu"), (name) => names.get(name) ?? name);
  }

  private count(definition: Definition): void {
    this.places.set(definition, this.placesOf(definition) + 1);
  }
}

/** Returns the offset of an item's name: its key, or the field `name` of an item in a list. */
const nameAt = ({ map, entry, given, key }: NamedItem): number =>
  given === key ? entry.at : (map?.entries.get("name")?.valueAt ?? entry.at);

/** Returns the illegal keys of a document. */
function definitionsOf(root: TreeMap): Definition[] {
  return KEY_MAPS.flatMap((map) =>
    namedItems(valueOf(root, map))
      .filter(({ name }) => name !== "" && !isLegalKey(name))
      .map((item) => ({ map, from: item.name, to: legalKey(map, item.name), at: nameAt(item) })),
  );
}

/** Returns the definitions whose new name another key of their map has, in any letter case. */
function clashesOf(root: TreeMap, definitions: readonly Definition[]): Definition[] {
  const find = finderOf(definitions);
  return KEY_MAPS.flatMap((map) => {
    const uses = new Map<string, number>();
    for (const { name } of namedItems(valueOf(root, map))) {
      const use = (find(map, name)?.to ?? name).toLowerCase();
      uses.set(use, (uses.get(use) ?? 0) + 1);
    }
    return definitions.filter((each) => each.map === map && (uses.get(each.to.toLowerCase()) ?? 0) > 1);
  });
}

/** Indexes definitions by their map and name. */
function finderOf(definitions: readonly Definition[]): (map: KeyMap, name: string) => Definition | undefined {
  const byPlace = new Map(definitions.map((each) => [`${each.map} ${each.from}`, each]));
  return (map, name) => byPlace.get(`${map} ${name}`);
}

/**
 * Gives every illegal key of a pricing a legal name, wherever the text uses it: in plans, add-ons, linked features and
 * expressions. Comments and layout stay. Renames nothing if a new name would clash, or if a key stands where it cannot
 * be replaced. A text that is no readable document stays as it is.
 */
export function legalKeys(text: string, maxDepth: number = MAX_DEPTH): LegalKeys {
  const mark = text.startsWith("\uFEFF") ? "\uFEFF" : "";
  const source = text.slice(mark.length);
  const read = readYaml(source, maxDepth);
  const root = read.ok && isMap(read.root) ? read.root : undefined;
  const definitions = root === undefined ? [] : definitionsOf(root);
  if (root === undefined || definitions.length === 0) return { ok: true, text, renames: [] };
  const locate = positions(source);
  const clashes = clashesOf(root, definitions);
  if (clashes.length > 0)
    return {
      ok: false,
      conflicts: clashes.map(({ map, from, to, at }) => {
        const message = `"${from}" in ${map} would become "${to}", which another key has. Rename one of them by hand.`;
        return { message, ...locate(at) };
      }),
    };
  const editor = edited(root, definitions, new Editor(source, maxDepth));
  const result = editor.apply();
  if ("lost" in result) {
    const message = "A key stands here in a way that cannot be renamed, such as an alias. Rename it by hand.";
    return { ok: false, conflicts: [{ message, ...locate(result.lost) }] };
  }
  const renames = definitions.map((definition) => {
    const { map, from, to, at } = definition;
    return { map, from, to, places: editor.placesOf(definition), ...locate(at) };
  });
  return { ok: true, text: mark + result.text, renames };
}

/** Records every place that names one of the definitions. */
function edited(root: TreeMap, definitions: readonly Definition[], editor: Editor): Editor {
  const find = finderOf(definitions);
  const rename = (map: KeyMap, name: unknown, at: number): void => {
    const definition = typeof name === "string" ? find(map, name) : undefined;
    if (definition !== undefined) editor.name(definition, at);
  };
  for (const definition of definitions) editor.name(definition, definition.at);
  for (const [map, field, to] of REFERENCES)
    for (const item of namedItems(valueOf(root, map))) {
      const value = item.map?.entries.get(field)?.value;
      if (isMap(value)) for (const [name, { at }] of value.entries) rename(to, name, at);
      else if (isList(value)) for (const entry of value.items) rename(to, entry.value, entry.valueAt);
    }
  const renamed = valueOf(root, "renames");
  if (isMap(renamed)) for (const entry of renamed.entries.values()) rename("plans", entry.value, entry.valueAt);
  const saasName = valueOf(root, "saasName");
  const prefix = typeof saasName === "string" ? `${saasName.trim().toLowerCase()}-` : "";
  const findRead = (map: KeyMap, key: string) => {
    const bare = find(map, key);
    if (bare !== undefined) return { definition: bare, to: bare.to };
    // All but the plainest form of an access spell the whole id.
    const whole = key.startsWith(prefix) ? find(map, key.slice(prefix.length)) : undefined;
    return whole === undefined ? undefined : { definition: whole, to: prefix + whole.to };
  };
  for (const { map } of namedItems(valueOf(root, "features")))
    for (const field of ["expression", "serverExpression"]) editor.expression(map?.entries.get(field), findRead);
  return editor;
}
