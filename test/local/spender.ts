import { openSync, writeSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { ServiceRequestError } from "../../src/client/service-request-error.ts";
import { createLocalEvaluator } from "../../src/local/local.ts";

/*
 * This back end spends one feature of its users at random: most of the first, steadily of the last. It journals each spend
 * before and after it, until standard input ends. A line `user amount` there is one more spend, which it prints.
 */

const [url = "", apiKey = "", featureId = "", limitId = "", users = "", path = ""] = process.argv.slice(2);
const PAUSE_MS = 50;

const local = createLocalEvaluator({
  url,
  apiKey,
  leaseSeconds: 2,
  maxStaleMs: 5_000,
  timeoutMs: 2_000,
  deadlineMs: 4_000,
});
const journal = openSync(path, "a");
const write = (...words: (string | number)[]) => writeSync(journal, `${words.join(" ")}\n`);
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let spends = 0;

/** Spends once. A call that may have counted is sent again with its key until it is answered. */
async function spend(userId: string, amount: number) {
  const id = (spends += 1);
  const consumption = { [limitId]: amount };
  let idempotencyKey: string | undefined;
  write("try", id, userId, amount);
  for (;;) {
    // A memory answer comes before anything else that waits for the event loop.
    let hasTurned = false;
    setImmediate(() => (hasTurned = true));
    try {
      const answer = await local.evaluate(userId, featureId, { consumption, idempotencyKey });
      const how = answer.source === "lease" && !hasTurned ? "memory" : answer.source;
      write(answer.eval ? "spent" : "denied", id, how, Date.now());
      return answer;
    } catch (error) {
      if (!(error instanceof ServiceRequestError)) throw error;
      idempotencyKey = error.idempotencyKey ?? idempotencyKey;
      await pause(50);
    }
  }
}

const ending = new AbortController();
const ids = users.split(",").filter((id) => id !== "");
async function run(next: () => [userId: string, amount: number]): Promise<void> {
  while (!ending.signal.aborted) {
    await spend(...next());
    await pause(PAUSE_MS * Math.random());
  }
}

/** The first users are the hottest. */
const anyone = (): [string, number] => [
  ids[Math.floor(Math.random() ** 2 * ids.length)] ?? "",
  1 + Math.floor(Math.random() * 5),
];
// One loop never waits for the calls of other users.
const favourite = (): [string, number] => [ids.at(-1) ?? "", 1];
const loops = ids.length === 0 ? [] : [favourite, anyone, anyone, anyone].map(run);
for await (const line of createInterface({ input: process.stdin })) {
  const [userId = "", amount = "0"] = line.split(" ");
  const { eval: isOn, source } = await spend(userId, Number(amount));
  console.log(JSON.stringify({ eval: isOn, source }));
}
ending.abort();
await Promise.all(loops);
await local.close();
write("closed");
