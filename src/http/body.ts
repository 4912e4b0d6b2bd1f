import type { Context as HonoContext, MiddlewareHandler } from "hono";
import { Failure } from "../operations/errors.ts";
import type { AppEnv } from "./route.ts";

/** JSON and form bodies; the largest pricing in the wild has 54 KB. */
export const MAX_BODY_BYTES = 2 * 1024 * 1024;
/** A multipart body may hold one file of the full size, and its wrapping. */
const MAX_MULTIPART_BYTES = MAX_BODY_BYTES + 64 * 1024;

/** Reads a whole stream. Failure tooLarge past `limit` bytes, without reading on. */
async function readBytes(
  chunks: AsyncIterable<Uint8Array>,
  limit: number,
  sentence = "The request body is larger than 2 MB",
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    if (size > limit) throw new Failure("tooLarge", sentence);
    parts.push(chunk);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}

async function readText(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  return new TextDecoder().decode(await readBytes(chunks, MAX_BODY_BYTES));
}

async function* streamOf(body: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Fetch-style requests hide the body of a GET, which contract listings accept: where the runtime shows its own request
 * object (Node), read it from there. Source: contract README, decision 4.
 */
function hiddenBody(bindings: unknown): AsyncIterable<Uint8Array> | undefined {
  if (typeof bindings !== "object" || bindings === null || !("incoming" in bindings)) return undefined;
  const incoming = bindings.incoming;
  if (typeof incoming !== "object" || incoming === null || !(Symbol.asyncIterator in incoming)) return undefined;
  return incoming as AsyncIterable<Uint8Array>;
}

/** `a[b][c]=1` as nested objects, without a prototype to pollute. */
function parseForm(text: string): Record<string, unknown> {
  const root: Record<string, unknown> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.split(/\[|\]\[|\]/).filter((part, i) => i === 0 || part !== "");
    if (path.length > 8) continue;
    let at = root;
    for (const part of path.slice(0, -1)) {
      const next = at[part];
      if (typeof next !== "object" || next === null) at[part] = Object.create(null);
      at = at[part] as Record<string, unknown>;
    }
    at[path.at(-1) ?? ""] = value;
  }
  return root;
}

function parseBody(contentType: string, text: string): unknown {
  if (/^application\/x-www-form-urlencoded\b/i.test(contentType)) return parseForm(text);
  if (!/^application\/([\w.-]+\+)?json\b/i.test(contentType) || text.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Failure("invalid", "INVALID DATA: Malformed JSON body", { cause });
  }
  if (typeof value !== "object" || value === null) throw new Failure("invalid", "INVALID DATA: Malformed JSON body");
  return value;
}

/**
 * Leaves the parsed body in `c.var.body`: JSON or form, `{}` for an empty body or another content type.
 * Multipart is left for the routes that take a file. Source: contract users-organizations §1.2.
 */
export const readBody: MiddlewareHandler<AppEnv> = async (c, next) => {
  const contentType = c.req.header("content-type") ?? "";
  const declared = Number(c.req.header("content-length") ?? 0);
  const multipart = /^multipart\/form-data\b/i.test(contentType);
  if (declared > (multipart ? MAX_MULTIPART_BYTES : MAX_BODY_BYTES)) {
    throw new Failure("tooLarge", multipart ? "File too large" : "The request body is larger than 2 MB");
  }
  if (multipart || contentType === "") {
    c.set("body", {});
  } else if (c.req.method === "GET" || c.req.method === "HEAD") {
    const hidden = declared > 0 || c.req.header("transfer-encoding") ? hiddenBody(c.env) : undefined;
    c.set("body", hidden === undefined ? {} : parseBody(contentType, await readText(hidden)));
  } else {
    const stream = c.req.raw.body;
    c.set("body", stream === null ? {} : parseBody(contentType, await readText(streamOf(stream))));
  }
  await next();
};

/**
 * The parts of a multipart body that concern one field: its file's text, or its plain text. Undefined for other content types.
 * Failure invalid for a file in another field or a body that is not multipart after all, tooLarge past `maxBytes`.
 */
export async function readMultipart(
  c: HonoContext<AppEnv>,
  field: string,
  maxBytes: number,
): Promise<{ file: string | undefined; text: string | undefined } | undefined> {
  const contentType = c.req.header("content-type") ?? "";
  const stream = c.req.raw.body;
  if (!/^multipart\/form-data\b/i.test(contentType)) return undefined;
  if (stream === null) return { file: undefined, text: undefined };
  const bytes = await readBytes(streamOf(stream), MAX_MULTIPART_BYTES, "File too large");
  let form: FormData;
  try {
    form = await new Response(bytes, { headers: { "content-type": contentType } }).formData();
  } catch (cause) {
    throw new Failure("invalid", "INVALID DATA: Malformed multipart body", { cause });
  }
  let file: string | undefined;
  for (const [name, value] of form) {
    if (typeof value === "string") continue;
    if (name !== field || file !== undefined) throw new Failure("invalid", "Unexpected field");
    if (value.size > maxBytes) throw new Failure("tooLarge", "File too large");
    file = await value.text();
  }
  const text = form.get(field);
  return { file, text: typeof text === "string" ? text : undefined };
}
