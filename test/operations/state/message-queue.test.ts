import { expect, test } from "vitest";
import { createMessageQueue, messagesAtOnce } from "../../../src/operations/state/message-queue.ts";

/** Work that logs its requests and lasts until `finish` is called; then each batch is finished in turn. */
function openWork() {
  const begun: string[][] = [];
  const finishers: (() => void)[] = [];
  const work = async (requests: readonly string[]) => {
    begun.push([...requests]);
    await new Promise<void>((resolve) => finishers.push(resolve));
    return requests;
  };
  return { begun, work, finish: (batch: number) => finishers[batch]?.() };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

test("messages may pin four of ten connections of a pool, and at least one", () => {
  expect([1, 2, 5, 10, 100].map(messagesAtOnce)).toEqual([1, 1, 2, 4, 40]);
});

test("messages that wait are applied together, each connection's in order, and connections in turn", async () => {
  const queue = createMessageQueue({ concurrency: 2, maxTogether: 3, gatherMs: 0 });
  const { begun, work, finish } = openWork();
  const names = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "b1", "b2"];
  const done = names.map((name) => queue.run(name.slice(0, 1), name, work));
  await settled();
  // The first two are full.
  expect(begun).toEqual([
    ["a1", "a2", "a3"],
    ["a4", "a5", "a6"],
  ]);
  finish(0);
  await settled();
  expect(begun.slice(2)).toEqual([["b1", "b2"]]);
  finish(1);
  await settled();
  expect(begun.slice(3)).toEqual([["a7", "a8"]]);
  finish(2);
  finish(3);
  expect(await Promise.all(done)).toEqual(names);
});

test("messages that arrive together are applied together, and others wait for them", async () => {
  const queue = createMessageQueue({ concurrency: 2, gatherMs: 0 });
  const { begun, work, finish } = openWork();
  const done = ["a1", "a2"].map((name) => queue.run("a", name, work));
  expect(begun).toEqual([]);
  await settled();
  done.push(queue.run("a", "a3", work), queue.run("a", "a4", work));
  await settled();
  expect(begun).toEqual([["a1", "a2"]]);
  finish(0);
  await settled();
  expect(begun.slice(1)).toEqual([["a3", "a4"]]);
  finish(1);
  expect(await Promise.all(done)).toEqual(["a1", "a2", "a3", "a4"]);
});

test("messages do not wait for long behind one that waits for a lock", async () => {
  const queue = createMessageQueue({ concurrency: 2, gatherMs: 0 });
  const { begun, work, finish } = openWork();
  const first = queue.run("a", "a1", work);
  await settled();
  const second = queue.run("a", "a2", work);
  await expect.poll(() => begun).toEqual([["a1"], ["a2"]]);
  finish(1);
  expect(await second).toBe("a2");
  // The first one still waits.
  const third = queue.run("a", "a3", work);
  await expect.poll(() => begun.slice(2)).toEqual([["a3"]]);
  finish(2);
  expect(await third).toBe("a3");
  finish(0);
  expect(await first).toBe("a1");
});

test("a connection leaves room for others", async () => {
  const queue = createMessageQueue({ concurrency: 4, maxTogether: 1 });
  const { begun, work, finish } = openWork();
  const done = ["a1", "a2", "a3", "a4", "b1"].map((name) => queue.run(name.slice(0, 1), name, work));
  await settled();
  expect(begun).toEqual([["a1"], ["a2"], ["b1"]]);
  for (let batch = 0; batch < 5; batch += 1) {
    finish(batch);
    await settled();
  }
  expect(await Promise.all(done)).toEqual(["a1", "a2", "a3", "a4", "b1"]);
});

test("one connection fills at most half of the queue, and a full queue rejects with a moment to try again", async () => {
  const queue = createMessageQueue({ concurrency: 1, maxWaiting: 4, gatherMs: 0 });
  const { work, finish } = openWork();
  const refused = { code: "unavailable", retryAfterSeconds: 5 };
  const done = [queue.run("a", "0", work)];
  await settled();
  done.push(queue.run("a", "1", work), queue.run("a", "2", work));
  await expect(queue.run("a", "3", work)).rejects.toMatchObject(refused);
  done.push(queue.run("b", "4", work), queue.run("c", "5", work));
  await expect(queue.run("d", "6", work)).rejects.toMatchObject(refused);
  for (let batch = 0; batch < 4; batch += 1) {
    finish(batch);
    await settled();
  }
  expect(await Promise.all(done)).toEqual(["0", "1", "2", "4", "5"]);
});

test("a message that fails, alone or together, or waits for too long, leaves its place to the next one", async () => {
  const queue = createMessageQueue({ concurrency: 1, waitMs: 20, gatherMs: 0 });
  const fails = () => Promise.reject(new Error("failed"));
  await expect(queue.run("a", "first", fails)).rejects.toThrow("failed");
  const failsAlone = async (requests: readonly string[]) =>
    requests.map((each) => (each === "x" ? new Error(each) : each));
  const { work, finish } = openWork();
  const open = queue.run("a", "first", work);
  await settled();
  const together = Promise.allSettled([queue.run("a", "x", failsAlone), queue.run("a", "y", failsAlone)]);
  finish(0);
  await open;
  expect(await together).toMatchObject([{ reason: { message: "x" } }, { value: "y" }]);

  const first = openWork();
  const done = queue.run("a", "first", first.work);
  await settled();
  await expect(queue.run("a", "late", first.work)).rejects.toMatchObject({ code: "unavailable" });
  const next = queue.run("b", "next", async (requests) => requests);
  first.finish(0);
  expect(await Promise.all([done, next])).toEqual(["first", "next"]);
});
