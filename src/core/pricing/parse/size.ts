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

const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/** Returns the bytes of a text in JSON. Stops counting above `limit`, which bounds the time per text. */
function bytesOfText(text: string, limit: number): number {
  if (text.length > limit || PLAIN.test(text)) return text.length + 2;
  let bytes = 2;
  for (let at = 0; at < text.length && bytes <= limit; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22 || code === 0x5c) bytes += 2;
    else if (code < 0x20) bytes += code >= 8 && code <= 13 && code !== 11 ? 2 : 6;
    // Count each half of a surrogate pair as two of its four bytes.
    else bytes += code < 0x80 ? 1 : code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 2 : 3;
  }
  return bytes;
}

/**
 * Returns the bytes of `data` as JSON in UTF-8, or any number above `limit` if there are more.
 *
 * Builds no string. A model that shares one text among many plans is small in memory, but half a gigabyte as JSON.
 */
export function jsonBytes(data: object | JsonValue | undefined, limit: number): number {
  if (typeof data === "string") return bytesOfText(data, limit);
  if (typeof data !== "object" || data === null) return String(data).length;
  let bytes = 2;
  if (Array.isArray(data)) {
    for (const item of data as readonly JsonValue[]) {
      if (bytes > limit) return bytes;
      bytes += jsonBytes(item, limit - bytes) + 1;
    }
    return bytes;
  }
  for (const [key, value] of Object.entries(data as Readonly<Record<string, JsonValue | undefined>>)) {
    if (bytes > limit) return bytes;
    if (value !== undefined) bytes += bytesOfText(key, limit) + jsonBytes(value, limit - bytes) + 2;
  }
  return bytes;
}
