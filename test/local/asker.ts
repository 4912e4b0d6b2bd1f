import { createLocalEvaluator } from "../../src/local/local.ts";

/*
 * A back end of its own, on any runtime: asks about one user all the time, and prints each answer with the moment until
 * which it is known to be true, until standard input ends.
 */

declare const Deno: { args: string[] } | undefined;
const [url = "", apiKey = "", userId = ""] = typeof Deno === "undefined" ? process.argv.slice(2) : Deno.args;
const local = createLocalEvaluator({ url, apiKey, maxStaleMs: 60_000, timeoutMs: 1000, retries: 0 });
for (let closing = Date.now() + 180_000; Date.now() < closing;) {
  const answer = await local.evaluate(userId, "tasker-darkMode").catch(() => undefined);
  const knownAt = answer?.ageMs == null ? null : Date.now() - answer.ageMs - 1;
  console.log(JSON.stringify({ knownAt, eval: answer?.eval, stale: answer?.stale, state: local.state }));
  await new Promise((resolve) => setTimeout(resolve, 20));
}
await local.close();
