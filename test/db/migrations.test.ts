import { readdirSync, readFileSync } from "node:fs";
import { generateDrizzleJson, generateMigration } from "drizzle-kit/api";
import { expect, it } from "vitest";
import * as schema from "../../src/db/schema.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";

/** Changes that break the previous release, except a default or a validated constraint. */
const TAKES_AWAY =
  /\b(drop\s+(column|table|type|view|function)|rename\s+(to|column|constraint)|alter\s+column\s+\S+\s+(type|set\s+data\s+type|set\s+not\s+null)|truncate)\b/i;
const SAYS_SO = /^-- contract: \d+\.\d+\.\d+ was the last to /m;

/** Statements that remove something implicitly. Tables created by the same migration are exempt. */
function silentlyTaken(sql: string): string[] {
  const made = [...sql.matchAll(/create table "?(\w+)"?/gi)].map(([, name]) => name ?? "");
  return sql
    .split("--> statement-breakpoint")
    .filter((statement) => TAKES_AWAY.test(statement.replace(/^--(?! contract).*$/gm, "")))
    .filter((statement) => !made.some((name) => statement.includes(`"${name}"`)) && !SAYS_SO.test(statement));
}

it.each(readdirSync(MIGRATIONS).filter((name) => name.endsWith(".sql")))(
  "%s only adds, or says which release was the last to need what it takes away",
  (name) => {
    expect(silentlyTaken(readFileSync(`${MIGRATIONS}/${name}`, "utf8"))).toEqual([]);
  },
);

it("what is taken away without a word is found", () => {
  const drop = 'ALTER TABLE "users" DROP COLUMN "role";';
  expect(silentlyTaken(drop)).toEqual([drop]);
  expect(silentlyTaken('ALTER TABLE "users" ALTER COLUMN "role" SET NOT NULL;')).toHaveLength(1);
  expect(silentlyTaken(`-- contract: 0.3.0 was the last to read it\n${drop}`)).toEqual([]);
  expect(silentlyTaken('ALTER TABLE "users" ADD COLUMN "name" text;')).toEqual([]);
});

it("the one snapshot, of the last migration, describes the schema", async () => {
  const meta = `${MIGRATIONS}/meta`;
  const read = (name: string): unknown => JSON.parse(readFileSync(`${meta}/${name}`, "utf8"));
  const { entries } = read("_journal.json") as { entries: { tag: string; when: number }[] };
  const last = entries.at(-1)?.tag.slice(0, 4);
  expect(readdirSync(meta).toSorted()).toEqual([`${last}_snapshot.json`, "_journal.json"]);
  const moments = entries.map(({ when }) => when);
  expect(moments).toEqual(moments.toSorted((a, b) => a - b));
  const described = read(`${last}_snapshot.json`) as ReturnType<typeof generateDrizzleJson>;
  expect(await generateMigration(described, generateDrizzleJson(schema))).toEqual([]);
});
