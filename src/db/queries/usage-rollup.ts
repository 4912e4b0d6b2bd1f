import { sql } from "drizzle-orm";
import { isDistributed } from "../distribution.ts";
import type { Database } from "../postgres/connect.ts";
import { readLedgerStart } from "./ledger-partitions.ts";

/*
 * The roll-up: sums of movements per hour and per day, which histories read together with the movements that it lacks. It
 * holds exactly the movements up to its mark. Nothing of it happens in the transactions that consume.
 *
 * Ids of movements are not given in the order of commits, so the mark must not pass a transaction that is still in flight.
 * Every writer of movements locks its contract first, which assigns its transaction id before any id of a movement. So all
 * movements up to the newest id given are settled once every transaction id assigned until then has ended.
 */

/** Movements per transaction, which takes about 100 ms. */
const BATCH = 10_000;

/** SQL condition: the movement is a sum that retention left behind. */
export const IS_CARRIED = sql.raw(`(l.kind = 'adjust' and l.operation_id = 'carried')`);
/** SQL expression: moment of use of movement `l`. */
export const USED_AT = sql.raw("coalesce(l.used_at, l.created_at)");
/** SQL expressions: the sums of movements `l`. `entries` counts those that are counted or late. */
export const SUMS = sql.raw(`
    coalesce(sum(l.delta) filter (where l.kind in ('consume', 'revert', 'adjust')), 0) as counted,
    coalesce(-sum(l.delta) filter (where l.kind in ('reset', 'renew', 'remove')), 0) as cleared,
    coalesce(sum(l.late_amount), 0) as late,
    count(*) filter (where l.kind not in ('reset', 'renew', 'remove')) as entries`);

/** Adds movements to the roll-up: all that have settled, up to `upTo`. Returns their number. Skips if another process does. */
async function addBatch(db: Database, upTo: number): Promise<{ added: number; isDone: boolean }> {
  return db.transaction(async (tx) => {
    // Deletions of contracts hold this row too, so that no sum of a deleted contract is added.
    const [mark] = await tx.execute<{ up_to: string }>(sql`select up_to from usage_rollup for update skip locked`);
    if (mark === undefined || Number(mark.up_to) >= upTo) return { added: 0, isDone: true };
    const [next] = await tx.execute<{ id: string | null; rows: string }>(sql`
      select max(id) as id, count(*) as rows from (
        select id from usage_ledger where id > ${mark.up_to}::bigint and id <= ${upTo}::bigint order by id limit ${BATCH}::integer
      ) l`);
    const added = Number(next?.rows ?? 0);
    const end = added < BATCH ? upTo : Number(next?.id);
    await tx.execute(sql`
      with moved as materialized (
        select l.contract_id, l.organization_id, l.service_id, l.limit_name, coalesce(l.feature_id, '') as feature_id,
          date_trunc('hour', ${USED_AT}, 'UTC') as hour, ${SUMS}
        from usage_ledger l where l.id > ${mark.up_to}::bigint and l.id <= ${end}::bigint and not ${IS_CARRIED}
        group by 1, 2, 3, 4, 5, 6
      ), hours as (
        insert into usage_hours as r
          (contract_id, organization_id, hour, service_id, limit_name, counted, cleared, late, entries)
        select contract_id, organization_id, hour, service_id, limit_name, sum(counted), sum(cleared), sum(late), sum(entries)
        from moved group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
        on conflict (contract_id, hour, service_id, limit_name, organization_id) do update set
          counted = r.counted + excluded.counted, cleared = r.cleared + excluded.cleared, late = r.late + excluded.late,
          entries = r.entries + excluded.entries
      )
      insert into usage_days as r
        (contract_id, organization_id, day, service_id, limit_name, feature_id, counted, cleared, late, entries)
      select contract_id, organization_id, date_trunc('day', hour, 'UTC') as day, service_id, limit_name, feature_id,
        sum(counted), sum(cleared), sum(late), sum(entries)
      from moved group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
      on conflict (contract_id, day, service_id, limit_name, feature_id, organization_id) do update set
        counted = r.counted + excluded.counted, cleared = r.cleared + excluded.cleared, late = r.late + excluded.late,
        entries = r.entries + excluded.entries
    `);
    await tx.execute(sql`update usage_rollup set up_to = ${end}::bigint`);
    return { added, isDone: end >= upTo };
  });
}

/** Keeps batches of the roll-up from committing until the end of the transaction. Takes no snapshot. */
export async function holdRollUp(tx: Database): Promise<void> {
  await tx.execute(sql`lock table usage_rollup in share mode`);
}

/**
 * Creates a function that brings the roll-up up to date. Each call adds what had settled since the last one, so call it
 * periodically. Several processes may run it at once. Returns the number of movements added.
 */
export function createRollUp(db: Database, isStopping: () => boolean = () => false): () => Promise<number> {
  /** Movements up to `upTo` have settled once no transaction id up to `transaction` is in flight. */
  let candidate: { upTo: number; transaction: string } | undefined;
  return async () => {
    let added = 0;
    if (candidate !== undefined) {
      const [oldest] = await db.execute<{ settled: boolean }>(
        sql`select pg_snapshot_xmin(pg_current_snapshot()) > ${candidate.transaction}::xid8 as settled`,
      );
      if (oldest?.settled !== true) return 0;
      for (let isDone = false; !isDone;) {
        // The first run over an existing ledger takes minutes.
        if (isStopping()) return added;
        const batch = await addBatch(db, candidate.upTo);
        added += batch.added;
        isDone = batch.isDone;
      }
      candidate = undefined;
    }
    // Every id given so far, without a look into each partition.
    const [newest] = await db.execute<{ id: string }>(
      sql`select last_value as id from usage_ledger_id_seq where is_called`,
    );
    if (newest === undefined) return added;
    const [mark] = await db.execute<{ up_to: string }>(sql`select up_to from usage_rollup`);
    if (Number(mark?.up_to) >= Number(newest.id)) return added;
    // Its own statement: transaction ids assigned before it are lower.
    const [current] = await db.execute<{ id: string }>(sql`select pg_current_xact_id()::text as id`);
    if (current !== undefined) candidate = { upTo: Number(newest.id), transaction: current.id };
    return added;
  };
}

/**
 * Deletes sums of buckets that ended before the ledger starts, which nobody can ask for. In small transactions, because the ledger starts
 * a week later each time that a partition goes.
 */
export async function pruneRollUp(db: Database): Promise<void> {
  // The start only moves forward: buckets that end meanwhile are left to the next call.
  const start = await readLedgerStart(db);
  if (start === null) return;
  for (const bucket of ["hour", "day"]) {
    const table = sql.raw(`usage_${bucket}s`);
    const first = sql`date_trunc(${sql.raw(`'${bucket}'`)}, ${start.toISOString()}::timestamptz, 'UTC')`;
    if (await isDistributed(db)) {
      // Workers delete in parallel. Citus knows no place of a row.
      await db.transaction(async (tx) => {
        await tx.execute(sql`select 1 from usage_rollup for share`);
        await tx.execute(sql`delete from ${table} where ${sql.raw(bucket)} < ${first}`);
      });
      continue;
    }
    for (let deleted = BATCH; deleted === BATCH;) {
      deleted = await db.transaction(async (tx) => {
        // Excludes the roll-up, which would write the same rows in another order.
        await tx.execute(sql`select 1 from usage_rollup for share`);
        const gone = await tx.execute<{ count: string }>(sql`
          with old as (
            delete from ${table} where ctid = any(array(
              select ctid from ${table} where ${sql.raw(bucket)} < ${first} limit ${BATCH}::integer)) returning 1
          ) select count(*) as count from old`);
        return Number(gone[0]?.count ?? 0);
      });
    }
  }
}
