import { z } from "zod";
import { openApiDocument } from "../../src/http/openapi.ts";
import { failure } from "../../src/wire/failure.ts";
import { ofrepBulkFailure, ofrepFailure } from "../../src/wire/ofrep.ts";
import { OPERATIONS } from "../../src/wire/operations.ts";
import type { Operation } from "../../src/wire/operation.ts";

/** Any documented shape of an error, for paths outside the API. */
const ANY_FAILURE = z.union([failure, ofrepFailure, ofrepBulkFailure]);

const patterns = OPERATIONS.map((operation) => ({
  operation,
  pattern: new RegExp(`^${operation.path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`),
}));

const DOCUMENT = openApiDocument("") as { paths: Record<string, Record<string, { responses?: object }>> };

function documentedErrors({ path, method }: Operation): ReadonlySet<number> {
  const { responses = {} } = DOCUMENT.paths[path]?.[method.toLowerCase()] ?? {};
  return new Set(
    Object.keys(responses)
      .map(Number)
      .filter((status) => status >= 400),
  );
}

/** Finds the documented operation of a request. Literal segments precede parameters in the table, so they win. */
function find(method: string, path: string, base: Operation["base"]): Operation | undefined {
  const asked = method === "HEAD" ? "GET" : method;
  return patterns.find(
    ({ operation, pattern }) =>
      (operation.base ?? "/api/v1") === base && operation.method === asked && pattern.test(path),
  )?.operation;
}

/**
 * Checks a response against the OpenAPI document: a documented status with a body of its schema, or an error of a
 * documented shape. `path` has neither query nor trailing slash.
 * @throws Error when it is not documented.
 */
export function expectDocumented(method: string, at: string, status: number, body: unknown): void {
  const where = `${method} ${at} answered ${status}`;
  const isInside = at.startsWith("/api/v1/");
  const path = isInside ? at.slice("/api/v1".length) : at;
  const operation = find(method, path, isInside ? "/api/v1" : "/");
  if (status >= 400) {
    // Any operation can fail with 500, which no document announces.
    if (operation !== undefined && status !== 500 && !documentedErrors(operation).has(status))
      throw new Error(`${where}; its documented errors are ${[...documentedErrors(operation)].join(", ")}`);
    const read = (operation?.failure ?? (isInside ? failure : ANY_FAILURE)).safeParse(body);
    if (!read.success && method !== "HEAD") throw new Error(`${where}, which is no failure: ${read.error.message}`);
    return;
  }
  // Scripts belong to the two documented pages.
  if (path.endsWith(".js")) return;
  if (operation === undefined) throw new Error(`${where}, but it is not documented`);
  const answer = operation.answers[status];
  if (answer === undefined) throw new Error(`${where}; documented are ${Object.keys(operation.answers).join(", ")}`);
  if (method === "HEAD" || operation.mediaType !== undefined) return;
  if (operation.alsoAs !== undefined && typeof body === "string") return;
  if (answer === null) {
    if (body !== undefined) throw new Error(`${where} with a body`);
    return;
  }
  const read = answer.schema.safeParse(body);
  if (!read.success) throw new Error(`${where} with a body that is not documented: ${read.error.message}`);
}
