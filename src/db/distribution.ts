import { DISTRIBUTED } from "./archive.ts";
import { type Connection, type Database, StartupProblem } from "./postgres/connect.ts";

/*
 * Detects how a Postgres is distributed (Citus): not at all, as `faregate-server distribute` does it, or in another way, which
 * Faregate refuses. See archive.ts and docs/scale.md.
 */

/** Returns the tables of Faregate that Citus distributes, or copies to its workers. Undefined without Citus. */
export async function findDistributedTables(client: Connection["client"]): Promise<string[] | undefined> {
  const [catalog] = await client<{ found: boolean }[]>`select to_regclass('pg_dist_partition') is not null as found`;
  if (catalog?.found !== true) return undefined;
  const rows = await client<{ name: string }[]>`
    select c.relname as name from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid::oid
    where pg_table_is_visible(c.oid) and not c.relispartition
      -- Citus also lists local tables with foreign keys to copied ones.
      and not (p.partmethod = 'n' and p.repmodel = 's' and p.colocationid = 0)
    order by 1`;
  return rows.map(({ name }) => name);
}

/** True if the tables are distributed as `faregate-server distribute` does it. */
export const isArchive = (tables: readonly string[]): boolean =>
  tables.length === DISTRIBUTED.length && DISTRIBUTED.every((name) => tables.includes(name));

/** Tables that a refusal names. */
const NAMED = 3;

/** Returns why Faregate refuses these distributed tables, and what to do. Undefined if it works with them. */
export function distributionProblem(tables: readonly string[] = []): string | undefined {
  if (tables.length === 0 || isArchive(tables)) return undefined;
  const others = tables.filter((name) => !DISTRIBUTED.includes(name));
  const listed = others.length === 0 ? tables : others;
  const named = listed.slice(0, NAMED).join(", ");
  const names = listed.length > NAMED ? `${named} and ${listed.length - NAMED} more` : named;
  return `Citus distributes ${names}, and Faregate needs all tables on one node, but for those that \`faregate-server distribute\` distributes: restore a backup into a new database; docs/scale.md names other ways to grow.`;
}

/**
 * Rejects a database whose tables are distributed in another way than by `distribute`: the first contract would fail.
 * @throws StartupProblem
 */
export async function requireKnownPlacement(client: Connection["client"]): Promise<void> {
  const problem = distributionProblem(await findDistributedTables(client));
  if (problem !== undefined) throw new StartupProblem(problem);
}

const checked = new WeakMap<object, Promise<boolean>>();

/** True if `distribute` has been run on this database. Asks each pool once: a process does not notice the command. */
export function isDistributed(db: Database): Promise<boolean> {
  const found = checked.get(db);
  if (found !== undefined) return found;
  const asked = db
    .execute<{ found: boolean }>("select to_regclass('usage_archive') is not null as found")
    .then(([row]) => row?.found === true);
  checked.set(db, asked);
  // Ask again after a failure.
  asked.catch(() => checked.delete(db));
  return asked;
}

/** Rejects what cannot work on a distributed database. @throws StartupProblem with `sentence`. */
export async function requireUndistributed(db: Database, sentence: string): Promise<void> {
  if (await isDistributed(db)) throw new StartupProblem(sentence);
}
