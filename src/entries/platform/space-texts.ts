import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import type { Texts } from "../../core/space/version-text.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";

const MAX_PRICING_BYTES = 2 * 1024 * 1024;

/** Fetched addresses with their text, or why there is none. */
export type Fetched = Record<string, { text: string } | { error: string }>;

/**
 * Reads files of SPACE's public folder on demand, and never outside of it.
 * @throws StartupProblem if the folder does not exist.
 */
export function readStatics(folder: string | undefined): Texts["file"] {
  if (folder === undefined) return () => undefined;
  if (!existsSync(folder)) throw new StartupProblem(`${folder} cannot be read: it does not exist`);
  const root = resolve(folder);
  return (path) => {
    const below = path.replace(/^\/*(public\/)?/, "");
    const file = resolve(join(root, below));
    if (!file.startsWith(root + sep)) return undefined;
    // No file system has longer names.
    if (file.split(sep).some((name) => Buffer.byteLength(name) > 255)) return undefined;
    const stats = statSync(file, { throwIfNoEntry: false });
    if (stats?.isFile() !== true || stats.size > MAX_PRICING_BYTES) return undefined;
    return readFileSync(file, "utf8");
  };
}

/** Fetches each address once. A failure is part of the result. */
export async function fetchAll(
  urls: Iterable<string>,
  download: (address: string, maxBytes: number) => Promise<string>,
): Promise<Fetched> {
  const fetched: Fetched = {};
  for (const url of urls) {
    try {
      fetched[url] = { text: await download(url, MAX_PRICING_BYTES) };
    } catch (error) {
      fetched[url] = { error: error instanceof Error ? error.message : String(error) };
    }
  }
  return fetched;
}
