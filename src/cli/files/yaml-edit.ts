import { isCollection, isMap, isNode, isPair, isScalar, isSeq, parseDocument } from "yaml";
import type { Node, Pair, YAMLSeq } from "yaml";
import { equalJson } from "../../core/change/change.ts";
import { flowText, pairText } from "../../core/folder/manifest-text.ts";

/** One replacement in a text. */
interface Splice {
  readonly at: number;
  readonly until: number;
  readonly text: string;
}

type Entry = readonly [key: string, value: unknown];
type Values = Readonly<Record<string, unknown>>;

/** A place in a document that has another shape than its values say: an alias, a merge, or a text that cannot be read. */
export class Uneditable extends Error {
  override readonly name = "Uneditable";
}

/**
 * Edits single values of a YAML text. Everything else keeps its bytes: comments, order, quotes, blank lines and line
 * ends. The library's own writer keeps comments, but realigns them.
 */
export class YamlEdit {
  readonly #text: string;
  readonly #eol: string;
  readonly #splices: Splice[] = [];
  readonly root: unknown;

  /** @throws Uneditable for a text that the library cannot read. */
  constructor(text: string) {
    const document = parseDocument(text, { logLevel: "silent" });
    if (document.errors.length > 0) throw new Uneditable();
    this.#text = text;
    this.#eol = /\r?\n/.exec(text)?.[0] ?? "\n";
    this.root = document.contents;
  }

  /** Returns the edited text. */
  result(): string {
    let text = "";
    let from = 0;
    for (const splice of this.#splices.toSorted((one, other) => one.at - other.at)) {
      text += this.#text.slice(from, splice.at) + splice.text;
      from = Math.max(from, splice.until);
    }
    return text + this.#text.slice(from);
  }

  /** Sets a key of a map from one value to another. @throws Uneditable */
  set(map: unknown, key: string, before: unknown, after: unknown): void {
    if (equalJson(before, after)) return;
    const pair = pairOf(map, key);
    if (pair === undefined) this.addPairs(map, [[key, after]], [pairText(key, after)]);
    else if (!isNode(pair.value)) this.#insert(endOf(pair.key), `: ${flowText(after)}`);
    else if (isSeq(pair.value) && Array.isArray(before) && Array.isArray(after)) this.#setList(pair, before, after);
    else if (!this.#setKeys(pair.value, before, after)) this.#replacePair(pair, pair.value, flowText(after));
  }

  /** Sets the keys of a map in a list. An alias becomes the map that `whole` is. @throws Uneditable */
  setItem(list: unknown, index: number, before: Values, after: Values, whole: object): void {
    if (equalJson(before, after)) return;
    const item = isSeq(list) ? nodeOf(list.items[index]) : undefined;
    if (item !== undefined && !isMap(item)) return this.#replace(item, flowText(whole));
    for (const [key, value] of Object.entries(after)) this.set(item, key, before[key], value);
  }

  /** Adds pairs at the end of a map. `lines` are those of a map in lines, without indentation. @throws Uneditable */
  addPairs(map: unknown, pairs: readonly Entry[], lines: readonly string[]): void {
    if (!isMap(map)) throw new Uneditable();
    const last = map.items.at(-1);
    const first = map.items[0];
    if (last === undefined || first === undefined || map.flow === true) {
      const texts = pairs.map(([key, value]) => pairText(key, value));
      const end = last === undefined ? undefined : endOf(last.value ?? last.key);
      if (end === undefined) this.#replace(map, `{ ${texts.join(", ")} }`);
      else this.#insert(end, texts.map((text) => `, ${text}`).join(""));
      return;
    }
    const indent = this.#columnOf(nodeOf(first.key));
    this.#insertLines(this.#lineAfter(endOf(last.value ?? last.key), indent), lines, indent);
  }

  /** Fills a key whose value is an empty list or map, with lines where the layout allows. @throws Uneditable */
  fillEmpty(map: unknown, key: string, value: unknown, lines: readonly string[]): void {
    const pair = pairOf(map, key);
    if (!isMap(map) || pair === undefined || !isCollection(pair.value)) throw new Uneditable();
    const [start, end] = rangeOf(pair.value);
    const rest = /^[ \t]*(#.*)?\r?(?=\n|$)/.exec(this.#text.slice(end, this.#lineEnd(end)));
    if (map.flow === true || rest === null) return this.#replace(pair.value, flowText(value));
    const indent = this.#columnOf(nodeOf(pair.key));
    const blanks = /[ \t]*$/.exec(this.#text.slice(0, start))?.[0].length ?? 0;
    this.#splices.push({ at: start - blanks, until: end, text: "" });
    this.#insertLines(this.#nextLine(end), lines, indent + 2);
  }

  /** Inserts items before the item at `index`. @throws Uneditable for an empty list. */
  insertItems(list: unknown, index: number, values: readonly unknown[]): void {
    if (!isSeq(list) || list.items.length === 0) throw new Uneditable();
    const texts = values.map(flowText);
    if (texts.length === 0) return;
    if (list.flow === true) return this.#insertFlowItems(list, index, texts);
    const [first] = list.items;
    const start = this.#lineStart(startOf(first));
    const dash = this.#text.slice(start, startOf(first)).indexOf("-");
    const indent = dash < 0 ? this.#columnOf(list) : dash;
    const at = index === 0 ? start : this.#lineAfter(endOf(list.items[index - 1]), indent);
    const lines = texts.map((text) => `- ${text}`);
    this.#insertLines(at, lines, indent);
  }

  #insertFlowItems(list: YAMLSeq, index: number, texts: readonly string[]): void {
    if (index === 0) return this.#insert(startOf(list.items[0]), texts.map((text) => `${text}, `).join(""));
    const previous = list.items[index - 1];
    const end = endOf(previous);
    const column = startOf(previous) - this.#lineStart(startOf(previous));
    const hasOwnLine = this.#text.slice(startOf(previous) - column, startOf(previous)).trim() === "";
    const rest = /^[ \t]*(,?)[ \t]*(?:#.*)?\r?\n/.exec(this.#text.slice(end, this.#nextLine(end)));
    const isLast = index === list.items.length;
    if (!hasOwnLine || rest === null || (rest[1] === "" && !isLast)) {
      return this.#insert(end, texts.map((text) => `, ${text}`).join(""));
    }
    const hasComma = rest[1] === ",";
    if (!hasComma) this.#insert(end, ",");
    const lines = texts.map((text, at) => (hasComma || at < texts.length - 1 ? `${text},` : text));
    this.#insertLines(this.#nextLine(end), lines, column);
  }

  /** Changes the items between those that both lists begin and end with. */
  #setList(pair: Pair, before: readonly unknown[], after: readonly unknown[]): void {
    const list = pair.value;
    if (!isSeq(list) || list.items.length !== before.length) throw new Uneditable();
    if (before.length === 0 || after.length === 0) return this.#replacePair(pair, list, flowText(after));
    const shorter = Math.min(before.length, after.length);
    let head = 0;
    while (head < shorter && equalJson(before[head], after[head])) head += 1;
    let tail = 0;
    while (tail < shorter - head && equalJson(before.at(-1 - tail), after.at(-1 - tail))) tail += 1;
    const changed = shorter - head - tail;
    for (let at = head; at < head + changed; at += 1) {
      const item = nodeOf(list.items[at]);
      if (!this.#setKeys(item, before[at], after[at])) this.#replace(item, flowText(after[at]));
    }
    const [oldEnd, newEnd] = [before.length - tail, after.length - tail];
    if (oldEnd > head + changed) this.#removeItems(list, head + changed, oldEnd);
    else this.insertItems(list, head + changed, after.slice(head + changed, newEnd));
  }

  /** Sets the keys of a map. Returns false if a key would go, or if the node is no map. */
  #setKeys(node: Node, before: unknown, after: unknown): boolean {
    if (!isMap(node) || !isObject(before) || !isObject(after) || !hasKeysOf(after, before)) return false;
    for (const [key, value] of Object.entries(after)) this.set(node, key, before[key], value);
    return true;
  }

  #removeItems(list: YAMLSeq, from: number, to: number): void {
    const [first, last] = [list.items[from], list.items[to - 1]];
    let [at, until] = [startOf(first), endOf(last)];
    if (list.flow !== true) [at, until] = [this.#lineStart(at), this.#nextLine(until)];
    else if (to < list.items.length) until = startOf(list.items[to]);
    else if (from > 0) at = endOf(list.items[from - 1]);
    this.#splices.push({ at, until, text: "" });
  }

  /** Replaces the value of a pair. A missing value, or a list or map in lines, becomes text behind the colon. */
  #replacePair(pair: Pair, value: Node, text: string): void {
    const [start, end] = rangeOf(value);
    const hasLines = isCollection(value) && value.flow !== true;
    if (start < end && !hasLines) return this.#replace(value, text);
    const colon = this.#text.indexOf(":", endOf(pair.key));
    this.#insert(colon + 1, ` ${text}`);
    if (hasLines) this.#splices.push({ at: this.#lineStart(start), until: this.#nextLine(endOf(value)), text: "" });
  }

  #replace(node: Node, text: string): void {
    const [at] = rangeOf(node);
    const until = endOf(node);
    // A text in lines ends with a line end.
    const end = /\r?\n$/.exec(this.#text.slice(at, until))?.[0] ?? "";
    this.#splices.push({ at, until, text: text + end });
  }

  #insert(at: number, text: string): void {
    this.#splices.push({ at, until: at, text });
  }

  #insertLines(at: number, lines: readonly string[], indent: number): void {
    const text = lines.map((line) => " ".repeat(indent) + line + this.#eol).join("");
    const isAtLine = at === 0 || this.#text[at - 1] === "\n";
    // The last line of a file may have no line end, and keeps none.
    this.#insert(at, isAtLine ? text : this.#eol + text.slice(0, -this.#eol.length));
  }

  /** Returns the start of the line after an offset, past the comments that are indented deeper than `indent`. */
  #lineAfter(offset: number, indent: number): number {
    let at = this.#nextLine(offset);
    for (let next = at; next < this.#text.length; next = this.#nextLine(next, true)) {
      const comment = /^([ \t]*)(#|\r?\n|$)/.exec(this.#text.slice(next, this.#lineEnd(next) + 1));
      if (comment === null) break;
      if (comment[2] !== "#") continue;
      if ((comment[1] ?? "").length <= indent) break;
      at = this.#nextLine(next, true);
    }
    return at;
  }

  #lineStart(offset: number): number {
    return this.#text.lastIndexOf("\n", offset - 1) + 1;
  }

  #lineEnd(offset: number): number {
    const end = this.#text.indexOf("\n", offset);
    return end < 0 ? this.#text.length : end;
  }

  /** Returns the start of the next line. The offset itself if it is one, unless it is in that line (`isInside`). */
  #nextLine(offset: number, isInside = false): number {
    if (!isInside && offset > 0 && this.#text[offset - 1] === "\n") return offset;
    return Math.min(this.#lineEnd(offset) + 1, this.#text.length);
  }

  #columnOf(node: Node): number {
    const [start] = rangeOf(node);
    return start - this.#lineStart(start);
  }
}

const isObject = (value: unknown): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const hasKeysOf = (after: object, before: object) => Object.keys(before).every((key) => Object.hasOwn(after, key));

/** Returns the own pair of a map. Undefined for a key that is absent or merged in. @throws Uneditable */
export function pairOf(map: unknown, key: string): Pair | undefined {
  if (!isMap(map)) throw new Uneditable();
  return map.items.find((pair) => isScalar(pair.key) && (String(pair.key.value) === key || pair.key.source === key));
}

function nodeOf(value: unknown): Node {
  if (isNode(value)) return value;
  throw new Uneditable();
}

function rangeOf(node: Node): readonly [start: number, end: number] {
  if (node.range === null || node.range === undefined) throw new Uneditable();
  return [node.range[0], node.range[1]];
}

const startOf = (node: unknown) => rangeOf(nodeOf(node))[0];

/** Returns where the last value in a node ends. A list or map in lines takes blank lines and comments into its range. */
function endOf(value: unknown): number {
  const node = nodeOf(value);
  const last: unknown = isCollection(node) && node.flow !== true ? node.items.at(-1) : undefined;
  if (last === undefined) return rangeOf(node)[1];
  return endOf(isPair(last) ? (last.value ?? last.key) : last);
}
