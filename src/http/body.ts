import { getMultipartBoundary, type MultipartPart, parseMultipart } from "@remix-run/multipart-parser";
import type { z } from "zod";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { decodeFile } from "../core/pricing/parse/encoding.ts";
import { Failure, tooDeep } from "../operations/errors.ts";
import { maxPricingBytes } from "../operations/catalog/pricing-source.ts";
import type { AppContext } from "./context.ts";

/** Default maximum size of JSON and form bodies. */
export const MAX_BODY_BYTES = 2 * 1024 * 1024;
/** Default maximum nesting depth of a body. */
const MAX_DEPTH = 1000;
/** Maximum fields of a form. Parsing one costs several times as much as the same bytes of JSON. */
const MAX_FORM_FIELDS = 10_000;
/** Twice the usual largest body, 1,000 records of ten fields. Parsing and validating them takes 35 ms. */
const MAX_JSON_VALUES = 20_000;
/** Values of 10,000 members: an object, an id and a name each. */
const MAX_MEMBER_VALUES = 30_010;
const MEMBERS_PATH = /\/contracts\/[^/]+\/members\/*$/;
const JSON_TYPE = "application/json";
/** The path that accepts one JSON value per line. */
const LINES_PATH = "/api/v1/usage";
/** Paths whose bodies are signed. */
const SIGNED_PATHS = "/api/v1/billing/";
/** Bytes that a multipart body may have beside its file. */
const WRAPPING_BYTES = 64 * 1024;
/** Times the size of a pricing that a body with several of them may have. */
const PRICINGS_OF_BODY = 4;
const TOO_LARGE = "File too large";

const bodyTooLarge = (limit: number) =>
  `The request body is larger than ${limit % (1024 * 1024) === 0 ? `${limit / 1024 / 1024} MB` : `${limit / 1024} KB`}`;

/**
 * Reads a whole stream.
 * @throws Failure tooLarge after `limit` bytes, without reading on.
 */
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

/** Converts an aborted or broken transfer to a Failure, because it is not a server error. */
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
 * Returns the body of a GET, which contract listings accept but fetch-style requests hide. Only Node exposes it.
 * Source: contract README, decision 4.
 */
function hiddenBody(bindings: unknown): AsyncIterable<Uint8Array> | undefined {
  if (typeof bindings !== "object" || bindings === null || !("incoming" in bindings)) return undefined;
  const incoming = bindings.incoming;
  if (typeof incoming !== "object" || incoming === null || !(Symbol.asyncIterator in incoming)) return undefined;
  return incoming as AsyncIterable<Uint8Array>;
}

/**
 * Parses a form: `a[b][c]=1` yields nested objects, `a[]=1&a[]=2` and `a=1&a=2` yield lists. Objects have no prototype,
 * which prevents pollution. Ignores names nested deeper than 8 levels.
 * @throws Failure tooLarge for more than MAX_FORM_FIELDS fields.
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

/**
 * Bounds a JSON text before parsing: 150,000 fields take 60 ms to parse and 300 ms to validate, in one go. An empty list
 * or object counts as two values.
 * @throws Failure invalid past `maxDepth` levels of nesting; tooLarge past `maxValues`.
 */
function checkStructure(text: string, maxDepth: number, maxValues = MAX_JSON_VALUES): void {
  // A text this short exceeds neither bound.
  if (text.length <= Math.min(2 * maxDepth, maxValues)) return;
  let depth = 0;
  let values = 0;
  let isText = false;
  for (let i = 0; i < text.length; i += 1) {
    const found = text[i];
    if (isText) {
      if (found === "\\") i += 1;
      else if (found === '"') isText = false;
    } else if (found === '"') isText = true;
    else if (found === ",") values += 1;
    else if (found === "[" || found === "{") {
      depth += 1;
      values += 1;
    } else if (found === "]" || found === "}") depth -= 1;
    if (depth > maxDepth) throw tooDeep(undefined);
    if (values > maxValues) throw new Failure("tooLarge", `The body has more than ${maxValues} values`);
  }
}

/** Parses a JSON text within the bounds of a body. Returns why it is no JSON otherwise. @throws Failure see checkStructure. */
function parseJson(text: string, maxDepth: number, maxValues?: number): { value: unknown } | { cause: unknown } {
  checkStructure(text, maxDepth, maxValues);
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (cause) {
    return { cause };
  }
}

const mediaTypeOf = (contentType: string) =>
  contentType === JSON_TYPE ? JSON_TYPE : contentType.split(";")[0]?.trim().toLowerCase();

/** True for one JSON value per line, which only a batch of usage accepts. */
export function isJsonLines(c: AppContext): boolean {
  return c.req.path === LINES_PATH && mediaTypeOf(c.req.header("content-type") ?? "") === "application/x-ndjson";
}

function parseLines(text: string, maxDepth: number): unknown[] {
  checkStructure(text, maxDepth);
  return text.split("\n").flatMap((line, i) => {
    if (line.trim() === "") return [];
    try {
      return [JSON.parse(line)];
    } catch (cause) {
      throw new Failure("invalid", `INVALID DATA: Line ${i + 1} is not valid JSON`, { cause });
    }
  });
}

function parseBody(contentType: string, text: string, maxDepth: number, maxValues?: number): unknown {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === "application/x-www-form-urlencoded") return parseForm(text);
  if (mediaType !== JSON_TYPE || text.trim() === "") return {};
  const parsed = parseJson(text, maxDepth, maxValues);
  if ("cause" in parsed) throw new Failure("invalid", "INVALID DATA: Malformed JSON body", parsed);
  if (typeof parsed.value !== "object" || parsed.value === null) {
    throw new Failure("invalid", "INVALID DATA: Malformed JSON body");
  }
  return parsed.value;
}

/**
 * Makes the JSON text in a field of a form the body of the request.
 * @throws Failure unprocessable for a missing field, or one that is no JSON.
 */
export function useJsonField(c: AppContext, name: string, field: FormField | undefined): void {
  c.set("body", jsonField(c, name, field));
}

/**
 * Reads the JSON text in a field of a form.
 * @throws Failure unprocessable for a missing field, or one that is no JSON.
 */
export function jsonField(c: AppContext, name: string, field: FormField | undefined): unknown {
  const text = field?.text ?? field?.files[0];
  if (text === undefined) throw new Failure("unprocessable", `The ${name} field is required`);
  const parsed = parseJson(text, c.get("server").settings.maxBodyDepth ?? MAX_DEPTH);
  if ("cause" in parsed) throw new Failure("unprocessable", `The ${name} field must be JSON`, parsed);
  return parsed.value;
}

async function parseArriving(
  c: AppContext,
  contentType: string,
  arriving: Promise<string>,
  maxDepth: number,
): Promise<void> {
  const text = await received(arriving);
  if (isJsonLines(c)) return c.set("body", parseLines(text, maxDepth));
  const maxValues = MEMBERS_PATH.test(c.req.path) ? MAX_MEMBER_VALUES : MAX_JSON_VALUES;
  c.set("body", parseBody(contentType, text, maxDepth, maxValues));
}

/**
 * Stores the parsed body in `c.get("body")`: JSON or form, `{}` for an empty body or another content type. Routes that
 * take a file read multipart bodies themselves. Source: contract users-organizations §1.2.
 */
export function readBody(c: AppContext): MaybePromise<void> {
  if (isSigned(c)) return c.set("body", {});
  const contentType = c.req.header("content-type") ?? "";
  const length = c.req.header("content-length");
  const declared = Number(length ?? 0);
  const isMultipart = contentType !== JSON_TYPE && /^multipart\/form-data\b/i.test(contentType);
  const { maxBodyBytes: limit = MAX_BODY_BYTES, maxBodyDepth = MAX_DEPTH } = c.get("server").settings;
  if (declared > (isMultipart ? maxMultipartBytes(c) : limit)) {
    throw new Failure("tooLarge", isMultipart ? TOO_LARGE : bodyTooLarge(limit));
  }
  if (isMultipart || contentType === "") return c.set("body", {});
  if (c.req.method === "GET" || c.req.method === "HEAD") {
    const hidden = declared > 0 || c.req.header("transfer-encoding") ? hiddenBody(c.env) : undefined;
    return hidden === undefined
      ? c.set("body", {})
      : parseArriving(c, contentType, readText(hidden, limit), maxBodyDepth);
  }
  // The declared length bounds the body, and the runtime reads a whole body fastest.
  if (declared > 0) return parseArriving(c, contentType, c.req.raw.text(), maxBodyDepth);
  if (length === "0") return c.set("body", {});
  const stream = c.req.raw.body;
  return stream === null
    ? c.set("body", {})
    : parseArriving(c, contentType, readText(streamOf(stream), limit), maxBodyDepth);
}

/** Signatures of payment providers cover the bytes of the body, which their route reads with {@link readRawBody}. */
const isSigned = (c: AppContext) => c.req.method === "POST" && c.req.path.startsWith(SIGNED_PATHS);

/**
 * Reads the bytes of a body that readBody has left.
 * @throws Failure tooLarge for more than `limit` bytes.
 */
export async function readRawBody(c: AppContext, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(c.req.header("content-length") ?? 0) > limit) throw new Failure("tooLarge", bodyTooLarge(limit));
  const stream = c.req.raw.body;
  return stream === null ? new Uint8Array() : received(readBytes(streamOf(stream), limit));
}

/** Predictions take several pricings; every other form has one. */
const takesSeveral = (c: AppContext) => c.req.path.endsWith("/impact");

function maxMultipartBytes(c: AppContext): number {
  const pricings = takesSeveral(c) ? PRICINGS_OF_BODY : 1;
  return pricings * maxPricingBytes({ resources: c.get("resources") }) + WRAPPING_BYTES;
}

/** Field of a form: the texts of its files, exactly as sent, or its plain text. */
export interface FormField {
  files: string[];
  text?: string;
}

/**
 * Reads fields of a multipart body into memory. `maxBytes` bounds each file of a field. Undefined for other content
 * types.
 * @throws Failure invalid for a file in another field, a second file in one (unless it is `repeated`), a file that is
 *   not UTF-8, or a malformed body; tooLarge for a file above its bound.
 */
export async function readMultipart<Name extends string>(
  c: AppContext,
  maxBytes: Readonly<Record<Name, number>>,
  repeated?: NoInfer<Name>,
): Promise<Partial<Record<Name, FormField>> | undefined> {
  const contentType = c.req.header("content-type") ?? "";
  const stream = c.req.raw.body;
  if (!/^multipart\/form-data\b/i.test(contentType)) return undefined;
  // readBody has already rejected a larger Content-Length.
  const most =
    repeated === undefined ? Math.max(...Object.values<number>(maxBytes)) + WRAPPING_BYTES : maxMultipartBytes(c);
  const bytes = stream === null ? new Uint8Array() : await received(readBytes(streamOf(stream), most, TOO_LARGE));
  const fields: Partial<Record<Name, FormField>> = {};
  const isWanted = (name: string | undefined): name is Name => name !== undefined && Object.hasOwn(maxBytes, name);
  for (const part of partsOf(bytes, contentType, most)) {
    const { name } = part;
    const field = isWanted(name) ? (fields[name] ??= { files: [] }) : undefined;
    // An empty file input sends a file without name and content.
    if (part.isFile && (part.filename !== "" || part.size > 0)) {
      if (!isWanted(name) || field === undefined || (field.files.length > 0 && name !== repeated)) {
        throw new Failure("invalid", "Unexpected field");
      }
      if (part.size > maxBytes[name]) throw new Failure("tooLarge", TOO_LARGE);
      field.files.push(exactText(part));
    } else if (!part.isFile && field !== undefined) {
      field.text ??= part.text;
    }
  }
  return fields;
}

function partsOf(bytes: Uint8Array, contentType: string, most: number): MultipartPart[] {
  const boundary = getMultipartBoundary(contentType);
  // RFC 2046 allows 70 characters; the cost of the search grows with the length.
  if (boundary === null || boundary.length > 70) throw malformed("INVALID DATA: Malformed multipart boundary");
  const start = openingLine(bytes, new TextEncoder().encode(`--${boundary}`));
  try {
    // Multipart allows a preamble before the first boundary; the parser does not.
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

/** Returns the offset of the first line that starts with the delimiter; 0 if none does. */
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
  const decoded = decodeFile(part.bytes);
  if (decoded.ok) return decoded.text;
  const { message, line, column } = decoded;
  throw new Failure("invalid", `Pricing parsing error: ${message}`, {
    problems: [{ message, path: "", line, column }],
  });
}

/** Returns the parsed body; `{}` for a list, which has no fields. */
export function fieldsOf(c: AppContext): unknown {
  const body = c.get("body");
  return Array.isArray(body) ? {} : body;
}

/** Names the field of a check that has no sentence of its own, because the library's sentences name none. */
const fieldError = ({ path = [] }: { readonly path?: PropertyKey[] | undefined }): string =>
  path.length === 0 ? "The body is not valid" : `The ${path.join(".")} field is not valid`;

/**
 * Validates the parsed body and drops unknown fields, so that they are never stored. A list counts as a body without
 * fields unless the schema has its own sentence for a wrong type.
 *
 * Handlers call it after their permission checks, which the contract puts first. As middleware, @hono/zod-validator would
 * run before them.
 * @throws Failure unprocessable with the sentence of the first failing check, in the schema's order of fields. An unknown
 * field of a strict schema comes first, or after those with `unknownFieldsLast`.
 */
export function bodyOf<T>(c: AppContext, schema: z.ZodType<T>, order?: "unknownFieldsLast"): T {
  const result = schema.safeParse(schema.def.error === undefined ? fieldsOf(c) : c.get("body"), { error: fieldError });
  if (result.success) return result.data;
  const { issues } = result.error;
  const isUnknown = ({ code }: z.core.$ZodIssue) => code === "unrecognized_keys";
  const known = order === undefined ? undefined : issues.find((issue) => !isUnknown(issue));
  const first = known ?? issues.find(isUnknown) ?? issues[0];
  throw new Failure("unprocessable", first?.message ?? fieldError({}));
}
