import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { bundle } from "../support/bundle.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { clientScenario } from "./client-scenario.ts";

/* Tests the client for back ends on every runtime, against a server process. */

let api: TestApi;
let server: RunningServer;
let scenario: string;
let folder: string;
const key = () => api.callers.all.key;

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  await upload(api, key(), tasker());
  for (const userId of ["node", "bun", "workerd"]) await contract(api, key(), userId);
  server = await startEventServer(api.database.url);
  scenario = await bundle(resolve(import.meta.dirname, "client-scenario.ts"), { format: "esm" });
  folder = mkdtempSync(join(tmpdir(), "faregate-client-"));
  writeFileSync(join(folder, "scenario.mjs"), scenario);
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await server.stop();
  await api.close();
});

const expected = (userId: string) => ({
  used: Array.from({ length: 3 }, () => [{ "tasker-maxTasks": 2 }, true, false]),
  board: true,
  token: [userId, { eval: true, limit: 20, used: 2, error: null }],
  refused: ["HTTP", 404, "Contract with userId nobody not found"],
  aborted: "ABORTED",
  listed: [userId],
  after: { "tasker-maxTasks": 0 },
  versions: ["1.0.0"],
});

test("on Node", async () => {
  expect(await clientScenario(server.url, key(), "node")).toEqual(expected("node"));
});

test("on Bun", async () => {
  const code = `
    import { clientScenario } from "./scenario.mjs";
    console.log(JSON.stringify(await clientScenario(${JSON.stringify(server.url)}, process.env.KEY, "bun")));`;
  writeFileSync(join(folder, "main.mjs"), code);
  const bun = spawn(resolve(import.meta.dirname, "../../node_modules/.bin/bun"), ["main.mjs"], {
    cwd: folder,
    env: { ...process.env, KEY: key() },
  });
  let out = "";
  bun.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  bun.stderr.on("data", (chunk: Buffer) => (out += chunk.toString()));
  await new Promise((done) => bun.once("close", done));
  expect(out).toMatch(/^\{/);
  expect(JSON.parse(out)).toEqual(expected("bun"));
});

test("in workerd, without Node's compatibility, with a client for the whole isolate", async () => {
  const worker = new Miniflare({
    modules: [
      {
        type: "ESModule",
        path: "worker.mjs",
        contents: `
          import { clientScenario } from "./scenario.mjs";
          export default { fetch: async (request) => {
            const [url, key, user] = await request.json();
            return Response.json(await clientScenario(url, key, user));
          } };`,
      },
      { type: "ESModule", path: "scenario.mjs", contents: scenario },
    ],
    modulesRoot: "/",
    compatibilityDate: "2026-03-01",
  });
  try {
    await worker.ready;
    const body = JSON.stringify([server.url, key(), "workerd"]);
    const answer = await worker.dispatchFetch("http://worker/", { method: "POST", body });
    const text = await answer.text();
    expect(text).toMatch(/^\{/);
    expect(JSON.parse(text)).toEqual(expected("workerd"));
  } finally {
    await worker.dispose();
  }
});
