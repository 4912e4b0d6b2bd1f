import type { Sql } from "postgres";
import { databaseError } from "./postgres/connect.ts";

/*
 * Prepares an existing ledger for migration 0003, which attaches it as the first partition. What takes long happens here, outside of the
 * migration's transaction, while servers of the release before go on writing.
 */

const ATTEMPTS = 20;
const PAUSE_MS = 500;

/**
 * Validates a bound of the ledger's moments, and builds the index that partitions have. Skips a ledger that is partitioned, empty or
 * missing. The bound is at least a week ahead, so that no movement is refused if the migration fails.
 */
export async function prepareLedger(client: Sql): Promise<void> {
  const [ledger] = await client<{ kind: string }[]>`
    select relkind as kind from pg_class where oid = to_regclass('usage_ledger')`;
  if (ledger?.kind !== "r") return;
  const [filled] = await client`select 1 from usage_ledger limit 1`;
  if (filled === undefined) return;
  const [{ bound }] = await client<[{ bound: string }]>`
    select (date_trunc('week', greatest(now(), max(created_at)), 'UTC') + interval '14 days')::text as bound from usage_ledger`;
  await withShortLocks(client, [
    "alter table usage_ledger drop constraint if exists usage_ledger_bound",
    `alter table usage_ledger add constraint usage_ledger_bound check (created_at < '${bound}') not valid`,
  ]);
  await client`alter table usage_ledger validate constraint usage_ledger_bound`;
  // An interrupted build leaves an invalid index.
  const [index] = await client<{ valid: boolean }[]>`
    select indisvalid as valid from pg_index where indexrelid = to_regclass('usage_ledger_first_id_idx')`;
  if (index?.valid === false) await client`drop index concurrently usage_ledger_first_id_idx`;
  if (index?.valid !== true) await client`create index concurrently usage_ledger_first_id_idx on usage_ledger (id)`;
}

/** Removes the bound after a failed migration. */
export async function releaseLedger(client: Sql): Promise<void> {
  const [ledger] = await client`
    select 1 from pg_constraint where conrelid = to_regclass('usage_ledger') and conname = 'usage_ledger_bound'`;
  if (ledger !== undefined)
    await withShortLocks(client, ["alter table usage_ledger drop constraint usage_ledger_bound"]);
}

/** Runs statements in a transaction that waits for locks only briefly, because every writer queues behind it; retries. */
async function withShortLocks(client: Sql, statements: readonly string[]): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.begin(async (tx) => {
        await tx`set local lock_timeout = '200ms'`;
        for (const statement of statements) await tx.unsafe(statement);
      });
      return;
    } catch (error) {
      if (databaseError(error)?.code !== "55P03" || attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}
