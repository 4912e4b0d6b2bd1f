import { execFileSync } from "node:child_process";
import { chownSync, mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { migrate } from "../../src/db/migrate.ts";
import { makeDatabaseFolder } from "../support/database-folder.ts";
import { tasker } from "../support/contracting.ts";
import { createDebianCluster, postgresOwner, runDebian, startDebianPostgres } from "../support/debian-postgres.ts";
import { METRICS_TOKEN, repeatedBy, REST, type RunningServer, startRestServer } from "../support/event-server.ts";
import { MIGRATIONS, withDatabase } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";

/*
 * Answers while Postgres runs but rejects work until an operator acts: full disk, standby, missing grant, closed
 * database; and serialization conflicts. Each condition is real.
 */

const ROLES = fileURLToPath(new URL("../../src/db/roles.sql", import.meta.url));
const PASSWORD = "sesame";

let folder: string;
let primary: Awaited<ReturnType<typeof startDebianPostgres>>;
let admin: Connection;
let key: string;
let appUrl: string;
let rest: RunningServer;

function urlAs(role: string): string {
  const url = new URL(withDatabase(primary.url, "faregate_test"));
  url.username = role;
  return url.href;
}

beforeAll(async () => {
  folder = makeDatabaseFolder("refuses");
  createDebianCluster(join(folder, "data"), PASSWORD);
  primary = await startDebianPostgres(join(folder, "data"), PASSWORD);
  const server = connect(primary.url, { maxConnections: 1 });
  await server.client.unsafe("create database faregate_test");
  await server.close();
  admin = connect(withDatabase(primary.url, "faregate_test"), { maxConnections: 1 });
  await admin.client.file(ROLES);
  for (const role of ["faregate_owner", "faregate_app"]) {
    await admin.client.unsafe(`alter role ${role} password '${PASSWORD}'`);
  }
  await migrate(urlAs("faregate_owner"), MIGRATIONS);
  await admin.client.file(ROLES);
  const pricing = tasker({ maxTasks: 100_000 });
  key = await contractUsers(admin, { pricing, service: "tasker", plan: "PRO", userIds: ["ada"] });
  appUrl = urlAs("faregate_app");
  rest = await startRestServer(REST, appUrl);
}, 60_000);
afterAll(async () => {
  rest.process.kill("SIGKILL");
  await admin.close(0);
  await primary.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Told {
  status: number;
  retryAfter: string | null;
  body: string;
}

async function ask(method: string, path: string, body?: unknown, server = rest): Promise<Told> {
  const answer = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { "x-api-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  });
  return { status: answer.status, retryAfter: answer.headers.get("retry-after"), body: await answer.text() };
}

const REFUSED: Told = {
  status: 503,
  retryAfter: "5",
  body: '{"error":"The service is temporarily unavailable. Please try again"}',
};
const OPERATOR = "the database rejects statements until an operator acts";
const rename = (firstName: string, server = rest) => ask("PUT", "/contracts/ada/userContact", { firstName }, server);
const consume = (server = rest) => ask("POST", "/features/ada/tasker-board", { "tasker-maxTasks": 1 }, server);
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Repeats the request until the answer is 200. Fails on any other error than the expected one. */
async function untilDone(call: () => Promise<Told>): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    const told = await call();
    if (told.status === 200) return;
    expect(told.status).toBe(503);
    if (attempt > 50) throw new Error(`still refused: ${told.body}`);
    await pause(100);
  }
}

describe("where Postgres refuses", () => {
  it("because a grant was revoked, what needs it is 503, the log says who has to act, and all else works", async () => {
    await admin.client.unsafe("revoke update on contracts from faregate_app");
    try {
      expect(await rename("Ada")).toEqual(REFUSED);
      await expect.poll(rest.output).toContain(OPERATOR);
      await expect.poll(rest.output).toContain("42501");
      expect((await ask("GET", "/contracts/ada")).status).toBe(200);
      expect((await ask("POST", "/features/ada", {})).status).toBe(200);
    } finally {
      await admin.client.unsafe("grant update on contracts to faregate_app");
    }
    expect((await rename("Ada")).status).toBe(200);
  });

  it("because the database takes no connections, everything is 503 and works again when it does", async () => {
    const server = connect(primary.url, { maxConnections: 1 });
    try {
      await server.client.unsafe("alter database faregate_test allow_connections false");
      await server.client`select pg_terminate_backend(pid, 20000) from pg_stat_activity where datname = 'faregate_test'`;
      // The first connections may be the ones that were cut, or that are about to be.
      await expect.poll(() => rename("Ada")).toEqual(REFUSED);
      await expect.poll(() => ask("GET", "/contracts/ada")).toEqual(REFUSED);
      expect((await fetch(`${rest.url}/live`)).status).toBe(200);
      expect((await fetch(`${rest.url}/ready`)).status).toBe(503);
    } finally {
      await server.client.unsafe("alter database faregate_test allow_connections true");
      await server.close();
    }
    await untilDone(() => rename("Ada"));
  });

  it("because the disk is full, reads are served, writes are 503, and nothing is lost or counted twice", async () => {
    const disk = join(folder, "small");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=48m", "tmpfs", disk]);
    try {
      const space = join(disk, "space");
      mkdirSync(space);
      const owner = postgresOwner();
      if (owner !== undefined) for (const path of [disk, space]) chownSync(path, owner.uid, owner.gid);
      await admin.client.unsafe(`create tablespace small location '${space}'`);
      await admin.client.unsafe("alter table all in tablespace pg_default set tablespace small nowait");
      await admin.client.unsafe("alter index all in tablespace pg_default set tablespace small nowait");
      await untilDone(() => consume());
      const levelOf = async () => {
        const contract = JSON.parse((await ask("GET", "/contracts/ada")).body) as {
          usageLevels: { tasker: { maxTasks: { consumed: number } } };
        };
        return contract.usageLevels.tasker.maxTasks.consumed;
      };
      const before = await levelOf();
      const { bavail, bsize } = statfsSync(disk);
      writeFileSync(join(disk, "filler"), Buffer.alloc(bavail * bsize - 16 * 1024));
      let counted = 0;
      let full: Told | undefined;
      for (let attempt = 0; attempt < 5000 && full === undefined; attempt += 1) {
        const told = await consume();
        if (told.status === 200) counted += 1;
        else full = told;
      }
      expect(full).toEqual(REFUSED);
      await expect.poll(rest.output).toContain("53100");
      expect(await levelOf()).toBe(before + counted);
      expect((await ask("POST", "/features/ada", {})).status).toBe(200);
      rmSync(join(disk, "filler"));
      await untilDone(() => consume());
      expect(await levelOf()).toBe(before + counted + 1);
      expect((await checkLedger(admin.db)).violations).toEqual([]);
    } finally {
      await admin.client.unsafe("alter table all in tablespace small set tablespace pg_default");
      await admin.client.unsafe("alter index all in tablespace small set tablespace pg_default");
      await admin.client.unsafe("drop tablespace small");
      execFileSync("umount", [disk]);
    }
  });

  it("because two transactions cannot both be, the one that loses is done again, or 503 and has changed nothing", async () => {
    await admin.client.unsafe("alter role faregate_app set default_transaction_isolation = 'serializable'");
    const strict = await startRestServer(REST, appUrl, { METRICS_TOKEN });
    try {
      const levels = async () =>
        (JSON.parse((await ask("GET", "/contracts/ada")).body) as { usageLevels: object }).usageLevels;
      await ask("PUT", "/contracts/ada/usageLevels?reset=true&renewableOnly=false", {});
      expect(await levels()).toMatchObject({ tasker: { maxTasks: { consumed: 0 } } });
      let done = 0;
      const statuses = new Map<number, number>();
      await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          for (let round = 0; round < 10; round += 1) {
            const server = i % 2 === 0 ? strict : rest;
            const { status } = await ask(
              "PUT",
              "/contracts/ada/usageLevels",
              { tasker: { maxTasks: 1, maxExports: 1 } },
              server,
            );
            statuses.set(status, (statuses.get(status) ?? 0) + 1);
            if (status === 200) done += 1;
          }
        }),
      );
      expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
      // Proves that there were conflicts.
      expect(await repeatedBy(strict)).toBeGreaterThan(0);
      if (statuses.has(503)) await expect.poll(strict.output).toContain("40001");
      expect(await levels()).toMatchObject({
        tasker: { maxTasks: { consumed: done }, maxExports: { consumed: done } },
      });
      // With one concurrent transaction, which commits before the retry, both succeed.
      for (let round = 0; round < 20; round += 1) {
        const both = await Promise.all(
          [strict, round % 2 === 0 ? rest : strict].map((server) =>
            ask("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 1, maxExports: 1 } }, server),
          ),
        );
        expect(both.map(({ status }) => status)).toEqual([200, 200]);
        done += 2;
      }
      expect(await levels()).toMatchObject({
        tasker: { maxTasks: { consumed: done }, maxExports: { consumed: done } },
      });
      expect((await checkLedger(admin.db)).violations).toEqual([]);
    } finally {
      strict.process.kill("SIGKILL");
      await admin.client.unsafe("alter role faregate_app reset default_transaction_isolation");
    }
  });

  it("because it is a standby, reads are served and writes are 503; once it is promoted the same process writes", async () => {
    const data = join(folder, "standby");
    runDebian("pg_basebackup", ["-D", data, "-R", "-X", "stream", "-d", primary.url]);
    const standby = await startDebianPostgres(data, PASSWORD);
    const url = new URL(appUrl);
    url.port = new URL(standby.url).port;
    const replica = await startRestServer(REST, url.href);
    try {
      await untilDone(() => rename("Augusta"));
      for (let attempt = 0; !(await ask("GET", "/contracts/ada", undefined, replica)).body.includes("Augusta");) {
        if ((attempt += 1) > 50) throw new Error("nothing is streamed");
        await pause(100);
      }
      expect((await ask("POST", "/features/ada", {}, replica)).status).toBe(200);
      expect(await rename("Ada", replica)).toEqual(REFUSED);
      expect(await consume(replica)).toEqual(REFUSED);
      expect(await ask("DELETE", "/contracts/ada", undefined, replica)).toEqual(REFUSED);
      await expect.poll(replica.output).toContain("25006");
      expect((await fetch(`${replica.url}/live`)).status).toBe(200);
      const there = connect(standby.url, { maxConnections: 1 });
      await there.client`select pg_promote()`;
      await there.close();
      await untilDone(() => rename("Ada", replica));
      await untilDone(() => consume(replica));
    } finally {
      replica.process.kill("SIGKILL");
      await standby.stop();
    }
  });
});
