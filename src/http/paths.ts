import { Failure } from "../operations/errors.ts";
import type { AppContext } from "./context.ts";

/** Strips the sub-path prefix and one trailing slash. The result stays percent-encoded, as rules and routes expect. */
export function normalisePath(url: string, baseUrlPath: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.slice(start).search(/[?#]/);
  let path = start < 0 ? "/" : url.slice(start, end < 0 ? undefined : start + end);
  if (baseUrlPath !== "" && (path === baseUrlPath || path.startsWith(`${baseUrlPath}/`))) {
    path = path.slice(baseUrlPath.length) || "/";
  }
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

export function requireDecodablePath(c: AppContext): void {
  if (!c.req.path.includes("%")) return;
  try {
    decodeURIComponent(c.req.path);
  } catch (cause) {
    throw new Failure("invalid", "INVALID DATA: The path is not valid percent-encoding", { cause });
  }
}

const DOT_SEGMENT = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i;

/**
 * Refuses a path with the segment `.` or `..`, encoded or not. Resolving it would carry out another call than the one that
 * was sent. Node's server passes the path as it arrived in `incoming`; other runtimes only in the request, where Bun and
 * Workers have resolved it already.
 */
export function refuseDotSegments(c: AppContext): void {
  const sent = (c.env as { incoming?: { url?: string } } | undefined)?.incoming?.url ?? c.req.path;
  if (!sent.includes(".") && !sent.includes("%2")) return;
  const end = sent.search(/[?#]/);
  if (DOT_SEGMENT.test(end < 0 ? sent : sent.slice(0, end)))
    throw new Failure("invalid", "INVALID DATA: The path must not contain . or .. segments");
}
