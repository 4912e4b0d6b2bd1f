import { asFailure } from "../operations/errors.ts";
import type { Progress, Watch } from "../operations/policy/change-impact.ts";
import { type AppContext, logRequest } from "./context.ts";
import { UNEXPECTED } from "./errors.ts";

/** Longest time between two lines of a streamed answer. */
const PROGRESS_MS = 500;

/** True if the caller asks for the answer line by line. */
export const wantsLines = (c: AppContext): boolean => /\bapplication\/x-ndjson\b/i.test(c.req.header("accept") ?? "");

/** Answers line by line; see {@link lines}. */
export const replyLines = (c: AppContext, run: (watch: Watch) => Promise<object>): Response =>
  c.body(lines(c, run), 200, {
    "Content-Type": "application/x-ndjson; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
  });

/**
 * Streams the answer line by line: `{"progress": …}`, then `{"report": …}` or `{"error": …}`. Stops the work when the
 * client leaves.
 */
function lines(c: AppContext, run: (watch: Watch) => Promise<object>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const left = new AbortController();
  let lastLine = performance.now();
  let lastProgress: Progress | undefined;
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      const write = (value: object) => {
        if (!left.signal.aborted) controller.enqueue(encoder.encode(`${JSON.stringify(value)}\n`));
        lastLine = performance.now();
      };
      const onProgress = (progress: Progress) => {
        // Small configurations are assessed hundreds of times per second.
        const isFrequent = progress.configurations !== undefined && performance.now() - lastLine < PROGRESS_MS;
        lastProgress = progress;
        if (!isFrequent) write({ progress });
      };
      // A slow step must not look like a lost connection.
      const repeat = setInterval(() => {
        if (lastProgress !== undefined && performance.now() - lastLine >= PROGRESS_MS)
          write({ progress: lastProgress });
      }, PROGRESS_MS);
      void run({ signal: left.signal, onProgress })
        .then((report) => write({ report }))
        .catch((error: unknown) => {
          const failure = asFailure(error);
          if (failure === undefined) logRequest(c, "error", "unexpected error", error);
          write({ error: failure?.message ?? UNEXPECTED });
        })
        .then(() => {
          clearInterval(repeat);
          if (!left.signal.aborted) controller.close();
        });
    },
    cancel: () => left.abort(),
  });
}
