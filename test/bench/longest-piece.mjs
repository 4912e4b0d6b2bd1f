import { readFileSync, writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

/*
 * Preloaded into a server: measures the processor time of its main thread between turns of the event loop, which bounds its longest
 * synchronous piece. The delay of the loop also counts the time in which a busy machine runs something else. SIGUSR2 writes the
 * longest piece so far, in milliseconds, into the file LONGEST_PIECE, and begins anew. Linux alone counts this time.
 */
if (isMainThread) {
  // Nanoseconds on a processor, of the thread whose id is that of the process.
  const read = () => Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  let longest = 0;
  let last = read();
  setInterval(() => {
    const now = read();
    longest = Math.max(longest, now - last);
    last = now;
  }, 5).unref();
  process.on("SIGUSR2", () => {
    writeFileSync(process.env.LONGEST_PIECE, String(longest));
    longest = 0;
  });
}
