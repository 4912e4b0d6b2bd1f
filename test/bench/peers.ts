import { spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../support/event-server.ts";
import { programOf } from "../runtimes/runtimes.ts";
import { FLAG_NAMES, install, runInProcess } from "./peers-in-process.ts";
import type { BenchRow } from "./pricing.ts";
import { type Pair, sideBySide } from "./side-by-side.ts";
import type { Load } from "./wrk.ts";

/*
 * Compares Faregate with its peers, as npm publishes them, over the same Postgres: each answers thirty flags of one user
 * over HTTP. They are installed into a temporary folder, with the Node version that they require: too large for every
 * `npm ci`.
 */

const USER = "user-1";
const CLIENT_TOKEN = "default:development.bench-client-token";
const FRONT_END_TOKEN = "*:development.bench-front-end-token";
const ADMIN_TOKEN = "*:*.bench-admin-token";

/** A running peer: a request that returns all flags, and how to stop it. */
interface Peer {
  load: Load;
  stop: () => Promise<unknown>;
}

/** Starts a process and waits for its first 2xx at `healthUrl`. */
async function startPeer(command: readonly string[], environment: Record<string, string>, healthUrl: string) {
  const [program = "", ...given] = command;
  const child = spawn(program, given, {
    env: { PATH: process.env["PATH"], NODE_ENV: "production", ...environment },
    // Cerbos logs each request that wrk gives up at the end of a round.
    stdio: "ignore",
  });
  const stop = async () => {
    const gone = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await gone;
  };
  try {
    const isUp = () =>
      fetch(healthUrl).then(
        (answer) => answer.ok,
        () => false,
      );
    await until(isUp, `${program} did not start`);
  } catch (error) {
    await stop();
    throw error;
  }
  return { pid: child.pid, stop };
}

async function until(holds: () => Promise<boolean>, complaint: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(complaint);
    await new Promise((wait) => setTimeout(wait, 100));
  }
}

/** Waits until a load returns all flags. */
async function answersAll({ url, headers, body, paths: [path = ""] }: Load, count: (answer: unknown) => number) {
  const call = async () => {
    const answer = await fetch(url + path, body === undefined ? { headers } : { method: "POST", headers, body });
    return answer.ok && count(await answer.json()) === FLAG_NAMES.length;
  };
  await until(call, `${url}${path} does not return ${FLAG_NAMES.length} flags`);
}

const toggles = (answer: unknown) => (answer as { toggles: unknown[] }).toggles.length;

async function startUnleash(folder: string, databaseUrl: string): Promise<Peer & { clientUrl: string }> {
  const home = await install(join(folder, "unleash"), ["unleash-server@8.2.0"]);
  const [node = ""] = await programOf("Node 22");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const { pid, stop } = await startPeer(
    [node, join(home, "node_modules/unleash-server/dist/server.js")],
    {
      DATABASE_URL: databaseUrl,
      DATABASE_SSL: "false",
      HTTP_PORT: String(port),
      HTTP_HOST: "127.0.0.1",
      LOG_LEVEL: "fatal",
      CHECK_VERSION: "false",
      SEND_TELEMETRY: "false",
      INIT_ADMIN_API_TOKENS: ADMIN_TOKEN,
      INIT_CLIENT_API_TOKENS: CLIENT_TOKEN,
      INIT_FRONTEND_API_TOKENS: FRONT_END_TOKEN,
    },
    `${url}/health`,
  );
  try {
    for (const name of FLAG_NAMES) await createFlag(url, name);
    const load = { url, headers: { authorization: FRONT_END_TOKEN }, paths: [`/api/frontend?userId=${USER}`], pid };
    await answersAll(load, toggles);
    return { load, stop, clientUrl: `${url}/api` };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function createFlag(url: string, name: string): Promise<void> {
  const call = async (path: string, body: object | undefined) => {
    const answer = await fetch(`${url}/api/admin/projects/default/features${path}`, {
      method: "POST",
      headers: { authorization: ADMIN_TOKEN, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  };
  await call("", { name, type: "release" });
  await call(`/${name}/environments/development/strategies`, {
    name: "default",
    constraints: [{ contextName: "userId", operator: "IN", values: [USER] }],
  });
  await call(`/${name}/environments/development/on`, undefined);
}

/** Starts Unleash's proxy, which answers from memory. */
async function startProxy(folder: string, unleashUrl: string): Promise<Peer> {
  const home = await install(join(folder, "proxy"), ["@unleash/proxy@1.4.19"]);
  const [node = ""] = await programOf("Node 22");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const { pid, stop } = await startPeer(
    [node, join(home, "node_modules/@unleash/proxy/dist/start.js")],
    {
      PORT: String(port),
      UNLEASH_URL: unleashUrl,
      UNLEASH_API_TOKEN: CLIENT_TOKEN,
      UNLEASH_PROXY_CLIENT_KEYS: "bench-proxy-key",
      LOG_LEVEL: "fatal",
    },
    `${url}/proxy/health`,
  );
  const load = { url, headers: { authorization: "bench-proxy-key" }, paths: [`/proxy?userId=${USER}`], pid };
  await answersAll(load, toggles);
  return { load, stop };
}

/** Starts Cerbos with one policy of thirty actions, each with a condition on the user. */
async function startCerbos(folder: string): Promise<Peer> {
  // The program itself: the package's command starts it as a child, which would outlive its parent.
  const program = `cerbos-${process.platform}-${process.arch}`;
  const home = await install(join(folder, "cerbos"), [`@cerbos/${program}@0.51.0`]);
  const [http, grpc] = [await freePort(), await freePort()];
  const rules = FLAG_NAMES.map(
    (name) => `
    - actions: [${name}]
      effect: EFFECT_ALLOW
      roles: [user]
      condition: { match: { expr: 'request.principal.id == "${USER}"' } }`,
  );
  await mkdir(join(home, "policies"));
  await writeFile(
    join(home, "policies/app.yaml"),
    `apiVersion: api.cerbos.dev/v1\nresourcePolicy:\n  version: default\n  resource: app\n  rules:${rules.join("")}\n`,
  );
  await writeFile(
    join(home, "config.yaml"),
    `server: { httpListenAddr: "127.0.0.1:${http}", grpcListenAddr: "127.0.0.1:${grpc}" }
telemetry: { disabled: true }
storage: { driver: disk, disk: { directory: ${join(home, "policies")} } }
`,
  );
  const url = `http://127.0.0.1:${http}`;
  const { pid, stop } = await startPeer(
    [
      join(home, "node_modules/@cerbos", program, program),
      "server",
      `--config=${join(home, "config.yaml")}`,
      "--log-level=error",
    ],
    { CERBOS_NO_TELEMETRY: "1" },
    `${url}/_cerbos/health`,
  );
  const load = {
    url,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      principal: { id: USER, roles: ["user"] },
      resources: [{ resource: { kind: "app", id: "1" }, actions: FLAG_NAMES }],
    }),
    paths: ["/api/check/resources"],
    pid,
  };
  const allowed = (answer: unknown) => {
    const [result] = (answer as { results: { actions: Record<string, string> }[] }).results;
    return Object.values(result?.actions ?? {}).filter((effect) => effect === "EFFECT_ALLOW").length;
  };
  await answersAll(load, allowed);
  return { load, stop };
}

/** Runs only by name: `npm run bench -- peers`. Installs some 600 packages into a temporary folder. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const overHttp = await sideBySide(async ({ ours, folder, newDatabase, onStop }) => {
    const unleash = await startUnleash(folder, await newDatabase("unleash"));
    onStop(unleash.stop);
    const proxy = await startProxy(folder, unleash.clientUrl);
    onStop(proxy.stop);
    const cerbos = await startCerbos(folder);
    onStop(cerbos.stop);
    const pair = (name: string, peer: Peer, target: number): Pair => ({
      name: `30 features of one user over HTTP / ${name}`,
      against: peer.load,
      of: ours(["plain-1"], "{}"),
      connections: 64,
      target,
    });
    return [
      pair("unleash-server 8.2, front-end API with 30 flags", unleash, 8),
      pair("@unleash/proxy 1.4, 30 flags", proxy, 3),
      pair("Cerbos 0.51, 30 actions", cerbos, 12),
    ];
  }, quick);
  return [...overHttp, ...(await runInProcess())];
}
