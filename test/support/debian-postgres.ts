import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { freePort } from "./event-server.ts";
import { onServer } from "./postgres-server.ts";

/** Returns the folder of the newest installed Debian PostgreSQL, whose version may be the oldest that we support. */
export function debianPostgres(): string {
  const versions = existsSync("/usr/lib/postgresql") ? readdirSync("/usr/lib/postgresql") : [];
  const newest = versions.toSorted((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined) throw new Error("This test needs Debian's PostgreSQL: apt-get install postgresql");
  return `/usr/lib/postgresql/${newest}/bin`;
}

/** Returns the user for Debian's server, which refuses to run as root; undefined unless we are root. */
export function postgresOwner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
  return { uid: id("-u"), gid: id("-g") };
}

/**
 * Runs one of its tools.
 * @throws Error with the tool's output when it fails.
 */
export function runDebian(tool: string, given: readonly string[], environment: Record<string, string> = {}): void {
  const done = spawnSync(join(debianPostgres(), tool), given, {
    ...postgresOwner(),
    cwd: "/",
    encoding: "utf8",
    env: { ...process.env, ...environment },
  });
  if (done.status !== 0) throw new Error(`${tool}: ${done.stderr}`);
}

/** Creates a cluster in a folder that must not exist; its superuser is `faregate`. */
export function createDebianCluster(data: string, password: string): void {
  const folder = dirname(data);
  const secret = join(folder, "password");
  writeFileSync(secret, `${password}\n`);
  const owner = postgresOwner();
  for (const path of [folder, secret]) if (owner !== undefined) chownSync(path, owner.uid, owner.gid);
  runDebian("initdb", ["-D", data, "-U", "faregate", `--pwfile=${secret}`, "--auth=scram-sha-256"]);
}

/** Starts the cluster and resolves once it accepts connections, on loopback and on a socket in `socketFolder`. */
export async function startDebianPostgres(
  data: string,
  password: string,
  { socketFolder = "" } = {},
): Promise<{ url: string; process: ChildProcess; stop(): Promise<void> }> {
  const port = String(await freePort());
  const settings = ["-p", port, "-c", "listen_addresses=127.0.0.1", "-c", `unix_socket_directories=${socketFolder}`];
  const server = spawn(join(debianPostgres(), "postgres"), ["-D", data, ...settings], {
    ...postgresOwner(),
    cwd: "/",
    stdio: "ignore",
  });
  const gone = new Promise((done) => server.once("exit", done));
  const url = `postgres://faregate:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  for (let attempt = 0; ; attempt += 1) {
    const up = await onServer(url, "select 1").then(
      () => true,
      () => false,
    );
    if (up) break;
    if (attempt > 100) throw new Error("Debian's PostgreSQL does not start");
    await new Promise((wait) => setTimeout(wait, 100));
  }
  return {
    url,
    process: server,
    stop: async () => {
      server.kill("SIGINT");
      await gone;
    },
  };
}
