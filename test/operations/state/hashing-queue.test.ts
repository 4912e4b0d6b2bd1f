import { expect, test } from "vitest";
import { allowHashes, hashesWaiting, inTurn, type Requester } from "../../../src/operations/state/hashing-queue.ts";

const address = (key: string): Requester => ({ key, kind: "anonymous" });
const account = (key: string): Requester => ({ key, kind: "user" });
const admin: Requester = { key: "admin", kind: "platformAdmin" };

/** Occupies every slot until `open` is called, so that further work queues. */
function closeQueue(): { open: () => void; closed: Promise<unknown> } {
  let open = () => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  return { open, closed: Promise.all([inTurn(() => gate, admin), inTurn(() => gate, admin)]) };
}

/** Queues one piece of work per requester while the slots are taken and returns the order in which they ran. */
async function orderOf(requesters: readonly Requester[]): Promise<string[]> {
  allowHashes(1);
  let open = () => {};
  const blocked = inTurn(() => new Promise<void>((resolve) => (open = resolve)), admin);
  const order: string[] = [];
  const all = requesters.map((requester) =>
    inTurn(async () => {
      order.push(requester.key);
    }, requester),
  );
  open();
  await Promise.all([blocked, ...all]);
  allowHashes(2);
  return order;
}

test("a sign-in waits for one of 15 password changes of an account, not for all", async () => {
  const order = await orderOf([...Array.from({ length: 15 }, () => account("mallory")), address("192.0.2.1")]);
  expect(order).toHaveLength(16);
  expect(order.indexOf("192.0.2.1")).toBeLessThanOrEqual(1);
});

test("accounts take turns, whatever number of hashes each of them asks for", async () => {
  const order = await orderOf([
    ...Array.from({ length: 10 }, () => account("mallory")),
    account("ada"),
    account("bob"),
  ]);
  expect(order.indexOf("ada")).toBeLessThanOrEqual(2);
  expect(order.indexOf("bob")).toBeLessThanOrEqual(3);
});

test("addresses take turns, whatever number of sign-ins each of them sends", async () => {
  const flood = Array.from({ length: 200 }, () => address("198.51.100.7"));
  const order = await orderOf([...flood, address("192.0.2.1")]);
  expect(order.indexOf("192.0.2.1")).toBeLessThanOrEqual(1);
});

test("two addresses that fill the queue lose their newest hashes to requesters with fewer", async () => {
  const { open, closed } = closeQueue();
  const idle = async () => "done";
  const flood = [...Array(600).keys()].map((i) => inTurn(idle, address(i < 300 ? "198.51.100.7" : "198.51.100.8")));
  const settled = Promise.allSettled(flood);
  const others = [inTurn(idle, address("192.0.2.1")), inTurn(idle, address("192.0.2.2"))];
  await expect(inTurn(idle, address("198.51.100.7"))).rejects.toMatchObject({ code: "tooManyRequests" });
  expect(hashesWaiting()).toBe(2 + 600);
  open();
  await closed;
  expect(await Promise.all(others)).toEqual(["done", "done"]);
  const refused = (await settled).flatMap(({ status }, i) => (status === "rejected" ? [i] : []));
  expect(refused).toEqual([299, 599]);
});

test("accounts that fill their half lose a hash to another account, and a platform ADMIN loses none", async () => {
  const { open, closed } = closeQueue();
  const idle = async () => "done";
  const bulk = Array.from({ length: 50 }, () => inTurn(idle, admin));
  const flood = [...Array(250).keys()].map((i) => inTurn(idle, account(`mallory-${i % 25}`)));
  const settled = Promise.allSettled(flood);
  expect(hashesWaiting()).toBe(2 + 300);
  const ada = inTurn(idle, account("ada"));
  expect(hashesWaiting()).toBe(2 + 300);
  open();
  await closed;
  expect(await ada).toBe("done");
  expect(new Set(await Promise.all(bulk))).toEqual(new Set(["done"]));
  expect((await settled).filter(({ status }) => status === "rejected")).toHaveLength(1);
});

test("an account may have a fortieth of the queue waiting, an address half, and others are not concerned", async () => {
  const { open, closed } = closeQueue();
  const idle = async () => "done";
  const accounts = Array.from({ length: 15 }, () => inTurn(idle, account("mallory")));
  const refusal = { code: "tooManyRequests", retryAfterSeconds: 10 };
  await expect(inTurn(idle, account("mallory"))).rejects.toMatchObject(refusal);
  const addresses = Array.from({ length: 300 }, () => inTurn(idle, address("198.51.100.7")));
  await expect(inTurn(idle, address("198.51.100.7"))).rejects.toMatchObject(refusal);
  const others = [inTurn(idle, account("ada")), inTurn(idle, address("192.0.2.1")), inTurn(idle, admin)];
  expect(hashesWaiting()).toBe(2 + 15 + 300 + 3);
  open();
  await closed;
  expect(await Promise.all(others)).toEqual(["done", "done", "done"]);
  await Promise.all([...accounts, ...addresses]);
  expect(hashesWaiting()).toBe(0);
});

test("requests with a user key fill half of the queue, so that sign-ins always find a place", async () => {
  const { open, closed } = closeQueue();
  const idle = async () => "done";
  const accounts = Array.from({ length: 10 }, (_, i) => inTurn(idle, account(`account-${i}`), 20));
  await expect(inTurn(idle, account("one more"), 20)).rejects.toMatchObject({ code: "tooManyRequests" });
  const signIn = inTurn(idle, address("192.0.2.1"), 20);
  open();
  await Promise.all([closed, ...accounts]);
  expect(await signIn).toBe("done");
});

test("where addresses are not known, only the bound for all sign-ins holds", async () => {
  const { open, closed } = closeQueue();
  const idle = async () => "done";
  const all = Array.from({ length: 20 }, () => inTurn(idle, address(""), 20));
  await expect(inTurn(idle, address(""), 20)).rejects.toMatchObject({ code: "tooManyRequests" });
  open();
  await Promise.all([closed, ...all]);
});

test("a hash that waits is dropped when its connection closes, and one that runs is finished", async () => {
  const { open, closed } = closeQueue();
  const connection = new AbortController();
  let ran = 0;
  const work = async () => (ran += 1);
  const waiting = inTurn(work, { ...account("mallory"), signal: connection.signal });
  const other = inTurn(work, account("mallory"));
  expect(hashesWaiting()).toBe(4);
  connection.abort();
  await expect(waiting).rejects.toThrow("The connection was closed before the password was hashed");
  expect(hashesWaiting()).toBe(3);
  open();
  await Promise.all([closed, other]);
  expect(ran).toBe(1);
  await expect(inTurn(work, { ...account("mallory"), signal: connection.signal })).rejects.toThrow("closed");
});

test("work that fails frees its slot", async () => {
  allowHashes(1);
  await expect(inTurn(() => Promise.reject(new Error("the database is away")))).rejects.toThrow("away");
  expect(await inTurn(async () => hashesWaiting())).toBe(1);
  allowHashes(2);
});
