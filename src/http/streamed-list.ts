import { reply } from "./reply.ts";
import { logRequest, type AppContext } from "./context.ts";

/**
 * Answers with a list of JSON texts. Writes it batch by batch as the client reads, so that memory holds one batch. A
 * failure after the first byte breaks the connection, because a truncated list must not look complete.
 */
export function replyList(c: AppContext, batches: AsyncIterable<readonly string[]>): Response {
  const encoder = new TextEncoder();
  const reader = batches[Symbol.asyncIterator]();
  let isFirst = true;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await reader.next();
          if (done === true) {
            controller.enqueue(encoder.encode(isFirst ? "[]" : "]"));
            return controller.close();
          }
          for (const item of value) {
            controller.enqueue(encoder.encode(`${isFirst ? "[" : ","}${item}`));
            isFirst = false;
          }
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
  return reply(c, stream, 200, { "Content-Type": "application/json; charset=utf-8" });
}
