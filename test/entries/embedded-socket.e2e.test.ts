import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { overSocket, socketPath } from "../../src/db/postgres/address.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { runningAddress, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { socketArguments } from "../../src/db/postgres/embedded-socket.ts";
import type { Runtime } from "../../src/entries/launcher/runtimes.ts";
import { childOf, databaseUrl, folder, launchAndWait, ports, killOn, signIn, until, useLaunchers } from "./launcher.ts";

/* The embedded Postgres over its Unix-domain socket: who uses it, and what happens where there is none. */

useLaunchers();

/** Counts the connections of Faregate's processes, by application and way. */
async function connections(): Promise<Record<string, string>> {
  const connection = connect(await databaseUrl(), { maxConnections: 1, applicationName: "operator" });
  try {
    const rows = await connection.client<{ name: string; way: string }[]>`
      select application_name as name, case when client_addr is null then 'socket' else 'tcp' end as way
      from pg_stat_activity where application_name <> '' group by 1, 2 order by 1, 2`;
    return Object.fromEntries(rows.map(({ name, way }) => [name, way]));
  } finally {
    await connection.close(0);
  }
}

const OVER_SOCKET = {
  "faregate-rest": "socket",
  "faregate-rest-changes": "socket",
  "faregate-events-feed": "socket",
  "faregate-events-rest-changes": "socket",
};

it.each<Runtime>(["node", "bun", "deno"])(
  "REST on %s and the event server use it, and TCP stays open",
  async (runtime) => {
    const launcher = await launchAndWait({ ADMIN_PASSWORD: "sesame-open" }, runtime);
    for (const port of [ports.PORT, ports.EVENTS_PORT]) expect((await signIn("sesame-open", port)).status).toBe(200);
    await expect.poll(connections).toMatchObject({ ...OVER_SOCKET, operator: "tcp" });
    launcher.process.kill("SIGTERM");
    expect(await launcher.exit).toBe(0);
  },
  120_000,
);

it("workers on Deno use it too", async () => {
  await launchAndWait({ ADMIN_PASSWORD: "sesame-open", WORKERS: "2" }, "deno");
  expect((await signIn("sesame-open")).status).toBe(200);
  await expect.poll(connections).toMatchObject(OVER_SOCKET);
}, 120_000);

it("a data folder with a path that is too long for a socket is served over TCP", async () => {
  const dataDir = join(folder, "long".repeat(30));
  const server = await startEmbeddedPostgres({ dataDir, password: "sesame" });
  try {
    expect(server.localUrl).toBe(server.url);
    expect(runningAddress(dataDir, "sesame")).toBe(server.url);
  } finally {
    await server.stop();
  }
});

it("a data folder may have every character in its name", async () => {
  const dataDir = join(folder, `a "quoted", 50%é & more?`);
  const server = await startEmbeddedPostgres({ dataDir, password: "sesame" });
  try {
    expect(server.localUrl).toBe(overSocket(server.url, join(dataDir, "postgres")));
    expect(runningAddress(dataDir, "sesame")).toBe(server.localUrl);
    const connection = connect(server.localUrl, { maxConnections: 1 });
    expect(await connection.client`select client_addr from pg_stat_activity where pid = pg_backend_pid()`).toEqual([
      { client_addr: null },
    ]);
    await connection.close();
  } finally {
    await server.stop();
  }
});

describe("when the server is killed", () => {
  it("its processes answer 503 while the socket is gone, and serve again over the new one", async () => {
    const launcher = await launchAndWait({ ADMIN_PASSWORD: "sesame-open" });
    const cluster = join(folder, "data", "postgres");
    const sockets = () => readdirSync(cluster).filter((name) => name.startsWith(".s.PGSQL."));
    const before = sockets();
    expect(before).toHaveLength(2);
    process.kill(childOf(launcher, "postgres"), "SIGKILL");
    const statuses = new Set<number>();
    await until(
      async () => {
        statuses.add((await signIn("sesame-open")).status);
        return launcher.errors().includes("The database is back.") && statuses.has(200);
      },
      () => launcher.errors(),
    );
    await until(
      async () => (await signIn("sesame-open")).status === 200,
      () => launcher.errors(),
    );
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(sockets()).toEqual(before);
    await expect.poll(connections).toMatchObject(OVER_SOCKET);
  });

  it("the next start on another port removes its socket", async () => {
    const dataDir = join(folder, "data");
    const first = await startEmbeddedPostgres({ dataDir, password: "sesame" });
    const [, port = ""] = /:(\d+)\//.exec(first.url) ?? [];
    const socket = socketPath(join(dataDir, "postgres"), port);
    expect(existsSync(socket)).toBe(true);
    killOn(dataDir);
    await first.exited;
    expect(existsSync(socket)).toBe(true);
    const second = await startEmbeddedPostgres({ dataDir, password: "sesame" });
    try {
      expect(existsSync(socket)).toBe(false);
      expect(second.localUrl).not.toBe(second.url);
    } finally {
      await second.stop();
    }
  });
});

it("Windows and paths of more than 103 bytes have none", () => {
  expect(socketArguments("C:/data", "win32")).toEqual(["--unix-socket-directories="]);
  const longest = `/${"é".repeat(43)}x`;
  expect(socketArguments(longest)).toEqual([
    `--unix-socket-directories="${longest}"`,
    "--unix-socket-permissions=0700",
  ]);
  expect(socketArguments(`${longest}x`)).toEqual(["--unix-socket-directories="]);
});
