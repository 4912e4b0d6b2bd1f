import { EVENT_ID, getScalarValue, parseEvents, SCALAR_STYLE, YAMLException } from "js-yaml";
import type { AliasEvent, Event, MappingEvent, ScalarEvent, SequenceEvent } from "js-yaml";
import { finish } from "../../steps.ts";
import type { Steps } from "../../steps.ts";
import { excerpt } from "../excerpt.ts";
import { textWeight } from "./size.ts";
import { isList, isMap } from "./tree.ts";
import type { TreeEntry, TreeList, TreeMap, TreeValue } from "./tree.ts";
import { readPlainScalar } from "./yaml-scalars.ts";

export const MAX_DOCUMENT_LENGTH = 2 * 1024 * 1024;
/** Maximum nesting of mappings and lists. Real files reach 5. */
export const MAX_DEPTH = 32;
/**
 * Maximum values that aliases and merge keys may repeat in total, with long texts weighted. No real file uses either.
 */
const MAX_REPEATED_VALUES = 10_000;
/** About a millisecond of building. */
const EVENTS_PER_STEP = 2_000;
/** Maximum characters quoted from a name or tag. */
const MAX_QUOTED_LENGTH = 255;

/** Reason why a text is not a readable document. Line and column start at 1. */
export interface YamlFailure {
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

/** The tree of a document, or why it cannot be read. */
type ReadYaml = { ok: true; root: TreeValue } | { ok: false; failure: YamlFailure };

class YamlError extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

interface Anchor {
  value: TreeValue;
  /**
   * Number of values in the subtree, with texts weighted by length and aliases expanded. 0 while the collection is
   * open.
   */
  weight: number;
}

interface Frame {
  readonly collection: TreeMap | TreeList;
  readonly anchor: string | undefined;
  weight: number;
  key: string | undefined;
  keyAt: number;
  merges: boolean;
  /** Keys from merges, each of which the mapping may still override once. */
  merged: Set<string> | undefined;
}

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?:[^\uD800-\uDBFF]|^)[\uDC00-\uDFFF]/;
const CORE_TAGS = /^!!(?:str|int|float|bool|null|map|seq|timestamp)$/;

/** Builds the tree of one document from parser events. */
class TreeBuilder {
  private readonly source: string;
  private readonly maxDepth: number;
  private readonly frames: Frame[] = [];
  private readonly anchors = new Map<string, Anchor>();
  private repeated = 0;
  root: TreeValue = null;

  constructor(source: string, maxDepth: number) {
    this.source = source;
    this.maxDepth = maxDepth;
  }

  *build(events: readonly Event[]): Steps<TreeValue> {
    for (const [index, event] of events.entries()) {
      if (index % EVENTS_PER_STEP === 0) yield;
      if (event.type === EVENT_ID.SCALAR) this.scalar(event);
      else if (event.type === EVENT_ID.POP) this.close();
      else if (event.type === EVENT_ID.MAPPING) this.open(event, { kind: "map", at: event.start, entries: new Map() });
      else if (event.type === EVENT_ID.SEQUENCE) this.open(event, { kind: "list", at: event.start, items: [] });
      else if (event.type === EVENT_ID.ALIAS) this.alias(event);
    }
    return this.root;
  }

  private scalar(event: ScalarEvent): void {
    const start = event.valueStart;
    const text = start < 0 ? "" : getScalarValue(this.source, event);
    const tag = event.tagStart < 0 ? "" : this.tag(event);
    let value: TreeValue = text;
    if (tag === "" ? event.style === SCALAR_STYLE.PLAIN : tag !== "!" && tag !== "!!str") value = readPlainScalar(text);
    // The parser rejects these characters in plain text, but escapes can still produce them. The database cannot store
    // them.
    else if (
      event.style === SCALAR_STYLE.DOUBLE_QUOTED &&
      !event.fast &&
      (text.includes("\0") || LONE_SURROGATE.test(text))
    )
      throw new YamlError("an escape yields a null byte or a lone surrogate", start);
    const at = start < 0 ? this.where(event) : start;
    const weight = textWeight(text.length);
    if (event.anchorStart >= 0) this.anchors.set(this.name(event), { value, weight });
    this.add(value, at, event.fast || value === this.source.slice(start, event.valueEnd), event.style, weight);
  }

  private open(event: MappingEvent | SequenceEvent, collection: TreeMap | TreeList): void {
    if (event.tagStart >= 0) this.tag(event);
    if (this.frames.length >= this.maxDepth)
      throw new YamlError(`nesting deeper than ${this.maxDepth} levels is not accepted`, event.start);
    const anchor = event.anchorStart < 0 ? undefined : this.name(event);
    if (anchor !== undefined) this.anchors.set(anchor, { value: collection, weight: 0 });
    this.frames.push({
      collection,
      anchor,
      weight: 1,
      key: undefined,
      keyAt: 0,
      merges: false,
      merged: undefined,
    });
  }

  private close(): void {
    const frame = this.frames.pop();
    if (frame === undefined) return;
    if (frame.anchor !== undefined) this.anchors.set(frame.anchor, { value: frame.collection, weight: frame.weight });
    this.add(frame.collection, frame.collection.at, false, undefined, frame.weight);
  }

  private alias(event: AliasEvent): void {
    const name = this.name(event);
    const anchor = this.anchors.get(name);
    if (anchor === undefined)
      throw new YamlError(`unidentified alias "${excerpt(name, MAX_QUOTED_LENGTH)}"`, event.anchorStart);
    if (anchor.weight === 0)
      throw new YamlError(`recursive alias "${excerpt(name, MAX_QUOTED_LENGTH)}" is not accepted`, event.anchorStart);
    this.repeat(anchor.weight, event.anchorStart);
    this.add(anchor.value, event.anchorStart, false, undefined, anchor.weight);
  }

  /**
   * Charges the repetition by an alias or merge to a budget. It bounds every document to a constant above its own size.
   */
  private repeat(weight: number, at: number): void {
    this.repeated += weight;
    if (this.repeated > MAX_REPEATED_VALUES)
      throw new YamlError(
        `aliases and merge keys repeat more than ${MAX_REPEATED_VALUES} values, 64 characters of a text counting as one`,
        at,
      );
  }

  private add(value: TreeValue, at: number, verbatim: boolean, style: number | undefined, weight: number): void {
    const frame = this.frames.at(-1);
    if (frame === undefined) {
      this.root = value;
      return;
    }
    frame.weight += weight;
    const { collection } = frame;
    if (collection.kind === "list") {
      collection.items.push({ value, at, valueAt: at, verbatim });
    } else if (frame.key === undefined) {
      if (isMap(value) || isList(value)) throw new YamlError("a mapping key must be a scalar", at);
      frame.merges = value === "<<" && style === SCALAR_STYLE.PLAIN;
      frame.key =
        typeof value === "string" ? value : typeof value === "object" && value !== null ? value.text : String(value);
      frame.keyAt = at;
    } else {
      const { key } = frame;
      frame.key = undefined;
      if (frame.merges) this.merge(frame, collection, value);
      else this.put(frame, collection, key, { value, at: frame.keyAt, valueAt: at, verbatim });
    }
  }

  private put(frame: Frame, map: TreeMap, key: string, entry: TreeEntry): void {
    if (map.entries.has(key) && frame.merged?.delete(key) !== true)
      throw new YamlError("duplicated mapping key", entry.at);
    map.entries.set(key, entry);
  }

  private merge(frame: Frame, map: TreeMap, value: TreeValue): void {
    const sources = isList(value) ? value.items.map((item) => item.value) : [value];
    frame.merged ??= new Set();
    for (const source of sources) {
      if (!isMap(source))
        throw new YamlError("cannot merge mappings; the provided source object is unacceptable", frame.keyAt);
      this.repeat(source.entries.size + 1, frame.keyAt);
      for (const [key, entry] of source.entries) {
        if (map.entries.has(key)) continue;
        map.entries.set(key, entry);
        frame.merged.add(key);
      }
    }
  }

  private name(event: { anchorStart: number; anchorEnd: number }): string {
    return this.source.slice(event.anchorStart, event.anchorEnd);
  }

  private where(event: ScalarEvent): number {
    if (event.tagStart >= 0) return event.tagStart;
    return event.anchorStart >= 0 ? event.anchorStart : (this.frames.at(-1)?.keyAt ?? 0);
  }

  private tag(event: { tagStart: number; tagEnd: number }): string {
    const tag = this.source.slice(event.tagStart, event.tagEnd);
    if (tag !== "!" && !CORE_TAGS.test(tag))
      throw new YamlError(`unknown tag ${excerpt(tag, MAX_QUOTED_LENGTH)}`, event.tagStart);
    return tag;
  }
}

/** Returns a function that maps offsets to line and column, both starting at 1. Indexes the lines at the first call. */
export function positions(text: string): (offset: number) => { line: number; column: number } {
  let starts: number[] | undefined;
  return (offset) => {
    if (starts === undefined) {
      starts = [0];
      for (const match of text.matchAll(/\r\n?|\n/g)) starts.push(match.index + match[0].length);
    }
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 };
  };
}

/**
 * Parses `source` (without byte order mark) into a tree with offsets. Returns the first failure if it is not one
 * readable document.
 *
 * Never throws. Bounds time and memory: 2 MB of text, 32 levels of nesting (see `maxDepth`), and a budget for aliases
 * and merge keys that is charged in advance. Rejects tags other than YAML's own scalars and collections. Source:
 * pricing2yaml.md §1; reliability T11.
 */
export function readYaml(source: string, maxDepth?: number): ReadYaml {
  return finish(readYamlSteps(source, maxDepth));
}

/** Runs {@link readYaml} in steps. */
export function* readYamlSteps(source: string, maxDepth: number = MAX_DEPTH): Steps<ReadYaml> {
  const refuse = (message: string, offset: number) => {
    const position = positions(source)(offset);
    return {
      ok: false,
      failure: { message: `${message} (${position.line}:${position.column})`, ...position },
    } as const;
  };
  if (source.length > MAX_DOCUMENT_LENGTH) return refuse("the document is longer than 2 MB", 0);
  try {
    // Leave room above our own limit: the library counts the scalars inside a collection as a level.
    const events = parseEvents(source, { maxDepth: maxDepth + 2 });
    const documents = events.filter((event) => event.type === EVENT_ID.DOCUMENT).length;
    if (documents > 1) {
      const failure = { message: "expected a single document in the stream, but found more", line: 1, column: 1 };
      return { ok: false, failure };
    }
    return { ok: true, root: yield* new TreeBuilder(source, maxDepth).build(events) };
  } catch (error) {
    if (error instanceof YamlError) return refuse(error.message, error.offset);
    if (error instanceof YAMLException) {
      const deep = error.reason.startsWith("nesting exceeded");
      const message = deep ? `nesting deeper than ${maxDepth} levels is not accepted` : excerpt(error.reason, 1_000);
      return refuse(message, error.mark?.position ?? 0);
    }
    // The parser is recursive. If it overflows the stack despite the nesting limit, reject the document instead of
    // throwing.
    return refuse(error instanceof RangeError ? "the document is too deeply nested" : "the document cannot be read", 0);
  }
}
