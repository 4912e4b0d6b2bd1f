/** NUL and lone surrogates, which Postgres stores in no text. */
const UNSTORABLE = /[\0\p{Surrogate}]/u;

/** Returns true for a text that Postgres can store. */
export const isStorable = (text: string): boolean => !UNSTORABLE.test(text);

/** Returns the path of the first text in a JSON value that Postgres cannot store; a key counts as a text of its object. */
export function unstorablePath(value: unknown): string[] | undefined {
  if (typeof value === "string") return isStorable(value) ? undefined : [];
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    if (!isStorable(key)) return [];
    const rest = unstorablePath(inner);
    if (rest !== undefined) return [key, ...rest];
  }
  return undefined;
}
