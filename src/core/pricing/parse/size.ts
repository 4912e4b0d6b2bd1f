import type { FeatureValue, JsonValue } from "../model.ts";

/** Maximum size of a stored model, in bytes of JSON: four times the longest accepted text. */
export const MAX_MODEL_BYTES = 8 * 1024 * 1024;

/** Returns the cost of repeating a text: 1, as for any value, plus 1 per 64 characters. */
export function textWeight(length: number): number {
  return 1 + Math.floor(length / 64);
}

/** Returns the number of text characters in a feature's value. */
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
 * Returns the bytes of `data` as JSON in UTF-8, or any number above `limit` if there are more.
 *
 * Builds no string. A model that shares one text among many plans is small in memory, but half a gigabyte as JSON.
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
