import { and, eq, sql, type SQL } from "drizzle-orm";
import { sum } from "../../core/exact.ts";
import type { HeldAmount, HoldState } from "../../core/holds.ts";
import type { BudgetMovement } from "../../core/pricing/budgets.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { holds } from "../schema.ts";

/*
 * Holds, and the sums of open ones in the rows of usage levels: `held`, `open_holds` and `hold_due`. Every change of a hold
 * changes its levels in the same transaction, so that the version of a contract's levels is also that of its holds. Call
 * everything that writes with the contract locked.
 */

export type HoldRow = Omit<typeof holds.$inferSelect, "lease" | "organizationId">;

/** A hold to take. */
export type NewHold = Pick<
  typeof holds.$inferSelect,
  | "id"
  | "contractId"
  | "organizationId"
  | "featureId"
  | "amounts"
  | "onExpiry"
  | "createdAt"
  | "until"
  | "spender"
  | "budgets"
>;

/** The end of an open hold. */
export interface HoldEnd {
  hold: Pick<HoldRow, "id" | "contractId" | "featureId" | "amounts" | "until" | "spender"> &
    Partial<Pick<HoldRow, "kept" | "counted">>;
  state: Exclude<HoldState, "open">;
  endedAt: Date;
  /** By limit id, in all: of a kept hold with what was reported before. Null if nothing is counted. */
  counted: Readonly<Record<string, number>> | null;
  /** Balances of budgets that the counted amounts move, by limit id. Default: none. */
  budgets?: Readonly<Record<string, readonly BudgetMovement[]>> | undefined;
  /** Units that the counted amounts stand for, by limit id. Default: none. */
  units?: Readonly<Record<string, CountedUnits>> | undefined;
}

/** SQL expression: the amounts of a JSON column as rows. */
const amountsOf = (column: string): SQL =>
  sql`json_to_recordset(${sql.raw(column)}) as a ("serviceId" text, "limitName" text, id text, amount numeric)`;

/** Takes holds. */
export async function takeHolds(tx: Database, taken: readonly NewHold[]): Promise<void> {
  await tx.execute(sql`select faregate_change_holds(null, ${JSON.stringify(taken)}::text::json, null)`);
}

/** Ends open holds, and counts amounts of them: each above zero is a movement at the end of its hold. */
export async function endHolds(tx: Database, ends: readonly HoldEnd[]): Promise<void> {
  if (ends.length === 0) return;
  const given = ends.map(
    ({
      hold: { id, contractId, featureId, amounts, kept, counted: before },
      state,
      endedAt,
      counted,
      budgets,
      units,
    }) => ({
      id,
      contractId,
      featureId,
      state,
      endedAt,
      counted,
      amounts: amounts.map((amount) => ({
        ...amount,
        counted: sum(counted?.[amount.id] ?? 0, kept === true ? -(before?.[amount.id] ?? 0) : 0),
        budgets: budgets?.[amount.id],
        units: units?.[amount.id],
      })),
    }),
  );
  await tx.execute(sql`select faregate_change_holds(${JSON.stringify(given)}::text::json, null, null)`);
}

/** Condition for one hold or lease, by its contract as well: a distributed Postgres finds rows by their contract. */
export const isHold = ({ id, contractId }: Pick<HoldRow, "id" | "contractId">) =>
  and(eq(holds.contractId, contractId), eq(holds.id, id));

/** Writes what a report has changed of a hold, and the sums of its levels. */
export async function reportHold(tx: Database, hold: HoldRow): Promise<void> {
  const { id, contractId, amounts, counted, countedUnits, kept, until, budgets, state, endedAt } = hold;
  await tx
    .update(holds)
    .set({ amounts, counted, countedUnits, kept, until, budgets, state, endedAt })
    .where(isHold({ id, contractId }));
  await sumHolds(tx, [contractId]);
}

/** Extends an open hold. `hold_due` of its levels stays, as a moment before which no hold ends. */
export async function extendHold(tx: Database, hold: Pick<HoldRow, "id" | "contractId">, until: Date): Promise<void> {
  await tx.update(holds).set({ until }).where(isHold(hold));
}

/** Counts a contract's open holds, which is cheap because there are at most a thousand. */
export async function countOpenHolds(tx: Database, contractId: string): Promise<number> {
  return tx.$count(holds, and(eq(holds.contractId, contractId), eq(holds.state, "open"), eq(holds.kind, "hold")));
}

/** Counts an organization's open leases, and sums the amounts that they hold, by limit. */
export async function sumOpenLeases(
  db: Database,
  organizationId: string,
  now: Date,
): Promise<{ leases: number; held: { service: string; limit: string; leases: number; amount: number }[] }> {
  const rows = await db.execute<{ service: string | null; limit: string | null; leases: number; amount: number }>(sql`
    with open as (
      select h.id, h.amounts from holds h join contracts c on c.id = h.contract_id
      where h.state = 'open' and h.kind = 'lease' and h.until > ${now.toISOString()}::timestamptz
        and c.organization_id = ${organizationId}
    )
    select * from (
      select null as service, null as "limit", count(*)::integer as leases, 0::float8 as amount from open
      union all
      select s.name_key, a."limitName", count(*)::integer, sum(a.amount)::float8
      from open cross join ${amountsOf("open.amounts")} join services s on s.id = a."serviceId"
      group by 1, 2
    ) summed
    order by service collate "C" nulls first, "limit" collate "C"`);
  const held = rows.flatMap(({ service, limit, leases, amount }) =>
    service === null || limit === null ? [] : [{ service, limit, leases, amount }],
  );
  return { leases: rows.find(({ service }) => service === null)?.leases ?? 0, held };
}

/**
 * Makes the open holds of locked contracts follow a change of their levels: releases those that hold a level which is gone
 * or counts members now, and gives new rows of levels the sums of the others. Source: contract usage-records §3.4.
 */
export async function followLevels(
  tx: Database,
  { contractIds, now }: { contractIds: readonly string[]; now: Date },
): Promise<void> {
  const open = await tx
    .select()
    .from(holds)
    .where(and(isAnyOf(holds.contractId, contractIds), eq(holds.state, "open")));
  if (open.length === 0) return;
  const concerned = [...new Set(open.map(({ contractId }) => contractId))];
  const gone = await tx.execute<{ id: string }>(sql`
    select h.id from holds h
    where ${isAnyOf(sql`h.contract_id`, concerned)} and h.state = 'open' and exists (
      select 1 from ${amountsOf("h.amounts")} where not exists (
        select 1 from usage_levels u
        where u.contract_id = h.contract_id and u.service_id = a."serviceId" and u.limit_name = a."limitName"
          and not u.counts_members))
  `);
  const ids = new Set(gone.map(({ id }) => id));
  // The statements below compute the sums again.
  await tx.execute(sql`
    update holds set state = 'released', ended_at = ${now.toISOString()}::timestamptz
    where ${isAnyOf(sql`contract_id`, concerned)} and ${isAnyOf(sql`id`, [...ids])}
  `);
  await sumHolds(tx, concerned);
  if (open.some(({ budgets }) => budgets !== null)) await sumBudgetHolds(tx, concerned);
}

/** Sums the open holds and leases of these contracts in their levels. Call it after every other change of these rows. */
export async function sumHolds(tx: Database, contractIds: readonly string[]): Promise<void> {
  await tx.execute(sql`
    update usage_levels u set
      held = coalesce(open.held, 0), open_holds = coalesce(open.holds, 0), hold_due = open.due
    from usage_levels l left join (
      select h.contract_id, a."serviceId" as service_id, a."limitName" as limit_name, sum(a.amount) as held,
        count(*) as holds, min(h.until) as due
      from holds h cross join lateral ${amountsOf("h.amounts")}
      where ${isAnyOf(sql`h.contract_id`, contractIds)} and h.state = 'open'
      group by 1, 2, 3
    ) open using (contract_id, service_id, limit_name)
    where ${isAnyOf(sql`l.contract_id`, contractIds)} and (l.hold_due is not null or open.due is not null)
      and u.contract_id = l.contract_id and u.service_id = l.service_id and u.limit_name = l.limit_name
  `);
}

/** Sums what the open holds and leases of these contracts hold of budgets. */
async function sumBudgetHolds(tx: Database, contractIds: readonly string[]): Promise<void> {
  await tx.execute(sql`
    update budget_balances u set held = coalesce(open.held, 0)
    from budget_balances b left join (
      select h.contract_id, a.budget, a.spender, sum(a.amount) as held
      from holds h
      cross join lateral json_to_recordset(h.budgets) as a (budget text, spender text, amount numeric)
      where ${isAnyOf(sql`h.contract_id`, contractIds)} and h.state = 'open' and h.budgets is not null
      group by 1, 2, 3
    ) open using (contract_id, budget, spender)
    where ${isAnyOf(sql`b.contract_id`, contractIds)} and (b.held > 0 or open.held > 0)
      and u.contract_id = b.contract_id and u.budget = b.budget and u.spender = b.spender`);
}

/** Gives the open holds of locked contracts the new name of their service. */
export async function renameInHolds(
  tx: Database,
  { contractIds, ...input }: { contractIds: readonly string[]; serviceId: string; from: string; to: string },
): Promise<void> {
  const rows = await tx
    .select()
    .from(holds)
    .where(and(isAnyOf(holds.contractId, contractIds), eq(holds.state, "open")));
  const renamed = (text: string) => `${input.to}${text.slice(input.from.length)}`;
  for (const row of rows) {
    const { featureId, amounts, counted } = row;
    if (!amounts.some(({ serviceId }) => serviceId === input.serviceId)) continue;
    const after = amounts.map((held): HeldAmount =>
      held.serviceId === input.serviceId ? { ...held, id: `${input.to}-${held.limitName}` } : held,
    );
    const ids = new Map(amounts.map((held, i) => [held.id, after[i]?.id ?? held.id]));
    const countedAfter =
      counted && Object.fromEntries(Object.entries(counted).map(([is, n]) => [ids.get(is) ?? is, n]));
    await tx
      .update(holds)
      .set({
        featureId: featureId.startsWith(`${input.from}-`) ? renamed(featureId) : featureId,
        amounts: after,
        counted: countedAfter,
      })
      .where(isHold(row));
  }
}

/** Deletes up to `batch` holds that ended before `before`. Returns the number deleted. */
export async function deleteEndedHolds(db: Database, before: Date, batch: number): Promise<number> {
  // Ids ascend with the moment of creation, so the oldest holds stand first.
  const gone = await db.execute(sql`
    delete from holds where id in (
      select id from holds
      where id < ${before.getTime().toString(16).padStart(12, "0")} and state <> 'open'
        and ended_at < ${before.toISOString()}::timestamptz
      order by id limit ${batch}::integer for update skip locked
    ) returning 1`);
  return gone.length;
}
