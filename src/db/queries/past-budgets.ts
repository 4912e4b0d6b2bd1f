import { sql } from "drizzle-orm";
import { MAX_HOLD_MS } from "../../core/holds.ts";
import type { Database } from "../postgres/connect.ts";

/*
 * Balances of budgets at a past moment. The ledger names the budgets that each movement counts towards, and the window.
 */

/** Use of one budget by one spender at a past moment. */
export interface PastBalance {
  budget: string;
  spender: string;
  /** Start of the newest window in which it was used by then, in milliseconds since 1970. Null: in none that was read. */
  since: number | null;
  /** In that window. */
  used: number;
  held: number;
  /** The ledger has a reset of the limit by then, of a query with `sinceReset`. */
  isReset: boolean;
}

/** A balance to read, and the movements that may count towards it. */
export interface PastBalanceQuery {
  budget: string;
  spender: string;
  serviceId: string;
  limitName: string;
  /** Movements before it count towards earlier windows. Null: all may count. */
  from: Date | null;
  /** Movements up to the last reset of the limit count towards earlier windows. */
  sinceReset: boolean;
}

/** Sums what the movements and holds of a contract count by a moment. */
export async function readPastBalances(
  db: Database,
  { contractId, at }: { contractId: string; at: Date },
  queries: readonly PastBalanceQuery[],
): Promise<PastBalance[]> {
  const moment = sql`${at.toISOString()}::timestamptz`;
  // Ids ascend with their moments, so an index finds the holds that may have been open.
  const oldestHold = Math.max(0, at.getTime() - MAX_HOLD_MS)
    .toString(16)
    .padStart(12, "0");
  const rows = await db.execute<PastBalance & Record<string, unknown>>(sql`
    select asked.budget, asked.spender, moved.since, coalesce(moved.used, 0)::float8 as used, coalesce(held.amount, 0)::float8 as held,
      zero.id is not null as "isReset"
    from json_to_recordset(${JSON.stringify(queries)}::text::json) as asked
      (budget text, spender text, "serviceId" text, "limitName" text, "from" timestamptz, "sinceReset" boolean)
    left join lateral (
      select l.id from usage_ledger l
      where l.contract_id = ${contractId} and l.service_id = asked."serviceId" and l.limit_name = asked."limitName"
        and l.kind in ('reset', 'renew', 'remove') and l.created_at <= ${moment} and asked."sinceReset"
      order by l.created_at desc, l.id desc limit 1
    ) zero on true
    left join lateral (
      select (p.value ->> 3)::float8 as since, sum((p.value ->> 2)::numeric) as used
      from usage_ledger l cross join lateral json_array_elements(l.budgets) p
      where l.contract_id = ${contractId} and l.service_id = asked."serviceId" and l.limit_name = asked."limitName"
        and l.id > coalesce(zero.id, 0) and l.created_at <= ${moment} and l.created_at >= coalesce(asked."from", '-infinity')
        and l.budgets is not null and p.value ->> 0 = asked.budget and p.value ->> 1 = asked.spender
      group by 1 order by 1 desc limit 1
    ) moved on true
    left join lateral (
      select sum(a.amount) as amount
      from holds h cross join lateral json_to_recordset(h.budgets) as a (budget text, spender text, amount numeric)
      where h.contract_id = ${contractId} and h.id >= ${oldestHold} and h.created_at <= ${moment} and h.until > ${moment}
        and coalesce(h.ended_at > ${moment}, true) and h.kind = 'hold' and h.budgets is not null
        and a.budget = asked.budget and a.spender = asked.spender
    ) held on true`);
  return [...rows];
}

/**
 * Counts back from the balance of now to a past moment. For windows whose first movements the ledger no longer has. Undefined
 * without a balance; only one whose window began by then is of use.
 */
export async function usedBefore(
  db: Database,
  { contractId, at }: { contractId: string; at: Date },
  { budget, spender }: { budget: string; spender: string },
): Promise<{ since: number; used: number } | undefined> {
  const [row] = await db.execute<{ since: number; used: number }>(sql`
    select (extract(epoch from b.since) * 1000)::float8 as since, (b.used - coalesce((
      select sum((p.value ->> 2)::numeric)
      from usage_ledger l cross join lateral json_array_elements(l.budgets) p
      where l.contract_id = ${contractId} and l.created_at > ${at.toISOString()}::timestamptz and l.budgets is not null
        and p.value ->> 0 = ${budget} and p.value ->> 1 = ${spender}
        and to_timestamp((p.value ->> 3)::float8 / 1000) = b.since
    ), 0))::float8 as used
    from budget_balances b
    where b.contract_id = ${contractId} and b.budget = ${budget} and b.spender = ${spender}`);
  return row;
}
