import type { Readable } from "node:stream";

/**
 * Splits a text in UTF-8 into its lines, at \n and \r\n alone. Node's `readline` also splits at U+2028 and U+2029, which texts in JSON
 * may have.
 */
export async function* linesOf(bytes: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Parts of the line that has not ended. They are joined once, because a line may have as many as a whole file. */
  let parts: string[] = [];
  for await (const chunk of bytes) {
    // A stream without an encoding yields bytes.
    const [first = "", ...others] = decoder.decode(chunk as Uint8Array, { stream: true }).split("\n");
    parts.push(first);
    for (const next of others) {
      yield withoutReturn(parts.join(""));
      parts = [next];
    }
  }
  const last = parts.join("") + decoder.decode();
  if (last !== "") yield withoutReturn(last);
}

const withoutReturn = (line: string) => (line.endsWith("\r") ? line.slice(0, -1) : line);
