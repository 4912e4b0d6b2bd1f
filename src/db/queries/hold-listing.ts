import { and, desc, eq, lt, sql, type SQL } from "drizzle-orm";
import type { ISql } from "postgres";
import type { HoldState } from "../../core/holds.ts";
import type { Database } from "../postgres/connect.ts";
import { contracts, holds } from "../schema.ts";
import type { HoldRow } from "./holds.ts";

/** A hold with the address of its contract. */
export interface FoundHold {
  hold: HoldRow;
  organizationId: string;
  userId: string;
}

type FoundRow = Omit<HoldRow, "createdAt" | "until" | "endedAt"> &
  Pick<FoundHold, "organizationId" | "userId"> & { createdMs: number; untilMs: number; endedMs: number | null };

/**
 * Finds holds by their ids, in any order, with one prepared statement. Plain joins would keep the plan of an empty table,
 * which reads all holds, until the table is analyzed.
 */
export async function findHolds(client: ISql, ids: readonly string[]): Promise<FoundHold[]> {
  const rows = await client<FoundRow[]>`
    select h.id, h.contract_id as "contractId", h.kind, h.feature_id as "featureId", h.amounts, h.on_expiry as "onExpiry",
      h.state, h.counted, h.kept, h.spender, h.budgets, (extract(epoch from h.created_at) * 1000)::float8 as "createdMs",
      (extract(epoch from h.until) * 1000)::float8 as "untilMs",
      (extract(epoch from h.ended_at) * 1000)::float8 as "endedMs",
      c.organization_id as "organizationId", c.user_id as "userId"
    from unnest(${[...ids]}::text[]) as asked (id)
    cross join lateral (select * from holds h where h.id = asked.id and h.kind = 'hold' offset 0) h
    cross join lateral (select organization_id, user_id from contracts where id = h.contract_id offset 0) c`;
  return rows.map(({ createdMs, untilMs, endedMs, organizationId, userId, ...row }) => ({
    hold: {
      ...row,
      createdAt: new Date(createdMs),
      until: new Date(untilMs),
      endedAt: endedMs === null ? null : new Date(endedMs),
    },
    organizationId,
    userId,
  }));
}

/** Finds a hold by its id; undefined if there is none of this kind. */
export async function findHold(db: Database, id: string): Promise<FoundHold | undefined> {
  const { organizationId, userId } = contracts;
  const [row] = await db
    .select({ hold: holds, organizationId, userId })
    .from(holds)
    .innerJoin(contracts, eq(contracts.id, holds.contractId))
    .where(and(eq(holds.id, id), eq(holds.kind, "hold")));
  return row;
}

/** Lists a contract's holds, newest first. `state` is the one at `now`: an open hold past its end is expired. */
export async function listHolds(
  db: Database,
  query: {
    contractId: string;
    state: HoldState | undefined;
    before: string | undefined;
    limit: number;
    now: Date;
  },
): Promise<HoldRow[]> {
  const now = sql`${query.now.toISOString()}::timestamptz`;
  const inState: Record<HoldState, SQL> = {
    open: sql`state = 'open' and until > ${now}`,
    settled: sql`state = 'settled'`,
    released: sql`state = 'released'`,
    expired: sql`(state = 'expired' or state = 'open' and until <= ${now})`,
  };
  return db
    .select()
    .from(holds)
    .where(
      and(
        eq(holds.contractId, query.contractId),
        eq(holds.kind, "hold"),
        query.before === undefined ? undefined : lt(holds.id, query.before),
        query.state === undefined ? undefined : inState[query.state],
      ),
    )
    .orderBy(desc(holds.id))
    .limit(query.limit);
}
