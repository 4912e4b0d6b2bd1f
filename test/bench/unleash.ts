import { execFile, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../support/event-server.ts";
import { programOf } from "../runtimes/runtimes.ts";
import type { BenchRow } from "./pricing.ts";
import { sideBySide } from "./side-by-side.ts";

/*
 * Compares Faregate with Unleash's server, as published on npm, over the same Postgres. Its front-end API evaluates
 * thirty flags for one user, Faregate thirty features. It is installed into a temporary folder with the Node version
 * that it requires: too large for every `npm ci`.
 */

const VERSION = "unleash-server@8.2.0";
const FLAGS = 30;

/** Installs and starts Unleash, creates the flags, and returns how to request them. */
async function startUnleash(folder: string, databaseUrl: string) {
  const home = join(folder, "unleash");
  await mkdir(home);
  await writeFile(join(home, "package.json"), '{ "private": true, "type": "commonjs" }');
  await promisify(execFile)("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", VERSION], { cwd: home });
  const [node = ""] = await programOf("Node 22");
  const port = await freePort();
  const token = "*:development.bench-front-end-token";
  const admin = "*:*.bench-admin-token";
  const child = spawn(node, [join(home, "node_modules/unleash-server/dist/server.js")], {
    env: {
      PATH: process.env["PATH"],
      NODE_ENV: "production",
      DATABASE_URL: databaseUrl,
      DATABASE_SSL: "false",
      HTTP_PORT: String(port),
      HTTP_HOST: "127.0.0.1",
      LOG_LEVEL: "fatal",
      CHECK_VERSION: "false",
      SEND_TELEMETRY: "false",
      INIT_ADMIN_API_TOKENS: admin,
      INIT_FRONTEND_API_TOKENS: token,
    },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const url = `http://127.0.0.1:${port}`;
  const stop = async () => {
    const gone = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await gone;
  };
  try {
    const deadline = Date.now() + 60_000;
    while (
      !(await fetch(`${url}/health`).then(
        (answer) => answer.ok,
        () => false,
      ))
    ) {
      if (Date.now() > deadline) throw new Error("unleash-server did not start");
      await new Promise((wait) => setTimeout(wait, 100));
    }
    const call = async (path: string, body: unknown) => {
      const answer = await fetch(`${url}/api/admin${path}`, {
        method: "POST",
        headers: { authorization: admin, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    };
    for (let i = 0; i < FLAGS; i += 1) {
      const path = `/projects/default/features`;
      await call(path, { name: `feature${i}`, type: "release" });
      await call(`${path}/feature${i}/environments/development/strategies`, {
        name: "default",
        constraints: [{ contextName: "userId", operator: "IN", values: ["user-1"] }],
      });
      await call(`${path}/feature${i}/environments/development/on`, undefined);
    }
    const asked = async () =>
      (await (await fetch(`${url}/api/frontend?userId=user-1`, { headers: { authorization: token } })).json()) as {
        toggles: unknown[];
      };
    while ((await asked()).toggles.length < FLAGS) {
      if (Date.now() > deadline + 30_000) throw new Error("unleash-server does not answer all flags");
      await new Promise((wait) => setTimeout(wait, 200));
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, token, stop };
}

/** Runs only by name: `npm run bench -- unleash`. Installs some 400 packages into a temporary folder. */
export function run({ quick = false } = {}): Promise<BenchRow[]> {
  return sideBySide(async ({ ours, folder, newDatabase, onStop }) => {
    const { url, token, stop } = await startUnleash(folder, await newDatabase("unleash"));
    onStop(stop);
    return [
      {
        name: "evaluate 30 features of one user / unleash-server 8.2, front-end API with 30 flags",
        against: {
          url,
          headers: { authorization: token },
          paths: ["/api/frontend?userId=user-1"],
        },
        of: ours(["plain-1"], "{}"),
        connections: 64,
        target: 4,
      },
    ];
  }, quick);
}
