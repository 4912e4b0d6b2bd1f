import { isStorable, unstorablePath } from "../core/storable.ts";
import { Failure, UNSTORABLE } from "../operations/errors.ts";
import type { AppContext } from "./context.ts";

/**
 * Names the first text of a request that Postgres cannot store. The database reports the character, but not its field.
 * Undefined if none of body and parameters has one.
 */
export function unstorableText(c: AppContext): string | undefined {
  const field = unstorablePath(c.get("body"));
  if (field !== undefined) return field.length === 0 ? undefined : `The ${field.join(".")} field`;
  const query = Object.entries(c.req.queries()).find(([, values]) => !values.every(isStorable));
  if (query !== undefined) return `The ${query[0]} query parameter`;
  const parameter = Object.entries(c.req.param()).find(([, text]) => !isStorable(text));
  return parameter && `The ${parameter[0]} in the path`;
}

/**
 * Refuses lone surrogates in a validated body. Postgres refuses only NUL: it replaces surrogates in texts, and keeps them in
 * JSON that it cannot read again.
 * @throws Failure invalid, whose answer names the field.
 */
export function refuseSurrogates(c: AppContext, body: unknown): void {
  if (c.get("request").escapesSurrogate && unstorablePath(body) !== undefined) throw new Failure("invalid", UNSTORABLE);
}
