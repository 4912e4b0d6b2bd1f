import { readFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestDatabase } from "../support/database.ts";
import { startImport } from "../support/import-space.ts";
import { largeInstallation, writeDump } from "../support/space-dump.ts";

/* Source: contract files-and-migration §7. */

const CONTRACTS = 100_000;
const MAX_MEMORY_KB = 500 * 1024;
/** Processor time of the command, which waits for the database half of the time. */
const MAX_SECONDS = 60;
/** Clock ticks per second in /proc, on every platform that has it. */
const TICKS = 100;

/** Highest memory in kB, and processor time in seconds. */
function usageOf(pid: number): { memory: number; seconds: number } {
  const memory = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return { memory: Number(memory), seconds: (Number(fields[11]) + Number(fields[12])) / TICKS };
}

it("100,000 contracts take less than 500 MB, and every balance has its movement", { timeout: 600_000 }, async () => {
  const dump = await writeDump(largeInstallation(CONTRACTS));
  const database = await createTestDatabase();
  const report = join(tmpdir(), `faregate-report-${crypto.randomUUID()}.json`);
  const run = startImport(dump.folder, database.url, report);
  let usage = { memory: 0, seconds: 0 };
  const timer = setInterval(() => {
    try {
      usage = usageOf(run.pid);
    } catch {
      // The process has ended.
    }
  }, 50);
  expect([await run.ended, run.output()]).toEqual([0, expect.stringContaining("100000 contracts")]);
  clearInterval(timer);
  expect(JSON.parse(await readFile(report, "utf8"))).toMatchObject({
    carried: { contracts: CONTRACTS, levels: 2 * CONTRACTS, history: CONTRACTS },
    left: [],
    complete: true,
  });
  expect(usage.memory).toBeGreaterThan(0);
  expect(usage.memory).toBeLessThan(MAX_MEMORY_KB);
  expect(usage.seconds).toBeLessThan(MAX_SECONDS);
  const checked = await checkLedger(database.connection.db);
  expect(checked).toEqual({ balances: 2 * CONTRACTS, movements: 2 * CONTRACTS, violations: [] });
  await database.drop();
  await dump.remove();
  await rm(report, { force: true });
});
