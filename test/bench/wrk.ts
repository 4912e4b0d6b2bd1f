import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { cpuMsOf } from "./processes.ts";

/*
 * Generates load with wrk, which takes a fraction of the processor time of a generator in JavaScript: on two cores,
 * that one took a core and pressed every ratio towards 1.
 */

const run = promisify(execFile);

/** Requests for one server, sent in turn. */
export interface Load {
  url: string;
  headers: Record<string, string>;
  /** Sent by POST; without a body, requests use GET. */
  body?: string;
  paths: readonly string[];
  /** Body of a settlement. It is sent to each hold that an answer names, before the next request in turn. */
  settlement?: string;
  /** One key per path, replacing the key in `headers`. */
  keys?: readonly string[];
  /** Processes whose processor time is measured: the server, and Postgres with its children. */
  pid?: number | undefined;
  postgresPid?: number | undefined;
}

/** Result of one run. */
export interface Measured {
  perSecond: number;
  /** Response times in milliseconds. */
  p50: number;
  p99: number;
  p999: number;
  /** Processor time per request in microseconds, of the server and of Postgres. NaN without the process. */
  cpuMicros: number;
  postgresMicros: number;
}

let installed: Promise<void> | undefined;

/** Installs Debian's wrk unless it is there. */
async function install(): Promise<void> {
  const isThere = await run("wrk", ["-v"]).then(
    () => true,
    // wrk exits with 1 after printing its version.
    (error: { code?: unknown }) => error.code === 1,
  );
  if (isThere) return;
  try {
    await run("apt-get", ["update", "-qq"]);
    await run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", "wrk"]);
  } catch (cause) {
    throw new Error("The bench needs wrk. Install it first, for example with: apt-get install wrk", { cause });
  }
}

/** Builds the request as it is sent: wrk repeats the texts without formatting them again. */
function requestOf(load: Load, index: number): string {
  return textOf(load, load.paths[index] ?? "/", load.body, load.keys?.[index]);
}

function textOf({ url, headers }: Load, path: string, body?: string, key?: string): string {
  const all = { host: new URL(url).host, ...headers, ...(key === undefined ? {} : { "x-api-key": key }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  if (body !== undefined) lines.push(`content-length: ${Buffer.byteLength(body)}`);
  return `${body === undefined ? "GET" : "POST"} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body ?? ""}`;
}

const settling = (load: Load, settlement: string): string => {
  const [before = "", after = ""] = textOf(load, "/api/v1/holds/:id", settlement).split(":id");
  return `
local open = {}
response = function(status, headers, body)
  local id = string.match(body, '"hold":{"id":"(%x+)","until"')
  if id then open[#open + 1] = id end
end
request = function()
  local id = table.remove(open)
  if id == nil then return next_request() end
  return ${JSON.stringify(before)} .. id .. ${JSON.stringify(after)}
end
`;
};

/** Spaces requests evenly. wrk waits for whole milliseconds, and a late request is sent at once. */
const pacing = (perSecond: number): string => `
local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds; long nanoseconds; } instant; int clock_gettime(int clock, instant *at);")
local instant = ffi.new("instant")
local milliseconds = function()
  ffi.C.clock_gettime(1, instant)
  return tonumber(instant.seconds) * 1e3 + tonumber(instant.nanoseconds) / 1e6
end
local due
delay = function()
  due = due and due + ${1_000 / perSecond} or milliseconds()
  return math.max(0, math.floor(due - milliseconds() + 0.5))
end
`;

const script = (load: Load, perSecond: number | undefined): string => `
local requests = {
${load.paths.map((_, index) => JSON.stringify(requestOf(load, index))).join(",\n")}
}
local sent = 0
local next_request = function()
  sent = sent + 1
  return requests[(sent - 1) % #requests + 1]
end
request = next_request
${load.settlement === undefined ? "" : settling(load, load.settlement)}
${perSecond === undefined ? "" : pacing(perSecond)}
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('\\n{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"p999":%d,"refused":%d,"failed":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    e.status, e.connect + e.read + e.write + e.timeout))
end
`;

/**
 * Measures a server over `connections` with one thread of wrk, which sends `perSecond` requests. Default: as many as are
 * answered.
 * @throws Error when a response is an error.
 */
export async function measure(load: Load, connections: number, seconds: number, perSecond?: number): Promise<Measured> {
  await (installed ??= install());
  const folder = await mkdtemp(join(tmpdir(), "faregate-wrk-"));
  try {
    const file = join(folder, "load.lua");
    await writeFile(file, script(load, perSecond));
    const processorTimes = () => [cpuMsOf(load.pid), cpuMsOf(load.postgresPid)] as const;
    const before = processorTimes();
    const given = ["-t", "1", "-c", String(connections), "-d", `${seconds}s`, "--timeout", "20s", "-s", file, load.url];
    const { stdout } = await run("wrk", given);
    const after = processorTimes();
    const result = JSON.parse(/^\{.*\}$/m.exec(stdout)?.[0] ?? "{}") as Record<string, number>;
    const { requests = 0, micros = 0, p50 = 0, p99 = 0, p999 = 0, refused = 0, failed = 0 } = result;
    if (refused > 0 || failed > 0 || requests === 0)
      throw new Error(`${load.url}: ${requests} sent, ${refused} refused, ${failed} failed`);
    return {
      perSecond: (requests * 1e6) / micros,
      p50: p50 / 1_000,
      p99: p99 / 1_000,
      p999: p999 / 1_000,
      cpuMicros: ((after[0] - before[0]) * 1_000) / requests,
      postgresMicros: ((after[1] - before[1]) * 1_000) / requests,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
