import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect as connectTo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";

/*
 * Covers the defects that src/entries/build/patch-driver.ts repairs. Without it, postgres.js 3.4.9 threw 48 uncaught
 * exceptions in 6 kills, and its pool took no statement for 9 s or more after four of them.
 */

/** The driver has no types for its parts. */
interface DriverQueue {
  readonly length: number;
  push(value: object): object;
  shift(): object | undefined;
  remove(value: object): object | null;
}

let dataDir: string;
let postgres: EmbeddedPostgres;
let connection: Connection;
const uncaught: unknown[] = [];
const remember = (error: unknown) => uncaught.push(error);

beforeAll(async () => {
  process.on("uncaughtException", remember);
  process.on("unhandledRejection", remember);
  dataDir = mkdtempSync(join(tmpdir(), "faregate-driver-"));
  postgres = await startEmbeddedPostgres({ dataDir, password: "sesame" });
  connection = connect(postgres.url, { maxConnections: 16 });
  await connection.client`create table counters (a int not null, b int not null)`;
  await connection.client`insert into counters values (0, 0)`;
  await connection.client`create table ledger (id int primary key)`;
});
afterAll(async () => {
  await connection.close(0);
  await postgres.stop();
  rmSync(dataDir, { recursive: true, force: true });
  process.off("uncaughtException", remember);
  process.off("unhandledRejection", remember);
});

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

it("under load, a database killed twice costs failed statements and nothing else", { timeout: 120_000 }, async () => {
  const { client } = connection;
  const load = { isOn: true, served: 0 };
  let acknowledged = 0;
  let wrong = 0;
  let next = 0;
  const read = async () => {
    const asked = (next += 1);
    const [row] = await client`select ${asked}::int as answer`;
    if (row?.["answer"] !== asked) wrong += 1;
  };
  const write = async () => {
    const id = (next += 1);
    await client.begin(async (tx) => {
      await tx`insert into ledger values (${id})`;
      await tx`update counters set a = a + 1`;
      // Long enough for the driver to lose and reopen the connection while this transaction still runs.
      if (id % 7 === 0) await pause(150);
      await tx`update counters set b = b + 1`;
    });
    acknowledged += 1;
  };
  const workers = Array.from({ length: 32 }, async (_, worker) => {
    while (load.isOn) {
      await (worker % 2 === 0 ? read() : write()).then(
        () => (load.served += 1),
        () => pause(5),
      );
    }
  });
  const silences: number[] = [];
  for (let kill = 0; kill < 2; kill += 1) {
    await pause(500);
    process.kill(Number.parseInt(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8"), 10), "SIGKILL");
    await postgres.exited;
    const port = Number(new URL(postgres.url).port);
    postgres = await startEmbeddedPostgres({ dataDir, password: "sesame", port });
    const back = performance.now();
    const enough = load.served + 20;
    while (load.served < enough && performance.now() - back < 20_000) await pause(5);
    silences.push(performance.now() - back);
  }
  load.isOn = false;
  await Promise.all(workers);
  const [sums] = await client`select a, b, (select count(*)::int from ledger) as rows from counters`;
  expect(uncaught).toEqual([]);
  expect(wrong).toBe(0);
  // Usually a second. The driver's own back-off grows to twenty.
  expect(Math.max(...silences)).toBeLessThan(15_000);
  // All or nothing. A commit whose acknowledgement was lost counts too.
  expect(sums?.["a"]).toBe(sums?.["rows"]);
  expect(sums?.["b"]).toBe(sums?.["rows"]);
  expect(sums?.["rows"]).toBeGreaterThanOrEqual(acknowledged);
});

it("a connection that is ended while it asks for the types of arrays costs a statement at most", async () => {
  let cuts = 1;
  const between = createServer((client) => {
    const server = connectTo(Number(new URL(postgres.url).port), "127.0.0.1");
    for (const socket of [client, server]) socket.on("error", () => {});
    client.on("close", () => server.destroy());
    server.pipe(client, { end: false });
    client.on("data", (data) => {
      if (cuts === 0 || !data.includes("typarray")) return void server.write(data);
      cuts -= 1;
      // Postgres sends this when it shuts down.
      const fields = Buffer.from("SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0");
      const head = Buffer.from([0x45, 0, 0, 0, fields.length + 4]);
      client.end(Buffer.concat([head, fields]));
      return void server.destroy();
    });
  });
  await new Promise<void>((resolve) => between.listen(0, "127.0.0.1", resolve));
  const address = between.address();
  const url = new URL(postgres.url);
  url.port = String(typeof address === "object" ? address?.port : "");
  const other = connect(url.href, { maxConnections: 1 });
  await other.client`select 1 as one`.catch(() => {});
  expect(cuts).toBe(0);
  expect((await other.client`select 2 as two`)[0]).toEqual({ two: 2 });
  await other.close();
  between.close();
  expect(uncaught).toEqual([]);
});

it("an answer that ends in the middle leaves nothing to the statements on the next connection", async () => {
  const other = connect(postgres.url, { maxConnections: 1 });
  const cut = other.client`select i, case when i = 3 then pg_terminate_backend(pg_backend_pid()) end
    from generate_series(1, 5) as i`;
  await expect(cut).rejects.toThrow(/CONNECTION_CLOSED|terminating connection/);
  for (const asked of [1, 2, 3])
    expect(await other.client`select ${asked}::int as answer`).toEqual([{ answer: asked }]);
  await other.close();
  expect(uncaught).toEqual([]);
});

it("a queue of connections that is never empty stays in order, and costs the same after 100,000 statements", async () => {
  const file = new URL("../../node_modules/postgres/src/queue.js", import.meta.url).href;
  const { default: createQueue } = (await import(file)) as { default: () => DriverQueue };
  const queue = createQueue();
  const connections = [{ number: 0 }, { number: 1 }, { number: 2 }];
  for (const one of connections) queue.push(one);
  let next = 0;
  const useTenThousand = () => {
    const before = process.cpuUsage();
    for (let statement = 0; statement < 10_000; statement += 1) {
      const used = queue.shift();
      if (used !== connections[next % 3]) throw new Error(`statement ${next} got another connection`);
      next += 1;
      if (used !== undefined && queue.remove(used) === null) queue.push(used);
    }
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  const first = useTenThousand();
  for (let round = 0; round < 8; round += 1) useTenThousand();
  expect(useTenThousand()).toBeLessThan(5 * first + 20);
  expect(queue).toHaveLength(3);
});
