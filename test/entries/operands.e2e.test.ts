import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { TEST_SECRETS } from "../support/event-server.ts";

const COMMANDS = fileURLToPath(new URL("../../src/entries/commands/", import.meta.url));

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), "faregate-operands-"));
});
afterAll(async () => {
  await database?.drop();
  rmSync(folder, { recursive: true });
});

it.each([
  ["backup", ["--help"], "Unknown option '--help'"],
  ["backup", ["one", "two"], "Unexpected argument 'two'."],
  ["restore", ["one", "two"], "Unexpected argument 'two'."],
  ["migrate", ["--help"], "Unknown option '--help'"],
  ["check-ledger", ["all"], "Unexpected argument 'all'."],
  ["reseal", ["all"], "Unexpected argument 'all'."],
  ["doctor", ["--help"], "Unknown option '--help'"],
  ["export-organization", ["one", "two", "three"], "Unexpected argument 'three'."],
  ["move-organization", ["one", "--to"], "Option '--to <value>' argument missing"],
  ["import-organization", ["one", "--accounts", "all"], "--accounts must be existing, and not all."],
])("%s refuses %j, and writes nothing", (command, operands, sentence) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", import.meta.resolve("tsx"), join(COMMANDS, `${command}.ts`), ...operands],
    { cwd: folder, encoding: "utf8", env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: database.url } },
  );
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toContain(sentence);
  expect(readdirSync(folder)).toEqual([]);
});
