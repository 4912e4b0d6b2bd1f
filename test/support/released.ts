import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../../src/db/migrate.ts";
import { MIGRATIONS } from "./postgres-server.ts";

/*
 * The schema of the last release: its migrations never change, so the folder has it. After a release, name its newest migration here,
 * and replace the statements below by those of that release.
 */

const NEWEST_RELEASED = "0000_initial";

interface Journal {
  entries: { tag: string }[];
}

/** Migrates a database to the schema of the last release. */
export async function migrateToReleased(url: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "faregate-released-"));
  try {
    cpSync(MIGRATIONS, folder, { recursive: true });
    const file = join(folder, "meta", "_journal.json");
    const journal = JSON.parse(readFileSync(file, "utf8")) as Journal;
    const newest = journal.entries.findIndex(({ tag }) => tag === NEWEST_RELEASED);
    writeFileSync(file, JSON.stringify({ ...journal, entries: journal.entries.slice(0, newest + 1) }));
    await migrate(url, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Statements of the last release whose plans or tables have changed since. `$1` and so on are explained beside each. */
export const RELEASED_STATEMENTS = {
  /** Reverts a feature: contract, feature, oldest moment, operation, now. */
  revert: `
    with revertible as (
      select l.id, l.service_id, l.limit_name, l.feature_id, l.operation_id, l.delta
      from (
        select * from usage_ledger where contract_id = $1 and feature_id = $2 and renamed_feature_id is null
        union all
        select * from usage_ledger where contract_id = $1 and renamed_feature_id = $2
      ) l
      where l.kind = 'consume' and l.reverted_at is null and l.created_at > $3::timestamptz
        and not exists (
          select 1 from usage_ledger later
          where later.contract_id = l.contract_id and later.service_id = l.service_id
            and later.limit_name = l.limit_name and later.id > l.id and later.kind in ('reset', 'renew', 'remove')
        )
    ), marked as (
      update usage_ledger l set reverted_at = $5::timestamptz from revertible r where l.id = r.id
      returning l.service_id, l.limit_name, l.feature_id, r.delta
    ), part as (
      select service_id, limit_name, feature_id, sum(delta) as delta from marked group by 1, 2, 3
    ), balance as (
      select u.service_id, u.limit_name, u.consumed as before, m.delta
      from usage_levels u
      join (select service_id, limit_name, sum(delta) as delta from marked group by 1, 2) m using (service_id, limit_name)
      where u.contract_id = $1
    ), changed as (
      update usage_levels u set consumed = greatest(0, b.before - b.delta)
      from balance b where u.contract_id = $1 and u.service_id = b.service_id and u.limit_name = b.limit_name
      returning u.organization_id, u.service_id, u.limit_name, b.before, u.consumed
    )
    insert into usage_ledger
      (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
    select $1, organization_id, service_id, limit_name, 'revert', feature_id, $4,
      -least(part.delta, changed.before - changed.consumed), $5::timestamptz
    from changed join part using (service_id, limit_name)`,
  /** The newest movement, up to which the roll-up goes. */
  newest: "select max(id) as id from usage_ledger",
  /** The next batch of the roll-up: above this id, up to that one. */
  batch: `select max(id) as id, count(*) as rows from (
    select id from usage_ledger where id > $1::bigint and id <= $2::bigint order by id limit 10000) l`,
  /** Sums up old movements: before this moment. */
  compact: "select compact_usage_ledger($1::timestamptz, 1000) as removed",
};
