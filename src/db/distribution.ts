import { type Connection, StartupProblem } from "./postgres/connect.ts";

/*
 * Faregate refuses a distributed Postgres (Citus) until all its statements have the shape that one needs, which
 * test/db/statement-shapes.shape.test.ts measures. docs/scale.md says how far this is.
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

/** Tables that a refusal names. */
const NAMED = 3;

/** Returns why Faregate refuses these distributed tables, and what to do. Undefined if there are none. */
export function distributionProblem(tables: readonly string[] = []): string | undefined {
  if (tables.length === 0) return undefined;
  const named = tables.slice(0, NAMED).join(", ");
  const names = tables.length > NAMED ? `${named} and ${tables.length - NAMED} more` : named;
  return `Citus distributes ${names}, and Faregate needs all tables on one node: restore a backup into a new database; docs/scale.md names other ways to grow.`;
}

/**
 * Rejects a database whose tables Citus distributes: the first contract would fail.
 * @throws StartupProblem
 */
export async function requireOneNode(client: Connection["client"]): Promise<void> {
  const problem = distributionProblem(await findDistributedTables(client));
  if (problem !== undefined) throw new StartupProblem(problem);
}
