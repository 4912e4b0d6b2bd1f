import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { restoreCluster } from "../../src/entries/commands/backup-cluster.ts";

let base: string;
let backup: string;
let dataDir: string;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "faregate-restore-"));
  backup = join(base, "backup");
  dataDir = join(base, "data");
  mkdirSync(join(backup, "postgres"), { recursive: true });
  writeFileSync(join(backup, "postgres", "PG_VERSION"), "18\n");
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

it("an interrupted restore leaves no partial cluster and can be repeated", async () => {
  await expect(restoreCluster(backup, dataDir)).rejects.toMatchObject({ code: "ENOENT" });
  expect(readdirSync(dataDir)).toEqual([]);

  mkdirSync(join(dataDir, "postgres.restoring"));
  writeFileSync(join(dataDir, "postgres.restoring", "left-by-a-killed-restore"), "");
  writeFileSync(join(backup, "secrets.json"), "{}");
  await restoreCluster(backup, dataDir);
  expect(readdirSync(dataDir).toSorted()).toEqual(["postgres", "secrets.json"]);
  expect(existsSync(join(dataDir, "postgres", "PG_VERSION"))).toBe(true);
  expect(existsSync(join(dataDir, "postgres", "left-by-a-killed-restore"))).toBe(false);
});
