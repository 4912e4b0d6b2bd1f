import { scopeOf } from "../operations/access.ts";
import { Failure } from "../operations/errors.ts";
import type { AppContext } from "./context.ts";

/** The organization a call is about; undefined for a platform ADMIN who named none: then all of them. */
export function scope(c: AppContext): string | undefined {
  return scopeOf(c.get("caller"), { path: c.req.param("organizationId"), query: queryParameter(c, "organizationId") });
}

/** The organization a call is about, where it must be one. */
export function organizationOf(c: AppContext): string {
  const organizationId = scope(c);
  if (organizationId === undefined) {
    throw new Failure("invalid", "INVALID DATA: The organizationId query parameter is required");
  }
  return organizationId;
}

/**
 * A parameter of the query, undefined without it. Failure invalid for one that is repeated or bracketed: each is one text.
 * Parameters that nobody reads are ignored, however they are given. Source: contract users-organizations §1.2, §4.3.
 */
export function queryParameter(c: AppContext, name: string): string | undefined {
  const { url } = c.req;
  if (!url.includes("?")) return undefined;
  const given = c.req.queries(name) ?? [];
  if (given.length > 1) throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be given once`);
  if (/\[|%5b/i.test(url) && Object.keys(c.req.query()).some((other) => other.startsWith(`${name}[`))) {
    throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be a plain value`);
  }
  return given[0];
}

/**
 * An integer read by its leading digits ("5abc" is 5), the nearest one that can be counted with; undefined when there are
 * none. Source: users-organizations §1.2.
 */
export function leadingInteger(text: string | undefined): number | undefined {
  const digits = /^\s*([+-]?\d+)/.exec(text ?? "")?.[1];
  if (digits === undefined) return undefined;
  return Math.min(Math.max(Number(digits), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}

/** The share of a limit from which on somebody is near it. */
export function nearOf(c: AppContext): number | undefined {
  const given = queryParameter(c, "near");
  if (given === undefined) return undefined;
  if (/^(0?\.\d{1,6}|1(\.0*)?)$/.test(given) && Number(given) > 0) return Number(given);
  throw new Failure("invalid", "INVALID DATA: near must be a number above 0 and up to 1");
}

/** The page of a list that is read from its newest entry on: at most `limit`, older than the one with the id `before`. */
export function cursorPage(c: AppContext): { before: number | undefined; limit: number } {
  const before = queryParameter(c, "before");
  const number = leadingInteger(queryParameter(c, "limit") ?? "20") ?? 0;
  if (number < 1 || number > 100) throw new Failure("invalid", "INVALID DATA: Limit must be between 1 and 100");
  if (before !== undefined && !/^\d{1,15}$/.test(before)) {
    throw new Failure("invalid", "INVALID DATA: before must be the id of an entry");
  }
  return { before: before === undefined ? undefined : Number(before), limit: number };
}

const INSTANT = /^(\d{4}-\d{2}-\d{2})(?:(T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(?:Z|([+-]\d{2})(?::?(\d{2}))?)?)?$/;

/**
 * The moment of an ISO 8601 date, or date and time, in UTC where it has no offset; undefined for anything else, and for a
 * year that cannot be stored.
 */
export function instantIn(text: string): Date | undefined {
  const [, day = "", time = "T00:00", hours = "+00", minutes = "00"] = INSTANT.exec(text) ?? [];
  // A day that its month does not have would be one of the next month.
  const isDay = !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day);
  const moment = new Date(`${day}${time}${hours}:${minutes}`);
  const year = moment.getUTCFullYear();
  return isDay && year >= 1 && year <= 9999 ? moment : undefined;
}

/**
 * The same of a query parameter, undefined without it. The `+` of an offset may have become a space. Failure invalid for
 * anything else.
 */
export function instantOf(c: AppContext, name: string): Date | undefined {
  const text = queryParameter(c, name);
  if (text === undefined) return undefined;
  const moment = instantIn(text.replace(" ", "+"));
  if (moment !== undefined) return moment;
  throw new Failure("invalid", `INVALID DATA: ${name} must be an ISO 8601 date`);
}

/** The moment of a field that was checked. */
export const momentOf = (text: string | null) => (text === null ? null : new Date(text));
