import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AppContext } from "./context.ts";

/**
 * Creates the Response with the headers of every answer. It does not use `c.body`, because merging headers there costs
 * more than the rest of a small answer.
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

/** JSON text as it is sent. */
export type JsonText = string | Uint8Array<ArrayBuffer>;

/** Answers with JSON text, and the content type that the contract requires. */
export function replyJson(
  c: AppContext,
  text: JsonText,
  status: number,
  headers?: Readonly<Record<string, string>>,
): Response {
  c.get("request").headers["Content-Type"] = "application/json; charset=utf-8";
  return reply(c, text, status, headers);
}

/** Caches the JSON text of frozen values. */
const texts = new WeakMap<object, JsonText>();

/** Length from which a cached text is kept as bytes: Node copies a string twice for each answer, behind the headers. */
const MIN_BYTES = 1000;

/** Returns JSON text. A frozen value is serialized once, so its nested objects must not change either. */
export function bodyText(value: unknown): JsonText {
  if (typeof value !== "object" || value === null || !Object.isFrozen(value)) return JSON.stringify(value);
  const cached = texts.get(value);
  if (cached !== undefined) return cached;
  const json = JSON.stringify(value);
  const text = json.length < MIN_BYTES ? json : new TextEncoder().encode(json);
  texts.set(value, text);
  return text;
}

/** Answers with a value as JSON, as {@link bodyText} serializes it. */
export function json(c: AppContext, value: unknown, status: ContentfulStatusCode = 200): Response {
  return replyJson(c, bodyText(value), status);
}

/** Returns a strong ETag of the body. */
async function entityTag(body: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  return `"${Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("")}"`;
}

/** True if an If-None-Match header contains this tag. Weak and strong tags match. Source: RFC 9110 §13.1.2. */
function isNamed(tag: string, header: string | undefined): boolean {
  const names = (header ?? "").split(",").map((name) => name.trim().replace(/^W\//, ""));
  return names.includes(tag) || names.includes("*");
}

/** Answers with JSON text and its ETag, or with 304 to a client that names this ETag. */
export async function replyConditionally(
  c: AppContext,
  text: string,
  headers?: Readonly<Record<string, string>>,
): Promise<Response> {
  const all = { ...headers, ETag: await entityTag(text) };
  return isNamed(all.ETag, c.req.header("if-none-match")) ? reply(c, null, 304, all) : replyJson(c, text, 200, all);
}

/** Answers with a YAML text. Its ETag is the SHA-256; a client that names it gets 304. */
export function replyYaml(c: AppContext, { text, sha256 }: { text: string; sha256: string }): Response {
  const headers = { ETag: `"${sha256}"`, "Cache-Control": "private, no-cache" };
  if (isNamed(headers.ETag, c.req.header("if-none-match"))) return reply(c, null, 304, headers);
  return reply(c, text, 200, { ...headers, "Content-Type": "text/yaml; charset=utf-8" });
}
