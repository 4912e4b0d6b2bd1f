import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { HANDSHAKE } from "../events/in-process.ts";

/** What a process holds of the memory at this moment, in MB. Linux. */
export function megabytesOf(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

/** A process of its own with so many clients on the event server at this origin; see event-clients.ts for what it says. */
export function forkClients(origin: string, count: number): ChildProcess {
  const given = [origin.replace("http", "ws") + HANDSHAKE, String(count)];
  return fork(new URL("event-clients.ts", import.meta.url), given, { execArgv: ["--import", "tsx"] });
}
