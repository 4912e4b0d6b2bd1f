import { posix } from "node:path";
import { runCli } from "../../src/cli/cli.ts";
import type { Io } from "../../src/cli/command.ts";

/** Result of one run of the command line. */
export interface Run {
  code: number;
  out: string;
  err: string;
  /** Files after the run. */
  files: Record<string, string>;
}

/** Runs `faregate <args>` in a folder of these files. The clock stands at 2025-06-15T10:00:00Z. */
export async function runFaregate(
  args: readonly string[],
  files: Readonly<Record<string, string>> = {},
  machine: Partial<Io> = {},
): Promise<Run> {
  const run: Run = { code: -1, out: "", err: "", files: { ...files } };
  run.code = await runCli(args, {
    version: "1.2.3",
    env: {},
    fetch: () => Promise.reject(new Error("no network in this test")),
    now: () => new Date("2025-06-15T10:00:00.000Z"),
    readFile: async (path) => run.files[path],
    importSpace: () => Promise.reject(new Error("no database in this test")),
    writeFile: async (path, text) => {
      run.files[path] = text;
    },
    realPath: async (path) => posix.resolve("/", path),
    listFolder: async (path) => {
      const names = Object.keys(run.files).flatMap((each) =>
        each.startsWith(`${path}/`) ? [each.slice(path.length + 1)] : [],
      );
      return names.length === 0 ? undefined : [...new Set(names.map((name) => name.split("/")[0] ?? ""))];
    },
    out: (text) => {
      run.out += text;
    },
    err: (text) => {
      run.err += text;
    },
    ...machine,
  });
  return run;
}
