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

/** Reads the recorded statements, and which of their texts each test file sent. */
export function readStatements(): { statements: Recorded[]; byFile: ReadonlyMap<string, ReadonlySet<string>> } {
  const found = new Map<string, Recorded>();
  const byFile = new Map<string, Set<string>>();
  let sent = new Set<string>();
  const names = existsSync(RECORDED) ? readdirSync(RECORDED) : [];
  for (const line of names.flatMap((name) => readFileSync(join(RECORDED, name), "utf8").trimEnd().split("\n"))) {
    const row = JSON.parse(line) as Recorded | { file: string };
    if ("file" in row) {
      // It stands after its statements.
      byFile.set(row.file, new Set([...(byFile.get(row.file) ?? []), ...sent]));
      sent = new Set();
    } else {
      const { text, several } = row;
      sent.add(text);
      found.set(text, { text, several: [...new Set([...(found.get(text)?.several ?? []), ...several])] });
    }
  }
  return { statements: [...found.values()], byFile };
}
