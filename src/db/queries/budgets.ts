import { and, asc, eq, sql, type SQL } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type { ISql } from "postgres";
import { balanceKey, type BudgetBalance } from "../../core/pricing/budgets.ts";
import type { Database } from "../postgres/connect.ts";
import { arrayLiteral, textArray } from "../postgres/lists.ts";
import { budgetBalances, contractBudgets, contracts } from "../schema.ts";

/*
 * Budgets of contracts and their balances. No balance moves without a level of its contract, and no budget changes without the
 * contract's row, in the same transaction: the version of a snapshot is also that of the balances that were read after it.
 */

export type BudgetRow = typeof contractBudgets.$inferSelect;

/** Change of one balance in one window, with the threshold that is raised afterwards. */
export interface BudgetChange extends BudgetBalance {
  contractId: string;
  organizationId: string;
  budget: string;
  spender: string;
  /** `used` and `held` are added. A balance of another window than `since` is zero before. */
}

/** Balances of a contract that were read together, and the starts of the running periods of its levels. */
export interface ReadBalances {
  /** By balanceKey. */
  balances: Map<string, BudgetBalance>;
  /** By level, as `levelKey` names it; null if nothing has begun the period. */
  periods: Map<string, Date | null>;
}

/** Key of a level within its contract. Ids of services contain no space. */
export const levelKey = ({ serviceId, limitName }: { serviceId: string; limitName: string }): string =>
  `${serviceId} ${limitName}`;

/** Balances to read of one contract. */
export interface BalancesQuery {
  contractId: string;
  /** Ids of budgets and paths of spenders, side by side. */
  budgets: readonly string[];
  spenders: readonly string[];
}

interface BalancesRow extends Record<string, unknown> {
  place: string;
  periods: [string, string, string | null][] | null;
  balances: [string, string, number, number, number, number | null, number | null][] | null;
}

const selectBalances = (contractIds: SQL, places: SQL, budgets: SQL, spenders: SQL): SQL => sql`
  select asked.place, (
      select json_agg(json_build_array(u.service_id, u.limit_name, u.running_since))
      from usage_levels u where u.contract_id = asked.id
    ) as periods, (
      select json_agg(json_build_array(b.budget, b.spender, b.used, b.held, extract(epoch from b.since) * 1000,
        b.alerted_threshold, b.alerted_limit))
      from unnest(${places}::integer[], ${budgets}::text[], ${spenders}::text[]) as wanted (place, budget, spender)
      cross join lateral (
        select * from budget_balances b
        where b.contract_id = asked.id and b.budget = wanted.budget and b.spender = wanted.spender offset 0
      ) b
      where wanted.place = asked.place
    ) as balances
  from unnest(${contractIds}::text[]) with ordinality as asked (id, place)`;

const SELECT_BALANCES = new PgDialect().sqlToQuery(
  selectBalances(sql.raw("$1"), sql.raw("$2"), sql.raw("$3"), sql.raw("$4")),
).sql;

function parametersOf(queries: readonly BalancesQuery[]) {
  return {
    contractIds: queries.map(({ contractId }) => contractId),
    places: `{${queries.flatMap(({ budgets }, i) => budgets.map(() => i + 1)).join(",")}}`,
    budgets: queries.flatMap(({ budgets }) => budgets),
    spenders: queries.flatMap(({ spenders }) => spenders),
  };
}

function toRead({ periods, balances }: Pick<BalancesRow, "periods" | "balances">): ReadBalances {
  return {
    periods: new Map(
      (periods ?? []).map(([serviceId, limitName, since]) => [
        levelKey({ serviceId, limitName }),
        since === null ? null : new Date(since),
      ]),
    ),
    balances: new Map(
      (balances ?? []).map(([budget, spender, used, held, since, alertedThreshold, alertedLimit]) => [
        balanceKey(budget, spender),
        { used, held, since, alertedThreshold, alertedLimit },
      ]),
    ),
  };
}

/** Reads balances of many contracts with one prepared statement, in the order of the queries. */
export async function readBudgetBalances(client: ISql, queries: readonly BalancesQuery[]): Promise<ReadBalances[]> {
  const { contractIds, places, budgets, spenders } = parametersOf(queries);
  const given = [arrayLiteral(contractIds), places, arrayLiteral(budgets), arrayLiteral(spenders)];
  const rows = await client.unsafe<BalancesRow[]>(SELECT_BALANCES, given, { prepare: true });
  return inOrder(queries, rows);
}

/** As {@link readBudgetBalances}, of one contract within a transaction. */
export async function readBudgetBalancesWithin(tx: Database, query: BalancesQuery): Promise<ReadBalances> {
  const { contractIds, places, budgets, spenders } = parametersOf([query]);
  const rows = await tx.execute<BalancesRow>(
    selectBalances(textArray(contractIds), sql`${places}`, textArray(budgets), textArray(spenders)),
  );
  return toRead(rows[0] ?? { periods: null, balances: null });
}

function inOrder(queries: readonly BalancesQuery[], rows: readonly BalancesRow[]): ReadBalances[] {
  const byPlace = new Map(rows.map((row) => [Number(row.place), row]));
  return queries.map((_, i) => toRead(byPlace.get(i + 1) ?? { periods: null, balances: null }));
}

/** Adds changes to the balances of a locked contract. Skips what is taken away of balances that are gone. */
export async function changeBudgetBalances(tx: Database, changes: readonly BudgetChange[]): Promise<void> {
  if (changes.length === 0) return;
  await tx.execute(sql`
    insert into budget_balances
      (contract_id, organization_id, budget, spender, used, held, since, alerted_threshold, alerted_limit)
    select "contractId", "organizationId", given.budget, given.spender,
      greatest(0, case when b.since = to_timestamp(given.since / 1000) then b.used else 0 end + given.used),
      greatest(0, coalesce(b.held, 0) + given.held), to_timestamp(given.since / 1000), "alertedThreshold", "alertedLimit"
    from json_to_recordset(${JSON.stringify(changes)}::text::json) as given
      ("contractId" text, "organizationId" text, budget text, spender text, used numeric, held numeric, since float8,
        "alertedThreshold" integer, "alertedLimit" numeric)
    left join budget_balances b
      on b.contract_id = "contractId" and b.budget = given.budget and b.spender = given.spender
    where b.budget is not null or given.used > 0 or given.held > 0
    on conflict (contract_id, budget, spender, organization_id) do update set
      used = excluded.used, held = excluded.held, since = excluded.since,
      alerted_threshold = excluded.alerted_threshold, alerted_limit = excluded.alerted_limit`);
}

/** Finds a budget of a contract by its name. */
export async function findBudget(db: Database, contractId: string, name: string): Promise<BudgetRow | undefined> {
  const [row] = await db
    .select()
    .from(contractBudgets)
    .where(and(eq(contractBudgets.contractId, contractId), eq(contractBudgets.name, name)));
  return row;
}

/** Lists the budgets of a contract by name. */
export async function listBudgetRows(db: Database, contractId: string): Promise<BudgetRow[]> {
  return db
    .select()
    .from(contractBudgets)
    .where(eq(contractBudgets.contractId, contractId))
    .orderBy(asc(sql`${contractBudgets.name} collate "C"`));
}

const isBudget = ({ id, contractId }: BudgetRow) =>
  and(eq(contractBudgets.contractId, contractId), eq(contractBudgets.id, id));

/** Replaces a budget of a locked contract. Deletes the balances of the earlier one if it has another id. */
export async function putBudget(tx: Database, row: BudgetRow, before: BudgetRow | undefined): Promise<void> {
  if (before !== undefined) await tx.delete(contractBudgets).where(isBudget(before));
  if (before !== undefined && before.id !== row.id) await deleteBalances(tx, before);
  await tx.insert(contractBudgets).values(row);
  await noteBudgets(tx, row.contractId, row.updatedAt);
}

/** Notes whom budgets of one contract denied last. Decisions read nothing of it, so the contract stays as it is. */
export async function noteDenials(
  db: Database,
  contractId: string,
  denials: readonly { budget: string; spender: string | null; amount: number; at: Date }[],
): Promise<void> {
  // Locks in a fixed order keep processes from deadlocking.
  await db.execute(sql`
    with given as materialized (
      select b.id, given.spender, given.amount, given.at
      from json_to_recordset(${JSON.stringify(denials)}::text::json)
        as given (budget text, spender text, amount numeric, at timestamptz)
      join contract_budgets b on b.id = given.budget
      where b.contract_id = ${contractId}
      order by b.id for no key update of b
    )
    update contract_budgets b set denied_spender = given.spender, denied_amount = given.amount, denied_at = given.at
    from given where b.contract_id = ${contractId} and b.id = given.id and coalesce(b.denied_at <= given.at, true)`);
}

/** Deletes a budget of a locked contract with its balances. */
export async function deleteBudget(tx: Database, row: BudgetRow, now: Date): Promise<void> {
  await tx.delete(contractBudgets).where(isBudget(row));
  await deleteBalances(tx, row);
  await noteBudgets(tx, row.contractId, now);
}

async function deleteBalances(tx: Database, { contractId, id }: BudgetRow): Promise<void> {
  await tx.delete(budgetBalances).where(and(eq(budgetBalances.contractId, contractId), eq(budgetBalances.budget, id)));
}

/** Gives the contract a new row version, and says in it if it has budgets. */
async function noteBudgets(tx: Database, contractId: string, now: Date): Promise<void> {
  const hasBudgets = sql<boolean>`exists (select 1 from contract_budgets b where b.contract_id = ${contractId})`;
  await tx.update(contracts).set({ hasBudgets, updatedAt: now }).where(eq(contracts.id, contractId));
}

/** A balance of a listing. */
export interface ListedBalance extends BudgetBalance {
  budget: string;
  spender: string;
}

/** Lists the balances of budgets since the start of a window, and those with held amounts; most used first, `limit` of each budget. */
export async function listBudgetBalances(
  db: Database,
  contractId: string,
  budgets: readonly { id: string; since: number }[],
  limit: number,
): Promise<ListedBalance[]> {
  if (budgets.length === 0) return [];
  return db.execute<ListedBalance & Record<string, unknown>>(sql`
    select b.budget, b.spender, b.used::float8 as used, b.held::float8 as held,
      (extract(epoch from b.since) * 1000)::float8 as since, b.alerted_threshold as "alertedThreshold",
      b.alerted_limit::float8 as "alertedLimit"
    from json_to_recordset(${JSON.stringify(budgets)}::text::json) as asked (id text, since float8)
    cross join lateral (
      select * from budget_balances b
      where b.contract_id = ${contractId} and b.budget = asked.id and (b.since >= to_timestamp(asked.since / 1000) or b.held > 0)
      order by b.used + b.held desc, b.spender collate "C" limit ${limit}
    ) b`);
}
