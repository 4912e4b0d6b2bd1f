import { type Context, clampPageSize } from "../context.ts";
import { Failure } from "../errors.ts";

/** Requested page of a listing; undefined for the default. */
export interface PageQuery {
  page: number | undefined;
  offset: number | undefined;
  limit: number | undefined;
  /**
   * Lists by id, and only what comes after this one: rows that are created or deleted meanwhile shift no page. Empty for the
   * first page. Undefined for pages in the listing's own order.
   */
  after: string | undefined;
}

const MAX_PAGE = 100;

/**
 * Returns the rows to skip and to read. `others` are the problems of the listing's other parameters, which follow those of
 * paging in one sentence. Source: contract contracts §3.
 * @throws Failure invalid that lists all problems.
 */
export function pageOf(
  ctx: Context,
  query: PageQuery,
  others: readonly string[],
): { skip: number; limit: number; after: string | undefined } {
  const problems: string[] = [];

  if ((query.page ?? 0) < 0) problems.push("Page must be greater than or equal to 1");
  if ((query.offset ?? 0) < 0) problems.push("Offset must be greater than or equal to 0");
  if ((query.limit ?? 0) < 0) problems.push("Limit must be greater that or equal to 1");
  problems.push(...others);
  if (problems.length > 0) {
    throw new Failure("invalid", `Errors where found during validation of query params: ${problems.join(" | ")}`);
  }
  const limit = clampPageSize(ctx, Math.min(query.limit || 20, MAX_PAGE));
  return { limit, skip: query.offset || ((query.page || 1) - 1) * limit, after: query.after };
}
