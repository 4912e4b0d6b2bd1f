import { readFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestDatabase } from "../support/database.ts";
import { importInstallation, startImport } from "../support/import-space.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { type DumpFormat, largeInstallation, smallInstallation, writeDump } from "../support/space-dump.ts";
import { importedRows } from "../support/space-rows.ts";

/* Imports that take long: of many contracts, of every kind of dump, and beside another import. Source: contract files-and-migration §5, §7. */

const CONTRACTS = 100_000;
const MAX_MEMORY_KB = 500 * 1024;
/** Processor time of the command, which waits for the database half of the time. */
const MAX_SECONDS = 60;
/** Clock ticks per second in /proc, on every platform that has it. */
const TICKS = 100;

/** Highest memory in kB, and processor time in seconds. Throws once the process has ended. */
function usageOf(pid: number): { memory: number; seconds: number } {
  const memory = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (memory === undefined) throw new Error("it has ended, and its parent has not taken notice yet");
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

it("each kind of dump gives equal reports and rows", { timeout: 120_000 }, async () => {
  const formats: DumpFormat[] = ["bson", "bson.gz", "json", "json.gz", "jsonArray", "canonical"];
  const runs = [];
  for (const format of formats) {
    const database = await createTestDatabase();
    const run = await importInstallation(smallInstallation(), database.url, { format });
    expect(run).toMatchObject({ code: 0, err: "" });
    await expectBalancesMatchLedger(database);
    const { report } = run;
    const [seeded] = report?.changed ?? [];
    expect(seeded).toMatchObject({ code: "seeded-admin-removed", kind: "user", name: "admin" });
    const rows = await importedRows(database.connection);
    for (const level of rows["usage_levels"] ?? []) delete level["position"];
    runs.push({ rows, report: { ...report, changed: report?.changed.slice(1) } });
    await database.drop();
  }
  for (const run of runs) expect(run).toEqual(runs[0]);
  expect(runs[0]?.rows["outbox"]).toEqual([]);
  expect(runs[0]?.rows["audit_log"]?.filter(({ action }) => action === "import.space")).toHaveLength(1);
});

it("an import is refused while another one runs", async () => {
  const database = await createTestDatabase();
  const session = await database.connection.client.reserve();
  await session`select pg_advisory_lock(54030007)`;
  const run = await importInstallation(smallInstallation(), database.url);
  expect(run).toMatchObject({ code: 2, out: "", err: "Another import is running\n" });
  session.release();
  await database.drop();
});
