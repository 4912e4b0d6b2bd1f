import { Failure, UNSTORABLE as CANNOT_BE_STORED } from "../operations/errors.ts";
import { UNSTORABLE } from "../wire/usage.ts";
import type { AppContext } from "./context.ts";

/**
 * Names the first text of a request that Postgres cannot store. The database reports the character, but not its field.
 * Undefined if none of body and parameters has one.
 */
export function unstorableText(c: AppContext): string | undefined {
  const field = pathIn(c.get("body"));
  if (field !== undefined) return field.length === 0 ? undefined : `The ${field.join(".")} field`;
  const query = Object.entries(c.req.queries()).find(([, values]) => values.some((text) => UNSTORABLE.test(text)));
  if (query !== undefined) return `The ${query[0]} query parameter`;
  const parameter = Object.entries(c.req.param()).find(([, text]) => UNSTORABLE.test(text));
  return parameter && `The ${parameter[0]} in the path`;
}

/**
 * Refuses lone surrogates in a validated body. Postgres refuses only NUL: it replaces surrogates in texts, and keeps them in
 * JSON that it cannot read again.
 * @throws Failure invalid, whose answer names the field.
 */
export function refuseSurrogates(c: AppContext, body: unknown): void {
  if (c.get("request").escapesSurrogate && pathIn(body) !== undefined) throw new Failure("invalid", CANNOT_BE_STORED);
}

/** Returns the path of the first such text in a JSON value; a key counts as a text of its object. */
function pathIn(value: unknown): string[] | undefined {
  if (typeof value === "string") return UNSTORABLE.test(value) ? [] : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    if (UNSTORABLE.test(key)) return [];
    const rest = pathIn(inner);
    if (rest !== undefined) return [key, ...rest];
  }
  return undefined;
}
