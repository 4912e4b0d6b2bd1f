import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { type Guard, GUARDS, placesOf } from "./guards.ts";

/*
 * `npm run test:guards [-- text]` removes each guard in a copy, and runs the test that must detect it. A text selects
 * guards by file or description. First it runs the tests unchanged, because a test that fails by itself proves nothing.
 * Exits 1 when a removal stays undetected, or a run breaks or times out.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const PROJECTS: Readonly<Record<string, string>> = { pg: "postgres", e2e: "e2e", slow: "slow", fault: "faults" };
/** Project of a test file. Others are left out: their set-up would build servers from each copy. */
const projectOf = (file: string) => PROJECTS[/\.(\w+)\.test\.ts$/.exec(file)?.[1] ?? ""] ?? "pure";
/** Time limit for the tests of one guard. The first run covers those of all guards. */
const PATIENCE_MS = 180_000;
const FIRST_PATIENCE_MS = 1_200_000;

/** Outcome of a run: a test failed, all passed, or the run broke. */
interface Outcome {
  kind: "failed" | "passed" | "broken";
  about: string;
}

function runTests(cwd: string, databaseUrl: string, given: readonly string[], timeout = PATIENCE_MS): Outcome {
  const vitest = [join(cwd, "node_modules/vitest/vitest.mjs"), "run", "--config", "test/vitest.config.ts"];
  const projects = [...new Set(given.filter((name) => name.startsWith("test/")).map(projectOf))];
  const { status, signal, error, stdout, stderr } = spawnSync(
    process.execPath,
    [...vitest, ...projects.flatMap((name) => ["--project", name]), "--bail", "1", ...given],
    {
      cwd,
      encoding: "utf8",
      env: { ...process.env, NO_COLOR: "1", TEST_DATABASE_URL: databaseUrl },
      timeout,
      maxBuffer: 1e8,
    },
  );
  if (error !== undefined || signal !== null) {
    return { kind: "broken", about: `ended by ${error?.message ?? signal}; its time is ${timeout / 1000} s` };
  }
  if (status === 0 && /Tests .*[1-9]\d* passed/.test(stdout)) return { kind: "passed", about: "" };
  if (status !== 0 && /Tests .*[1-9]\d* failed/.test(stdout)) {
    return { kind: "failed", about: /FAIL .*? > (.*)/.exec(`${stdout}${stderr}`)?.[1] ?? "a test" };
  }
  return { kind: "broken", about: `${stdout}${stderr}`.trim().split("\n").slice(-3).join(" / ") };
}

const selected = ({ test: { file, title } }: Guard) => [`test/${file}`, ...(title === undefined ? [] : ["-t", title])];

const wanted = process.argv[2] ?? "";
const guards = GUARDS.filter(({ file, what }) => `${file}: ${what}`.toLowerCase().includes(wanted.toLowerCase()));
const started = performance.now();
const folder = mkdtempSync(join(tmpdir(), "faregate-guards-"));
chmodSync(folder, 0o755);
const copy = join(folder, "copy");
mkdirSync(copy);
const postgres = await startEmbeddedPostgres({ dataDir: join(folder, "data"), password: crypto.randomUUID() });
const counts = { missed: 0, "NOT MISSED": 0, BROKEN: 0 };
try {
  for (const name of ["src", "test", "package.json", "package-lock.json", "tsconfig.json"]) {
    cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  const files = [...new Set(guards.map(({ test }) => `test/${test.file}`))];
  const asTheyAre = runTests(copy, postgres.url, files, FIRST_PATIENCE_MS);
  if (guards.length === 0 || asTheyAre.kind !== "passed") {
    throw new Error(guards.length === 0 ? `no guard is called ${wanted}` : `without a change: ${asTheyAre.about}`);
  }
  for (const guard of guards) {
    const path = join(copy, "src", guard.file);
    const text = readFileSync(path, "utf8");
    const without = placesOf(guard).reduce((sofar, { find, put }) => sofar.replace(find, () => put), text);
    writeFileSync(path, without);
    const from = performance.now();
    const { kind, about } = runTests(copy, postgres.url, selected(guard));
    writeFileSync(path, text);
    const verdict = kind === "failed" ? "missed" : kind === "passed" ? "NOT MISSED" : "BROKEN";
    counts[verdict] += 1;
    const seconds = Math.round((performance.now() - from) / 1000);
    console.log(`${verdict}  ${guard.file}: ${guard.what}  (${seconds} s; ${about || "no test fails"})`);
  }
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}
if (counts.missed < guards.length) process.exitCode = 1;
const minutes = ((performance.now() - started) / 60_000).toFixed(1);
console.log(
  `${counts.missed} guards are missed, ${counts["NOT MISSED"]} can be taken away unseen, ${counts.BROKEN} runs broke; ${minutes} minutes`,
);
