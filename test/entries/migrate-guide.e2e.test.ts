import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { connect, type SpaceClient } from "space-node-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer } from "../support/event-server.ts";
import { importFolder, importVariables } from "../support/import-space.ts";
import { smallInstallation, spaceKey, TASKER, writeDump } from "../support/space-dump.ts";
import { quickPath } from "./beginner.ts";

/*
 * The commands of src/docs/migrate-from-space.md run as printed, with a generated dump and an empty database. Another
 * server with the same dump takes the place of SPACE. Published clients go on with their keys.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const ORG_KEY = spaceKey("org", "all");

let folder: string;
let path: string;
let database: TestDatabase;
let inPlaceOfSpace: TestDatabase;
let servers: RunningServer[] = [];
let client: SpaceClient | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "faregate-migrate-"));
  path = await quickPath(folder);
  for (const name of ["src", "node_modules", "package.json", "tsconfig.json"]) {
    await symlink(join(ROOT, name), join(folder, name));
  }
  const space = smallInstallation();
  const dump = await writeDump(space);
  await cp(dump.folder, join(folder, "dump/space_db"), { recursive: true });
  await dump.remove();
  for (const [index, text] of Object.values(TASKER).entries()) {
    const path = join(folder, "public", String(space.pricings[index]?.["yamlPath"]));
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  [database, inPlaceOfSpace] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  expect((await importFolder(join(folder, "dump"), inPlaceOfSpace.url)).code).toBe(0);
}, 120_000);
afterAll(async () => {
  await client?.close();
  for (const server of servers) await server.stop();
  await database.drop();
  await inPlaceOfSpace.drop();
  await rm(folder, { recursive: true, force: true });
}, 120_000);

/** Runs a block as printed, and returns what it printed. */
function run(script: string): Promise<{ code: number | null; text: string }> {
  return new Promise((done) => {
    const env = { ...process.env, ...importVariables(database.url), ORG_KEY, PATH: path };
    const shell = spawn("bash", ["-c", `set -e -o pipefail\n${script}`], { cwd: folder, env });
    let text = "";
    shell.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
    shell.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
    shell.once("close", (code) => done({ code, text }));
  });
}

async function expectAnswers(script: string): Promise<void> {
  const { code, text } = await run(script);
  expect(code, text).toBe(0);
  const lines = text.split("\n").map((line) => line.trim());
  for (const [, answer = ""] of script.matchAll(/^# (.+)$/gm)) expect(lines).toContain(answer);
}

test("the guide's commands move an installation and prove it", { timeout: 180_000 }, async () => {
  const text = await readFile(join(ROOT, "src/docs/migrate-from-space.md"), "utf8");
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
  expect(blocks).toHaveLength(3);
  const [dryRun = "", imports = "", compares = ""] = blocks;
  await expectAnswers(dryRun);
  await expectAnswers(imports);
  servers = await Promise.all([startEventServer(inPlaceOfSpace.url), startEventServer(database.url)]);
  const [old, now] = servers;
  await expectAnswers(
    compares.replace("http://localhost:5403", old?.url ?? "").replace("http://localhost:3000", now?.url ?? ""),
  );
});

test("a published client goes on with its key: it evaluates, consumes and listens", { timeout: 120_000 }, async () => {
  const [, now] = servers;
  const url = now?.url ?? "";
  client = connect({ url, apiKey: ORG_KEY });
  const synchronized = new Promise((done) => client?.on("synchronized", done));
  await synchronized;
  expect(await client.isConnectedToSpace()).toBeTruthy();
  expect(await client.contracts.getContract("u1")).toMatchObject({
    contractedServices: { tasker: "2.0.0" },
    subscriptionPlans: { tasker: "pro" },
  });
  const result = await client.features.evaluate("u1", "tasker-board", { "tasker-maxTasks": 1 });
  expect(result).toMatchObject({ eval: true, used: { "tasker-maxTasks": 651 }, limit: { "tasker-maxTasks": 1200 } });
});
