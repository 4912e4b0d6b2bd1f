import { getMultipartBoundary, type MultipartPart, parseMultipart } from "@remix-run/multipart-parser";
import { decodeFile } from "../core/pricing/parse/encoding.ts";
import { maxPricingBytes } from "../operations/catalog/pricing-source.ts";
import { Failure } from "../operations/errors.ts";
import { readBytes, received, streamOf } from "./body-bytes.ts";
import { MAX_DEPTH, parseJson } from "./body-text.ts";
import type { AppContext } from "./context.ts";

/* Forms with files: pricings, expectations and the JSON beside them. */

/** Bytes that a multipart body may have beside its file. */
const WRAPPING_BYTES = 64 * 1024;
/** Times the size of a pricing that a body with several of them may have. */
const PRICINGS_OF_BODY = 4;
/** Sentence of the refusal of a file above its bound. */
export const TOO_LARGE = "File too large";

/** Predictions take several pricings; every other form has one. */
const takesSeveral = (c: AppContext) => c.req.path.endsWith("/impact");

/** Maximum size of a multipart body of this request. */
export function maxMultipartBytes(c: AppContext): number {
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
