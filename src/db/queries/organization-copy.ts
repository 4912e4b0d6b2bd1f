import { sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";

/*
 * Rows of one organization as texts, for its move to another instance. The tables are read from the catalogue, so that a new one goes
 * along by itself.
 */

/** Tables with `organization_id` whose rows stay behind, with the reason. */
const LEFT_BEHIND: Readonly<Record<string, string>> = {
  change_requests: "decided where they were made",
  evaluators: "they announce themselves where they run",
  invitations: "their links lead to the instance of before",
  mails: "sent by the instance of before",
  outbox: "each instance orders its events; those of before the move are sent by the instance of before",
  outbox_staged: "as the outbox",
  usage_archive: "read with the ledger",
  usage_archive_changes: "of the archive",
  usage_days: "summed up again from the movements",
  usage_hours: "summed up again from the movements",
  usage_ledger_next: "not in the ledger yet",
  webhook_deliveries: "delivered by the instance of before",
};
/** Columns of last use, which change by reading. */
const LAST_USE = ["last_used_at", "api_key_last_used_at"];
/** Rows that are read or written at once. */
const BATCH = 1_000;

/** A table whose rows belong to an organization, or are accounts. */
export type CopiedTable = {
  name: string;
  /** Columns without those that the table generates, such as positions. */
  columns: string[];
  /** Columns that name accounts. */
  accounts: string[];
  /** Columns in whose order rows are read and written. */
  order: string[];
};

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
const listed = (names: readonly string[]) => names.map(quoted).join(", ");

/** Lists the tables of organizations, each after those that its foreign keys name. The first ones are accounts and organizations. */
export async function listCopiedTables(db: Database): Promise<CopiedTable[]> {
  const rows = await db.execute<CopiedTable & { parents: string[] }>(sql`
    with columns as (
      select a.attrelid as id, a.attname as name, a.attnum as place,
        a.attidentity <> '' or a.attgenerated <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid), '') like 'nextval(%' as generated
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attnum > 0 and not a.attisdropped
    ), keys as (
      select k.conrelid as id, k.confrelid::regclass::text as parent, c.name, r.name as referenced
      from pg_constraint k
      join columns c on c.id = k.conrelid and c.place = k.conkey[1]
      join columns r on r.id = k.confrelid and r.place = k.confkey[1]
      where k.contype = 'f' and k.connamespace = 'public'::regnamespace
    )
    select t.relname as name,
      array(select name from columns c where c.id = t.oid and not generated order by place) as columns,
      array(select name from keys k where k.id = t.oid and parent = 'users') as accounts,
      array(select distinct parent from keys k where k.id = t.oid and parent <> t.relname) as parents,
      coalesce(
        nullif(array(select name from columns c where c.id = t.oid and generated order by place), '{}'),
        array(select c.name from pg_index i join columns c on c.id = t.oid and c.place = any(i.indkey)
          where i.indrelid = t.oid and i.indisprimary order by array_position(i.indkey::smallint[], c.place))
      ) as order
    from pg_class t
    where t.relnamespace = 'public'::regnamespace and t.relkind in ('r', 'p') and not t.relispartition
      and (t.relname in ('users', 'organizations')
        or exists (select from columns c where c.id = t.oid and c.name = 'organization_id'))
    order by t.relname`);
  const left = rows.filter(({ name }) => !Object.hasOwn(LEFT_BEHIND, name));
  const sorted: CopiedTable[] = [];
  const isKnown = (parent: string) => sorted.some(({ name }) => name === parent) || Object.hasOwn(LEFT_BEHIND, parent);
  while (left.length > 0) {
    const next = left.findIndex(({ parents }) => parents.every(isKnown));
    const [table] = left.splice(Math.max(0, next), 1);
    if (next < 0 || table === undefined) throw new Error("the foreign keys of the tables go round in a circle");
    const { name, columns, accounts, order } = table;
    sorted.push({ name, columns, accounts, order });
  }
  return sorted;
}

/** SQL condition for the rows of an organization in a table. */
function belongs({ name }: CopiedTable, tables: readonly CopiedTable[], organizationId: string) {
  const its = sql`organization_id = ${organizationId}`;
  if (name === "organizations") return sql`id = ${organizationId}`;
  if (name !== "users") return its;
  const named = tables.flatMap((table) =>
    table.accounts.map((column) => {
      const { columns } = table;
      const ofIt = columns.includes("organization_id") ? its : sql`id = ${organizationId}`;
      return sql`select ${sql.raw(quoted(column))} from ${sql.raw(quoted(table.name))} where ${ofIt}`;
    }),
  );
  return sql`id in (${sql.join(named, sql` union `)})`;
}

/** Reads the rows of an organization as JSON texts, in batches. Columns of last use are null. Needs a transaction. */
export async function* readRows(
  tx: Database,
  table: CopiedTable,
  tables: readonly CopiedTable[],
  organizationId: string,
): AsyncIterable<string[]> {
  const columns = table.columns.map((name) => (LAST_USE.includes(name) ? `null as ${quoted(name)}` : quoted(name)));
  await tx.execute(sql`
    declare copied no scroll cursor for
    select row_to_json(r)::text as line from (
      select ${sql.raw(columns.join(", "))} from ${sql.raw(quoted(table.name))}
      where ${belongs(table, tables, organizationId)} order by ${sql.raw(listed(table.order))}
    ) r`);
  for (;;) {
    const rows = await tx.execute<{ line: string }>(sql.raw(`fetch ${BATCH} from copied`));
    if (rows.length > 0) yield rows.map(({ line }) => line);
    if (rows.length < BATCH) break;
  }
  await tx.execute(sql`close copied`);
}

/** Inserts rows from JSON texts, in their order. */
export async function insertRows(tx: Database, table: CopiedTable, lines: readonly string[]): Promise<void> {
  if (lines.length === 0) return;
  const columns = sql.raw(listed(table.columns));
  const name = sql.raw(quoted(table.name));
  await tx.execute(sql`
    insert into ${name} (${columns})
    select ${columns} from json_populate_recordset(null::${name}, ${`[${lines.join(",")}]`}::text::json)`);
}

/** Deletes what an organization has, but not the organization, its keys and members, and what is yet to be delivered. */
export async function deleteRows(tx: Database, tables: readonly CopiedTable[], organizationId: string): Promise<void> {
  const kept = ["users", "organizations", "organization_keys", "members", "webhook_endpoints", "audit_log"];
  // Triggers delete the movements, holds and blocks with their contracts, and exclude the roll-up meanwhile.
  const first = ["contracts", "services"];
  const done = [...first, "usage_ledger"];
  const names = tables.map(({ name }) => name).filter((name) => !kept.includes(name) && !done.includes(name));
  for (const name of [...first, ...names.toReversed()])
    await tx.execute(sql`delete from ${sql.raw(quoted(name))} where organization_id = ${organizationId}`);
}
