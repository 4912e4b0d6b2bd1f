import type { FeatureValue, JsonValue } from "../model.ts";

/** The largest model that is stored, in bytes of its JSON; four times the longest text that is read. */
export const MAX_MODEL_BYTES = 8 * 1024 * 1024;

/** What a text of this length costs where it is repeated: one, as any value, and one more for every 64 characters. */
export function textWeight(length: number): number {
  return 1 + Math.floor(length / 64);
}

/** Characters of a feature's value as far as it is text. */
export function textLength(value: FeatureValue): number {
  if (typeof value === "string") return value.length;
  return typeof value === "object" ? value.reduce((sum, method) => sum + method.length, 0) : 0;
}

const encoder = new TextEncoder();

/** Bytes of a text in JSON; a text longer than `limit` is not encoded, so that one text costs no more than what may be stored. */
function bytesOfText(text: string, limit: number): number {
  return text.length > limit ? text.length : encoder.encode(JSON.stringify(text)).length;
}

/**
 * Bytes of `data` as JSON in UTF-8, or some number above `limit` once they are more.
 *
 * Builds no string: a model that shares one text among many plans is small in memory and would be half a gigabyte as JSON.
 */
export function jsonBytes(data: object | JsonValue | undefined, limit: number): number {
  if (typeof data === "string") return bytesOfText(data, limit);
  if (typeof data !== "object" || data === null) return String(data).length;
  const isList = Array.isArray(data);
  let bytes = 2;
  for (const [key, value] of Object.entries(data as Readonly<Record<string, JsonValue | undefined>>)) {
    if (bytes > limit) break;
    if (value === undefined) continue;
    if (!isList) bytes += bytesOfText(key, limit) + 1;
    bytes += jsonBytes(value, limit - bytes) + 1;
  }
  return bytes;
}
