import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { getTableConfig, PgTable } from "drizzle-orm/pg-core";
import { loadModule } from "libpg-query";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DISTRIBUTED_TABLES } from "../support/table-placements.ts";
import { DISTRIBUTED } from "../../src/db/archive.ts";
import * as schema from "../../src/db/schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { kindOf } from "../support/kinds-of-statements.ts";
import { EACH_CONNECTION, EACH_KIND } from "../support/versioned-tests.ts";
import { functionProblems } from "../support/function-shapes.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { readStatements, ROOT } from "../support/recorded-statements.ts";
import { shapeProblems } from "../support/statement-shapes.ts";
import { hasPlace, placeOf } from "../support/statement-places.ts";
import { EXCEPTIONS } from "./shape-exceptions.ts";

/*
 * Every statement could run on a Postgres that is distributed by contract, but for the exceptions, which may only shrink. Reads
 * what the last run of the Postgres circle recorded: run both, as `npm test` does.
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

const BUILT = "query builder";
/** Statements with a distributed table: no others have problems. */
const MENTIONS = new RegExp(`\\b(?:${Object.keys(DISTRIBUTED_TABLES).join("|")})\\b`);

const COPIES = /\bjson_populate_recordset\(null::/;

/** Statements of migrations, which run before an operator distributes the tables. */
const MIGRATED = new Set(
  readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith(".sql"))
    .flatMap((name) => readFileSync(join(MIGRATIONS, name), "utf8").split("--> statement-breakpoint"))
    .map((text) => text.trim()),
);

interface Recording {
  byFile: ReadonlyMap<string, ReadonlySet<string>>;
  /** Problems by place. */
  problems: ReadonlyMap<string, ReadonlySet<string>>;
  /** Problems that statements also have if their arrays have several elements, which depends on when calls meet. */
  possible: ReadonlySet<string>;
}

/** Recorded statements with their problems. Statements of the tests themselves are left out. */
function recordedProblems(): Recording {
  const { statements, byFile } = readStatements();
  const problems = new Map<string, Set<string>>();
  const possible = new Set<string>();
  for (const { text, several } of statements) {
    if (!MENTIONS.test(text)) continue;
    // Texts that tests write for Postgres to refuse, and their own.
    if (!isParsed(text) || NAMES_SCHEMA.test(text)) continue;
    // A command of the operator copies a whole organization, table by table, into another instance.
    if (COPIES.test(text) || MIGRATED.has(text.trim())) continue;
    const place = placeOf(text) ?? `${BUILT}, by ${namedIn(text)}`;
    if (place.startsWith("test/")) continue;
    const found = problems.get(place) ?? new Set();
    for (const problem of problemsOf(text, several)) found.add(`${place}: ${problem}`);
    problems.set(place, found);
    for (const problem of problemsOf(text, undefined)) possible.add(`${place}: ${problem}`);
  }
  return { byFile, problems, possible };
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
  const { byFile, problems, possible } = recordedProblems();
  const names = readdirSync(join(ROOT, "test"), { recursive: true, encoding: "utf8" });
  const isWhole = names.every((name) => !name.endsWith(".pg.test.ts") || byFile.has(join("test", name)));
  const all = new Set([...problems.values()].flatMap((found) => [...found]));

  it("have the shape that a distributed Postgres needs, but for the exceptions", () => {
    const unknown = [...all].filter((problem) => !EXCEPTIONS.statements.includes(problem));
    expect(unknown, "Name one contract in these statements, or list them in shape-exceptions.ts").toEqual([]);
  });

  it("need every exception, if all files of the circle have run", () => {
    if (!isWhole) return;
    const isUnneeded = (exception: string) => {
      const [place = ""] = exception.split(": ");
      // Some statements are sent only when processes race. A function that is gone sends none.
      const isJudged = problems.has(place) || place.startsWith(BUILT) || !hasPlace(place);
      return isJudged && !possible.has(exception);
    };
    expect(EXCEPTIONS.statements.filter(isUnneeded)).toEqual([]);
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

it("functions of the database have the shape, and need every exception", async () => {
  expect(await functionProblems(database.connection.client, columns)).toEqual(EXCEPTIONS.functions);
});

it("each table that `distribute` distributes is held to the shape", () => {
  expect(DISTRIBUTED.filter((name) => !Object.hasOwn(DISTRIBUTED_TABLES, name))).toEqual([]);
});

it("each distributed table is one of the schema", () => {
  expect(Object.keys(DISTRIBUTED_TABLES).filter((name) => name !== "usage_ledger_next" && !columns.has(name))).toEqual(
    [],
  );
});

it.each([
  ["a lock of one contract", "select id from contracts where id = $1 for update", []],
  [
    "a lock of contracts by their user",
    "select id from contracts where organization_id = $1 and user_id = $2 for update",
    ["locks contracts without one contract"],
  ],
  ["a write by contract", `update "holds" set state = $1 where "holds"."contract_id" = $2 and "holds"."id" = $3`, []],
  ["a write by id", "update holds set state = $1 where id = $2", ["updates holds without one contract"]],
  [
    "a write of several",
    "delete from holds where contract_id = any($3::text[])",
    ["deletes from holds without one contract"],
  ],
  ["a write of a list of one", "delete from holds where contract_id = any($1::text[])", []],
  [
    "a contract that only one branch names",
    "delete from holds where contract_id = $1 or id = $2",
    ["deletes from holds without one contract"],
  ],
  ["a join by contract", "select 1 from contracts c join holds h on h.contract_id = c.id", []],
  [
    "a join by something else",
    "select 1 from contract_services s join holds h on h.feature_id = s.service_id",
    ["joins contract_services, holds by other than the contract"],
  ],
  [
    "a contract that a join hands on",
    "update usage_levels u set consumed = 0 from contracts c where c.id = u.contract_id and c.id = $1",
    [],
  ],
  [
    "another contract in a subquery",
    "delete from holds where contract_id = $1 and exists (select 1 from contract_members m where m.member_id = $2)",
    ["deletes from holds without one contract"],
  ],
  [
    "a subquery by contract",
    "select 1 from contracts c where exists (select 1 from holds where contract_id = c.id)",
    [],
  ],
  ["a row of one contract", "insert into holds (id, contract_id) values ($1, $2)", []],
  [
    "rows of two contracts",
    "insert into holds (id, contract_id) values ($1, $2), ($3, $4)",
    ["inserts into holds without one contract"],
  ],
  [
    "rows of a contract that is read",
    "insert into holds (id, contract_id) select $1, c.id from contracts c where c.id = $2",
    [],
  ],
  [
    "rows of JSON",
    "insert into holds (id, contract_id) select id, c from json_to_recordset($1) as given (id text, c text)",
    ["inserts into holds without one contract"],
  ],
  [
    "a table of the coordinator",
    "select (select at from usage_ledger_start) from contracts where id = $1",
    ["needs contracts beside usage_ledger_start of the coordinator"],
  ],
  [
    "a subquery without columns",
    "select exists (select from contracts where id = $1)",
    ["selects no column of contracts"],
  ],
  ["a subquery with a column", "select exists (select 1 from contracts where id = $1)", []],
  ["a copied table", "select 1 from contract_services cs join services s on s.id = cs.service_id", []],
])("%s", (_, text, expected) => {
  expect(problemsOf(text, [3])).toEqual(expected);
});
