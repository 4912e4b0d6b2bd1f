import { sql, type SQL } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";

/** Maximum age of a consumption that can be reverted. */
export const REVERT_WINDOW_MS = 120_000;

/**
 * Reverts a feature's consumption after `since` in a locked contract: all of it, or the latest operation. Skips rows that
 * are already reverted or precede the last reset of their level. Marks rows and adjusts balances in one statement, so each
 * amount is reverted once. Source: contract features-events §6.1.
 */
export async function revertFeature(
  tx: Database,
  input: {
    contractId: string;
    featureId: string;
    since: Date;
    latest: boolean;
    operationId: string;
    now: Date;
    /** Path of the spender, with all below it. Null: everybody. */
    spender: string | null;
  },
): Promise<void> {
  const { spender } = input;
  const now = sql`${input.now.toISOString()}::timestamptz`;
  await tx.execute(sql`
    with recent as materialized (
      select l.* from usage_levels u cross join ${recentMovements(input.since)}
      where u.contract_id = ${input.contractId} and not u.counts_members
    ), revertible as (
      select l.id, l.service_id, l.limit_name, l.feature_id, l.operation_id, l.delta, l.budgets
      from recent l
      where l.kind = 'consume' and l.reverted_at is null and coalesce(l.renamed_feature_id, l.feature_id) = ${input.featureId}
        and not l.is_settled
        and (${spender}::text is null or l.spender = ${spender} or starts_with(l.spender, ${spender} || '/'))
    ), returned as (
      -- The end of a lease gives back part of what its expiry counted, in the same operation.
      select service_id, limit_name, operation_id, sum(delta) as delta from recent
      where feature_id in (select feature_id from revertible) and kind = 'revert'
      group by service_id, limit_name, operation_id
    ), marked as (
      update usage_ledger l set reverted_at = ${now}
      from revertible r left join returned using (service_id, limit_name, operation_id)
      where l.contract_id = ${input.contractId} and l.service_id = r.service_id and l.limit_name = r.limit_name and l.id = r.id
        and l.created_at > ${input.since.toISOString()}::timestamptz
        and (not ${input.latest}::boolean
          or r.operation_id = (select operation_id from revertible order by id desc limit 1))
      returning l.service_id, l.limit_name, l.feature_id, r.operation_id, r.budgets,
        r.delta + coalesce(returned.delta, 0) as delta
    ), part as (
      -- Consumption before and after a rename has two ids.
      select service_id, limit_name, feature_id, sum(delta) as delta,
        sum(sum(delta)) over (partition by service_id, limit_name order by feature_id) - sum(delta) as earlier
      from marked group by service_id, limit_name, feature_id
    ), balance as (
      select u.service_id, u.limit_name, u.consumed as before, m.delta
      from usage_levels u
      join (select service_id, limit_name, sum(delta) as delta from marked group by service_id, limit_name) m
        using (service_id, limit_name)
      where u.contract_id = ${input.contractId}
    ), changed as (
      update usage_levels u set consumed = greatest(0, b.before - b.delta),
        used_tenths = faregate_used_tenths(greatest(0, b.before - b.delta), u.limit_value)
      from balance b
      where u.contract_id = ${input.contractId} and u.service_id = b.service_id and u.limit_name = b.limit_name
      returning u.organization_id, u.service_id, u.limit_name, b.before, u.consumed
    ), budgeted as (
      -- Of a window that is over, nothing is given back.
      select m.service_id, m.limit_name, m.feature_id, b.budget, b.spender, b.organization_id, sum((p.value ->> 2)::numeric) as amount,
        (p.value ->> 3)::numeric as since
      from (
        select service_id, limit_name, feature_id, budgets from marked
        union all
        select r.service_id, r.limit_name, r.feature_id, r.budgets from recent r
        where r.kind = 'revert' and (r.service_id, r.limit_name, r.operation_id) in (
          select service_id, limit_name, operation_id from marked where budgets is not null)
      ) m
      cross join lateral json_array_elements(m.budgets) p
      join budget_balances b on b.contract_id = ${input.contractId} and b.budget = p.value ->> 0 and b.spender = p.value ->> 1
        and extract(epoch from b.since) * 1000 = (p.value ->> 3)::numeric
      group by 1, 2, 3, 4, 5, 6, 8
    ), given_back as (
      update budget_balances b set used = b.used - g.amount
      from (select budget, spender, organization_id, sum(amount) as amount from budgeted group by 1, 2, 3) g
      where b.contract_id = ${input.contractId} and b.budget = g.budget and b.spender = g.spender
        and b.organization_id = g.organization_id
    )
    insert into usage_ledger
      (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at, budgets)
    select ${input.contractId}, organization_id, service_id, limit_name, 'revert', feature_id, ${input.operationId},
      -least(part.delta, greatest(0, changed.before - changed.consumed - part.earlier)), ${now},
      (select json_agg(json_build_array(g.budget, g.spender, -g.amount, g.since)) from budgeted g
        where g.service_id = changed.service_id and g.limit_name = changed.limit_name and g.feature_id = part.feature_id)
    from changed join part using (service_id, limit_name)
  `);
}

/**
 * SQL list item: movements `l` since `since` of the level `u` of usage_levels, read from the newest backwards. Moments of a level's
 * movements ascend with their ids, but for the clocks of different processes. Searches the last older movement in the partitions of
 * that week: without one, all movements of the level in the partition are newer, or are read. `is_settled` is true where a later
 * reset, renewal or removal returned the level to zero.
 *
 * OFFSET 0 and the addition keep the order of look-ups. A plan made while the ledger was empty would otherwise read all movements
 * of the contract for each of them.
 */
export function recentMovements(since: Date): SQL {
  const moment = sql`${since.toISOString()}::timestamptz`;
  const ofLevel = (table: string) =>
    sql.raw(["contract_id", "service_id", "limit_name"].map((name) => `${table}.${name} = u.${name}`).join(" and "));
  return sql`
    lateral (
      select coalesce((
        select o.id from usage_ledger o
        where ${ofLevel("o")} and o.created_at <= ${moment} and o.created_at >= date_trunc('week', ${moment}, 'UTC')
        order by o.id desc limit 1
      ), 0) as id
    ) older
    cross join lateral (
      select max(z.id + 0) as id from usage_ledger z
      where ${ofLevel("z")} and z.kind in ('reset', 'renew', 'remove') and z.created_at > ${moment} - interval '1 day'
    ) zero
    cross join lateral (
      select m.*, coalesce(m.id < zero.id, false) as is_settled from usage_ledger m
      where ${ofLevel("m")} and m.id > older.id and m.created_at > ${moment} offset 0
    ) l`;
}

/**
 * Lets reverts find consumption of these locked contracts since `since` by the new feature ids, after their service was
 * renamed. History keeps the ids as they were counted.
 */
export async function relabelFeatures(
  tx: Database,
  input: { contractIds: readonly string[]; serviceId: string; from: string; to: string; since: Date },
): Promise<void> {
  const old = `${input.from}-`;
  // Gives each contract a new row version, so that optimistic consumption based on the old name is retried.
  await tx.execute(sql`update contracts set updated_at = updated_at where ${isAnyOf(sql`id`, input.contractIds)}`);
  await tx.execute(sql`
    with counted as materialized (
      select l.contract_id, l.service_id, l.limit_name, l.id
      from usage_levels u cross join ${recentMovements(input.since)}
      where ${isAnyOf(sql`u.contract_id`, input.contractIds)} and u.service_id = ${input.serviceId}
        and l.kind = 'consume' and l.feature_id is not null and starts_with(coalesce(l.renamed_feature_id, l.feature_id), ${old})
    )
    update usage_ledger l set renamed_feature_id =
      ${`${input.to}-`}::text || substr(coalesce(l.renamed_feature_id, l.feature_id), length(${old}::text) + 1)
    from counted c
    where l.contract_id = c.contract_id and l.service_id = c.service_id and l.limit_name = c.limit_name and l.id = c.id
      and l.created_at > ${input.since.toISOString()}::timestamptz
  `);
}
