import { pause } from "../operations/state/analysis.ts";
import { reply } from "./reply.ts";
import { logRequest, type AppContext } from "./context.ts";

/** A longer chunk is written in pieces, and others are served between them: writing 4 MB at once takes 10 ms. */
const PIECE_BYTES = 256 * 1024;

/**
 * Answers with text that is written chunk by chunk as the client reads, so that memory holds one. A failure after the first
 * byte breaks the connection, because a truncated answer must not look complete.
 */
export function replyChunks(
  c: AppContext,
  chunks: AsyncIterable<string>,
  headers: Readonly<Record<string, string>>,
): Response {
  const encoder = new TextEncoder();
  const reader = chunks[Symbol.asyncIterator]();
  let rest = new Uint8Array();
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          if (rest.length > 0) await pause();
          else {
            const { done, value } = await reader.next();
            if (done === true) return controller.close();
            rest = encoder.encode(value);
          }
          controller.enqueue(rest.subarray(0, PIECE_BYTES));
          rest = rest.subarray(PIECE_BYTES);
        } catch (error) {
          logRequest(c, "error", "the response was not sent completely", error);
          controller.error(error);
        }
      },
      cancel: async () => {
        await reader.return?.();
      },
    },
    { highWaterMark: 0 },
  );
  return reply(c, stream, 200, headers);
}

/** Answers with a list of JSON texts, written batch by batch; see replyChunks. */
export function replyList(c: AppContext, batches: AsyncIterable<readonly string[]>): Response {
  return replyChunks(c, listChunks(batches), { "Content-Type": "application/json; charset=utf-8" });
}

async function* listChunks(batches: AsyncIterable<readonly string[]>): AsyncIterable<string> {
  let before = "[";
  for await (const batch of batches) {
    for (const item of batch) {
      yield before + item;
      before = ",";
    }
  }
  yield before === "[" ? "[]" : "]";
}
