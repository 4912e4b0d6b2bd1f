import type { Sql } from "postgres";

/**
 * Tables of the instance, with the reason. A distributed Postgres replicates them to every node; of several instances, each has
 * its own. All others are distributed by `organization_id`.
 */
export const REFERENCE_TABLES: Readonly<Record<string, string>> = {
  analytics_days: "sums of the whole instance",
  cache_entries: "entries of platform ADMINs",
  instances: "one row",
  outbox: "one order of all events, in which servers read them",
  outbox_counter: "one row",
  outbox_staged: "events on their way to the outbox",
  rate_counters: "limits of addresses and accounts",
  space_imports: "one row",
  token_keys: "keys of the whole instance",
  usage_ledger_start: "one row",
  usage_rollup: "one row",
  webhook_cursor: "one row",
  // The directory: a request finds its organization there.
  invitations: "organization of an invitation's token",
  mails: "to accounts, with invitations to organizations",
  members: "organizations of an account",
  organization_keys: "organization of a key",
  organizations: "named by organization_id",
  recoveries: "links of accounts",
  sessions: "signed-in accounts",
  used_proofs: "proofs of a provider about accounts",
  user_identities: "accounts at a provider",
  users: "accounts, which belong to several organizations",
};

/** The parents of rows, by the column that names them. */
const PARENTS: Readonly<Record<string, string>> = {
  change_id: "scheduled_changes",
  contract_id: "contracts",
  endpoint_id: "webhook_endpoints",
  pricing_id: "pricings",
  service_id: "services",
};
/** Columns that may name a service which the organization has no more. */
const LEFT_BEHIND = new Set([
  "contract_budgets.service_id",
  "given_trials.service_id",
  "pricing_decisions.pricing_id",
  "pricing_decisions.service_id",
  "usage_days.service_id",
  "usage_hours.service_id",
  "usage_ledger.service_id",
  "usage_ledger_next.service_id",
  "usage_resets.service_id",
]);

/** Finds rows of another organization than a parent that they name, as `table.column: number`. */
export async function rowsOfOtherOrganizations(sql: Sql): Promise<string[]> {
  const columns = await sql<{ table: string; column: string }[]>`
    select c.relname as table, a.attname as column from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and a.attname = any(${Object.keys(PARENTS)})
    order by 1, 2`;
  const counts = columns
    .filter(({ table, column }) => !LEFT_BEHIND.has(`${table}.${column}`))
    .map(
      ({ table, column }) => `
        select '${table}.${column}' as place, count(*)::integer as count
        from "${table}" x join "${PARENTS[column]}" p on p.id = x."${column}"
        where x.organization_id is distinct from p.organization_id`,
    );
  const found = await sql.unsafe<{ place: string; count: number }[]>(
    `with counts (place, count) as (${counts.join(" union all ")}) select place, count from counts where count > 0`,
  );
  return found.map(({ place, count }) => `${place}: ${count}`);
}
