import { sql } from "drizzle-orm";
import { type Database, databaseError } from "../postgres/connect.ts";

/*
 * The ledger is partitioned by `created_at`. Partitions of a week, or of a day where a day has more than a million movements, are made
 * ahead. The first partition has no lower bound: it holds one sum per balance, which compaction carried over, and strays of long ago.
 * The default partition takes the movements of times without an event server. Moments of movements ascend per contract, but for the
 * clocks of different processes, and for expired holds, which are counted at their end.
 *
 * Compaction replaces the first partition and all that ended before the retention by a new first partition. Functions of the schema's
 * owner do it, see migrations/0003_ledger_partitions.sql: the server's role may neither delete movements nor make tables.
 */

/** Attempts to lock the ledger, and the pause before the next. Each attempt gives up within a fraction of a second. */
const ATTEMPTS = 5;
const PAUSE_MS = 500;

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Detects that a lock was not free (55P03), or that Postgres ended a deadlock (40P01). */
const isBusy = (error: unknown): boolean => ["55P03", "40P01"].includes(databaseError(error)?.code ?? "");

/**
 * Makes the partitions of the week after `now`. Several processes may call it at once. Skips a step whose locks are not free: the next
 * call takes it.
 */
export async function makePartitions(db: Database, now: Date): Promise<void> {
  for (;;) {
    try {
      const made = await unbounded(
        db,
        sql`select faregate_make_partition(${now.toISOString()}::timestamptz) as result`,
      );
      if (made !== true) return;
    } catch (error) {
      if (!isBusy(error)) throw error;
      return;
    }
  }
}

/**
 * Sums up movements older than `before`, but none of the last day, by balance, and drops their partitions. Gives up while another
 * transaction holds the ledger: the next call goes on from there. Returns the number of movements that went.
 */
export async function compactPartitions(db: Database, before: Date): Promise<number> {
  if ((await unbounded(db, sql`select faregate_stage_ledger(${before.toISOString()}::timestamptz) as result`)) !== true)
    return 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return Number(await unbounded(db, sql`select faregate_swap_ledger() as result`));
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (attempt === ATTEMPTS) return 0;
      await pause(PAUSE_MS);
    }
  }
}

/** Reads up to when movements may be compacted into sums. Null: none are. */
export async function readLedgerStart(db: Database): Promise<Date | null> {
  const [row] = await db.execute<{ at: string | null }>(sql`select at from usage_ledger_start`);
  return row === undefined || row.at === null ? null : new Date(row.at);
}

/**
 * Runs a statement that may take longer than requests may. Its commit does not wait for the disk: a crash that loses it loses a step
 * that the next call repeats. Postgres itself waits where a commit removes tables.
 */
async function unbounded(db: Database, statement: ReturnType<typeof sql>): Promise<unknown> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`
      select set_config('statement_timeout', '0', true), set_config('synchronous_commit', 'off', true)`);
    const [row] = await tx.execute<{ result: unknown }>(statement);
    return row?.result;
  });
}
