import { type Connection, StartupProblem } from "./postgres/connect.ts";

/*
 * Tables as a distributed Postgres (Citus) would hold them: by contract, so that an organization of millions of end users has its
 * rows on all nodes. docs/scale.md says how far this is; test/db/statement-shapes.shape.test.ts holds statements to it. Until all
 * have that shape, processes refuse to start on distributed tables.
 */

/** Distributed tables with the column that names their contract. All rows of one contract are on one node. */
export const DISTRIBUTED_TABLES: Readonly<Record<string, string>> = {
  block_draws: "contract_id",
  budget_balances: "contract_id",
  contract_billing: "contract_id",
  contract_blocks: "contract_id",
  contract_budgets: "contract_id",
  contract_history: "contract_id",
  contract_members: "contract_id",
  contract_overrides: "contract_id",
  contract_services: "contract_id",
  contract_states: "contract_id",
  contracts: "id",
  holds: "contract_id",
  scheduled_changes: "contract_id",
  scheduled_subscriptions: "contract_id",
  usage_days: "contract_id",
  usage_hours: "contract_id",
  usage_ledger: "contract_id",
  usage_ledger_next: "contract_id",
  usage_levels: "contract_id",
  usage_resets: "contract_id",
};

/** Tables of which each node has a copy: contracts refer to them, or are read with them. */
export const COPIED_TABLES: ReadonlySet<string> = new Set([
  "billing_connections",
  "members",
  "organization_keys",
  "organizations",
  "pricings",
  "services",
  "users",
  "webhook_endpoints",
]);

/** How a distributed Postgres holds a table: on all nodes by contract, as a copy on each node, or on the coordinator. */
export type Placement = "distributed" | "copied" | "coordinator";

/** Returns the placement of a table. All that is not listed stays on the coordinator. */
export function placementOf(table: string): Placement {
  if (Object.hasOwn(DISTRIBUTED_TABLES, table)) return "distributed";
  return COPIED_TABLES.has(table) ? "copied" : "coordinator";
}

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
