import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { environmentOf, execute } from "./programs.ts";
import { type PackagedServer, startPackagedServer } from "./running-server.ts";

/*
 * Clients in other languages: the `console` blocks of "Other languages" in src/docs/clients.md run as printed, with the
 * toolchains of Debian, and the samples make their calls to a running server.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const GUIDE = readFileSync(join(ROOT, "src/docs/clients.md"), "utf8");
const [, SECTION = ""] = /^## Other languages\n([\s\S]*?)^## /m.exec(GUIDE) ?? [];
const blocksOf = (language: string) =>
  [...SECTION.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map((match) => match[1] ?? "");
const [PREPARE = "", GO = "", PYTHON = ""] = blocksOf("console");

/** Output of a sample against a server that has the service Tasker. */
const PRINTED = [
  "created Notes beside 1",
  "contracted grace to PRO",
  // The retry counts nothing.
  "granted true left 50",
  "granted true left 50",
  "granted false left 50",
  "export false",
  "recorded 1 total 160",
  "token valid true",
  "404 Contract with userId nobody not found",
];

/** The generator runs for seconds, and repays no optimization: it takes half of the processor time without. */
const JAVA = { JAVA_TOOL_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" };

let server: PackagedServer;
let env: Record<string, string>;
const folders: string[] = [];

beforeAll(async () => {
  const inherited = await environmentOf("Node 20");
  const [node = "", ...path] = (inherited["PATH"] ?? "").split(":");
  // Programs of Debian come before others with the same name.
  env = { ...inherited, PATH: [node, "/usr/bin", ...path].join(":") };
}, 60_000);
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Runs a script in an empty folder with the samples, against a server of its own. Resolves with the printed lines. */
async function run(script: string): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "faregate-generated-"));
  folders.push(folder);
  mkdirSync(join(folder, ".data"));
  symlinkSync(join(ROOT, "src"), join(folder, "src"));
  server = await startPackagedServer(inject("tarballs").installation);
  try {
    const variables = { URL: `${server.url}/api/v1`, ORG_KEY: server.key };
    // Go finds the packages of Debian in a GOPATH, without a proxy for modules.
    const go = { GO111MODULE: "off", GOPATH: `${join(folder, ".data/go")}:/usr/share/gocode` };
    const commands = `set -e -o pipefail\n${script}`;
    const environment = { ...env, ...go, ...JAVA, ...variables };
    const printed = await execute(["bash", "-c", commands], { cwd: folder, env: environment });
    return printed.trim().split("\n");
  } finally {
    await server.stop();
  }
}

test("the Go client that the guide generates compiles and makes the sample's calls", async () => {
  const printed = await run(PREPARE + GO);
  expect(printed).toEqual(PRINTED);
}, 240_000);

test("the Python client that the guide generates makes the sample's calls", async () => {
  const printed = await run(PREPARE + PYTHON);
  expect(printed).toEqual(
    PRINTED.map((line) => line.replace(/true|false/, (word) => word[0]?.toUpperCase() + word.slice(1))),
  );
}, 240_000);

test.each([
  ["go", "go/main.go"],
  ["python", "python/main.py"],
])("each line of %s in the guide is a line of its sample", (language, sample) => {
  const lines = new Set(
    readFileSync(join(ROOT, "src/samples", sample), "utf8")
      .split("\n")
      .map((line) => line.trim()),
  );
  const shown = blocksOf(language).flatMap((block) => block.split("\n").map((line) => line.trim()));
  expect(shown.length).toBeGreaterThan(3);
  expect(shown.filter((line) => !lines.has(line))).toEqual([]);
});
