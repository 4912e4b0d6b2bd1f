import { createHash } from "node:crypto";
import { createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { StartupProblem } from "../../db/postgres/connect.ts";
import type { ExportFolder, Manifest, Written } from "../../operations/moving.ts";
import { linesOf } from "./lines.ts";

/* The folder of an exported organization: `manifest.json`, and one file of JSON lines per table. */

/** Rows that are read at once. */
const BATCH = 1_000;

/** Creates a new folder, which only its owner may read: it has the hashes of passwords and keys. */
export function createExportFolder(given: string): string {
  const folder = resolve(given);
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new StartupProblem(`The folder ${folder} is not empty: an export goes into a new one.`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

export function writeManifest(folder: string, manifest: Manifest): void {
  writeFileSync(join(folder, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
}

/** @throws StartupProblem for a folder without a whole export. */
export function readManifest(folder: string): Manifest {
  try {
    const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as Manifest;
    if (manifest.format === 1) return manifest;
  } catch {
    // Told below.
  }
  throw new StartupProblem(
    `The folder ${resolve(folder)} has no export: its manifest.json is missing or cannot be read.`,
  );
}

/** Opens the files of a folder. */
export function exportFolder(folder: string): ExportFolder {
  const fileOf = (table: string) => join(folder, `${table}.jsonl`);
  return {
    write: async (table, rows) => {
      const file = await open(fileOf(table), "wx", 0o600);
      try {
        return await digest(rows, (text) => file.write(text));
      } finally {
        await file.close();
      }
    },
    digest: (rows) => digest(rows, () => undefined),
    read: async function* (table) {
      let lines: string[] = [];
      for await (const line of linesOf(createReadStream(fileOf(table)))) {
        lines.push(line);
        if (lines.length < BATCH) continue;
        yield lines;
        lines = [];
      }
      if (lines.length > 0) yield lines;
    },
  };
}

async function digest(rows: AsyncIterable<string[]>, take: (text: string) => unknown): Promise<Written> {
  const hash = createHash("sha256");
  let count = 0;
  for await (const lines of rows) {
    const text = `${lines.join("\n")}\n`;
    hash.update(text);
    count += lines.length;
    await take(text);
  }
  return { rows: count, sha256: hash.digest("hex") };
}
