import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { migrate } from "../../src/db/migrate.ts";
import { alive } from "../entries/launcher.ts";
import { makeDatabaseFolder } from "../support/database-folder.ts";
import {
  freePort,
  METRICS_TOKEN,
  repeatedBy,
  REST,
  type RunningServer,
  startEventServer,
  startRestServer,
} from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import { tasker } from "../support/contracting.ts";

/*
 * Answers while Postgres is down, frozen, full, read-only or in conflict, through real REST and event processes. Bounds
 * are those of the plan; the test shares its cores with others.
 */

/** A slower answer counts as a hang. Generous, because the machine may be slow: a hang lasts until the database returns. */
const PATIENCE_MS = 10_000;

let folder: string;
let postgres: EmbeddedPostgres;
let rest: RunningServer;
let events: RunningServer;
let key: string;
let admin: Connection;

beforeAll(async () => {
  folder = makeDatabaseFolder("trouble");
  postgres = await startEmbeddedPostgres({ dataDir: folder, password: "sesame", port: await freePort() });
  await migrate(postgres.url, MIGRATIONS);
  admin = connect(postgres.url, { maxConnections: 2, applicationName: "faregate-test" });
  key = await contractUsers(admin, {
    pricing: tasker({ maxTasks: 1000 }),
    service: "tasker",
    plan: "PRO",
    userIds: ["ada"],
  });
  // One over the Unix-domain socket, the other over TCP.
  rest = await startRestServer(REST, postgres.localUrl, {
    METRICS_TOKEN,
  });
  events = await startEventServer(postgres.url);
}, 60_000);
afterAll(async () => {
  await admin.close(0);
  for (const server of [rest, events]) server.process.kill("SIGKILL");
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Told {
  status: number;
  retryAfter: string | null;
  body: string;
  tookMs: number;
}

/** Sends one request. Fails without an answer in time. */
async function ask(
  path: string,
  init: { method?: string; body?: unknown; server?: RunningServer; once?: string } = {},
): Promise<Told> {
  const { method = "GET", body, server = rest, once } = init;
  const from = performance.now();
  const answer = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: {
      "x-api-key": key,
      "content-type": "application/json",
      ...(once === undefined ? {} : { "idempotency-key": once }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    retryAfter: answer.headers.get("retry-after"),
    body: text,
    tookMs: performance.now() - from,
  };
}

const CALLS: [path: string, init: { method?: string; body?: unknown }][] = [
  ["/contracts/ada", {}],
  ["/services", {}],
  ["/features/ada", { method: "POST", body: {} }],
  ["/features/ada/tasker-board", { method: "POST", body: { "tasker-maxTasks": 0 } }],
  ["/contracts/ada/userContact", { method: "PUT", body: { firstName: "Ada" } }],
];

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Every call is 503 with Retry-After in time, from both processes, without internals of the driver. */
async function expectUnavailable(calls = CALLS): Promise<void> {
  const answers = await Promise.all(
    [rest, events].flatMap((server) => calls.map(([path, init]) => ask(path, { ...init, server }))),
  );
  for (const { status, retryAfter, body, tookMs } of answers) {
    expect({ status, retryAfter, body }).toEqual({
      status: 503,
      retryAfter: expect.stringMatching(/^[15]$/),
      // A statement in flight when the connection breaks may have been executed, and the answer says so.
      body: expect.stringMatching(
        /^\{"error":"The service is temporarily unavailable. Please try again"(,"details":"The change may .*")?\}$/,
      ),
    });
    expect(tookMs).toBeLessThan(PATIENCE_MS);
  }
}

/** Waits until both original processes serve again. */
async function untilServed(): Promise<void> {
  const from = performance.now();
  for (const server of [rest, events]) {
    expect(server.process.exitCode, server.output()).toBeNull();
    for (;;) {
      const answers = await Promise.all(
        CALLS.map(([path, init]) => ask(path, { ...init, server }).catch(() => undefined)),
      );
      if (answers.every((answer) => answer?.status === 200)) break;
      if (performance.now() - from > 30_000)
        throw new Error(`not served: ${JSON.stringify(answers)} ${server.output()}`);
      await pause(20);
    }
  }
}

const postmaster = () => Number.parseInt(readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8"), 10);

/** Postgres backends that serve clients, by application name. */
function sessions(): number[] {
  const parent = String(postmaster());
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return / (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) \w/, ""))?.[1] === parent;
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Stops the whole of Postgres. The postmaster comes first, so that it starts no session that stays awake. */
function freeze(): number[] {
  const main = postmaster();
  process.kill(main, "SIGSTOP");
  const frozen = [...sessions(), main];
  for (const pid of frozen) process.kill(pid, "SIGSTOP");
  return frozen;
}

describe("while Postgres", () => {
  it("is gone, calls are 503 at once and the processes live; it serves soon after it is back", async () => {
    await untilServed();
    const backends = sessions();
    process.kill(postmaster(), "SIGKILL");
    await postgres.exited;
    // A session outlives it until it notices.
    await expect.poll(() => backends.filter(alive)).toEqual([]);
    try {
      for (let round = 0; round < 3; round += 1) {
        await expectUnavailable();
        await pause(500);
      }
      expect((await fetch(`${rest.url}/api/v1/healthcheck`)).status).toBe(200);
      expect((await fetch(`${rest.url}/live`)).status).toBe(200);
      expect((await fetch(`${rest.url}/ready`)).status).toBe(503);
    } finally {
      const port = Number(new URL(postgres.url).port);
      postgres = await startEmbeddedPostgres({ dataDir: folder, password: "sesame", port });
    }
    // The target is one second. Three times as much is allowed, because other work shares the cores.
    await untilServed();
  });

  it("ends every session, no more than calls in flight are lost, and the next ones succeed", async () => {
    await untilServed();
    const [ended] = await admin.client<{ n: number }[]>`
      select count(pg_terminate_backend(pid))::int as n from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name like 'faregate-%'`;
    expect(ended?.n).toBeGreaterThan(3);
    await untilServed();
  });

  it("says nothing any more, calls are 503 in time and nothing that was kept is served", async () => {
    await untilServed();
    const frozen = freeze();
    try {
      // Cached values may be used for less than a second after the last heartbeat.
      await pause(1000);
      await expectUnavailable();
      await expectUnavailable();
    } finally {
      for (const pid of frozen) process.kill(pid, "SIGCONT");
    }
    await untilServed();
  });

  it("freezes amid writes, each is answered in time and counts once when it is sent again with its key", async () => {
    await untilServed();
    const writes: { path: string; method: string; body: unknown; once: string }[] = [];
    const write = async (i: number) => {
      const once = crypto.randomUUID();
      const [path, method, body] =
        i % 2 === 0
          ? ["/features/ada/tasker-board", "POST", { "tasker-maxTasks": 1 }]
          : ["/contracts/ada/usageLevels", "PUT", { tasker: { maxTasks: 1 } }];
      const sent = { path: String(path), method: String(method), body, once };
      writes.push(sent);
      return { sent, told: await ask(sent.path, { ...sent, server: i % 3 === 0 ? events : rest }) };
    };
    await ask("/contracts/ada/usageLevels?reset=true", { method: "PUT", body: {} });
    let frozen: number[] = [];
    const open: ReturnType<typeof write>[] = [];
    for (let i = 0; i < 60; i += 1) {
      open.push(write(i));
      if (i === 30) frozen = freeze();
      await pause(20);
    }
    try {
      const told = await Promise.all(open);
      const slow = told.filter(({ told: { status } }) => status !== 200);
      expect(slow.length).toBeGreaterThan(20);
      for (const { told: answer } of slow) {
        expect(answer.status, answer.body).toBe(503);
        expect(answer.retryAfter).toBe("1");
        expect(answer.tookMs).toBeLessThan(PATIENCE_MS);
      }
      // A statement was sent and got no answer: its outcome is unknown, and the answer says so.
      expect(slow.filter(({ told: answer }) => answer.body.includes("Idempotency-Key")).length).toBeGreaterThan(0);
    } finally {
      for (const pid of frozen) process.kill(pid, "SIGCONT");
    }
    await untilServed();
    for (const sent of writes) expect((await ask(sent.path, sent)).status).toBe(200);
    const shown = JSON.parse((await ask("/contracts/ada")).body) as {
      usageLevels: { tasker: { maxTasks: { consumed: number } } };
    };
    expect(shown.usageLevels.tasker.maxTasks.consumed).toBe(writes.length);
    expect((await checkLedger(admin.db)).violations).toEqual([]);
  });

  it("is read-only, reads are served and writes are 503", async () => {
    await untilServed();
    await admin.client.unsafe("alter system set default_transaction_read_only = on");
    await admin.client`select pg_reload_conf()`;
    try {
      await expect
        .poll(() => admin.client`show default_transaction_read_only`)
        .toMatchObject([{ default_transaction_read_only: "on" }]);
      await pause(500);
      expect((await ask("/contracts/ada")).status).toBe(200);
      expect((await ask("/features/ada", { method: "POST", body: {} })).status).toBe(200);
      await expectUnavailable([
        ["/contracts/ada/userContact", { method: "PUT", body: { firstName: "Ada" } }],
        ["/features/ada/tasker-board", { method: "POST", body: { "tasker-maxTasks": 1 } }],
        ["/contracts/ada", { method: "DELETE" }],
      ]);
    } finally {
      await admin.client.begin("read write", (tx) => tx`select set_config('transaction_read_only', 'off', true)`);
      await admin.client.unsafe("alter system reset default_transaction_read_only");
      await admin.client`select pg_reload_conf()`;
    }
    await pause(300);
    await untilServed();
  });

  it("has no connection left for anybody, calls are 503 in time and succeed when there is one", async () => {
    await untilServed();
    const hogs: Connection[] = [];
    try {
      // Takes every free connection, including those that the processes lose meanwhile. A session that was ended keeps its place
      // for a moment, so a refusal alone proves nothing: no other session may be there before it and after it.
      for (let rounds = 0; rounds < 2;) {
        const more = Array.from({ length: 30 }, () =>
          connect(postgres.url, { maxConnections: 1, applicationName: "faregate-test" }),
        );
        hogs.push(...more);
        const got = await Promise.allSettled(more.map(({ client }) => client`select 1`));
        const others = await admin.client`
          select pg_terminate_backend(pid) from pg_stat_activity
          where backend_type = 'client backend' and application_name <> 'faregate-test'`;
        rounds = others.length === 0 && got.every(({ status }) => status === "rejected") ? rounds + 1 : 0;
      }
      await expectUnavailable();
      expect((await fetch(`${rest.url}/live`)).status).toBe(200);
    } finally {
      await Promise.all(hogs.map((hog) => hog.close(0)));
    }
    await untilServed();
  });

  it("has two transactions wait for each other, neither caller sees more than a wait or 503, and both may try again", async () => {
    await untilServed();
    const statuses = new Set<number>();
    // Takes the locks of a consumption in the opposite order, repeatedly.
    const over = new AbortController();
    const opponent = (async () => {
      while (!over.signal.aborted) {
        await admin.client
          .begin(async (tx) => {
            await tx`select 1 from usage_levels order by limit_name desc for update`;
            await pause(20);
            await tx`select 1 from contracts for update`;
          })
          .catch(() => {});
      }
    })();
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let i = 0; i < 4; i += 1) {
          const { status } = await ask("/contracts/ada/usageLevels", {
            method: "PUT",
            body: { tasker: { maxTasks: 1 } },
          });
          statuses.add(status);
        }
      }),
    ).finally(() => {
      over.abort();
      return opponent;
    });
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect((await checkLedger(admin.db)).violations).toEqual([]);
  });

  it("undoes a transaction of the process to end a deadlock, the other one goes on, and the process does its own again", async () => {
    await untilServed();
    const used = async () => {
      const shown = JSON.parse((await ask("/contracts/ada")).body) as {
        usageLevels: { tasker: { maxTasks: { consumed: number } } };
      };
      return shown.usageLevels.tasker.maxTasks.consumed;
    };
    const before = { used: await used(), repeated: await repeatedBy(rest) };
    let done = 0;
    for (let round = 0; round < 10 && (await repeatedBy(rest)) < before.repeated + 2; round += 1) {
      let told: Promise<Told> | undefined;
      await admin.client
        .begin(async (tx) => {
          // The process has the shorter deadlock_timeout, so that Postgres rolls back its transaction.
          await tx`set local deadlock_timeout = '4s'`;
          await tx`select 1 from usage_levels order by limit_name desc for update`;
          told = ask("/contracts/ada/usageLevels", { method: "PUT", body: { tasker: { maxTasks: 1 } } });
          await expect
            .poll(
              () => admin.client`
                select 1 from pg_stat_activity where application_name = 'faregate-rest' and wait_event_type = 'Lock'`,
              { interval: 10, timeout: 5000 },
            )
            .toHaveLength(1);
          await tx`select 1 from contracts for update`;
        })
        // On a very slow machine Postgres may roll back the other transaction instead.
        .catch(() => {});
      // A slow machine may hold the locks for longer than a call waits for them.
      const status = (await told)?.status;
      expect([200, 503]).toContain(status);
      if (status === 200) done += 1;
    }
    expect(await repeatedBy(rest)).toBeGreaterThanOrEqual(before.repeated + 2);
    expect(await used()).toBe(before.used + done);
    expect((await checkLedger(admin.db)).violations).toEqual([]);
  });
});

it("a process whose listener is silent while the rest of the database works serves nothing that has changed", async () => {
  await untilServed();
  const listener = await admin.client<{ pid: number }[]>`
    select pid from pg_stat_activity where application_name = 'faregate-rest-changes'`;
  const pid = listener[0]?.pid ?? 0;
  for (let round = 0; round < 3; round += 1) {
    process.kill(pid, "SIGSTOP");
    try {
      await ask("/contracts/ada");
      await pause(1000);
      const firstName = `Ada ${round}`;
      await admin.client`update contracts set first_name = ${firstName} where user_id = 'ada'`;
      expect(JSON.parse((await ask("/contracts/ada")).body)).toMatchObject({ userContact: { firstName } });
      // The other process changes a contract, and this process gets no notification.
      await ask("/contracts/ada", {
        method: "PUT",
        server: events,
        body: {
          contractedServices: { tasker: "1.0.0" },
          subscriptionPlans: { tasker: round % 2 === 0 ? "BASIC" : "PRO" },
          subscriptionAddOns: {},
        },
      });
      const evaluated = JSON.parse((await ask("/features/ada", { method: "POST", body: {} })).body);
      expect(evaluated).toMatchObject({ "tasker-darkMode": round % 2 !== 0 });
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await pause(600);
  }
  expect(rest.process.exitCode).toBeNull();
});
