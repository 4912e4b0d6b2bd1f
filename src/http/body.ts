import type { z } from "zod";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { Failure } from "../operations/errors.ts";
import { bodyTooLarge, hiddenBody, readBytes, readText, received, streamOf } from "./body-bytes.ts";
import { JSON_TYPE, MAX_DEPTH, MAX_JSON_VALUES, mediaTypeOf, parseBody, parseLines } from "./body-text.ts";
import type { AppContext } from "./context.ts";
import { refuseSurrogates } from "./unstorable.ts";
import { maxMultipartBytes, TOO_LARGE } from "./multipart.ts";

/** Default maximum size of JSON and form bodies. */
export const MAX_BODY_BYTES = 2 * 1024 * 1024;
/** Values of 10,000 members: an object, an id and a name each. */
const MAX_MEMBER_VALUES = 30_010;
const MEMBERS_PATH = /\/contracts\/[^/]+\/members\/*$/;
/** The path that accepts one JSON value per line. */
const LINES_PATH = "/api/v1/usage";
/** UTF-8 has no surrogates, so that those of a body are escaped. */
const ESCAPED_SURROGATE = /\\u[dD][89a-fA-F]/;
/** Paths whose bodies are signed. */
const SIGNED_PATHS = "/api/v1/billing/";

/** True for one JSON value per line, which only a batch of usage accepts. */
export function isJsonLines(c: AppContext): boolean {
  return c.req.path === LINES_PATH && mediaTypeOf(c.req.header("content-type") ?? "") === "application/x-ndjson";
}

async function parseArriving(
  c: AppContext,
  contentType: string,
  arriving: Promise<string>,
  maxDepth: number,
): Promise<void> {
  const text = await received(arriving);
  c.get("request").escapesSurrogate = ESCAPED_SURROGATE.test(text);
  try {
    if (isJsonLines(c)) return c.set("body", parseLines(text, maxDepth));
    const maxValues = MEMBERS_PATH.test(c.req.path) ? MAX_MEMBER_VALUES : MAX_JSON_VALUES;
    c.set("body", parseBody(contentType, text, maxDepth, maxValues));
  } catch (error) {
    const encoding = c.req.header("content-encoding");
    if (encoding === undefined || encoding === "identity") throw error;
    throw new Failure("invalid", `INVALID DATA: The body must not be compressed (Content-Encoding: ${encoding})`);
  }
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
  const declared = Number(c.req.header("content-length") ?? 0);
  if (declared > limit) throw new Failure("tooLarge", bodyTooLarge(limit));
  // As in readBody.
  if (declared > 0) return new Uint8Array(await received(c.req.raw.arrayBuffer()));
  const stream = c.req.raw.body;
  return stream === null ? new Uint8Array() : received(readBytes(streamOf(stream), limit));
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
 * field of a strict schema comes first, or after those with `unknownFieldsLast`. Failure invalid for a text that cannot be
 * stored.
 */
export function bodyOf<T>(c: AppContext, schema: z.ZodType<T>, order?: "unknownFieldsLast"): T {
  const given = schema.def.error === undefined ? fieldsOf(c) : c.get("body");
  const result = schema.safeParse(given);
  if (result.success) {
    refuseSurrogates(c, result.data);
    return result.data;
  }
  // Only an invalid body needs the sentences: passing them with a valid one doubles its time.
  const { issues } = schema.safeParse(given, { error: fieldError }).error ?? result.error;
  const isUnknown = ({ code }: z.core.$ZodIssue) => code === "unrecognized_keys";
  const known = order === undefined ? undefined : issues.find((issue) => !isUnknown(issue));
  const first = known ?? issues.find(isUnknown) ?? issues[0];
  throw new Failure("unprocessable", first?.message ?? fieldError({}));
}
