import { expect, test } from "vitest";
import { createMessageQueue, messagesAtOnce } from "../../../src/operations/state/message-queue.ts";

/** Work that lasts until `finish` is called. */
function openWork(log: string[], name: string) {
  let finish = () => {};
  const done = new Promise<void>((resolve) => (finish = resolve));
  const work = async () => {
    log.push(name);
    await done;
    return name;
  };
  return { work, finish: () => finish() };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

test("messages may pin four of ten connections of a pool, and at least one", () => {
  expect([1, 2, 5, 10, 100].map(messagesAtOnce)).toEqual([1, 1, 2, 4, 40]);
});

test("a process applies a bounded number of messages at once, each connection's in order, and connections in turn", async () => {
  const queue = createMessageQueue({ concurrency: 2 });
  const begun: string[] = [];
  const works = ["a1", "a2", "a3", "a4", "b1"].map((name) => openWork(begun, name));
  const done = works.map(({ work }, i) => queue.run(i === 4 ? "b" : "a", work));
  await settled();
  expect(begun).toEqual(["a1", "a2"]);
  works[0]?.finish();
  await settled();
  expect(begun).toEqual(["a1", "a2", "a3"]);
  works[1]?.finish();
  await settled();
  expect(begun).toEqual(["a1", "a2", "a3", "b1"]);
  for (const { finish } of works) finish();
  expect(await Promise.all(done)).toEqual(["a1", "a2", "a3", "a4", "b1"]);
});

test("one connection fills at most half of the queue, and a full queue rejects with a moment to try again", async () => {
  const queue = createMessageQueue({ concurrency: 1, maxWaiting: 4 });
  const works = Array.from({ length: 7 }, (_, i) => openWork([], String(i)));
  const run = (connection: string, i: number) => queue.run(connection, works[i]?.work ?? Promise.reject);
  const refused = { code: "unavailable", retryAfterSeconds: 5 };
  const done = [run("a", 0), run("a", 1), run("a", 2)];
  await expect(run("a", 3)).rejects.toMatchObject(refused);
  done.push(run("b", 4), run("c", 5));
  await expect(run("d", 6)).rejects.toMatchObject(refused);
  for (const { finish } of works) finish();
  expect(await Promise.all(done)).toEqual(["0", "1", "2", "4", "5"]);
});

test("a message that fails, or waits for too long, leaves its place to the next one", async () => {
  const queue = createMessageQueue({ concurrency: 1, waitMs: 20 });
  await expect(queue.run("a", () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
  const first = openWork([], "first");
  const done = queue.run("a", first.work);
  await expect(queue.run("a", async () => "late")).rejects.toMatchObject({ code: "unavailable" });
  const next = queue.run("b", async () => "next");
  first.finish();
  expect(await Promise.all([done, next])).toEqual(["first", "next"]);
});
