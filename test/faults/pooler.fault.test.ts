import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ConnectOptions, connect, type Connection } from "../../src/db/postgres/connect.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { detectPooler, type Pooler } from "../../src/db/postgres/pooler.ts";
import { makeDatabaseFolder } from "../support/database-folder.ts";
import { type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";

/* Debian's PgBouncer in transaction mode, with fewer backends than there are connections to it. */

const BACKENDS = 3;
const POOLER = { keepsSessions: false, keepsStatements: false };

let dataDir: string;
let postgres: EmbeddedPostgres;
let pooler: PgBouncer;
const connections: Connection[] = [];
beforeAll(async () => {
  dataDir = makeDatabaseFolder("pooler");
  postgres = await startEmbeddedPostgres({ dataDir, password: "sesame" });
  pooler = await startPgBouncer(postgres.url, { default_pool_size: BACKENDS });
});
afterAll(async () => {
  for (const connection of connections) await connection.close(0);
  await pooler.stop();
  await postgres.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const open = (options: ConnectOptions = {}): Connection => {
  const connection = connect({ url: pooler.url("postgres"), pooler: POOLER }, options);
  connections.push(connection);
  return connection;
};

describe("a pool behind a transaction pooler", () => {
  it("gets the answer to each statement, whatever its parameters, over backends that change", async () => {
    const pools = [open(), open()];
    let wrong = 0;
    const ask = async (pool: Connection, n: number) => {
      const { client } = pool;
      const texts = ["plain", `with "quotes", {braces} and \\`, "", "NULL"];
      const part = client`${n}::integer + ${1}::integer`;
      const [[plain], [typed], [inner]] = await Promise.all([
        client.unsafe<{ n: number; texts: string[]; nothing: null }[]>(
          "select $1::integer as n, $2::text[] as texts, $3::text as nothing",
          [n, texts, null],
        ),
        // The driver has to ask for the types of these.
        client<{ n: number; flag: boolean; day: Date }[]>`
          select ${part} as n, ${n % 2 === 0} as flag, ${new Date(n * 1000).toISOString()}::timestamptz as day`,
        client.begin(async (tx) => {
          await tx`select ${n}::integer`;
          return tx<{ n: number; flag: boolean }[]>`select ${n}::bigint::text as n, ${n % 2 === 0} as flag`;
        }),
      ]);
      if (plain?.n !== n || plain.texts.join() !== texts.join() || plain.nothing !== null) wrong += 1;
      if (typed?.n !== n + 1 || typed.flag !== (n % 2 === 0)) wrong += 1;
      if (String(inner?.n) !== String(n) || inner?.flag !== (n % 2 === 0)) wrong += 1;
    };
    for (const pool of pools) await ask(pool, 0);
    const all = Array.from({ length: 2000 }, (_, n) => ask(pools[n % 2] ?? open(), n));
    await Promise.all(all);
    expect(wrong).toBe(0);
  });

  it("names no statement, however often it is sent", async () => {
    const { client, db } = open();
    for (let n = 0; n < 20; n += 1) {
      await Promise.all(Array.from({ length: BACKENDS }, () => client.unsafe("select $1::text, 'often'", ["x"])));
      await db.transaction((tx) => tx.execute("select 'often' where 1 = 1"));
    }
    const named = await Promise.all(
      Array.from({ length: BACKENDS * 2 }, () => client`select name from pg_prepared_statements`),
    );
    expect(named.flat()).toEqual([]);
  });

  it("bounds its transactions, and leaves no setting to the next client of the backend", async () => {
    const { client, db } = open({ timeouts: { statement: 7000, lock: 3000, idleInTransaction: 5000 } });
    const settings = (of: Pick<Connection["client"], "unsafe">) =>
      of.unsafe<{ setting: string }[]>(
        `select setting from pg_settings where name in
          ('idle_in_transaction_session_timeout', 'jit', 'lock_timeout', 'statement_timeout', 'transaction_isolation') order by name`,
      );
    const values = (rows: readonly { setting: string }[]) => rows.map(({ setting }) => setting);
    expect(values(await client.begin((tx) => settings(tx)))).toEqual(["5000", "off", "3000", "7000", "read committed"]);
    const read = () => db.transaction((tx) => tx.execute("select current_setting('transaction_isolation') as level"));
    expect(await read()).toMatchObject([{ level: "read committed" }]);
    const repeatable = await db.transaction(
      (tx) => tx.execute("select current_setting('statement_timeout') as bound"),
      {
        isolationLevel: "repeatable read",
        accessMode: "read only",
      },
    );
    expect(repeatable).toMatchObject([{ bound: "7s" }]);
    const later = await Promise.all(Array.from({ length: BACKENDS * 2 }, () => settings(client)));
    for (const rows of later) expect(values(rows)).toEqual(["0", "on", "0", "0", "read committed"]);
  });

  it("does not take Postgres for hung while its statements wait for a backend", async () => {
    const { client } = open({ timeouts: { acquire: 1000, statement: 20_000 } });
    const busy = Array.from({ length: BACKENDS }, () => client`select pg_sleep(4)`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const waiting = client`select 1 as answer`;
    expect(await waiting).toMatchObject([{ answer: 1 }]);
    await Promise.all(busy);
  });
});

describe("a pooler is detected", () => {
  const KEEPS_ALL = { keepsSessions: true, keepsStatements: true };

  it("a direct connection has none", async () => {
    expect(await detectPooler(postgres.url)).toBeUndefined();
  });

  const cases: [how: string, settings: Record<string, string | number>, expected: Pooler][] = [
    ["in transaction mode", {}, POOLER],
    ["in transaction mode with one backend", { default_pool_size: 1 }, POOLER],
    ["in transaction mode that takes backends in turns", { default_pool_size: 2, server_round_robin: 1 }, POOLER],
    ["in session mode", { pool_mode: "session" }, KEEPS_ALL],
  ];
  it.each(cases)("%s, alone and beside other clients", async (_, settings, expected) => {
    const own = await startPgBouncer(postgres.url, settings);
    const others = connect({ url: own.url("postgres"), pooler: POOLER }, { maxConnections: 6 });
    const loads = [new AbortController(), new AbortController(), new AbortController()];
    try {
      const isSmall = settings["default_pool_size"] === 1;
      for (const [n, load] of loads.entries()) {
        const clients = n === 1 ? (isSmall ? 1 : 6) : 0;
        const work = async () => {
          while (!load.signal.aborted) await others.client`select pg_sleep(0.001)`;
        };
        const working = Array.from({ length: clients }, work);
        for (let attempt = 0; attempt < (isSmall ? 2 : 10); attempt += 1) {
          expect(await detectPooler(own.url("postgres"))).toEqual(expected);
        }
        load.abort();
        await Promise.all(working);
      }
    } finally {
      for (const load of loads) load.abort();
      await others.close(0);
      await own.stop();
    }
  });
});
