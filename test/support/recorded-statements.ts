import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Folder of what the last run of the Postgres circle recorded: a file per process, a line per statement or test file. */
export const RECORDED = join(ROOT, "node_modules/.cache/statements");

/** A statement as tests sent it. */
export interface Recorded {
  text: string;
  /** Numbers of the parameters that were, at least once, arrays of another length than one. */
  several: number[];
}

/** Deletes what earlier runs recorded. */
export function forgetStatements(): void {
  rmSync(RECORDED, { recursive: true, force: true });
}

/** Reads the recorded statements, and the test files that sent them. */
export function readStatements(): { statements: Recorded[]; files: Set<string> } {
  const found = new Map<string, Recorded>();
  const files = new Set<string>();
  const names = existsSync(RECORDED) ? readdirSync(RECORDED) : [];
  for (const line of names.flatMap((name) => readFileSync(join(RECORDED, name), "utf8").trimEnd().split("\n"))) {
    const row = JSON.parse(line) as Recorded | { file: string };
    if ("file" in row) files.add(row.file);
    else {
      const { text, several } = row;
      found.set(text, { text, several: [...new Set([...(found.get(text)?.several ?? []), ...several])] });
    }
  }
  return { statements: [...found.values()], files };
}
