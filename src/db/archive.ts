import type { Connection } from "./postgres/connect.ts";

/*
 * The archive of movements on a Citus coordinator, which `faregate-server distribute` makes. Partitions of the ledger that ended two
 * weeks ago go to usage_archive, which is distributed by contract, as are the sums of the roll-up. All else stays on the coordinator, so
 * that consumption is the same as on one Postgres, and no statement that locks needs a worker.
 *
 * The ledger's first partition becomes a foreign table, which leads back to the coordinator: statements that read the ledger stay as they
 * are, and Postgres passes their conditions on. Foreign tables cannot join a distributed transaction, so nothing is written through them.
 */

/** Tables that Citus distributes, by contract. */
export const DISTRIBUTED: readonly string[] = ["usage_archive", "usage_days", "usage_hours"];

const SERVER = "faregate_archive";

/** Role of a server process, with its password. */
export interface Reader {
  name: string;
  /** Empty where Postgres trusts local connections. */
  password: string;
}

/** Each shard of a table is a table on a worker. Citus's own default. */
const SHARDS = 32;

/**
 * Functions of the schema, as a distributed ledger needs them. The archive is complete up to `faregate_archived_until()`: what is staged
 * beyond is not visible, because the foreign table reads a view with that bound.
 */
const FUNCTIONS: readonly string[] = [
  `create or replace function faregate_archived_until() returns timestamptz
language sql stable set search_path from current as $$
  select coalesce(max(p.ends), '-infinity') from faregate_ledger_partitions() p join pg_class c on c.oid = p.part where c.relkind = 'f'
$$`,
  // A foreign table cannot write to a view. Direct writes join the caller's transaction, too. Citus needs the values when it plans.
  `create or replace function faregate_archive_stray() returns trigger
language plpgsql security definer set search_path from current set plan_cache_mode = 'force_custom_plan' as $$
begin
  insert into usage_archive select new.*;
  return null;
end $$`,
  `create or replace function faregate_remove_movements() returns trigger
language plpgsql security definer set search_path from current set enable_seqscan = off
set plan_cache_mode = 'force_custom_plan' as $$
declare
  ids text[] := (select array_agg(id) from previous);
begin
  if ids is null then
    return null;
  end if;
  perform 1 from usage_rollup for share;
  execute format('delete from usage_ledger where contract_id = any ($1) and created_at >= %L', faregate_archived_until()) using ids;
  insert into usage_archive_changes (contract_id) select unnest(ids);
  delete from usage_archive where contract_id = any (ids);
  delete from usage_hours where contract_id = any (ids);
  delete from usage_days where contract_id = any (ids);
  return null;
end $$`,
  `create or replace function faregate_move_movements(contract_ids text[], target text) returns void
language plpgsql security definer set search_path from current set plan_cache_mode = 'force_custom_plan' as $$
begin
  execute format('update usage_ledger set organization_id = $2 where contract_id = any ($1) and created_at >= %L',
    faregate_archived_until()) using contract_ids, target;
  insert into usage_archive_changes (contract_id, organization_id) select unnest(contract_ids), target;
  update usage_archive set organization_id = target where contract_id = any (contract_ids);
  update usage_hours set organization_id = target where contract_id = any (contract_ids);
  update usage_days set organization_id = target where contract_id = any (contract_ids);
end $$`,
  // Copies the oldest partition that ended two weeks ago, in a transaction of its own that blocks nobody. Answers about the past reach
  // back to "older_than", as on one Postgres: ended holds are pruned then.
  `create or replace function faregate_stage_ledger(older_than timestamptz) returns boolean
language plpgsql security definer set search_path from current set lock_timeout = '1s' as $$
declare
  cutoff timestamptz := least(greatest(older_than, now() - interval '14 days'), now() - interval '1 day');
  settled bigint := (select up_to from usage_rollup);
  oldest record;
  columns text;
  late bigint;
  copied bigint;
begin
  if not pg_try_advisory_xact_lock(54030003) then
    return false;
  elsif exists (select from usage_ledger_start where staged_until is not null) then
    return true;
  end if;
  if older_than <= faregate_archived_until()
    and not exists (select from usage_ledger_start where at > older_than - interval '1 day')
  then
    perform 1 from usage_archive where created_at < older_than limit 1;
    if found then
      update usage_ledger_start set at = older_than;
    end if;
  end if;
  select p.part, p.ends into oldest from faregate_ledger_partitions() p join pg_class c on c.oid = p.part
  where c.relkind = 'r' and p.ends <= cutoff order by p.ends limit 1;
  if not found then
    return false;
  end if;
  -- The swap adds them while writers wait.
  execute format('select count(*) from (select from %s where id > %L limit 50001) l', oldest.part, settled) into late;
  if late > 50000 then
    return false;
  end if;
  -- Changes that are committed by now are in what is copied. Others are made again by the swap.
  delete from usage_archive_changes;
  select string_agg(quote_ident(attname), ', ' order by attnum) into columns from pg_attribute
  where attrelid = 'usage_archive'::regclass and attnum > 0 and not attisdropped;
  execute format('insert into usage_archive (%1$s) select %1$s from %2$s where id <= %3$L', columns, oldest.part, settled);
  get diagnostics copied = row_count;
  update usage_ledger_start set staged_until = oldest.ends, staged_up_to = settled, staged_movements = copied;
  return true;
end $$`,
  // Puts the archive in the place of the partition. Locks the ledger exclusively for some milliseconds, or fails with 55P03.
  `create or replace function faregate_swap_ledger() returns bigint
language plpgsql security definer set search_path from current set lock_timeout = '100ms' set citus.enable_ddl_propagation = off as $$
declare
  staged usage_ledger_start;
  gone regclass;
  columns text;
  changed record;
  late bigint;
begin
  if not pg_try_advisory_xact_lock(54030003) then
    return 0;
  end if;
  select * into strict staged from usage_ledger_start;
  if staged.staged_until is null then
    return 0;
  end if;
  lock table only usage_ledger in access exclusive mode;
  select p.part into strict gone from faregate_ledger_partitions() p where p.ends = staged.staged_until;
  execute format('lock table %s in access exclusive mode', gone);
  select string_agg(quote_ident(attname), ', ' order by attnum) into columns from pg_attribute
  where attrelid = 'usage_archive'::regclass and attnum > 0 and not attisdropped;
  execute format('select count(*) from %s where id > %L', gone, staged.staged_up_to) into late;
  if late > 0 then
    execute format('insert into usage_archive (%1$s) select %1$s from %2$s where id > %3$L', columns, gone, staged.staged_up_to);
  end if;
  for changed in select c.organization_id, array_agg(c.contract_id) as ids from usage_archive_changes c group by 1 loop
    if changed.organization_id is null then
      delete from usage_archive where contract_id = any (changed.ids);
    else
      update usage_archive set organization_id = changed.organization_id where contract_id = any (changed.ids);
    end if;
  end loop;
  delete from usage_archive_changes;
  execute format('drop table %s', gone);
  drop foreign table if exists usage_ledger_archive;
  perform faregate_attach_archive(staged.staged_until);
  update usage_ledger_start set staged_until = null, staged_up_to = null, staged_movements = null;
  return staged.staged_movements + late;
end $$`,
  `create or replace function faregate_show_archive(bound timestamptz) returns void
language plpgsql set search_path from current as $$
begin
  execute format('create or replace view usage_archived as select * from usage_archive where created_at < %L', bound);
end $$`,
  `create or replace function faregate_attach_archive(bound timestamptz) returns void
language plpgsql set search_path from current as $$
begin
  perform faregate_show_archive(bound);
  execute format('create foreign table usage_ledger_archive partition of usage_ledger for values from (minvalue) to (%L)
    server ${SERVER} options (table_name ''usage_archived'')', bound);
  create trigger usage_archive_stray before insert on usage_ledger_archive for each row execute function faregate_archive_stray();
  perform faregate_close_table('usage_ledger_archive');
  perform faregate_grant_archive('usage_archived');
end $$`,
  // Lets all that read the ledger read the archive, and nothing more. Workers check the rights of the caller.
  `create or replace function faregate_grant_archive(relation text) returns void
language plpgsql set search_path from current as $$
declare
  reader record;
begin
  for reader in
    select a.grantee::regrole as role from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'usage_ledger'::regclass and a.privilege_type = 'SELECT' and a.grantee not in (0, c.relowner)
  loop
    execute format('revoke all on %I from %s', relation, reader.role);
    execute format('grant select on %I to %s', relation, reader.role);
  end loop;
end $$`,
  `revoke all on function faregate_archive_stray(), faregate_move_movements(text[], text), faregate_stage_ledger(timestamptz),
  faregate_swap_ledger(), faregate_show_archive(timestamptz), faregate_attach_archive(timestamptz),
  faregate_grant_archive(text) from public`,
];

/** Sizes of the tables that `distribute` moves. */
export interface Plan {
  workers: number;
  /** Bytes that it copies to workers at once. The rest goes by partition, while the system runs. */
  sums: number;
  ledger: number;
}

/** Reads the sizes for `distribute`. */
export async function planArchive(client: Connection["client"]): Promise<Plan> {
  const [row] = await client<[{ workers: number; sums: string; ledger: string }]>`
    select (select count(*)::int from pg_dist_node where noderole = 'primary' and isactive and shouldhaveshards and groupid <> 0) as workers,
      pg_total_relation_size('usage_hours') + pg_total_relation_size('usage_days') as sums,
      (select sum(pg_total_relation_size(part)) from faregate_ledger_partitions()) as ledger`;
  return { workers: row.workers, sums: Number(row.sums), ledger: Number(row.ledger) };
}

/** Returns a literal of Postgres, for statements that take no parameters. */
const literal = (text: string) =>
  `${text.includes("\\") ? " E" : ""}'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

/**
 * Makes the archive, and distributes the sums, in one transaction. Histories wait meanwhile; consumption does not. Processes that run
 * have to be started anew.
 */
export async function makeArchive(client: Connection["client"], readers: readonly Reader[]): Promise<void> {
  await client.begin(async (tx) => {
    const run = (text: string) => tx.unsafe(text);
    const distribute = (table: string, options: string) =>
      run(`select create_distributed_table('${table}', 'contract_id', ${options})`);
    // A batch of the roll-up ends first, and a compaction that is staged is given up.
    await run("lock table usage_rollup in share mode");
    await run("select pg_advisory_xact_lock(54030003)");
    await run(`update usage_ledger_start set staged_until = null, staged_cutoff = null, staged_up_to = null, staged_latest = null,
      staged_movements = null`);
    await run("truncate usage_ledger_next");
    await run("set local citus.enable_ddl_propagation = off");
    await run("create extension if not exists postgres_fdw");
    await run("create table usage_archive (like usage_ledger including all excluding defaults)");
    await run("select faregate_close_table('usage_archive')");
    await run("create table usage_archive_changes (contract_id text not null, organization_id text)");
    await run("select faregate_close_table('usage_archive_changes')");
    const [place] = await tx<[{ host: string; port: string; database: string }]>`
      select current_setting('citus.local_hostname') as host, current_setting('port') as port, current_database() as database`;
    await run(`create server ${SERVER} foreign data wrapper postgres_fdw options (host ${literal(place.host)},
      port ${literal(place.port)}, dbname ${literal(place.database)}, fetch_size '10000')`);
    for (const { name, password } of readers) await run(mapping(name, password));
    for (const statement of FUNCTIONS) await run(statement);
    await run("set local citus.enable_ddl_propagation = on");
    await own(run);
    await distribute("usage_archive", `shard_count => ${SHARDS}, colocate_with => 'none'`);
    await run("select faregate_grant_archive('usage_archive')");
    for (const table of ["usage_days", "usage_hours"]) {
      await distribute(table, "colocate_with => 'usage_archive'");
      await run(`select truncate_local_data_after_distributing_table('${table}')`);
    }
  });
}

/** Gives what is new to the owner of the ledger, who need not be the caller: functions run with the owner's rights. */
const own = (run: (text: string) => Promise<unknown>) =>
  run(`do $$ declare
    owner regrole := (select relowner::regrole from pg_class where oid = 'usage_ledger'::regclass);
    made regprocedure;
  begin
    if owner = current_user::regrole then
      return;
    end if;
    execute format('alter table usage_archive owner to %s', owner);
    execute format('alter table usage_archive_changes owner to %s', owner);
    execute format('grant usage on foreign server ${SERVER} to %s', owner);
    for made in
      select oid::regprocedure from pg_proc where pronamespace = 'public'::regnamespace and starts_with(proname, 'faregate_') and proowner <> owner
    loop
      execute format('alter function %s owner to %s', made, owner);
    end loop;
  end $$`);

const mapping = (name: string, password: string) =>
  `create user mapping if not exists for ${identifier(name)} server ${SERVER} options (user ${literal(name)}${
    password === "" ? "" : `, password ${literal(password)}`
  })`;

/** Replaces functions that a migration may have replaced, and shows new columns of the archive. Call it after each. */
export async function renewArchive(client: Connection["client"]): Promise<void> {
  await client.begin(async (tx) => {
    await tx.unsafe("set local citus.enable_ddl_propagation = off");
    for (const statement of FUNCTIONS) await tx.unsafe(statement);
    await tx`select faregate_show_archive(until) from faregate_archived_until() until where isfinite(until)`;
  });
}
