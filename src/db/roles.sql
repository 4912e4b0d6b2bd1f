-- Three roles instead of one that may do everything. Run this as a superuser, or as the owner of the database, connected to
-- Faregate's database: once before the first migration and once after each (it changes nothing that is right already):
--
--   psql "$ADMIN_URL" -f src/db/roles.sql
--   psql "$ADMIN_URL" -c "alter role faregate_owner password '...'" -c "alter role faregate_app password '...'"
--   DATABASE_OWNER_URL=postgres://faregate_owner:...@host/database npm run db:migrate
--   psql "$ADMIN_URL" -f src/db/roles.sql
--
-- faregate_owner  owns the schema and migrates it: DATABASE_OWNER_URL, and no server process has it.
-- faregate_app    what the server is: DATABASE_URL. Reads and writes rows; makes, changes and empties no table. It adds to
--                 the audit log, to the ledger and to the record of contracts, and can neither change nor delete what is in
--                 them: their retention goes through functions of the owner's, which leave the last days alone.
-- faregate_read   for reports: reads everything but passwords, keys and secrets, hashed or sealed as they are.
--
-- faregate_app gets settings here, unless it has them: behind a connection pooler the server can set those of transactions only.
-- To change one: alter role faregate_app in database ... set statement_timeout = '10s'.
--
-- test/db/roles.pg.test.ts runs the server as faregate_app through everything that it can be asked to change.

do $$
declare
  name text;
  value text;
  object record;
begin
  foreach name in array array['faregate_owner', 'faregate_app', 'faregate_read'] loop
    if not exists (select 1 from pg_roles where rolname = name) then
      execute format('create role %I login nosuperuser nocreatedb nocreaterole', name);
    end if;
  end loop;

  -- Who runs this hands over what it owns, and must be able to.
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('grant faregate_owner to %I', current_user);
  end if;
  for name, value in values
    ('statement_timeout', '30s'), ('lock_timeout', '10s'), ('idle_in_transaction_session_timeout', '30s'), ('jit', 'off')
  loop
    continue when exists (
      select from pg_db_role_setting s, unnest(s.setconfig) setting
      where s.setrole = 'faregate_app'::regrole and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        and setting like name || '=%'
    );
    execute format('alter role faregate_app in database %I set %I = %L', current_database(), name, value);
  end loop;

  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect, create on database %I to faregate_owner', current_database());
  execute format('grant connect on database %I to faregate_app, faregate_read', current_database());
  create schema if not exists drizzle;
  alter schema drizzle owner to faregate_owner;
  revoke all on schema public from public;
  grant usage, create on schema public to faregate_owner;
  grant usage on schema public, drizzle to faregate_app, faregate_read;

  for object in
    select n.nspname as schema, c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('public', 'drizzle') and c.relkind in ('r', 'p') and c.relowner <> 'faregate_owner'::regrole
  loop
    execute format('alter table %I.%I owner to faregate_owner', object.schema, object.name);
  end loop;
  for object in
    select p.oid::regprocedure as signature
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proowner <> 'faregate_owner'::regrole
      and not exists (select 1 from pg_depend d where d.objid = p.oid and d.deptype = 'e')
  loop
    execute format('alter function %s owner to faregate_owner', object.signature);
  end loop;
end $$;

-- What migrations will make, and what they have made.
alter default privileges for role faregate_owner in schema public grant select, insert, update, delete on tables to faregate_app;
alter default privileges for role faregate_owner in schema public grant execute on functions to faregate_app;
alter default privileges for role faregate_owner in schema public grant select on tables to faregate_read;
alter default privileges for role faregate_owner in schema drizzle grant select on tables to faregate_app, faregate_read;
grant select, insert, update, delete on all tables in schema public to faregate_app;
grant execute on all functions in schema public to faregate_app;
grant select on all tables in schema public to faregate_read;
grant select on all tables in schema drizzle to faregate_app, faregate_read;

do $$
declare
  hidden record;
begin
  if to_regclass('public.audit_log') is null then
    return; -- before the first migration
  end if;
  revoke update, delete on audit_log, usage_ledger, usage_ledger_start, usage_resets, contract_states, deleted_pricings from faregate_app;
  grant update (reverted_at, renamed_feature_id) on usage_ledger to faregate_app;
  if to_regprocedure('public.faregate_close_table(regclass)') is not null then
    grant usage, select on sequence usage_ledger_id_seq to faregate_app;
    -- The ledger's rights are checked where rows are reached through it. Its partitions give none.
    perform public.faregate_close_table(inhrelid::regclass) from pg_inherits where inhparent = 'public.usage_ledger'::regclass;
    perform public.faregate_close_table('public.usage_ledger_next');
  end if;
  -- Of `faregate-server distribute`.
  if to_regclass('public.usage_archive') is not null then
    revoke insert, update, delete on usage_archive, usage_archive_changes from faregate_app;
  end if;
  if to_regclass('public.instances') is not null then
    revoke insert, update, delete on instances from faregate_app;
  end if;

  for hidden in
    select table_name, string_agg(quote_ident(column_name), ', ') as shown
    from information_schema.columns
    where table_schema = 'public' and table_name in ('users', 'organization_keys', 'webhook_endpoints', 'idempotency_keys', 'token_keys',
      'billing_connections', 'invitations', 'recoveries', 'sessions')
      and column_name !~ '(hash|sealed|fingerprint|body)'
    group by table_name
  loop
    execute format('revoke select on %I from faregate_read', hidden.table_name);
    execute format('grant select (%s) on %I to faregate_read', hidden.shown, hidden.table_name);
  end loop;
end $$;
