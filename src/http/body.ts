import { getMultipartBoundary, type MultipartPart, parseMultipart } from "@remix-run/multipart-parser";
import type { z } from "zod";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { Failure, tooDeep } from "../operations/errors.ts";
import { maxPricingBytes } from "../operations/catalog/pricing-source.ts";
import type { AppContext } from "./context.ts";

/** JSON and form bodies, where the operator has not said otherwise. */
const MAX_BODY_BYTES = 2 * 1024 * 1024;
/** How deeply a body may be nested, where the operator has not said otherwise. */
const MAX_DEPTH = 1000;
/** More than anybody fills in; each costs several times what the same bytes do in JSON. */
const MAX_FORM_FIELDS = 10_000;
const JSON_TYPE = "application/json";
/** A multipart body may hold one file of the full size, and this as its wrapping. */
const WRAPPING_BYTES = 64 * 1024;
const TOO_LARGE = "File too large";

const bodyTooLarge = (limit: number) =>
  `The request body is larger than ${limit % (1024 * 1024) === 0 ? `${limit / 1024 / 1024} MB` : `${limit / 1024} KB`}`;

/** Reads a whole stream. Failure tooLarge past `limit` bytes, without reading on. */
async function readBytes(
  chunks: AsyncIterable<Uint8Array>,
  limit: number,
  sentence = bodyTooLarge(limit),
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

/** What comes of a body whose sender leaves, or whose framing is broken: nobody's error here. */
async function received<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    throw new Failure("invalid", "INVALID DATA: The request body did not arrive completely", { cause });
  }
}

async function readText(chunks: AsyncIterable<Uint8Array>, limit: number): Promise<string> {
  return new TextDecoder().decode(await readBytes(chunks, limit));
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

/**
 * `a[b][c]=1` as nested objects, `a[]=1&a[]=2` and `a=1&a=2` as lists; without a prototype to pollute.
 * Names nested deeper than any body of the contract are left out. Failure tooLarge for more fields than any form has.
 */
function parseForm(text: string): Record<string, unknown> {
  if (text.split("&", MAX_FORM_FIELDS + 1).length > MAX_FORM_FIELDS) {
    throw new Failure("tooLarge", `The form has more than ${MAX_FORM_FIELDS} fields`);
  }
  const root: Record<string, unknown> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.split(/\]\[|[[\]]/).filter((part, i) => i === 0 || part !== "");
    if (path.length > 8) continue;
    let at = root;
    for (const part of path.slice(0, -1)) {
      const next = at[part];
      if (typeof next !== "object" || next === null || Array.isArray(next)) at[part] = Object.create(null);
      at = at[part] as Record<string, unknown>;
    }
    const last = path.at(-1) ?? "";
    const held = at[last];
    if (Array.isArray(held)) held.push(value);
    else if (typeof held === "string") at[last] = [held, value];
    else at[last] = name.endsWith("[]") ? [value] : value;
  }
  return root;
}

/** Whether lists and objects of a JSON text stand in each other deeper than this; brackets within strings are none. */
function isDeeper(text: string, limit: number): boolean {
  // So many brackets would not even fit into most bodies.
  if (text.length <= 2 * limit) return false;
  let depth = 0;
  let isText = false;
  for (let i = 0; i < text.length; i += 1) {
    const found = text[i];
    if (isText) {
      if (found === "\\") i += 1;
      else if (found === '"') isText = false;
    } else if (found === '"') isText = true;
    else if (found === "[" || found === "{") depth += 1;
    else if (found === "]" || found === "}") depth -= 1;
    if (depth > limit) return true;
  }
  return false;
}

function parseBody(contentType: string, text: string, maxDepth: number): unknown {
  const mediaType = contentType === JSON_TYPE ? JSON_TYPE : contentType.split(";")[0]?.trim().toLowerCase();
  if (mediaType === "application/x-www-form-urlencoded") return parseForm(text);
  if (mediaType !== JSON_TYPE || text.trim() === "") return {};
  if (isDeeper(text, maxDepth)) throw tooDeep(undefined);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Failure("invalid", "INVALID DATA: Malformed JSON body", { cause });
  }
  if (typeof value !== "object" || value === null) throw new Failure("invalid", "INVALID DATA: Malformed JSON body");
  return value;
}

async function parseArriving(
  c: AppContext,
  contentType: string,
  arriving: Promise<string>,
  maxDepth: number,
): Promise<void> {
  c.set("body", parseBody(contentType, await received(arriving), maxDepth));
}

/**
 * Leaves the parsed body in `c.get("body")`: JSON or form, `{}` for an empty body or another content type.
 * Multipart is left for the routes that take a file. Source: contract users-organizations §1.2.
 */
export function readBody(c: AppContext): MaybePromise<void> {
  const contentType = c.req.header("content-type") ?? "";
  const length = c.req.header("content-length");
  const declared = Number(length ?? 0);
  const isMultipart = contentType !== JSON_TYPE && /^multipart\/form-data\b/i.test(contentType);
  const { maxBodyBytes: limit = MAX_BODY_BYTES, maxBodyDepth = MAX_DEPTH } = c.get("server").settings;
  if (declared > (isMultipart ? maxPricingBytes({ resources: c.get("resources") }) + WRAPPING_BYTES : limit)) {
    throw new Failure("tooLarge", isMultipart ? TOO_LARGE : bodyTooLarge(limit));
  }
  if (isMultipart || contentType === "") return c.set("body", {});
  if (c.req.method === "GET" || c.req.method === "HEAD") {
    const hidden = declared > 0 || c.req.header("transfer-encoding") ? hiddenBody(c.env) : undefined;
    return hidden === undefined
      ? c.set("body", {})
      : parseArriving(c, contentType, readText(hidden, limit), maxBodyDepth);
  }
  // No more than was declared can come: there is nothing to count, and runtimes read a whole body fastest themselves.
  if (declared > 0) return parseArriving(c, contentType, c.req.raw.text(), maxBodyDepth);
  if (length === "0") return c.set("body", {});
  const stream = c.req.raw.body;
  return stream === null
    ? c.set("body", {})
    : parseArriving(c, contentType, readText(streamOf(stream), limit), maxBodyDepth);
}

/** What a field of a form holds: its file's text, exactly as sent, or its plain text. */
export interface FormField {
  file?: string;
  text?: string;
}

/**
 * These fields of a multipart body, each with the most bytes that its file may have. Undefined for other content types.
 * Everything stays in memory: there is nothing to leave behind. Failure invalid for a file in another field, a second file
 * in one, a file that is not UTF-8 text, or a body that is not multipart after all; tooLarge for a file that is.
 */
export async function readMultipart<Name extends string>(
  c: AppContext,
  maxBytes: Readonly<Record<Name, number>>,
): Promise<Partial<Record<Name, FormField>> | undefined> {
  const contentType = c.req.header("content-type") ?? "";
  const stream = c.req.raw.body;
  if (!/^multipart\/form-data\b/i.test(contentType)) return undefined;
  // All of them together, as large as the largest: whatever was let through before this is no larger.
  const most = Math.max(...Object.values<number>(maxBytes)) + WRAPPING_BYTES;
  const bytes = stream === null ? new Uint8Array() : await received(readBytes(streamOf(stream), most, TOO_LARGE));
  const fields: Partial<Record<Name, FormField>> = {};
  const isWanted = (name: string | undefined): name is Name => name !== undefined && Object.hasOwn(maxBytes, name);
  for (const part of partsOf(bytes, contentType, most)) {
    const { name } = part;
    const field = isWanted(name) ? (fields[name] ??= {}) : undefined;
    // A form whose file input was left empty sends a file without a name and without content.
    if (part.isFile && (part.filename !== "" || part.size > 0)) {
      if (!isWanted(name) || field === undefined || field.file !== undefined) {
        throw new Failure("invalid", "Unexpected field");
      }
      if (part.size > maxBytes[name]) throw new Failure("tooLarge", TOO_LARGE);
      field.file = exactText(part);
    } else if (!part.isFile && field !== undefined) {
      field.text ??= part.text;
    }
  }
  return fields;
}

function partsOf(bytes: Uint8Array, contentType: string, most: number): MultipartPart[] {
  const boundary = getMultipartBoundary(contentType);
  // RFC 2046 allows 70 characters; searching for a boundary costs its length.
  if (boundary === null || boundary.length > 70) throw malformed("INVALID DATA: Malformed multipart boundary");
  const start = openingLine(bytes, new TextEncoder().encode(`--${boundary}`));
  try {
    // Multipart allows text before the first boundary; the parser does not.
    return [
      ...parseMultipart(bytes.subarray(start), {
        boundary,
        maxFileSize: most,
        maxTotalSize: most,
      }),
    ];
  } catch (cause) {
    throw malformed("INVALID DATA: Malformed multipart body", cause);
  }
}

/** Where the first line stands that begins with the delimiter; 0 when none does. */
function openingLine(bytes: Uint8Array, delimiter: Uint8Array): number {
  const NEWLINE = 10;
  let line = 0;
  do {
    if (delimiter.every((byte, i) => bytes[line + i] === byte)) return line;
    line = bytes.indexOf(NEWLINE, line) + 1;
  } while (line > 0);
  return 0;
}

const malformed = (sentence: string, cause?: unknown) => new Failure("invalid", sentence, { cause });

function exactText(part: MultipartPart): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(part.bytes);
  } catch (cause) {
    throw malformed("Pricing parsing error: The file does not contain valid YAML content.", cause);
  }
}

/** The parsed body as far as it has fields, which a list has none of. */
export function fieldsOf(c: AppContext): unknown {
  const body = c.get("body");
  return Array.isArray(body) ? {} : body;
}

/**
 * Checks the parsed body; 422 with the first failing check's sentence, in the order in which the schema lists its fields.
 * Unknown fields are dropped, so they can never be stored. A list is a body without fields, but to a schema that has a
 * sentence of its own for one.
 */
export function bodyOf<T>(c: AppContext, schema: z.ZodType<T>): T {
  const result = schema.safeParse(schema.def.error === undefined ? fieldsOf(c) : c.get("body"));
  if (result.success) return result.data;
  throw new Failure("unprocessable", result.error.issues[0]?.message ?? "The body is not valid");
}
