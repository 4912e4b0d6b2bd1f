import { instantIn } from "../core/instant.ts";
import { scopeOf } from "../operations/access.ts";
import { Failure } from "../operations/errors.ts";
import type { AppContext, RequestState } from "./context.ts";

/** Returns the organization of a call. Undefined, which means all, for a platform ADMIN who names none. */
export function scope(c: AppContext): string | undefined {
  return scopeOf(c.get("caller"), { path: c.req.param("organizationId"), query: queryParameter(c, "organizationId") });
}

/**
 * Returns the organization of a call.
 * @throws Failure invalid without one.
 */
export function organizationOf(c: AppContext): string {
  const organizationId = scope(c);
  if (organizationId === undefined) {
    throw new Failure("invalid", "INVALID DATA: The organizationId query parameter is required");
  }
  return organizationId;
}

/**
 * Reads a query parameter. Undefined if it is missing. Other parameters are ignored in any form.
 * Source: contract users-organizations §1.2, §4.3.
 * @throws Failure invalid for a repeated or bracketed parameter.
 */
export function queryParameter(c: AppContext, name: string): string | undefined {
  const request = c.get("request");
  // A call reads a dozen parameters, and most calls have none.
  if (request.query === undefined) request.query = parseQuery(c.req.url);
  const { query } = request;
  if (query === null) return undefined;
  const given = query.values.getAll(name);
  if (given.length > 1) throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be given once`);
  if (!query.isFlat && [...query.values.keys()].some((other) => other.startsWith(`${name}[`))) {
    throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be a plain value`);
  }
  return given[0];
}

/** Parses the query string of an address; null without one. Hono's parser takes three times the time. */
function parseQuery(url: string): Exclude<RequestState["query"], undefined> {
  const start = url.indexOf("?");
  if (start < 0) return null;
  return { values: new URLSearchParams(url.slice(start + 1)), isFlat: !/\[|%5b/i.test(url) };
}

/**
 * Reads a query parameter that must not be empty.
 * @throws Failure invalid for an empty one.
 */
export function nonEmpty(c: AppContext, name: string): string | undefined {
  const given = queryParameter(c, name);
  if (given === "") throw new Failure("invalid", `INVALID DATA: The ${name} query parameter is empty`);
  return given;
}

/**
 * Returns the organization that a mass change is limited to. A script with an unset variable sends an empty name, which
 * must not mean every organization.
 * @throws Failure invalid for an empty `organizationId` where neither path nor key names one.
 */
export function massChangeScope(c: AppContext): string | undefined {
  return scope(c) ?? nonEmpty(c, "organizationId");
}

/**
 * Parses leading digits as an integer: "5abc" is 5. Clamps to safe integers. Undefined without digits.
 * Source: contract users-organizations §1.2.
 */
export function leadingInteger(text: string | undefined): number | undefined {
  const digits = /^\s*([+-]?\d+)/.exec(text ?? "")?.[1];
  if (digits === undefined) return undefined;
  return Math.min(Math.max(Number(digits), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}

const CURSOR = /^(?:[0-9a-f]{24}(?:\.[\w-]{1,255}){0,3})?$/;

/**
 * Reads `after`: a listing in the stable order of its ids, from the entry behind this one. Empty for the first page;
 * undefined for the listing's own order.
 * @throws Failure invalid for an `after` that no answer has named, and beside another order or place.
 */
export function afterOf(c: AppContext): string | undefined {
  const after = queryParameter(c, "after");
  if (after === undefined) return undefined;
  if (!CURSOR.test(after)) {
    throw new Failure("invalid", "INVALID DATA: after must be empty, the id of an entry, or what Next-After said");
  }
  for (const other of ["page", "offset", "sort", "order"]) {
    if (queryParameter(c, other) !== undefined) {
      throw new Failure("invalid", `INVALID DATA: after cannot be combined with ${other}`);
    }
  }
  return after;
}

/** Reads the paging of a listing that also has `after`. */
export function pagingOf(c: AppContext) {
  return {
    after: afterOf(c),
    page: leadingInteger(queryParameter(c, "page")),
    offset: leadingInteger(queryParameter(c, "offset")),
    limit: leadingInteger(queryParameter(c, "limit")),
  };
}

/** Names the `after` of the next page in the header Next-After. Without one, this page is the last. */
export function setNextAfter(c: AppContext, next: string | undefined): void {
  if (next !== undefined) c.get("request").headers["Next-After"] = next;
}

/** Reads `near`: the share of a limit from which consumption counts as near it. */
export function nearOf(c: AppContext): number | undefined {
  const given = queryParameter(c, "near");
  if (given === undefined) return undefined;
  if (/^(0?\.\d{1,6}|1(\.0*)?)$/.test(given) && Number(given) > 0) return Number(given);
  throw new Failure("invalid", "INVALID DATA: near must be a number above 0 and up to 1");
}

/** Reads the size of a page with a cursor. */
export function pageLimit(c: AppContext): number {
  const number = leadingInteger(queryParameter(c, "limit") ?? "20") ?? 0;
  if (number < 1 || number > 100) throw new Failure("invalid", "INVALID DATA: Limit must be between 1 and 100");
  return number;
}

/** Reads the cursor of a list with the newest entry first: at most `limit` entries older than the id `before`. */
export function cursorPage(c: AppContext): { before: number | undefined; limit: number } {
  const limit = pageLimit(c);
  return { before: entryIdOf(c), limit };
}

/** Reads `before`, the id of an entry. Undefined if it is missing. */
export function entryIdOf(c: AppContext): number | undefined {
  const before = queryParameter(c, "before");
  if (before === undefined) return undefined;
  if (/^\d{1,15}$/.test(before)) return Number(before);
  throw new Failure("invalid", "INVALID DATA: before must be the id of an entry");
}

/**
 * Reads a query parameter as an ISO 8601 moment. Undefined if it is missing. Accepts an offset whose `+` was decoded to a
 * space.
 * @throws Failure invalid for other text.
 */
export function instantOf(c: AppContext, name: string): Date | undefined {
  const text = queryParameter(c, name);
  if (text === undefined) return undefined;
  const moment = instantIn(text.replace(" ", "+"));
  if (moment !== undefined) return moment;
  throw new Failure("invalid", `INVALID DATA: ${name} must be an ISO 8601 date`);
}
