import { sql, type SQL } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type postgres from "postgres";
import type { Database } from "../postgres/connect.ts";
import { textArray } from "../postgres/lists.ts";
import { type ContractSnapshot, dateOf, type SeenLevel } from "./contract-snapshots.ts";

/* Current levels of contracts whose snapshots are cached. */

/** Cached parts of a snapshot that {@link readBalances} compares with the database. */
export type KnownVersions = Pick<ContractSnapshot, "contractId" | "version" | "levels">;

interface BalancesRow extends Record<string, unknown> {
  id: string;
  version: string;
  /**
   * Row version, consumed and reset moment of each level, in the order of `ContractSnapshot.levels`. With open holds or a
   * raised threshold also the amount held, their number, and when the first may end; the threshold, and the limit then.
   */
  levels:
    | [string, number, string | null, number?, number?, (string | null)?, (number | null)?, (number | null)?][]
    | null;
}

/** SQL: the current levels of contracts. */
const selectBalances = (contractIds: SQL): SQL =>
  sql`select id, version, levels from faregate_balances(${contractIds})`;

const SELECT_BALANCES = new PgDialect().sqlToQuery(selectBalances(sql.raw("$1::text[]"))).sql;

/**
 * SQL: what faregate_balances returns of one contract. Calling the function and setting up its plan take Postgres a third more
 * time than this.
 */
const SELECT_BALANCES_OF_ONE = `
  select c.id, c.xmin::text as version, (
    select json_agg(case
        when u.alerted_threshold is not null then json_build_array(u.xmin::text, u.consumed, u.reset_at,
          u.held, u.open_holds, u.hold_due, u.alerted_threshold, u.alerted_limit)
        when u.hold_due is null then json_build_array(u.xmin::text, u.consumed, u.reset_at)
        else json_build_array(u.xmin::text, u.consumed, u.reset_at, u.held, u.open_holds, u.hold_due)
      end order by u.position, u.service_id collate "C")
    from usage_levels u where u.contract_id = c.id
  ) as levels
  from contracts c where c.id = $1`;

/**
 * Reads the current levels of cached contracts, by contract id: a third of the work of a full snapshot. Omits contracts
 * whose own row changed; read their snapshot again.
 */
export async function readBalances(
  client: postgres.ISql,
  cached: readonly KnownVersions[],
): Promise<Map<string, SeenLevel[]>> {
  const ids = [...new Set(cached.map((snapshot) => snapshot.contractId))];
  const [first] = ids;
  const rows =
    first !== undefined && ids.length === 1
      ? client.unsafe<BalancesRow[]>(SELECT_BALANCES_OF_ONE, [first], { prepare: true })
      : client.unsafe<BalancesRow[]>(SELECT_BALANCES, [ids], { prepare: true });
  return currentLevels(cached, await rows);
}

/** As {@link readBalances}, within a transaction. */
export async function readBalancesWithin(
  tx: Database,
  cached: readonly KnownVersions[],
): Promise<Map<string, SeenLevel[]>> {
  const ids = textArray(cached.map((snapshot) => snapshot.contractId));
  return currentLevels(cached, await tx.execute<BalancesRow>(selectBalances(ids)));
}

function currentLevels(cached: readonly KnownVersions[], rows: readonly BalancesRow[]): Map<string, SeenLevel[]> {
  const found = new Map(rows.map((row) => [row.id, row]));
  const result = new Map<string, SeenLevel[]>();
  for (const { contractId, version, levels } of cached) {
    const row = found.get(contractId);
    if (row === undefined || row.version !== version || (row.levels?.length ?? 0) !== levels.length) continue;
    result.set(
      contractId,
      levels.map((level, i) => {
        const [seen, consumed, resetAt, held = 0, openHolds = 0, holdDue = null, threshold = null, limit = null] = row
          .levels?.[i] ?? [level.version, level.consumed, null];
        if (seen === level.version) return level;
        return {
          ...level,
          version: seen,
          consumed,
          held,
          openHolds,
          holdDue: dateOf(holdDue),
          resetAt: dateOf(resetAt),
          alertedThreshold: threshold,
          alertedLimit: limit,
        };
      }),
    );
  }
  return result;
}
