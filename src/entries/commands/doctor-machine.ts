import { existsSync, statfsSync } from "node:fs";
import { createServer } from "node:net";
import type { Config } from "../process/config.ts";
import type { Finding } from "./doctor-finding.ts";

const OLDEST_NODE = [20, 19] as const;
const LITTLE_BYTES = 1024 ** 3;
const TOO_LITTLE_BYTES = 100 * 1024 ** 2;

/** Checks the runtime version, free disk space of the embedded database, and the ports. */
export async function examineMachine(config: Config, tell: (finding: Finding) => void): Promise<void> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isOld = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
  tell({
    state: isOld ? "FAIL" : "ok",
    what: "runtime",
    sentence: isOld ? `Node ${process.versions.node}: 20.19 or newer is needed.` : `Node ${process.versions.node}.`,
  });
  if (config.DATABASE_URL === undefined && existsSync(config.DATA_DIR)) {
    const { bavail, bsize } = statfsSync(config.DATA_DIR);
    const free = bavail * bsize;
    tell({
      state: free < TOO_LITTLE_BYTES ? "FAIL" : free < LITTLE_BYTES ? "warn" : "ok",
      what: "disk",
      sentence: `${(free / 1024 ** 3).toFixed(1)} GB are free at ${config.DATA_DIR}.`,
    });
  }
  for (const variable of ["PORT", "EVENTS_PORT"] as const) {
    tell({ what: "port", ...(await portOf(variable, config[variable], config.HOST)) });
  }
}

async function portOf(variable: string, port: number, host: string | undefined): Promise<Omit<Finding, "what">> {
  const problem = await new Promise<string | undefined>((resolve) => {
    const probe = createServer();
    probe.once("error", (error) => resolve("code" in error ? String(error.code) : error.message));
    probe.listen({ port, ...(host === undefined ? {} : { host }) }, () => probe.close(() => resolve(undefined)));
  });
  if (problem === undefined) return { state: "ok", sentence: `${variable} ${port} is free.` };
  if (problem !== "EADDRINUSE")
    return { state: "FAIL", sentence: `${variable} ${port} cannot be listened on (${problem}).` };
  const any = host === undefined || host === "0.0.0.0" || host === "::";
  const ours = await fetch(`http://${any ? "localhost" : host}:${port}/live`, {
    signal: AbortSignal.timeout(2000),
  }).then(
    async (answer) => (await answer.text()) === '{"status":"alive"}',
    () => false,
  );
  return ours
    ? { state: "ok", sentence: `${variable} ${port}: Faregate runs there.` }
    : { state: "FAIL", sentence: `${variable} ${port} is taken by something else.` };
}
