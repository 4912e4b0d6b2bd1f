import { Failure } from "../operations/errors.ts";

/* How the bytes of a body arrive, and their bounds. */

/** Sentence of the refusal of a larger body. */
export const bodyTooLarge = (limit: number) =>
  `The request body is larger than ${limit % (1024 * 1024) === 0 ? `${limit / 1024 / 1024} MB` : `${limit / 1024} KB`}`;

/**
 * Reads a whole stream.
 * @throws Failure tooLarge after `limit` bytes, without reading on.
 */
export async function readBytes(
  chunks: AsyncIterable<Uint8Array>,
  limit: number,
  sentence = bodyTooLarge(limit),
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    if (size > limit) throw new Failure("tooLarge", sentence);
    parts.push(chunk);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}

/** Converts an aborted or broken transfer to a Failure, because it is not a server error. */
export async function received<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    throw new Failure("invalid", "INVALID DATA: The request body did not arrive completely", { cause });
  }
}

/** Reads a whole stream as UTF-8. @throws Failure tooLarge after `limit` bytes. */
export async function readText(chunks: AsyncIterable<Uint8Array>, limit: number): Promise<string> {
  return new TextDecoder().decode(await readBytes(chunks, limit));
}

/** Iterates a body, and cancels it when the iteration stops early. */
export async function* streamOf(body: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Returns the body of a GET, which contract listings accept but fetch-style requests hide. Only Node exposes it.
 * Source: contract README, decision 4.
 */
export function hiddenBody(bindings: unknown): AsyncIterable<Uint8Array> | undefined {
  if (typeof bindings !== "object" || bindings === null || !("incoming" in bindings)) return undefined;
  const incoming = bindings.incoming;
  if (typeof incoming !== "object" || incoming === null || !(Symbol.asyncIterator in incoming)) return undefined;
  return incoming as AsyncIterable<Uint8Array>;
}
