import type { z } from "zod";

/** Steps from a body to one of its values. */
export type Path = readonly (string | number)[];

/** A wrong value, with the name of its kind. */
export type WrongValue = readonly [kind: string, value: unknown];

/** Stands for a number that JSON can write and no double can hold. */
const INFINITE = "@1e999@";

/** Wrong type, empty, too long, too large, unknown field. Each is wrong for most fields. */
export const WRONG_VALUES: readonly WrongValue[] = [
  ["null", null],
  ["a boolean", true],
  ["a negative fraction", -1.5],
  ["1e308", 1e308],
  ["1e999", INFINITE],
  ["an empty text", ""],
  ["a word", "never"],
  ["a long text", "x".repeat(20_000)],
  ["NUL", "a\u0000b"],
  ["a list", [null]],
  ["an object", { unknown: 1 }],
];

interface Definition {
  readonly type: string;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly innerType?: z.ZodType;
  readonly element?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly in?: z.ZodType;
  readonly out?: z.ZodType;
  readonly valueType?: z.ZodType;
}

/** A value of a body, and the field whose name a sentence about it must have. */
export interface Place {
  readonly path: Path;
  readonly field: string | undefined;
}

/** Walks the values of a body that a schema describes, parents first. Descends as far as the body goes. */
export function* placesOf(
  schema: z.ZodType,
  body: unknown,
  at: Place = { path: [], field: undefined },
): Generator<Place> {
  const definition = schema.def as unknown as Definition;
  const { type, shape, innerType, element, options, in: input, out, valueType } = definition;
  const isObject = typeof body === "object" && body !== null;
  const child = function* (key: string | number, inner: z.ZodType, field: string | undefined): Generator<Place> {
    const place = { path: [...at.path, key], field };
    yield place;
    const value = (body as Record<string | number, unknown>)[key];
    if (value !== undefined) yield* placesOf(inner, value, place);
  };
  if (shape !== undefined && isObject) for (const [key, inner] of Object.entries(shape)) yield* child(key, inner, key);
  else if (valueType !== undefined && isObject)
    for (const key of Object.keys(body)) yield* child(key, valueType, at.field);
  else if (element !== undefined && Array.isArray(body)) yield* child(0, element, at.field);
  else if (options !== undefined) for (const option of options) yield* placesOf(option, body, at);
  else if (type === "pipe") {
    const isPreprocessed = input?.def.type === "transform";
    yield* placesOf((isPreprocessed ? out : input) as z.ZodType, body, at);
  } else if (innerType !== undefined) yield* placesOf(innerType, body, at);
}

/** Returns a copy of a body with another value in one place. */
export function replaced(body: unknown, [key, ...rest]: Path, value: unknown): unknown {
  if (key === undefined) return value;
  const copy = Array.isArray(body) ? [...body] : { ...(body as object) };
  const at = copy as Record<string | number, unknown>;
  at[key] = replaced(at[key], rest, value);
  return copy;
}

/** Writes a body as JSON. */
export const jsonOf = (body: unknown): string => JSON.stringify(body).replaceAll(JSON.stringify(INFINITE), "1e999");

/** Sentences of the validation library. The last one replaces them where a check has none of its own. */
export const LIBRARY_SENTENCE =
  /Invalid (?:input|option|string|number|key in|element in|ISO|UUID|value: )|Too (?:big|small)\b|expected (?:string|number|int|array|object|record|boolean|one of)\b|to have [<>]=?\d|Unrecognized key|^The \S+ field is not valid$/;
