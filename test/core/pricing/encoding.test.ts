import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeFile } from "../../../src/core/pricing/parse/encoding.ts";

const TEXT = "# Größen\nsaasName: Café\nversion: 1.0\n";
const swapped = (bytes: Buffer) => Buffer.from(bytes).swap16();

describe("the encoding of a file", () => {
  it.each([
    ["UTF-16", Buffer.from(`\uFEFF${TEXT}`, "utf16le"), 1, 1, "The file is encoded in UTF-16. Save it as UTF-8."],
    ["UTF-16", swapped(Buffer.from(`\uFEFF${TEXT}`, "utf16le")), 1, 1, "The file is encoded in UTF-16. Save it as UTF-8."],
    ["UTF-16", Buffer.from(TEXT, "utf16le"), 1, 1, "The file is encoded in UTF-16. Save it as UTF-8."],
    ["UTF-16", swapped(Buffer.from(TEXT, "utf16le")), 1, 1, "The file is encoded in UTF-16. Save it as UTF-8."],
    ["UTF-32", Buffer.from([0xff, 0xfe, 0, 0, 0x61, 0, 0, 0]), 1, 1, "The file is encoded in UTF-32. Save it as UTF-8."],
    ["gzip", gzipSync(TEXT), 1, 1, "The file is compressed with gzip. Unpack it first."],
    ["ZIP", Buffer.from("PK\u0003\u0004rest"), 1, 1, "The file is a ZIP archive. Unpack it first."],
    ["Latin-1", Buffer.from(TEXT, "latin1"), 1, 5, "The file is not encoded in UTF-8, but probably in Latin-1. Save it as UTF-8."],
    ["Latin-1", Buffer.from('saasName: "Café', "latin1"), 1, 15, "The file is not encoded in UTF-8, but probably in Latin-1. Save it as UTF-8."],
    ["unknown", Buffer.from([0xff, 0xfe, 0xfd]), 1, 1, "The file does not contain valid YAML content."],
    ["unknown", Buffer.from([0xfe, 0xff, 0x00, 0x61, 0x0a]), 1, 1, "The file does not contain valid YAML content."],
    ["UTF-16", Buffer.from([0xff, 0xfe, 0, 0, 0x61, 0]), 1, 1, "The file is encoded in UTF-16. Save it as UTF-8."],
    ["unknown", Buffer.from([0x89, 0x50, 0x4e, 0x47]), 1, 1, "The file does not contain valid YAML content."],
  ] as const)("%s is named, with the place of its first byte", (encoding, bytes, line, column, message) => {
    expect(decodeFile(bytes)).toEqual({ ok: false, encoding, line, column, message });
  }); // prettier-ignore

  it("is UTF-8 for every text, whose byte order mark stays", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", ":", "\n", "é", "ß", "😀", "中", "\uFEFF") }), (text) => {
        expect(decodeFile(new TextEncoder().encode(text))).toEqual({ ok: true, text });
      }),
    );
  });

  it("never fails on arbitrary bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        expect(decodeFile(bytes).ok).toBeTypeOf("boolean");
      }),
    );
  });
});
