import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Command } from "../../src/entries/launcher/runtimes.ts";
import { cpuMsOf } from "../bench/processes.ts";
import { PRICING } from "../runtimes/world.ts";
import { builtRestOn, type Runtime } from "../runtimes/runtimes.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { upload } from "../support/contracting.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { METRICS_TOKEN, startRestServer, TEST_SECRETS, testKeyring } from "../support/event-server.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { type Many, signInAsOwner, testAsOneServer } from "../support/one-server.ts";
import { meterPricing } from "../support/pricings.ts";
import { contractUsers } from "../support/seed.ts";
import { testUsageThroughMany, USAGE_PRICING } from "../support/usage-through-many.ts";
import {
  childrenOf,
  metricsOf,
  type RunningWorkers,
  startWorkers,
  sumByWorker,
  type WorkerConnection,
} from "../support/workers.ts";
import { alive, childOf, launchAndWait, ports, until, useLaunchers } from "./launcher.ts";

/* Several REST processes behind one port: WORKERS. */

const RUNTIMES = ["Node 20", "Bun", "Deno"] as const;

const LIMIT = 60;
const METER = meterPricing(
  `{ valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: NON_RENEWABLE, trackable: true }`,
);

/** Starts REST where that must fail. Returns the reason. */
const refused = (command: Command, databaseUrl: string, environment: Record<string, string>) =>
  startRestServer(command, databaseUrl, environment).then(
    (started) => started.stop().then(() => "started"),
    (error: Error) => error.message,
  );

describe("two workers behave like one server:", () => {
  const ACCOUNT_CALLS = 3;
  let database: TestDatabase;
  let server: RunningWorkers;
  let connections: WorkerConnection[];
  let many: Many;

  beforeAll(async () => {
    database = await createTestDatabase();
    const key = await contractUsers(database.connection, {
      pricing: PRICING("Tasker").replaceAll("value: 100 }", "value: 100000 }"),
      service: "tasker",
      plan: "PRO",
      userIds: ["ada", "grace"],
    });
    server = await startWorkers(database.url, { ACCOUNT_CALLS_PER_MINUTE: String(ACCOUNT_CALLS) });
    connections = await server.connectToBoth(2);
    const all = connections.map(({ worker, ask }, i) => ({ name: `connection ${i} to worker ${worker}`, ask }));
    const { ask } = connections[0] ?? {};
    if (ask === undefined) throw new Error("there is no connection");
    many = { all, key, ...(await signInAsOwner(ask, key)) };
  }, 120_000);
  afterAll(async () => {
    for (const connection of connections) connection.close();
    expect(await server.stop()).toBe(0);
    await expectBalancesMatchLedger(database);
    await database.drop();
  });

  testAsOneServer(() => many);

  it("sign-ins of one address are counted together", async () => {
    const minute = () => Math.floor(Date.now() / 60_000);
    for (let host = 2; ; host += 1) {
      const started = minute();
      const fromOneAddress = await server.connectToBoth(2, `127.0.0.${host}`);
      const statuses = await Promise.all(
        [...fromOneAddress, ...fromOneAddress].map(async ({ ask }) => {
          const body = { username: "nobody", password: "wrong" };
          return (await ask("POST", "/users/authenticate", { body })).status;
        }),
      );
      for (const connection of fromOneAddress) connection.close();
      // The counters start again with each minute.
      if (minute() !== started) continue;
      expect(statuses.filter((status) => status === 401)).toHaveLength(ACCOUNT_CALLS);
      expect(statuses.filter((status) => status === 429)).toHaveLength(statuses.length - ACCOUNT_CALLS);
      return;
    }
  });
});

describe("two workers:", () => {
  let api: TestApi;
  let server: RunningWorkers;

  beforeAll(async () => {
    api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
    await upload(api, api.callers.all.key, USAGE_PRICING);
    server = await startWorkers(api.database.url);
  }, 120_000);
  afterAll(async () => {
    const requests = sumByWorker(await server.metrics(), "faregate_http_requests_total", 'method="POST"');
    expect([...requests.keys()]).toEqual([1, 2]);
    for (const count of requests.values()) expect(count).toBeGreaterThan(100);
    expect(await server.stop()).toBe(0);
    await api.close();
  });

  testUsageThroughMany(() => ({
    api,
    request: (_, path, init) =>
      fetch(server.url + path, { ...init, headers: { ...init.headers, connection: "close" } }),
  }));
});

/**
 * Starts two workers for a suite, and again after a test that has stopped them. Each test has an organization of its own, with
 * contracts of the users ada and eve.
 */
function useWorkers(runtime: Runtime) {
  let database: TestDatabase;
  let server: RunningWorkers | undefined;
  let key: string;
  let logged = 0;

  const running = () => {
    if (server === undefined) throw new Error("there are no workers");
    return server;
  };
  const isRunning = () => server?.process.exitCode === null && server.process.signalCode === null;

  beforeAll(async () => void (database = await createTestDatabase()));
  beforeEach(async () => {
    key = await contractUsers(database.connection, {
      pricing: METER,
      service: "meter",
      plan: "ALL",
      userIds: ["ada", "eve"],
    });
    if (!isRunning()) server = await startWorkers(database.url, {}, runtime);
    logged = running().output().length;
  }, 120_000);
  afterAll(async () => {
    if (isRunning()) await server?.stop();
    await database.drop();
  });

  /** Output since the test began. */
  const log = () => running().output().slice(logged);
  /** The worker that started first, to be killed. Its number is known once it is gone. */
  const oldestWorker = () => {
    const [pid = 0] = running().pids();
    const ended = () => /The REST worker (\d) ended unexpectedly \(SIGKILL\); starting it again/.exec(log())?.[1];
    return {
      pid,
      number: () => Number(ended()),
      isGone: () => ended() !== undefined,
      isBack: () => log().includes(`The REST worker ${ended()} is back.`),
    };
  };
  /** Sums what the contracts of all tests have consumed. */
  const totalConsumed = async () => {
    const [total] = await database.connection.client<{ consumed: number }[]>`
      select coalesce(sum(consumed), 0)::float8 as consumed from usage_levels`;
    return total?.consumed ?? NaN;
  };

  /** Calls on a connection of its own, for any worker. */
  const call = (path: string, init: RequestInit = {}) =>
    fetch(`${running().url}${path}`, { ...init, headers: { "x-api-key": key, connection: "close", ...init.headers } });
  const consume = async () => {
    const ask = () =>
      call("/api/v1/features/ada/meter-call", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"meter-calls":1}',
      });
    let answer = await ask();
    // On a busy machine the contract stays locked for longer than a call waits. It has counted nothing then.
    for (let again = 0; answer.status === 503 && again < 5; again += 1) answer = await ask();
    return { status: answer.status, ...((await answer.json()) as { eval: boolean }) };
  };
  /**
   * Consumes on a connection to each worker, each for its own user: a call waits three seconds at most for the lock of a contract.
   * The calls block until `release`; a lost call has the status 0.
   */
  const consumeBlocked = async (connections: readonly WorkerConnection[]) => {
    const { client } = database.connection;
    let unlock = () => {};
    const unlocked = new Promise<void>((resolve) => (unlock = resolve));
    let committed: Promise<unknown> = Promise.resolve();
    await new Promise<void>((locked) => {
      committed = client.begin(async (sql) => {
        await sql`lock table usage_ledger in access exclusive mode`;
        locked();
        await unlocked;
      });
    });
    const answers = connections.map(({ worker, ask }, i) =>
      ask("POST", `/features/${i === 0 ? "ada" : "eve"}/meter-call`, { key, body: { "meter-calls": 1 } }).then(
        ({ status }) => ({ worker, status }),
        () => ({ worker, status: 0 }),
      ),
    );
    const blocked = async () => {
      const [row] = await client<{ count: number }[]>`
        select count(*)::integer as count from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      return row?.count ?? 0;
    };
    await vi.waitUntil(async () => (await blocked()) === 2, { timeout: 20_000 });
    return {
      answers: Promise.all(answers),
      release: async () => {
        unlock();
        await committed;
      },
    };
  };
  return { database: () => database, server: running, log, oldestWorker, totalConsumed, call, consume, consumeBlocked };
}

describe.each(RUNTIMES)("two workers behind one port, on %s,", (runtime) => {
  const { database, server, oldestWorker, totalConsumed, call, consume, consumeBlocked } = useWorkers(runtime);

  const evaluations = async () => sumByWorker(await server().metrics(), "faregate_evaluations_total");

  it("grant a limit exactly, each scrape has the metrics of both, and no other process can take their port", async () => {
    const before = await evaluations();
    const answers = await Promise.all(Array.from({ length: 2 * LIMIT }, consume));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(answers.filter((answer) => answer.eval)).toHaveLength(LIMIT);
    await expectBalancesMatchLedger(database());
    const text = await server().metrics();
    expect(text).toContain("\nfaregate_workers 2\n");
    const after = [...sumByWorker(text, "faregate_evaluations_total")];
    expect(after.map(([worker]) => worker)).toEqual([1, 2]);
    const counted = after.map(([worker, count]) => count - (before.get(worker) ?? 0));
    expect(counted.reduce((sum, value) => sum + value, 0)).toBe(2 * LIMIT);
    for (const value of counted) expect(value).toBeGreaterThan(0);
    expect(text.match(/^# TYPE faregate_evaluations_total /gm)).toHaveLength(1);
    const names = text.split("\n").filter((line) => line.startsWith("# HELP"));
    expect(new Set(names).size).toBe(names.length);
    const { port: PORT } = new URL(server().url);
    for (const WORKERS of ["1", "2"]) {
      expect(await refused(await builtRestOn(runtime, { hasWorkers: true }), database().url, { PORT, WORKERS })).toBe(
        `the server did not start: Port ${PORT} is already in use: stop what listens there, or set PORT to another port.\n`,
      );
    }
  });

  it("a scrape has both workers also while their database answers none of them", async () => {
    await database().connection.client.begin(async (sql) => {
      await sql`lock table outbox_counter in access exclusive mode`;
      const workers = sumByWorker(await server().metrics(), "process_start_time_seconds");
      expect([...workers.keys()]).toEqual([1, 2]);
    });
  });

  it("a killed worker is replaced; the other serves meanwhile, and only the killed one counts from 0 again", async () => {
    const scrape = async () => {
      const text = await server().metrics();
      return {
        evaluations: sumByWorker(text, "faregate_evaluations_total"),
        starts: sumByWorker(text, "process_start_time_seconds"),
      };
    };
    await Promise.all(Array.from({ length: 20 }, consume));
    const scrapes = [await scrape()];
    const { pid, number, isGone, isBack } = oldestWorker();
    process.kill(pid, "SIGKILL");
    await vi.waitUntil(isGone, { timeout: 20_000 });
    const killed = number();
    const other = 3 - killed;
    const started = scrapes[0]?.starts.get(killed);
    while ([undefined, started].includes(scrapes.at(-1)?.starts.get(killed))) {
      expect((await consume()).status).toBe(200);
      scrapes.push(await scrape());
    }
    expect(server().pids()).not.toContain(pid);
    const counts = (of: number) => scrapes.flatMap(({ evaluations }) => evaluations.get(of) ?? []);
    expect(counts(other)).toHaveLength(scrapes.length);
    expect(counts(other)).toEqual(counts(other).toSorted((one, next) => one - next));
    expect(counts(killed)[0]).toBeGreaterThan(1);
    // The new one may already have answered the last call.
    expect(counts(killed).at(-1)).toBeLessThanOrEqual(1);
    await vi.waitUntil(isBack, { timeout: 20_000 });
  });

  it("a worker that is killed under load loses the calls in flight there, and no others", async () => {
    const connections = await server().connectToBoth(1);
    const { answers, release } = await consumeBlocked(connections);
    const { pid, number, isGone, isBack } = oldestWorker();
    const loads = Array.from({ length: 4 }, async () => {
      const lost: { afterTheEnd: boolean }[] = [];
      while (!isBack()) {
        const afterTheEnd = isGone();
        await call("/api/v1/contracts/ada").then(
          ({ status }) => expect(status).toBe(200),
          () => lost.push({ afterTheEnd }),
        );
      }
      return lost;
    });
    process.kill(pid, "SIGKILL");
    await vi.waitUntil(isGone, { timeout: 20_000 });
    // Now, because a call that waits for a lock as long as a worker may take to start is refused.
    await release();
    expect(await answers).toEqual(connections.map(({ worker }) => ({ worker, status: worker === number() ? 0 : 200 })));
    const lost = (await Promise.all(loads)).flat();
    expect(lost.filter(({ afterTheEnd }) => afterTheEnd)).toEqual([]);
    expect(await server().metrics()).toContain("\nfaregate_workers 2\n");
    await expectBalancesMatchLedger(database());
  });

  it.each([
    ["a signal drains both", "SIGTERM", 0],
    ["both drain when their primary process is killed", "SIGKILL", null],
  ] as const)("%s: calls in flight are answered", async (_, signal, code) => {
    const pids = server().pids();
    expect(pids).toHaveLength(2);
    const before = await totalConsumed();
    const connections = await server().connectToBoth(1);
    const { answers, release } = await consumeBlocked(connections);
    const isServed = () =>
      call("/live").then(
        () => true,
        () => false,
      );
    const callUntilRefused = async () => {
      let served = true;
      while (served) served = await isServed();
    };
    const callers = Array.from({ length: 8 }, callUntilRefused);
    const exit = once(server().process, "exit");
    server().process.kill(signal);
    await Promise.all(callers);
    for (const pid of pids) expect(alive(pid)).toBe(true);
    await release();
    expect(await answers).toEqual(connections.map(({ worker }) => ({ worker, status: 200 })));
    expect((await exit)[0]).toBe(code);
    await vi.waitUntil(() => !pids.some(alive), { timeout: 20_000 });
    expect((await totalConsumed()) - before).toBe(connections.length);
    await expectBalancesMatchLedger(database());
  });
});

/* The primary process accepts for its workers. */
describe("two workers behind one port, on Node,", () => {
  const { server, log, call, consume } = useWorkers("Node 20");

  /** Sends a request over a connection of its own. `answer` is all that came back when the connection is closed. */
  const connectAndAsk = async (): Promise<{ answer: Promise<string> }> => {
    const socket = connect(Number(new URL(server().url).port), "127.0.0.1");
    await once(socket, "connect");
    socket.write("GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let received = "";
    socket.setEncoding("utf8").on("data", (text: string) => (received += text));
    socket.on("error", () => {});
    return { answer: new Promise((resolve) => socket.once("close", () => resolve(received))) };
  };
  const killAndWait = async (pid: number) => {
    process.kill(pid, "SIGKILL");
    await vi.waitUntil(() => !alive(pid), { timeout: 20_000 });
  };
  const isBack = () => vi.waitUntil(() => log().includes("worker 1 is back."), { timeout: 20_000 });

  it("apply a change that the other one made", async () => {
    for (let i = 0; i < 8; i += 1) await consume();
    const changed = await call("/api/v1/contracts/ada/usageLevels", {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ meter: { calls: LIMIT } }),
    });
    expect(changed.status).toBe(200);
    const answers = await Promise.all(Array.from({ length: 16 }, consume));
    expect(answers.filter((answer) => answer.eval)).toEqual([]);
    const deleted = await call("/api/v1/contracts/ada", { method: "DELETE" });
    expect(deleted.status).toBe(204);
    // Both have dropped the contract at most a second later.
    await vi.waitUntil(
      async () => {
        const statuses = await Promise.all(
          Array.from({ length: 8 }, async () => (await call("/api/v1/contracts/ada")).status),
        );
        return statuses.every((status) => status === 404);
      },
      { timeout: 20_000 },
    );
  });

  it("connections that killed workers had not taken yet are closed, and do not wait forever", async () => {
    // The primary process finds the connections before it learns that the workers are gone.
    server().process.kill("SIGSTOP");
    const waiting = await Promise.all(Array.from({ length: 4 }, connectAndAsk));
    for (const pid of server().pids()) await killAndWait(pid);
    server().process.kill("SIGCONT");
    expect(await Promise.all(waiting.map(({ answer }) => answer))).toEqual(["", "", "", ""]);
    await isBack();
    expect(log()).toContain("The REST worker 1 ended unexpectedly (SIGKILL); starting it again.");
    expect((await consume()).status).toBe(200);
    // Workers that end often are started with a delay.
    expect(await server().stop()).toBe(0);
  });

  it("a worker that is killed while it starts is started again, even if no other serves", async () => {
    const before = server().pids();
    for (const pid of before) process.kill(pid, "SIGKILL");
    const isNew = (pid: number) => !before.includes(pid);
    const starting = await vi.waitUntil(() => server().pids().find(isNew), { timeout: 20_000, interval: 5 });
    server().process.kill("SIGSTOP");
    // It waits for the port, which the primary process will open when the worker is gone.
    let lastMs = 0;
    const isIdle = () => lastMs === (lastMs = cpuMsOf(starting)) && lastMs > 200;
    await vi.waitUntil(isIdle, { timeout: 20_000, interval: 300 });
    await killAndWait(starting);
    server().process.kill("SIGCONT");
    await vi.waitUntil(
      async () =>
        (
          await server()
            .metrics()
            .catch(() => "")
        ).includes("faregate_workers 2\n"),
      {
        timeout: 20_000,
      },
    );
    await expect
      .poll(() =>
        server()
          .output()
          .match(/ended unexpectedly \(SIGKILL\); starting it again/g),
      )
      .toHaveLength(3);
    expect((await consume()).status).toBe(200);
  });
});

describe.each(["node", "bun", "deno"] as const)("the launcher of %s", (runtime) => {
  let database: TestDatabase;
  beforeAll(async () => void (database = await createTestDatabase()));
  afterAll(() => database.drop());
  useLaunchers();

  it("runs workers, which are replaced alone or with their primary process, and stops them", async () => {
    const launcher = await launchAndWait(
      { DATABASE_URL: database.url, ...TEST_SECRETS, WORKERS: "2", METRICS_TOKEN },
      runtime,
    );
    const primary = () => childOf(launcher, runtime === "node" ? "/node.js" : `/${runtime}.ts`);
    const bothServe = async () =>
      (await metricsOf(`http://127.0.0.1:${ports.PORT}`).catch(() => "")).includes("\nfaregate_workers 2\n");
    await until(bothServe, launcher.output);
    const [first = 0, second = 0] = childrenOf(primary());
    process.kill(first, "SIGKILL");
    await until(
      () => launcher.output().includes("The REST worker 1 is back."),
      () => launcher.output(),
    );
    await until(bothServe, launcher.output);
    // It dies with heartbeats of its workers unread.
    const dying = primary();
    process.kill(dying, "SIGSTOP");
    await new Promise((resolve) => setTimeout(resolve, 2000));
    process.kill(dying, "SIGKILL");
    await until(() => launcher.errors().includes("The REST process is back."), launcher.errors);
    await until(bothServe, launcher.output);
    expect(childrenOf(primary())).not.toContain(second);
    launcher.process.kill("SIGTERM");
    expect(await launcher.exit).toBe(0);
  }, 120_000);
});

describe("WORKERS", () => {
  it.each(RUNTIMES)("is a number or auto, on %s", async (runtime) => {
    const message = await refused(await builtRestOn(runtime), "postgres://nobody@127.0.0.1:9/none", {
      WORKERS: "many",
    });
    expect(message).toContain('WORKERS must be auto or a whole number from 1 to 64, not "many".');
  });

  it("on Deno, lets only the primary process run programs", async () => {
    const database = await createTestDatabase();
    try {
      const message = await refused(await builtRestOn("Deno"), database.url, { WORKERS: "2" });
      expect(message).toMatch(/^the server did not start: Requires run access to [^\n]+ the --allow-run flag\n$/);
      const server = await startWorkers(database.url, {}, "Deno");
      const permissions = (pid: number | undefined) =>
        readFileSync(`/proc/${pid}/cmdline`, "utf8")
          .split("\0")
          .filter((word) => word.startsWith("--allow-"));
      const ofWorker = ["--allow-net", "--allow-env", expect.stringContaining("--allow-read=/"), "--allow-sys=ca"];
      expect(permissions(server.process.pid)).toEqual([...ofWorker, "--allow-run"]);
      expect(server.pids().map(permissions)).toEqual([ofWorker, ofWorker]);
      expect(await server.stop()).toBe(0);
    } finally {
      await database.drop();
    }
  });
});
