import { failure } from "../../src/http/answers.ts";
import { OPERATIONS, type Operation } from "../../src/http/openapi.ts";

const patterns = OPERATIONS.map((operation) => ({
  operation,
  pattern: new RegExp(`^${operation.path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`),
}));

/** The documented call that this request is; literal segments win over parameters because they come first in the table. */
function find(method: string, path: string): Operation | undefined {
  const asked = method === "HEAD" ? "GET" : method;
  return patterns.find(({ operation, pattern }) => operation.method === asked && pattern.test(path))?.operation;
}

/**
 * Throws unless the answer is one that the OpenAPI document announces: a known status with a body of its schema, or a
 * failure of the common shape. `path` is relative to /api/v1, without query and trailing slash.
 */
export function expectDocumented(method: string, path: string, status: number, body: unknown): void {
  const where = `${method} ${path} answered ${status}`;
  if (status >= 400) {
    const read = failure.safeParse(body);
    if (!read.success && method !== "HEAD") throw new Error(`${where}, which is no failure: ${read.error.message}`);
    return;
  }
  // Scripts of the two pages are part of those.
  if (path.endsWith(".js")) return;
  const operation = find(method, path);
  if (operation === undefined) throw new Error(`${where}, but it is not documented`);
  const schema = operation.answers[status];
  if (schema === undefined) throw new Error(`${where}; documented are ${Object.keys(operation.answers).join(", ")}`);
  if (method === "HEAD" || operation.mediaType !== undefined) return;
  if (schema === null) {
    if (body !== undefined) throw new Error(`${where} with a body`);
    return;
  }
  const read = schema.safeParse(body);
  if (!read.success) throw new Error(`${where} with a body that is not documented: ${read.error.message}`);
}
