import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:net";
import { once } from "node:events";
import { expect, it } from "vitest";
import { createBatch } from "../../src/db/postgres/batch.ts";
import { count } from "../support/emitters.ts";

it("a round that is late fails with everybody behind it, in time, and what comes after is served", async () => {
  let frozen = true;
  const ask = createBatch<number, number>(
    async (asks) => {
      if (frozen) await new Promise(() => {});
      return asks.map((one) => one * 2);
    },
    { maxBatchSize: 1, concurrency: 1, timeoutMs: 50 },
  );
  const late = await Promise.allSettled([ask(1), ask(2), ask(3)]);
  expect(late).toMatchObject(late.map(() => ({ status: "rejected", reason: { code: "READ_TIMEOUT" } })));
  frozen = false;
  expect(await ask(4)).toBe(8);
});

it("without a patience a round may take as long as it takes", async () => {
  const ask = createBatch<number, number>(
    async (asks) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return asks;
    },
    { maxBatchSize: 2, concurrency: 1 },
  );
  expect(await Promise.all([ask(1), ask(2), ask(3)])).toEqual([1, 2, 3]);
});

it("an answer is not late that a busy process could not hear", async () => {
  const ask = createBatch<number, number>(
    async (asks) => {
      for (let step = 0; step < 3; step += 1) await new Promise((resolve) => setTimeout(resolve, 1));
      return asks;
    },
    { maxBatchSize: 1, concurrency: 1, timeoutMs: 100 },
  );
  const answer = ask(1);
  await new Promise<void>((resolve) => setImmediate(resolve));
  const until = performance.now() + 300;
  while (performance.now() < until);
  expect(await answer).toBe(1);
});

it("requests of all sockets that are ready share a batch", async () => {
  const sizes: number[] = [];
  const ask = createBatch<string, string>(
    async (asks) => {
      sizes.push(asks.length);
      return asks;
    },
    { maxBatchSize: 100, concurrency: 2 },
  );
  const server = createServer((socket) => {
    socket.on("data", (data) => void ask(String(data)).then((one) => socket.end(one)));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = count(server, "connection", 10);
  const sockets = Array.from({ length: 10 }, () => connect(port, "127.0.0.1"));
  await accepted;
  const answers = sockets.map((socket) => once(socket, "data").then(([data]) => String(data)));
  for (const [i, socket] of sockets.entries()) socket.write(`${i}`);
  expect(await Promise.all(answers)).toEqual(sockets.map((_, i) => `${i}`));
  expect(sizes).toEqual([10]);
  server.close();
});
