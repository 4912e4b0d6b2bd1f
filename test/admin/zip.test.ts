import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { zipOf } from "../../src/admin/zip.ts";

/** Reads an archive by its directory, and checks each file's sum. */
async function read(archive: Blob): Promise<[string, string][]> {
  const bytes = Buffer.from(await archive.arrayBuffer());
  const end = bytes.length - 22;
  expect(bytes.readUInt32LE(end)).toBe(0x06054b50);
  const files: [string, string][] = [];
  let at = bytes.readUInt32LE(end + 16);
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left -= 1) {
    expect(bytes.readUInt32LE(at)).toBe(0x02014b50);
    const [sum, size, length, local] = [16, 24, 28, 42].map((field) =>
      field === 28 ? bytes.readUInt16LE(at + field) : bytes.readUInt32LE(at + field),
    ) as [number, number, number, number];
    const name = bytes.toString("utf8", at + 46, at + 46 + length);
    expect(bytes.readUInt32LE(local)).toBe(0x04034b50);
    expect(bytes.toString("utf8", local + 30, local + 30 + length)).toBe(name);
    const content = bytes.subarray(local + 30 + length, local + 30 + length + size);
    expect(crc32(content)).toBe(sum);
    files.push([name, content.toString("utf8")]);
    at += 46 + length;
  }
  expect(at).toBe(end);
  return files;
}

test("an archive has every text under its path", async () => {
  const files = new Map([
    ["faregate.yml", "faregate: 1\n"],
    ["zürich/1.0.0.yml", "saasName: Zürich ✓\r\n".repeat(1000)],
    ["empty.yml", ""],
  ]);
  expect(await read(zipOf(files))).toEqual([...files]);
  expect(await read(zipOf(new Map()))).toEqual([]);
});
