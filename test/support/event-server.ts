import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { resolve } from "node:path";
import { createKeyring, type Keyring } from "../../src/operations/credentials.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Systems give none of these ports to outgoing connections, nor to a server that asks for any. */
const PORTS = { first: 12_000, count: 18_000 };
let lastPort = Math.floor(Math.random() * PORTS.count);

/** Returns a port that is free, and that nobody else takes by chance until it is used. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < PORTS.count; tries += 1) {
    lastPort = (lastPort + 1) % PORTS.count;
    const port = PORTS.first + lastPort;
    const isFree = await new Promise<boolean>((done) => {
      const probe = createServer();
      probe.once("error", () => done(false));
      probe.listen(port, () => probe.close(() => done(true)));
    });
    if (isFree) return port;
  }
  throw new Error("no port is free");
}

/** Secrets that test processes share with in-process resources. */
export const TEST_SECRETS = {
  JWT_SECRET: "5f0c1b7e9a3d48c2b6e4f17a0d9c8b3e5f0c1b7e9a3d48c2",
  JWT_SALT: "8b3e5f0c1b7e9a3d48c2b6e4f17a0d9c",
  API_KEYS_SECRET: "a0d9c8b3e5f0c1b7e9a3d48c2b6e4f17a0d9c8b3e5f0c1b7",
};

/** Start command of the REST process, as containers run it: in a fifth of the time of the sources. build-server.ts builds it. */
export const REST = [process.execPath, "dist/server/node.js"] as const;

/** Start command of the event server per runtime. */
export const COMMANDS = {
  Node: [process.execPath, "--import", "tsx", "src/entries/events-node.ts"],
  /** As containers run it. build-server.ts builds it. */
  "built Node": [process.execPath, "dist/server/events-node.js"],
  Bun: [resolve(ROOT, "node_modules/.bin/bun"), "src/entries/events-bun.ts"],
} as const;

/** Variable with the hosts of the poolers that the tests have in front of servers, as JSON: by {@link serverOf}. */
const POOLERS = "TEST_POOLERS";

const poolers = (): Record<string, string> => JSON.parse(process.env[POOLERS] ?? "{}") as Record<string, string>;

/** Names a server, and the only user whom its pooler knows. An address of several hosts, which URL refuses, has no pooler. */
function serverOf(databaseUrl: string): string {
  const { username, host } = URL.parse(databaseUrl) ?? {};
  return `${username}@${host}`;
}

/** Makes the processes of this process and of its children reach a server through a pooler. */
export function putInFront(poolerUrl: string, databaseUrl: string): void {
  process.env[POOLERS] = JSON.stringify({ ...poolers(), [serverOf(databaseUrl)]: new URL(poolerUrl).host });
}

/** Variables of a process on this database: through the pooler, if the tests have one in front of its server. */
export function databaseVariables(databaseUrl: string): Record<string, string> {
  const pooler = poolers()[serverOf(databaseUrl)];
  if (pooler === undefined) return { DATABASE_URL: databaseUrl };
  const pooled = new URL(databaseUrl);
  pooled.host = pooler;
  return { DATABASE_URL: pooled.href, DATABASE_DIRECT_URL: databaseUrl };
}

let keyringOfTests: Promise<Keyring> | undefined;
/** The secrets of TEST_SECRETS as a keyring, for in-process resources. */
export const testKeyring = () =>
  (keyringOfTests ??= createKeyring({
    apiKeysSecret: TEST_SECRETS.API_KEYS_SECRET,
    jwtSecret: TEST_SECRETS.JWT_SECRET,
    jwtSalt: TEST_SECRETS.JWT_SALT,
  }));

export interface RunningServer {
  /** Origin of both REST and events. */
  url: string;
  process: ChildProcess;
  /** Output so far, stdout and stderr. */
  output(): string;
  /** Sends SIGTERM, waits for the drain, and returns the exit code. */
  stop(): Promise<number | null>;
}

/** Value of METRICS_TOKEN with which a process exports its metrics. */
export const METRICS_TOKEN = "metrics-token-of-the-tests";

/** Reads how many transactions a process has retried after conflicts. */
export async function repeatedBy({ url }: RunningServer): Promise<number> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  return Number(/^faregate_database_repeated_total (\d+)$/m.exec(await answer.text())?.[1]);
}

/** Starts the real event server process over this database; it serves the whole REST interface too. */
export async function startEventServer(
  databaseUrl: string,
  environment: Record<string, string> = {},
  runtime: keyof typeof COMMANDS = "built Node",
): Promise<RunningServer> {
  const port = Number(environment["EVENTS_PORT"] ?? (await freePort()));
  return startServer(COMMANDS[runtime], port, {
    ...databaseVariables(databaseUrl),
    EVENTS_PORT: String(port),
    ...environment,
  });
}

/** Starts the real REST process over this database with this command. */
export async function startRestServer(
  command: readonly [string, ...string[]],
  databaseUrl: string,
  environment: Record<string, string> = {},
): Promise<RunningServer> {
  const port = await freePort();
  return startServer(command, port, { ...databaseVariables(databaseUrl), PORT: String(port), ...environment });
}

/** Starts a server process with the tests' secrets and resolves once it responds on this port. */
async function startServer(
  command: readonly [string, ...string[]],
  port: number,
  environment: Record<string, string>,
): Promise<RunningServer> {
  const [program, ...given] = command;
  const child = spawn(program, given, {
    cwd: ROOT,
    env: { ...process.env, ...TEST_SECRETS, LOG_LEVEL: "warn", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const gone = new Promise<number | null>((done) => child.once("exit", done));
  const closed = new Promise((done) => child.once("close", done));
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + 120_000;
  for (;;) {
    const up = await fetch(`${url}/live`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (up) break;
    if (child.exitCode !== null || Date.now() > deadline) {
      // After its end, the rest of its output is still to be read.
      if (child.exitCode !== null) await closed;
      child.kill("SIGKILL");
      throw new Error(`the server did not start: ${output}`);
    }
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return {
    url,
    process: child,
    output: () => output,
    stop: () => {
      child.kill("SIGTERM");
      return gone;
    },
  };
}
