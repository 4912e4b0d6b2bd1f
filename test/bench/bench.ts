import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import * as budgets from "./budgets.ts";
import * as billing from "./billing.ts";
import * as changes from "./changes.ts";
import * as compaction from "./compaction.ts";
import * as consoleInBrowser from "./console.ts";
import * as credits from "./credits.ts";
import * as evaluation from "./evaluation.ts";
import * as eventWriters from "./event-writers.ts";
import * as events from "./events.ts";
import * as files from "./files.ts";
import * as growth from "./growth.ts";
import * as holds from "./holds.ts";
import * as hostile from "./hostile.ts";
import * as importSpace from "./import-space.ts";
import * as local from "./local.ts";
import * as localChanges from "./local-changes.ts";
import * as movements from "./movements.ts";
import * as offers from "./offers.ts";
import * as organization from "./organization.ts";
import * as overrides from "./overrides.ts";
import * as peers from "./peers.ts";
import * as pooled from "./pooled.ts";
import * as pricing from "./pricing.ts";
import type { BenchRow } from "./pricing.ts";
import * as replay from "./replay.ts";
import * as restore from "./restore.ts";
import * as roundTrips from "./round-trips.ts";
import * as runtimes from "./runtimes.ts";
import * as scheduled from "./scheduled.ts";
import * as tokens from "./tokens.ts";
import * as usage from "./usage.ts";
import * as usageRecords from "./usage-records.ts";
import * as workers from "./workers.ts";

/*
 * `npm run bench [-- --quick] [--gate] [--keep] [usage] [evaluation] [growth] [peers] …`: each figure is a ratio of two
 * measurements of this run. Exits 1 when one misses its target.
 *
 * `--gate`: exits 1 when one is more than 30 % below its ratio in ratios.json, measured again before it is believed. That
 * file has the lowest ratios of the machines at hand. `--keep`: writes it, and the table of src/docs/benchmarks.md.
 * `BENCH_RUNTIME=Bun`, `Deno`, `workerd`, `Node 24` … runs Faregate on another runtime.
 */

const SUITES = { pricing, evaluation, tokens, usage, events };
/** Only when named: peers, and what takes minutes to fill. */
const NAMED = {
  billing,
  budgets,
  changes,
  compaction,
  console: consoleInBrowser,
  credits,
  "event-writers": eventWriters,
  files,
  growth,
  holds,
  hostile,
  "import-space": importSpace,
  local,
  "local-changes": localChanges,
  movements,
  offers,
  organization,
  overrides,
  peers,
  pooled,
  replay,
  restore,
  "round-trips": roundTrips,
  runtimes,
  scheduled,
  "usage-records": usageRecords,
  workers,
};
const RATIOS = new URL("ratios.json", import.meta.url);
const GUIDE = new URL("../../src/docs/benchmarks.md", import.meta.url);
/** Tolerance for noise of the machine. */
const TOLERATED_DROP = 0.3;
const ATTEMPTS = 3;

const words = process.argv.slice(2);
const quick = words.includes("--quick");
const gate = words.includes("--gate");
const named = Object.entries({ ...SUITES, ...NAMED }).filter(([name]) => words.includes(name));
const ratios = JSON.parse(readFileSync(RATIOS, "utf8")) as Record<string, number>;
const isKept = (row: BenchRow) => row.target.startsWith(">=");
/** Ratio that the gate compares: of processor time where it is measured, otherwise of rates. */
const gated = ({ value, cpuRatio = Number.NaN }: BenchRow) => (Number.isNaN(cpuRatio) ? value : cpuRatio);
/** True for a ratio below the bound, and for one that could not be measured. */
const hasDropped = (row: BenchRow) => !(gated(row) >= (ratios[row.name] ?? 0) * (1 - TOLERATED_DROP));

let missed = 0;
const told: string[] = [];
for (const [name, suite] of named.length > 0 ? named : Object.entries(SUITES)) {
  console.log(`\n${name}`);
  let rows = await suite.run({ quick });
  const attempts = gate ? ATTEMPTS : 1;
  for (let attempt = 1; attempt < attempts && rows.some(hasDropped); attempt += 1) {
    const again = await suite.run({ quick });
    const isBetter = (other: BenchRow, row: BenchRow) => Number.isNaN(gated(row)) || gated(other) > gated(row);
    rows = rows.map((row) => again.find((other) => other.name === row.name && isBetter(other, row)) ?? row);
  }
  for (const row of rows) {
    const ok = gate ? !hasDropped(row) : row.ok;
    if (!ok) missed += 1;
    const asked = gate && isKept(row) ? `was ${(ratios[row.name] ?? 0).toFixed(2)}` : row.target;
    const shown = gate && isKept(row) ? gated(row) : row.value;
    const detail = row.detail === undefined ? "" : ` (${row.detail})`;
    console.log(`${ok ? "ok  " : "MISS"} ${shown.toFixed(2).padStart(7)}  ${asked.padEnd(9)}  ${row.name}${detail}`);
    if (!isKept(row)) continue;
    ratios[row.name] = Number(gated(row).toFixed(2));
    told.push(
      `| ${row.value.toFixed(2)} | ${row.target}${row.ok ? "" : ", missed"} | ${row.name} | ${row.detail ?? ""} |`,
    );
  }
}
if (words.includes("--keep")) {
  writeFileSync(RATIOS, `${JSON.stringify(ratios, null, 2)}\n`);
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const machine = `${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), ${Math.round(totalmem() / 2 ** 30)} GiB`;
  const table = [
    `\`npm run bench -- ${words.filter((word) => word !== "--keep").join(" ")}\`, ${new Date().toISOString().slice(0, 10)}, commit ${commit},`,
    `${machine}, wrk (one thread) and Postgres on the same, Node ${process.versions.node}:`,
    "",
    "| ratio | asked | of what to what | measured |",
    "| ---: | --- | --- | --- |",
    ...told,
  ].join("\n");
  const guide = readFileSync(GUIDE, "utf8");
  writeFileSync(
    GUIDE,
    guide.replace(/(?<=<!-- bench -->\n\n)[\s\S]*?(?=\n\n<!-- \/bench -->)/, () => table),
  );
}
process.exitCode = missed === 0 ? 0 : 1;
