import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AppContext } from "./context.ts";

/**
 * An answer with the headers that every answer has. A Response of our own instead of `c.body`, whose merging of headers
 * costs more than everything else that a small answer needs.
 */
export function reply(
  c: AppContext,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null,
  status: number,
  headers?: Readonly<Record<string, string>>,
): Response {
  const request = c.get("request");
  request.headersApplied = true;
  if (headers !== undefined) Object.assign(request.headers, headers);
  return new Response(body, { status, headers: request.headers });
}

/** The same for a text that is JSON, with the content type that the contract asks for everywhere. */
export function replyJson(
  c: AppContext,
  text: string,
  status: number,
  headers?: Readonly<Record<string, string>>,
): Response {
  c.get("request").headers["Content-Type"] = "application/json; charset=utf-8";
  return reply(c, text, status, headers);
}

/** The texts of frozen answers, so that they are not written out again. */
const texts = new WeakMap<object, string>();

function textOf(value: unknown): string {
  if (typeof value !== "object" || value === null || !Object.isFrozen(value)) return JSON.stringify(value);
  const text = texts.get(value) ?? JSON.stringify(value);
  texts.set(value, text);
  return text;
}

/** A value as an answer. One that is frozen is written out once, however often it is given: what it holds must not change either. */
export function json(c: AppContext, value: unknown, status: ContentfulStatusCode = 200): Response {
  return replyJson(c, textOf(value), status);
}
