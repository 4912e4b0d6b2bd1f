import { positions } from "./yaml.ts";

/** Encodings and formats of files that are no text in UTF-8. */
export type WrongEncoding = "UTF-16" | "UTF-32" | "Latin-1" | "gzip" | "ZIP" | "unknown";

/** The text of a file, or why its bytes are none. Line and column start at 1. */
export type DecodedFile =
  | { readonly ok: true; readonly text: string }
  | {
      readonly ok: false;
      readonly encoding: WrongEncoding;
      readonly message: string;
      readonly line: number;
      readonly column: number;
    };

/**
 * First bytes of files that are no text, or text in another encoding, and the bytes per code unit: a file that cuts a
 * unit is not in that encoding. UTF-32 begins like UTF-16.
 */
const SIGNATURES: readonly (readonly [encoding: WrongEncoding, unitBytes: number, bytes: readonly number[]])[] = [
  ["gzip", 1, [0x1f, 0x8b]],
  ["ZIP", 1, [0x50, 0x4b, 0x03, 0x04]],
  ["UTF-32", 4, [0xff, 0xfe, 0, 0]],
  ["UTF-32", 4, [0, 0, 0xfe, 0xff]],
  ["UTF-16", 2, [0xff, 0xfe]],
  ["UTF-16", 2, [0xfe, 0xff]],
];
const SENTENCES: Readonly<Record<WrongEncoding, string>> = {
  "UTF-16": "The file is encoded in UTF-16. Save it as UTF-8.",
  "UTF-32": "The file is encoded in UTF-32. Save it as UTF-8.",
  "Latin-1": "The file is not encoded in UTF-8, but probably in Latin-1. Save it as UTF-8.",
  gzip: "The file is compressed with gzip. Unpack it first.",
  ZIP: "The file is a ZIP archive. Unpack it first.",
  unknown: "The file does not contain valid YAML content.",
};
/** A key at the start of a line, which a YAML file has and arbitrary bytes have not. */
const KEY = /^[\t "']*[\w-]+["']?[\t ]*:/m;

/**
 * Decodes a file as UTF-8 without loss: keeps a byte order mark, and rejects invalid bytes with the encoding that they
 * probably have.
 */
export function decodeFile(bytes: Uint8Array): DecodedFile {
  const encoding = SIGNATURES.find(
    ([, unitBytes, start]) => bytes.length % unitBytes === 0 && start.every((byte, index) => bytes[index] === byte),
  )?.[0];
  if (encoding !== undefined) return refused(encoding);
  // Latin letters in UTF-16 without a byte order mark have a null byte on one side.
  if (isNull(bytes, 0, 2) || isNull(bytes, 1, 3)) return refused("UTF-16");
  try {
    return { ok: true, text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    const text = new TextDecoder("windows-1252").decode(bytes);
    if (!KEY.test(text)) return refused("unknown");
    return refused("Latin-1", positions(text)(firstInvalid(bytes)));
  }
}

const isNull = (bytes: Uint8Array, ...at: readonly number[]): boolean =>
  bytes.length >= 4 && bytes.some((byte) => byte !== 0) && at.every((index) => bytes[index] === 0);

const refused = (encoding: WrongEncoding, { line, column } = { line: 1, column: 1 }): DecodedFile => ({
  ok: false,
  encoding,
  message: SENTENCES[encoding],
  line,
  column,
});

/** Returns the offset of the first byte that is no UTF-8. One byte is one character in Latin-1. */
function firstInvalid(bytes: Uint8Array): number {
  let low = 0;
  let high = bytes.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    // `stream` accepts a character that the slice cuts in half.
    if (isValid(bytes.subarray(0, middle))) low = middle;
    else high = middle;
  }
  return low;
}

function isValid(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}
