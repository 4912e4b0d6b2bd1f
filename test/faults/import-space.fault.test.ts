import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import type { SpaceReport } from "../../src/core/space/report.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startImport } from "../support/import-space.ts";
import { largeInstallation, spaceContract, writeDump } from "../support/space-dump.ts";
import { importedRows } from "../support/space-rows.ts";

/* An import that is killed at any moment and repeated ends as an undisturbed one does. */

/** Enough for several batches, of which each is a transaction. */
const CONTRACTS = 2_000;
const KILLS = 20;

/** Numbers below 1, the same in each run with one FUZZ_SEED. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

async function stateOf(database: TestDatabase, reportFile: string) {
  const report = JSON.parse(await readFile(reportFile, "utf8")) as SpaceReport;
  const [seeded, ...changed] = report.changed;
  expect(seeded?.code).toBe("seeded-admin-removed");
  const rows = await importedRows(database.connection);
  // Without the moments that depend on the start of the import.
  for (const row of rows["usage_levels"] ?? []) {
    if (typeof row["anchor"] === "string" && row["anchor"] > "2025") Object.assign(row, { anchor: "", reset_at: "" });
  }
  for (const row of rows["contract_states"] ?? []) delete row["levels"];
  const { balances, movements, violations } = await checkLedger(database.connection.db);
  return { rows, report: { ...report, changed: changed.map(withoutMoment) }, balances, movements, violations };
}

const withoutMoment = (item: SpaceReport["changed"][number]) => ({
  ...item,
  detail: item.detail.replace(/\d{4}-\d\d-\d\dT\S+Z/, "…"),
});

it(
  "SIGKILL at 20 random moments, and repeated: rows, report and balances are those of an undisturbed run",
  {
    timeout: 900_000,
  },
  async () => {
    const random = randomNumbers(Number(process.env["FUZZ_SEED"] ?? 1));
    const installation = largeInstallation(CONTRACTS);
    const dump = await writeDump({
      ...installation,
      contracts: [
        ...(installation["contracts"] ?? []),
        spaceContract("changed", { usageLevels: {}, billingPeriod: {} }),
        spaceContract("left", { notes: "unknown", contractedServices: { gone: "1" } }),
      ],
    });
    const reportFile = join(tmpdir(), `faregate-report-${crypto.randomUUID()}.json`);
    const undisturbed = await createTestDatabase();
    const started = performance.now();
    const first = startImport(dump.folder, undisturbed.url, reportFile);
    expect([await first.ended, first.output()]).toEqual([1, expect.stringContaining("Carried: ")]);
    const duration = performance.now() - started;
    const expected = await stateOf(undisturbed, reportFile);
    expect(expected).toMatchObject({ balances: 2 * CONTRACTS + 2, violations: [] });
    expect(expected.rows["contracts"]).toHaveLength(CONTRACTS + 2);
    await undisturbed.drop();

    let kills = 0;
    const interrupted: number[] = [];
    while (kills < KILLS) {
      const database = await createTestDatabase();
      for (let isKilled = true; isKilled && kills < KILLS;) {
        const run = startImport(dump.folder, database.url, reportFile);
        const timer = setTimeout(run.kill, random() * duration);
        // An import that ends before the signal makes place for the next database.
        isKilled = (await run.ended) === null;
        clearTimeout(timer);
        if (!isKilled) break;
        kills += 1;
        const [table] = await database.connection.client`select batches from space_imports`;
        if (table !== undefined) interrupted.push(Number(table["batches"]));
      }
      const last = startImport(dump.folder, database.url, reportFile);
      const code = await last.ended;
      // 2: the last killed run had reported already.
      expect([code, last.output()]).toEqual(
        code === 2 ? [2, expect.stringContaining("is not empty")] : [1, expect.stringContaining("Carried: ")],
      );
      expect(await stateOf(database, reportFile)).toEqual(expected);
      await database.drop();
    }
    // Some of the signals came in the middle of the import.
    expect(interrupted.length).toBeGreaterThan(0);
    await dump.remove();
    await rm(reportFile, { force: true });
  },
);
