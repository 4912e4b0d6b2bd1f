/** Remainders of CRC-32 by byte. Source: PKZIP APPNOTE §4.4.7. */
const REMAINDERS = Uint32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit += 1) remainder = remainder & 1 ? (remainder >>> 1) ^ 0xed_b8_83_20 : remainder >>> 1;
  return remainder;
});

function crc32(bytes: Uint8Array): number {
  let sum = 0xff_ff_ff_ff;
  for (const byte of bytes) sum = (sum >>> 8) ^ (REMAINDERS[(sum ^ byte) & 0xff] ?? 0);
  return (sum ^ 0xff_ff_ff_ff) >>> 0;
}

/** Encodes numbers as little-endian fields of this many bytes each. */
function fields(...values: readonly (readonly [value: number, bytes: 2 | 4])[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(
    values.flatMap(([value, bytes]) => Array.from({ length: bytes }, (_, at) => (value >>> (8 * at)) & 0xff)),
  );
}

/** Version 2.0, names in UTF-8, stored without compression, 1980-01-01. */
const FORMAT = [
  [20, 2],
  [0x08_00, 2],
  [0, 2],
  [0, 2],
  [0x00_21, 2],
] as const;

/** Writes a ZIP archive of these texts, uncompressed. Equal texts give equal bytes. */
export function zipOf(files: ReadonlyMap<string, string>): Blob {
  const encoder = new TextEncoder();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const [path, text] of files) {
    const [name, bytes] = [encoder.encode(path), encoder.encode(text)];
    const sizes = [
      [crc32(bytes), 4],
      [bytes.length, 4],
      [bytes.length, 4],
      [name.length, 2],
      [0, 2],
    ] as const;
    const local = fields([0x04_03_4b_50, 4], ...FORMAT, ...sizes);
    parts.push(local, name, bytes);
    const place = [
      [0, 2],
      [0, 2],
      [0, 2],
      [0, 4],
      [offset, 4],
    ] as const;
    directory.push(fields([0x02_01_4b_50, 4], [20, 2], ...FORMAT, ...sizes, ...place), name);
    offset += local.length + name.length + bytes.length;
  }
  const length = directory.reduce((sum, part) => sum + part.length, 0);
  const end = fields(
    [0x06_05_4b_50, 4],
    [0, 2],
    [0, 2],
    [files.size, 2],
    [files.size, 2],
    [length, 4],
    [offset, 4],
    [0, 2],
  );
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
