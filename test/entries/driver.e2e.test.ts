import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DRIVER_BUILDS, REPAIRS } from "../../src/entries/build/patch-driver.ts";
import { TEST_SECRETS } from "../support/event-server.ts";

/* Copies the project as `npm ci --ignore-scripts` leaves it, with the published driver. */

const ROOT = resolve(import.meta.dirname, "../..");
let project: string;

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), "faregate-driver-"));
  cpSync(join(ROOT, "src"), join(project, "src"), { recursive: true });
  for (const name of ["package.json", "tsconfig.json", "deno.json", "wrangler.toml"]) {
    cpSync(join(ROOT, name), join(project, name));
  }
  const modules = join(project, "node_modules");
  mkdirSync(modules);
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (name !== "postgres") symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  }
  cpSync(join(ROOT, "node_modules/postgres"), join(modules, "postgres"), { recursive: true });
  takeRepairsAway(REPAIRS);
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

function takeRepairsAway(repairs: typeof REPAIRS): void {
  for (const build of DRIVER_BUILDS) {
    // Reverts the last edit first, because edits may overlap.
    for (const { file, find, put } of repairs.toReversed()) {
      const path = join(project, "node_modules/postgres", build, file);
      const text = readFileSync(path, "utf8");
      expect(text.split(put)).toHaveLength(2);
      writeFileSync(
        path,
        text.replace(put, () => find),
      );
    }
  }
}

function run(program: string, given: readonly string[]) {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(npm_|VITE|NODE_)/.test(name)),
  );
  // Nothing listens there, so a process that starts fails in another way.
  const environment = { ...TEST_SECRETS, DATABASE_URL: "postgres://ada:sesame@127.0.0.1:1/rates" };
  const options = { cwd: project, env: { ...inherited, ...environment }, encoding: "utf8", timeout: 100_000 } as const;
  const { status, stdout, stderr } = spawnSync(program, given, options);
  return { status, stdout, stderr };
}
const onNode = (entry: string) => run(process.execPath, ["--import", "tsx", `src/entries/${entry}`]);
const refusalOf = (build: string) =>
  `The database driver is installed without its repairs (node_modules/postgres: ${build}/connection.js, ${build}/index.js, ${build}/queue.js), as \`npm ci --ignore-scripts\` leaves it: \`npm run postinstall\` repairs it.\n`;

describe("over an unrepaired driver, one sentence and no start:", () => {
  it.each(["start.ts", "node.ts", "events-node.ts", "launcher/dev-worker.ts"])("%s ends with 1", (entry) => {
    expect(onNode(entry)).toMatchObject({ status: 1, stderr: refusalOf("src"), stdout: "" });
  });

  it.each(["bun.ts", "events-bun.ts"])("%s on Bun ends with 1", (entry) => {
    expect(run(join(project, "node_modules/.bin/bun"), [`src/entries/${entry}`])).toMatchObject({
      status: 1,
      stderr: refusalOf("src"),
    });
  });

  it("deno.ts on Deno ends with 1", () => {
    const { status, stderr } = run(join(project, "node_modules/.bin/deno"), ["run", "-A", "src/entries/deno.ts"]);
    expect({ status, stderr }).toEqual({ status: 1, stderr: refusalOf("src") });
  });

  it.each([
    "commands/migrate.ts",
    "commands/backup.ts",
    "commands/restore.ts",
    "commands/check-ledger.ts",
    "commands/reseal.ts",
    "commands/rotate-token-key.ts",
  ])("%s ends with 2", (entry) => {
    expect(onNode(entry)).toMatchObject({ status: 2, stderr: refusalOf("src"), stdout: "" });
  });

  it("build/worker.ts ends with 1, before it builds", () => {
    expect(onNode("build/worker.ts")).toMatchObject({ status: 1, stderr: refusalOf("cf/src"), stdout: "" });
  });

  it("the doctor names it", () => {
    const { status, stdout } = onNode("commands/doctor.ts");
    expect(status).toBe(1);
    expect(stdout).toMatch(/^FAIL {2}driver {8}The database driver is installed without its repairs \(.*cf\/src/m);
  });
});

it("what `npm run postinstall` repairs is not refused, and one repair that is missing is", () => {
  expect(onNode("build/patch-driver.ts")).toMatchObject({ status: 0 });
  expect(onNode("commands/doctor.ts").stdout).toMatch(/^ok {4}driver {8}The database driver has its repairs\.$/m);
  expect(onNode("commands/migrate.ts").stderr).toContain("cannot be reached (ECONNREFUSED)");
  takeRepairsAway(REPAIRS.slice(4, 5));
  expect(onNode("commands/migrate.ts").stderr).toContain(
    "without its repairs (node_modules/postgres: src/connection.js)",
  );
});
