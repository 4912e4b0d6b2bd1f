import type { Steps } from "./steps.ts";

/** Texts up to this length are parsed in one go, in less than a millisecond. */
const PIECE = 64 * 1024;

/**
 * Parses JSON in steps, because a model of 3.5 MB takes 40 ms in one go. Equivalent to JSON.parse for valid JSON, such as
 * a column of Postgres. Does not detect every malformed text.
 */
export function* parseJsonSteps(text: string): Steps<unknown> {
  const trimmed = text.trim();
  const open = trimmed[0];
  if (trimmed.length <= PIECE || (open !== "{" && open !== "[")) return JSON.parse(trimmed);
  const parts = yield* partsOf(trimmed);
  if (open === "[") {
    const list: unknown[] = [];
    for (const part of parts) list.push(yield* parseJsonSteps(part.text));
    return list;
  }
  const entries: [string, unknown][] = [];
  for (const { key, text: value } of parts) entries.push([JSON.parse(key), yield* parseJsonSteps(value)]);
  // fromEntries defines own properties, `__proto__` included, as JSON.parse does.
  return Object.fromEntries(entries);
}

/** Splits a list or object into the texts of its elements or entries. Values of more than PIECE are split again. */
function* partsOf(text: string): Steps<{ key: string; text: string }[]> {
  const parts: { key: string; text: string }[] = [];
  const end = text.length - 1;
  let start = 1;
  let colon = -1;
  let depth = 0;
  let pause = PIECE;
  for (let i = 1; i <= end; i += 1) {
    if (i > pause) {
      pause = i + PIECE;
      yield;
    }
    const found = text[i];
    if (found === '"') i = endOfString(text, i);
    else if (found === "{" || found === "[") depth += 1;
    else if (depth === 0 && found === ":") colon = i;
    else if (depth === 0 && (found === "," || i === end)) {
      if (i !== end || text.slice(start, i).trim() !== "")
        parts.push({ key: colon < 0 ? "" : text.slice(start, colon), text: text.slice(Math.max(colon + 1, start), i) });
      start = i + 1;
      colon = -1;
    } else if (found === "}" || found === "]") depth -= 1;
  }
  return parts;
}

/** Returns the index of the quote that closes the string that opens at `start`. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end;
  }
  throw new SyntaxError("a string of the JSON text is not closed");
}

/** Levels of a value that are serialized in steps. A pricing's plans are on the second. */
const LEVELS = 2;

/** Serializes a value to JSON in steps: one step per element of its first two levels. Equivalent to JSON.stringify. */
export function* stringifySteps(value: unknown, levels: number = LEVELS): Steps<string> {
  if (levels === 0 || typeof value !== "object" || value === null) {
    yield;
    return JSON.stringify(value) ?? "null";
  }
  if (Array.isArray(value)) {
    const items: string[] = [];
    for (const item of value) items.push(yield* stringifySteps(item, levels - 1));
    return `[${items.join(",")}]`;
  }
  const entries: string[] = [];
  for (const [key, each] of Object.entries(value))
    if (each !== undefined) entries.push(`${JSON.stringify(key)}:${yield* stringifySteps(each, levels - 1)}`);
  return `{${entries.join(",")}}`;
}
