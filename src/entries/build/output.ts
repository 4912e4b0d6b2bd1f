import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/* Shared by the builds of `dist`. */

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** Returns true if a built file is missing, or older than these folders of `src` or the lock file. Takes some milliseconds. */
export function isStale(built: string, parts: readonly string[]): boolean {
  if (!existsSync(built)) return true;
  const builtAt = statSync(built).mtimeMs;
  if (statSync(join(ROOT, "package-lock.json")).mtimeMs > builtAt) return true;
  return parts.some((part) =>
    readdirSync(join(ROOT, "src", part), { recursive: true, withFileTypes: true }).some(
      (entry) => entry.isFile() && statSync(join(entry.parentPath, entry.name)).mtimeMs > builtAt,
    ),
  );
}

/** Builds into a temporary folder beside `folder` and then swaps it in, so that nobody uses a partial build. */
export async function replaceFolder(folder: string, build: (fresh: string) => Promise<void>): Promise<void> {
  removeLeftovers(folder);
  const fresh = `${folder}.${process.pid}`;
  const old = `${fresh}.old`;
  mkdirSync(fresh, { recursive: true });
  try {
    await build(fresh);
    if (existsSync(folder)) renameSync(folder, old);
    renameSync(fresh, folder);
    rmSync(old, { recursive: true, force: true });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Removes the temporary folders of interrupted builds. */
function removeLeftovers(folder: string): void {
  const parent = dirname(folder);
  for (const name of existsSync(parent) ? readdirSync(parent) : []) {
    const pid = name.startsWith(`${basename(folder)}.`) ? /\.(\d+)(\.old)?$/.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(parent, name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
