import { Failure, tooDeep } from "../operations/errors.ts";

/* How the text of a body is parsed, and its bounds. */

/** Default maximum nesting depth of a body. */
export const MAX_DEPTH = 1000;
/** Maximum fields of a form. Parsing one costs several times as much as the same bytes of JSON. */
const MAX_FORM_FIELDS = 10_000;
/** Twice the usual largest body, 1,000 records of ten fields. Parsing and validating them takes 35 ms. */
export const MAX_JSON_VALUES = 20_000;
/** The media type of most bodies. */
export const JSON_TYPE = "application/json";

/**
 * Parses a form: `a[b][c]=1` yields nested objects, `a[]=1&a[]=2` and `a=1&a=2` yield lists. Objects have no prototype,
 * which prevents pollution. Ignores names nested deeper than 8 levels.
 * @throws Failure tooLarge for more than MAX_FORM_FIELDS fields.
 */
function parseForm(text: string): Record<string, unknown> {
  if (text.split("&", MAX_FORM_FIELDS + 1).length > MAX_FORM_FIELDS) {
    throw new Failure("tooLarge", `The form has more than ${MAX_FORM_FIELDS} fields`);
  }
  const root: Record<string, unknown> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.split(/\]\[|[[\]]/).filter((part, i) => i === 0 || part !== "");
    if (path.length > 8) continue;
    let at = root;
    for (const part of path.slice(0, -1)) {
      const next = at[part];
      if (typeof next !== "object" || next === null || Array.isArray(next)) at[part] = Object.create(null);
      at = at[part] as Record<string, unknown>;
    }
    const last = path.at(-1) ?? "";
    const held = at[last];
    if (Array.isArray(held)) held.push(value);
    else if (typeof held === "string") at[last] = [held, value];
    else at[last] = name.endsWith("[]") ? [value] : value;
  }
  return root;
}

/**
 * Bounds a JSON text before parsing: 150,000 fields take 60 ms to parse and 300 ms to validate, in one go. An empty list
 * or object counts as two values.
 * @throws Failure invalid past `maxDepth` levels of nesting; tooLarge past `maxValues`.
 */
function checkStructure(text: string, maxDepth: number, maxValues = MAX_JSON_VALUES): void {
  // A text this short exceeds neither bound.
  if (text.length <= Math.min(2 * maxDepth, maxValues)) return;
  let depth = 0;
  let values = 0;
  let isText = false;
  for (let i = 0; i < text.length; i += 1) {
    const found = text[i];
    if (isText) {
      if (found === "\\") i += 1;
      else if (found === '"') isText = false;
    } else if (found === '"') isText = true;
    else if (found === ",") values += 1;
    else if (found === "[" || found === "{") {
      depth += 1;
      values += 1;
    } else if (found === "]" || found === "}") depth -= 1;
    if (depth > maxDepth) throw tooDeep(undefined);
    if (values > maxValues) throw new Failure("tooLarge", `The body has more than ${maxValues} values`);
  }
}

/** Parses a JSON text within the bounds of a body. Returns why it is no JSON otherwise. @throws Failure see checkStructure. */
export function parseJson(text: string, maxDepth: number, maxValues?: number): { value: unknown } | { cause: unknown } {
  checkStructure(text, maxDepth, maxValues);
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (cause) {
    return { cause };
  }
}

/** Returns the media type without its parameters, in lower case. */
export const mediaTypeOf = (contentType: string) =>
  contentType === JSON_TYPE ? JSON_TYPE : contentType.split(";")[0]?.trim().toLowerCase();

/** Parses one JSON value per line. @throws Failure invalid for a line that is none. */
export function parseLines(text: string, maxDepth: number): unknown[] {
  checkStructure(text, maxDepth);
  return text.split("\n").flatMap((line, i) => {
    if (line.trim() === "") return [];
    try {
      return [JSON.parse(line)];
    } catch (cause) {
      throw new Failure("invalid", `INVALID DATA: Line ${i + 1} is not valid JSON`, { cause });
    }
  });
}

/** Parses JSON or a form; `{}` for other types. @throws Failure invalid for JSON that is malformed, or no object or list. */
export function parseBody(contentType: string, text: string, maxDepth: number, maxValues?: number): unknown {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === "application/x-www-form-urlencoded") return parseForm(text);
  if (mediaType !== JSON_TYPE || text.trim() === "") return {};
  const parsed = parseJson(text, maxDepth, maxValues);
  if ("cause" in parsed) throw new Failure("invalid", "INVALID DATA: Malformed JSON body", parsed);
  if (typeof parsed.value !== "object" || parsed.value === null) {
    throw new Failure("invalid", "INVALID DATA: Malformed JSON body");
  }
  return parsed.value;
}
