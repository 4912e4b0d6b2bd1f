import type { Sql } from "postgres";

/** Inserts contracts of one organization with one limited feature each, and the amount that each has consumed. */
export async function insertContracts(sql: Sql, contracts: number, consumed: number): Promise<void> {
  await sql.unsafe(`
    insert into users (id, username, password_hash, role) values ('u', 'ada', 'x', 'ADMIN');
    insert into organizations (id, name, owner_id) values ('one', 'One', 'u');
    insert into services (id, organization_id, name, name_key) values ('s', 'one', 'S', 's');
    insert into pricings (id, organization_id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
      values ('p', 'one', 's', '1', '1', 'active', '', '{}', '', now());
    insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      select 'contract-000000-' || n, 'one', 'user-' || n, 'user', now(), now() from generate_series(1, ${contracts}) n;
    insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, add_ons)
      select id, 'one', 's', 'p', 0, '{}' from contracts;
    insert into usage_levels (contract_id, organization_id, service_id, limit_name, position, limit_value, consumed, used_tenths)
      select id, 'one', 's', 'maxCalls', 0, 1e12, ${consumed}, 0 from contracts`);
}

/**
 * Inserts movements of 1 of all contracts in turn, spread over a span. Builds the ledger's indexes afterwards, which takes a third of
 * the time. `begins` and `span` are expressions of SQL.
 */
export async function insertMovements(
  sql: Sql,
  { contracts, movements, begins, span }: { contracts: number; movements: number; begins: string; span: string },
): Promise<void> {
  const indexes = await sql<{ name: string; definition: string }[]>`
    select indexrelid::regclass::text as name, replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') as definition
    from pg_index where indrelid = 'usage_ledger'::regclass`;
  await sql.unsafe(`drop index ${indexes.map(({ name }) => name).join(", ")}`);
  await sql.unsafe(`
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
      select 'contract-000000-' || (n % ${contracts} + 1), 'one', 's', 'maxCalls', 'consume', 's-call', 'filled', 1,
        ${begins} + n * (${span} / ${movements})
      from generate_series(1, ${movements}) n;
    update usage_rollup set up_to = (select last_value from usage_ledger_id_seq)`);
  for (const { definition } of indexes) await sql.unsafe(definition);
}
