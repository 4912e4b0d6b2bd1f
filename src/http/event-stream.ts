import { Failure } from "../operations/errors.ts";

/** Reconnection delay of clients, and pause after a failed read. */
export const RETRY_MS = 1000;
export const STREAM_HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-store",
  "X-Accel-Buffering": "no",
};

/** Content of a stream, as text of Server-Sent Events. */
export interface StreamSource {
  /** Text that is sent at once. */
  first: string;
  /**
   * Returns the next text. The signal aborts when the stream is closed.
   * @throws Failure unauthenticated, forbidden or notFound when the caller may no longer read: ends the stream.
   */
  next(closed: AbortSignal): Promise<string>;
}

/** Reads only as fast as the client, so that nothing is buffered for a slow one. */
export function eventStream(
  source: StreamSource,
  options: {
    closed: AbortController;
    stopping: AbortSignal | undefined;
    maxStallMs: number;
    onError: (error: unknown) => void;
  },
): ReadableStream<Uint8Array> {
  const { closed, stopping } = options;
  const encoder = new TextEncoder();
  let stalled: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    clearTimeout(stalled);
    stopping?.removeEventListener("abort", end);
    closed.abort();
  };
  stopping?.addEventListener("abort", end);
  if (stopping?.aborted === true) end();
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(source.first)),
      pull: async (controller) => {
        clearTimeout(stalled);
        const text = await source.next(closed.signal).catch((error: unknown) => {
          if (error instanceof Failure && error.code !== "unavailable") {
            end();
            return "";
          }
          options.onError(error);
          return pauseThenBeat(closed.signal);
        });
        if (closed.signal.aborted) return controller.close();
        controller.enqueue(encoder.encode(text));
        stalled = setTimeout(() => {
          end();
          controller.error(new Error("the client stopped reading its stream"));
        }, options.maxStallMs);
        return undefined;
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** Runs a read whose signal aborts after this many milliseconds, or when the stream is closed. */
export async function readFor<T>(
  milliseconds: number,
  closed: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const turn = new AbortController();
  const over = () => turn.abort();
  const timer = setTimeout(over, milliseconds);
  if (closed.aborted) over();
  closed.addEventListener("abort", over);
  try {
    return await read(turn.signal);
  } finally {
    clearTimeout(timer);
    closed.removeEventListener("abort", over);
  }
}

async function pauseThenBeat(closed: AbortSignal): Promise<string> {
  if (!closed.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  return ":\n\n";
}
