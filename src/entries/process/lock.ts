import { spawnSync } from "node:child_process";
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StartupProblem } from "../../db/postgres/connect.ts";

/**
 * Locks a data folder: two launchers would start two Postgres servers on one cluster. Detects the stale lock of a
 * killed launcher, even if another process has its pid now, as happens in containers.
 * @returns the function that releases the lock.
 * @throws StartupProblem when another launcher runs.
 */
export function lockFolder(dataDir: string): () => void {
  const file = join(dataDir, "launcher.lock");
  const own = `${file}.${process.pid}`;
  writeFileSync(own, JSON.stringify({ pid: process.pid, started: startOf(process.pid) }));
  try {
    for (let attempt = 0; ; attempt += 1) {
      try {
        linkSync(own, file);
        return () => rmSync(file, { force: true });
      } catch (error) {
        if (!existsSync(file) && attempt < 5) continue;
        const holder = readHolder(file);
        if (attempt === 5 || holder === undefined) throw error;
        if (holder.started !== undefined && startOf(holder.pid) === holder.started) {
          throw new StartupProblem(
            `Faregate already runs on the data folder ${dataDir} (process ${holder.pid}): stop it first, or set DATA_DIR to another folder.`,
          );
        }
        removeStale(file, `${own}.stale`);
      }
    }
  } finally {
    rmSync(own, { force: true });
  }
}

/** Removes a lock that was stale a moment ago. Puts it back if another launcher has replaced it since. */
function removeStale(file: string, aside: string): void {
  try {
    renameSync(file, aside);
  } catch {
    // Another launcher has removed it.
    return;
  }
  const moved = readHolder(aside);
  if (moved?.started !== undefined && startOf(moved.pid) === moved.started) linkSync(aside, file);
  rmSync(aside, { force: true });
}

function readHolder(file: string): { pid: number; started: string | undefined } | undefined {
  try {
    const { pid, started } = JSON.parse(readFileSync(file, "utf8")) as { pid: number; started?: string };
    return { pid, started };
  } catch {
    return { pid: -1, started: undefined };
  }
}

/** Returns a running process's start time in a unit of the system; undefined if there is no such process. */
function startOf(pid: number): string | undefined {
  if (existsSync("/proc/self/stat")) {
    try {
      // The process name in parentheses may contain anything. The 20th field after it is the start in clock ticks since
      // boot.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\)\s*/s, "")
        .split(" ");
      return fields[0] === "Z" ? undefined : fields[19];
    } catch {
      return undefined;
    }
  }
  const { status, stdout } = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" });
  return status === 0 && stdout.trim() !== "" ? stdout.trim() : undefined;
}
