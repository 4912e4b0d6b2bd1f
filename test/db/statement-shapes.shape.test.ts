import { readdirSync } from "node:fs";
import { join } from "node:path";
import { getTableConfig, PgTable } from "drizzle-orm/pg-core";
import { loadModule } from "libpg-query";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DISTRIBUTED_TABLES } from "../support/table-placements.ts";
import * as schema from "../../src/db/schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { kindOf } from "../support/kinds-of-statements.ts";
import { EACH_CONNECTION, EACH_KIND } from "../support/versioned-tests.ts";
import { functionProblems } from "../support/function-shapes.ts";
import { readStatements, ROOT } from "../support/recorded-statements.ts";
import { shapeProblems } from "../support/statement-shapes.ts";
import { placeOf } from "../support/statement-places.ts";

/*
 * Every statement can run on a Postgres whose usage is distributed by contract. Reads what the last run of the Postgres circle
 * recorded: run both, as `npm test` does.
 */

const columns = new Map<string, ReadonlySet<string>>();
for (const table of Object.values(schema)) {
  if (!(table instanceof PgTable)) continue;
  const config = getTableConfig(table);
  columns.set(config.name, new Set(config.columns.map(({ name }) => name)));
}
columns.set("usage_archive", columns.get("usage_ledger") ?? new Set());

await loadModule();

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const problemsOf = (text: string, several: readonly number[] | undefined) =>
  shapeProblems(text, { columns, variables: new Set(), several });

/** Statements with a distributed table: no others have problems. */
const MENTIONS = new RegExp(`\\b(?:${Object.keys(DISTRIBUTED_TABLES).join("|")})\\b`);

interface Recording {
  byFile: ReadonlyMap<string, ReadonlySet<string>>;
  /** Each with its place. */
  problems: ReadonlySet<string>;
}

/** Recorded statements with their problems. Statements of the tests themselves are left out. */
function recordedProblems(): Recording {
  const { statements, byFile } = readStatements();
  const problems = new Set<string>();
  for (const { text, several } of statements) {
    if (!MENTIONS.test(text)) continue;
    // Texts that tests write for Postgres to refuse, and their own.
    if (!isParsed(text) || NAMES_SCHEMA.test(text)) continue;
    const place = placeOf(text) ?? `query builder, by ${namedIn(text)}`;
    if (place.startsWith("test/")) continue;
    for (const problem of problemsOf(text, several)) problems.add(`${place}: ${problem}`);
  }
  return { byFile, problems };
}

function isParsed(text: string): boolean {
  try {
    problemsOf(text, undefined);
    return true;
  } catch (error) {
    if (error instanceof Error && error.message.includes("syntax error")) return false;
    throw error;
  }
}

/** Words of the shortest statement that counts: shorter ones are those of tests. */
const MIN_WORDS = 4;
/** Only tests name the schema in statements. */
const NAMES_SCHEMA = /\b(?:from|into) public\./;
const OF_TESTS = /^\s*(?:alter|comment|create|drop|lock|truncate|vacuum)\b/;
const kinds = new Map<string, string | undefined>();

/** Returns the kind of a statement of the product. Undefined for one of the tests themselves. */
function kindOfProduct(text: string): string | undefined {
  if (kinds.has(text)) return kinds.get(text);
  const isOfTests =
    text.trim().split(/\s+/).length < MIN_WORDS ||
    OF_TESTS.test(text) ||
    NAMES_SCHEMA.test(text) ||
    placeOf(text)?.startsWith("test/") === true;
  const kind = isOfTests || !isParsed(text) ? undefined : kindOf(text);
  kinds.set(text, kind);
  return kind;
}

/** Columns that the conditions of a built statement name. */
const namedIn = (text: string) => {
  const names = [...text.slice(text.indexOf(" where ")).matchAll(/"\w+"\."(\w+)"/g)].map(([, name]) => name);
  return [...new Set(names)].sort().join(", ") || "nothing";
};

describe("statements that the Postgres circle recorded", () => {
  const { byFile, problems } = recordedProblems();
  const names = readdirSync(join(ROOT, "test"), { recursive: true, encoding: "utf8" });
  const isWhole = names.every((name) => !name.endsWith(".pg.test.ts") || byFile.has(join("test", name)));

  it("have the shape that a distributed Postgres needs", () => {
    expect([...problems]).toEqual([]);
  });

  it("are of kinds that run on each version of Postgres, if all files of the circle have run", () => {
    if (!isWhole) return;
    const isCovered = (file: string) =>
      EACH_KIND.includes(file) || EACH_CONNECTION.some((folder) => file.startsWith(`${folder}/`));
    const missing = new Map<string, string>();
    for (const [file, texts] of byFile)
      for (const text of texts) missing.set(kindOfProduct(text) ?? "", `${file}: ${text}`);
    missing.delete("");
    for (const [file, texts] of byFile) {
      if (isCovered(file)) for (const text of texts) missing.delete(kindOfProduct(text) ?? "");
    }
    expect([...missing.values()], "Add these files, or others that send the same, to EACH_KIND").toEqual([]);
  });
});

it("functions of the database have the shape", async () => {
  expect(await functionProblems(database.connection.client, columns)).toEqual([]);
});

it.each([
  ["a lock of one contract", "select contract_id from usage_days where contract_id = $1 for update", []],
  [
    "a lock of a day",
    "select contract_id from usage_days where day = $1 for update",
    ["locks usage_days without one contract"],
  ],
  [
    "a lock of a contract that only one branch names",
    "select day from usage_days where contract_id = $1 or day = $2 for update",
    ["locks usage_days without one contract"],
  ],
  ["a lock of a list of one", "select day from usage_days where contract_id = any($1::text[]) for update", []],
  [
    "a lock of several",
    "select day from usage_days where contract_id = any($3::text[]) for update",
    ["locks usage_days without one contract"],
  ],
  ["a write of several", "delete from usage_days where contract_id = any($3::text[])", []],
  ["a write of all", "delete from usage_hours where hour < $1", []],
  [
    "a write by a table of the coordinator",
    "delete from usage_days where contract_id in (select id from contracts where organization_id = $1)",
    ["needs usage_days beside contracts of the coordinator"],
  ],
  [
    "a join of a write",
    "update usage_days d set counted = 0 from usage_hours h where h.service_id = d.service_id",
    ["joins usage_days, usage_hours by other than the contract"],
  ],
  ["a join by contract", "select 1 from usage_days d join usage_hours h on h.contract_id = d.contract_id", []],
  [
    "a join by something else",
    "select 1 from usage_days d join usage_hours h on h.service_id = d.service_id",
    ["joins usage_days, usage_hours by other than the contract"],
  ],
  [
    "a contract that a join hands on",
    "select 1 from usage_days d, usage_hours h where d.contract_id = h.contract_id and h.contract_id = $1 for update",
    [],
  ],
  ["a row", "insert into usage_days (contract_id, day) values ($1, $2)", []],
  [
    "rows of a table of the coordinator",
    "insert into usage_days (contract_id) select contract_id from usage_ledger",
    [],
  ],
  [
    "a table of the coordinator that is read",
    "select (select up_to from usage_rollup) from usage_days where contract_id = $1",
    [],
  ],
  [
    "a lock beside a table of the coordinator",
    "select 1 from usage_days d join contracts c on c.id = d.contract_id where d.contract_id = $1 for update of d",
    ["needs usage_days beside contracts of the coordinator"],
  ],
  [
    "a subquery without columns",
    "select exists (select from usage_days where contract_id = $1)",
    ["selects no column of usage_days"],
  ],
  ["a subquery with a column", "select exists (select 1 from usage_days where contract_id = $1)", []],
])("%s", (_, text, expected) => {
  expect(problemsOf(text, [3])).toEqual(expected);
});
