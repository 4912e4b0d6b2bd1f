import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HANDSHAKE } from "../events/in-process.ts";

/** Returns a process's resident memory in MB. Linux only. */
export function megabytesOf(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

/** Ticks per second of /proc, the same on every Linux that Node supports. */
const TICKS = 100;

/**
 * Returns the processor time of a process and its children so far, in milliseconds, ended children included. NaN without a
 * process, and outside of Linux.
 */
export function cpuMsOf(pid: number | string | undefined): number {
  return ((ticksOf(pid) ?? Number.NaN) * 1_000) / TICKS;
}

/** Returns the ticks of a process. Undefined once it is gone: its parent has them among those of its ended children. */
function ticksOf(pid: number | string | undefined): number | undefined {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
    const ofChildren = children.reduce((sum, child) => sum + (ticksOf(child) ?? 0), 0);
    // The name of the program, in parentheses, may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /, "")
      .split(" ");
    return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), ofChildren);
  } catch {
    return undefined;
  }
}

/** Returns the process id of the embedded Postgres of a data folder. */
export function postmasterOf(dataDir: string): number {
  return Number(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
}

/** Starts a process with this many clients on an event server; event-clients.ts documents its messages. */
export function forkClients(origin: string, count: number): ChildProcess {
  const given = [origin.replace("http", "ws") + HANDSHAKE, String(count)];
  return fork(new URL("event-clients.ts", import.meta.url), given, { execArgv: ["--import", "tsx"] });
}
