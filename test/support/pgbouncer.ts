import { spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectTo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { postgresOwner } from "./debian-postgres.ts";
import { freePort } from "./event-server.ts";

/** Debian's, unless `PGBOUNCER_PATH` names another one. */
const PROGRAM = process.env["PGBOUNCER_PATH"] ?? "/usr/sbin/pgbouncer";

/** A PgBouncer on loopback, in front of one server. */
export interface PgBouncer {
  /** URL of a database through it. */
  url(database: string): string;
  stop(): Promise<void>;
}

/**
 * Starts Debian's PgBouncer in front of this server, for every database of it. Default: in transaction mode, as hosted
 * databases run theirs.
 */
export async function startPgBouncer(
  serverUrl: string,
  settings: Readonly<Record<string, string | number>> = {},
): Promise<PgBouncer> {
  if (!existsSync(PROGRAM)) throw new Error("This test needs Debian's PgBouncer: apt-get install pgbouncer");
  const { hostname, port: serverPort, username, password } = new URL(serverUrl);
  const folder = mkdtempSync(join(tmpdir(), "faregate-pgbouncer-"));
  const port = await freePort();
  const users = join(folder, "users.txt");
  const config = join(folder, "pgbouncer.ini");
  const all = {
    listen_addr: "127.0.0.1",
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "plain",
    auth_file: users,
    pool_mode: "transaction",
    max_client_conn: 500,
    ...settings,
  };
  writeFileSync(users, `"${username}" "${decodeURIComponent(password)}"\n`);
  writeFileSync(
    config,
    [
      "[databases]",
      `* = host=${hostname} port=${serverPort}`,
      "[pgbouncer]",
      ...Object.entries(all).map(([name, value]) => `${name} = ${value}`),
      "",
    ].join("\n"),
  );
  const owner = postgresOwner();
  if (owner !== undefined) for (const path of [folder, users, config]) chownSync(path, owner.uid, owner.gid);
  const child = spawn(PROGRAM, ["--quiet", config], { ...owner, cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output = (output + text).slice(-10_000)));
  const gone = new Promise<void>((done) => child.once("exit", () => done()));
  for (let attempt = 0; !(await accepts(Number(all.listen_port))); attempt += 1) {
    if (child.exitCode !== null || attempt > 500) throw new Error(`PgBouncer does not start: ${output}`);
    await new Promise((wait) => setTimeout(wait, 20));
  }
  const stop = async () => {
    child.kill("SIGTERM");
    await gone;
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: (database) => `postgres://${username}:${password}@127.0.0.1:${all.listen_port}/${database}`, stop };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connectTo(port, "127.0.0.1");
    socket.once("connect", () => done(true)).once("error", () => done(false));
    socket.once("connect", () => socket.destroy());
  });
}
