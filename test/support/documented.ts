import { z } from "zod";
import { failure, ofrepBulkFailure, ofrepFailure } from "../../src/http/answers.ts";
import { OPERATIONS, type Operation } from "../../src/http/openapi.ts";

/** Of paths outside of the interface that nothing documents. */
const ANY_FAILURE = z.union([failure, ofrepFailure, ofrepBulkFailure]);

const patterns = OPERATIONS.map((operation) => ({
  operation,
  pattern: new RegExp(`^${operation.path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`),
}));

/** The documented call that this request is; literal segments win over parameters because they come first in the table. */
function find(method: string, path: string, base: Operation["base"]): Operation | undefined {
  const asked = method === "HEAD" ? "GET" : method;
  return patterns.find(
    ({ operation, pattern }) =>
      (operation.base ?? "/api/v1") === base && operation.method === asked && pattern.test(path),
  )?.operation;
}

/**
 * Throws unless the answer is one that the OpenAPI document announces: a known status with a body of its schema, or a
 * failure of the common shape, or of its own one. `path` is without query and trailing slash.
 */
export function expectDocumented(method: string, at: string, status: number, body: unknown): void {
  const where = `${method} ${at} answered ${status}`;
  const isInside = at.startsWith("/api/v1/");
  const path = isInside ? at.slice("/api/v1".length) : at;
  const operation = find(method, path, isInside ? "/api/v1" : "/");
  if (status >= 400) {
    const read = (operation?.failure ?? (isInside ? failure : ANY_FAILURE)).safeParse(body);
    if (!read.success && method !== "HEAD") throw new Error(`${where}, which is no failure: ${read.error.message}`);
    return;
  }
  // Scripts of the two pages are part of those.
  if (path.endsWith(".js")) return;
  if (operation === undefined) throw new Error(`${where}, but it is not documented`);
  const schema = operation.answers[status];
  if (schema === undefined) throw new Error(`${where}; documented are ${Object.keys(operation.answers).join(", ")}`);
  if (method === "HEAD" || operation.mediaType !== undefined) return;
  if (operation.alsoAs !== undefined && typeof body === "string") return;
  if (schema === null) {
    if (body !== undefined) throw new Error(`${where} with a body`);
    return;
  }
  const read = schema.safeParse(body);
  if (!read.success) throw new Error(`${where} with a body that is not documented: ${read.error.message}`);
}
