import { spawn } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { ImportSpaceOptions } from "../../src/cli/command.ts";
import type { SpaceReport } from "../../src/core/space/report.ts";
import { importSpace } from "../../src/entries/commands/import-space.ts";
import { TEST_SECRETS } from "./event-server.ts";
import { type DumpFormat, type Installation, writeDump } from "./space-dump.ts";

export interface ImportRun {
  code: number;
  out: string;
  err: string;
  /** Undefined if nothing was done. */
  report: SpaceReport | undefined;
}

/** Variables of the command: those of a server on this database. */
export const importVariables = (databaseUrl: string) => ({ ...TEST_SECRETS, DATABASE_URL: databaseUrl });

/** Runs `faregate import-space` in this process, for a folder with a dump. Without a database it is a dry run. */
export async function importFolder(
  folder: string,
  databaseUrl: string | undefined,
  options: Partial<ImportSpaceOptions> & { variables?: Record<string, string> } = {},
): Promise<ImportRun> {
  const { variables, ...given } = options;
  const report = join(tmpdir(), `faregate-report-${crypto.randomUUID()}.json`);
  const run: ImportRun = { code: -1, out: "", err: "", report: undefined };
  run.code = await importSpace(
    { folder, report, ...(databaseUrl === undefined ? { dryRun: true as const } : {}), ...given },
    {
      env: databaseUrl === undefined ? { ...variables } : { ...importVariables(databaseUrl), ...variables },
      out: (text) => (run.out += text),
      err: (text) => (run.err += text),
    },
  );
  try {
    run.report = JSON.parse(await readFile(report, "utf8")) as SpaceReport;
  } catch {
    // Nothing was done.
  }
  await rm(report, { force: true });
  return run;
}

/** Writes a dump of these documents, and imports it. */
export async function importInstallation(
  installation: Installation,
  databaseUrl: string | undefined,
  options: Parameters<typeof importFolder>[2] & { format?: DumpFormat } = {},
): Promise<ImportRun> {
  const { format, ...given } = options;
  const dump = await writeDump(installation, format);
  try {
    return await importFolder(dump.folder, databaseUrl, given);
  } finally {
    await dump.remove();
  }
}

/** Starts `faregate import-space` as a process of its own, as build-server.ts builds it. */
export function startImport(folder: string, databaseUrl: string, report: string) {
  const given = ["dist/server/faregate.js", "import-space", folder, "--report", report];
  const child = spawn(process.execPath, given, {
    cwd: resolve(import.meta.dirname, "../.."),
    env: { ...process.env, ...importVariables(databaseUrl) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<number | null>((done) => child.once("exit", done));
  return {
    pid: child.pid ?? 0,
    kill: () => child.kill("SIGKILL"),
    /** The exit code; null after a signal. */
    ended,
    output: () => output,
  };
}
