import { tooLarge, tooManyRequests, unavailable, unexpected } from "./busy.ts";
import { forbidden, unauthenticated } from "./denied.ts";
import type { ErrorKind } from "./entry.ts";
import { invalid } from "./invalid.ts";
import { conflict, gone, notFound } from "./state.ts";
import { unprocessable } from "./unprocessable.ts";

/** Every kind of error by its code, in the order of their statuses. A test holds the sentences against the source. */
export const ERRORS = {
  invalid,
  unauthenticated,
  forbidden,
  notFound,
  conflict,
  gone,
  tooLarge,
  unprocessable,
  tooManyRequests,
  unexpected,
  unavailable,
} as const satisfies Record<string, ErrorKind>;

/** Path of the catalogue below /api/v1, for people and for the links of errors. */
export const CATALOGUE_PATH = "/docs/errors";

/** Returns the anchor of a kind of error. */
export const anchorOf = ({ title }: ErrorKind): string => title.toLowerCase().replaceAll(" ", "-");
