/* Bounds what a tool returns: a model pays for every character, and clients cut long answers without saying so. */

/** Largest text of a JSON answer, about 8,000 tokens. */
const MAX_JSON = 30_000;
/** Largest answer in another format. The largest known public pricing has 54 KB. */
const MAX_TEXT = 60_000;
/** Larger answers are not parsed, because that would block the event loop. */
const MAX_PARSED = 4_000_000;
/** Entries per list that remain, in the order of the attempts. */
const ATTEMPTS = [100, 50, 20, 10, 5, 3, 1, 0] as const;
/** Objects with fixed fields have fewer. */
const MIN_FIELDS = 30;
const MIN_TEXT = 300;
/** Parts that are named as left out. */
const MAX_NAMED = 20;

/** A bounded answer. `omitted` names each part that was cut, with how much of it is shown. */
export interface Bounded {
  text: string;
  omitted: readonly string[];
}

/** Bounds a JSON text: the lists, maps and texts in it are cut to their first entries until the rest fits. */
export function boundedJson(json: string): Bounded {
  if (json.length <= MAX_JSON) return { text: json, omitted: [] };
  if (json.length > MAX_PARSED) return { text: "", omitted: [`the answer, which has ${json.length} characters`] };
  const value: unknown = JSON.parse(json);
  for (const most of ATTEMPTS) {
    const cuts = new Map<string, string>();
    const text = JSON.stringify(cut(value, most, "", cuts));
    if (text.length > MAX_JSON) continue;
    const named = [...cuts].map(([path, shown]) => `${path === "" ? "entries" : path}: ${shown}`);
    return {
      text,
      omitted: [
        ...named.slice(0, MAX_NAMED),
        ...(named.length > MAX_NAMED ? [`and ${named.length - MAX_NAMED} more`] : []),
      ],
    };
  }
  return { text: json.slice(0, MAX_JSON), omitted: [`everything after ${MAX_JSON} characters`] };
}

/** Bounds a text at the end of a line. */
export function boundedText(text: string): Bounded {
  if (text.length <= MAX_TEXT) return { text, omitted: [] };
  const end = text.lastIndexOf("\n", MAX_TEXT);
  const shown = text.slice(0, end < 0 ? MAX_TEXT : end + 1);
  return { text: shown, omitted: [`${text.length - shown.length} of ${text.length} characters at the end`] };
}

/** Keeps at most `most` entries per list, and notes the first cut of each path. */
function cut(value: unknown, most: number, path: string, cuts: Map<string, string>): unknown {
  const note = (shown: number, all: number, unit = "") => {
    if (!cuts.has(path)) cuts.set(path, `${shown} of ${all}${unit}`);
  };
  if (typeof value === "string") {
    const longest = Math.max(MIN_TEXT, most * 100);
    if (value.length <= longest) return value;
    note(longest, value.length, " characters");
    return `${value.slice(0, longest)}…`;
  }
  if (Array.isArray(value)) {
    if (value.length > most) note(most, value.length);
    return value.slice(0, most).map((each) => cut(each, most, `${path}[]`, cuts));
  }
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  const kept = Math.max(MIN_FIELDS, most);
  if (entries.length > kept) note(kept, entries.length);
  const at = (key: string) => (path === "" ? key : `${path}.${entries.length > MIN_FIELDS ? "*" : key}`);
  return Object.fromEntries(entries.slice(0, kept).map(([key, each]) => [key, cut(each, most, at(key), cuts)]));
}
