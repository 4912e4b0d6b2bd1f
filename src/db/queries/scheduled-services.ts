import { and, asc, eq, sql, type SQL } from "drizzle-orm";
import type { ContractChange } from "../../core/scheduled.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { scheduledChanges, scheduledSubscriptions } from "../schema.ts";

/**
 * Removes services from the pending changes of locked contracts. `leaving` is a condition on the change `s` and its
 * subscriptions `x`. Returns the contracts whose change has no service left.
 */
export async function removePendingServices(
  tx: Database,
  contractIds: readonly string[],
  leaving: SQL,
): Promise<string[]> {
  const rows = await tx.execute<{ contract_id: string }>(sql`
    with gone as (
      delete from scheduled_subscriptions x using scheduled_changes s
      where s.contract_id = x.contract_id and s.id = x.change_id and ${isAnyOf(sql`s.contract_id`, contractIds)}
        and s.state = 'pending' and ${leaving}
      returning x.contract_id, x.change_id, x.position
    )
    select distinct contract_id from gone
    where not exists (
      select 1 from scheduled_subscriptions x where x.contract_id = gone.contract_id and x.change_id = gone.change_id
        and not exists (select 1 from gone other where other.change_id = x.change_id and other.position = x.position)
    )
    order by 1
  `);
  return rows.map(({ contract_id }) => contract_id);
}

/** A configuration that pending changes of one kind give a service, with the version that it is of. */
export interface PendingConfiguration {
  kind: ContractChange;
  pricingId: string;
  plan: string | null;
  addOns: Record<string, number> | null;
  contractIds: string[];
}

/**
 * Lists the configurations that pending changes give these versions of a service, each once: novations that name them, and
 * trials of contracts on them.
 */
export async function listPendingConfigurations(
  tx: Database,
  { serviceId, pricingIds }: { serviceId: string; pricingIds: readonly string[] },
  kinds: readonly ContractChange[],
): Promise<PendingConfiguration[]> {
  const rows = await tx.execute<
    Omit<PendingConfiguration, "addOns"> & { addOns: string | null } & Record<string, unknown>
  >(sql`
    select s.kind, coalesce(x.pricing_id, cs.pricing_id) as "pricingId", x.plan, x.add_ons::text as "addOns",
      array_agg(s.contract_id order by s.contract_id) as "contractIds"
    from scheduled_subscriptions x
    join scheduled_changes s on s.contract_id = x.contract_id and s.id = x.change_id
    left join contract_services cs on s.kind = 'trialEnd' and cs.contract_id = x.contract_id
      and cs.service_id = x.service_id
    where x.service_id = ${serviceId} and s.state = 'pending' and not s.ends_contract
      and ${isAnyOf(sql`s.kind`, kinds)} and ${isAnyOf(sql`coalesce(x.pricing_id, cs.pricing_id)`, pricingIds)}
    group by 1, 2, 3, 4
    order by 1, 2, 3, 4
  `);
  return rows.map(({ addOns, ...row }) => ({
    ...row,
    addOns: addOns === null ? null : (JSON.parse(addOns) as Record<string, number>),
  }));
}

/** Counts the pending changes that name a service. */
export async function countPendingOf(db: Database, serviceId: string): Promise<number> {
  const [row] = await db.execute<{ count: number }>(sql`
    select count(distinct s.id)::integer as count from scheduled_subscriptions x
    join scheduled_changes s on s.contract_id = x.contract_id and s.id = x.change_id
    where x.service_id = ${serviceId} and s.state = 'pending'
  `);
  return row?.count ?? 0;
}

/** Gives a service of pending changes of locked contracts another configuration; a novation also another version. */
export async function rewritePending(
  tx: Database,
  input: {
    kind: ContractChange;
    contractIds: readonly string[];
    serviceId: string;
    to: { id: string; version: string };
    plan: string | null;
    addOns: Record<string, number>;
  },
): Promise<void> {
  const { kind, contractIds, serviceId, to, plan, addOns } = input;
  await tx.execute(sql`
    update scheduled_subscriptions x set
      pricing_id = case s.kind when 'novation' then ${to.id} else x.pricing_id end,
      version = case s.kind when 'novation' then ${to.version} else x.version end,
      plan = ${plan}, add_ons = ${JSON.stringify(addOns)}::text::json
    from scheduled_changes s
    where s.contract_id = x.contract_id and s.id = x.change_id and s.state = 'pending' and s.kind = ${kind}
      and ${isAnyOf(sql`x.contract_id`, contractIds)} and x.service_id = ${serviceId}
  `);
}

/** Ids of the services that pending changes of these contracts name, in the order of locking. */
export async function servicesOfPending(tx: Database, contractIds: readonly string[]): Promise<string[]> {
  if (contractIds.length === 0) return [];
  const rows = await tx
    .selectDistinct({ id: scheduledSubscriptions.serviceId })
    .from(scheduledSubscriptions)
    .innerJoin(
      scheduledChanges,
      and(
        eq(scheduledChanges.contractId, scheduledSubscriptions.contractId),
        eq(scheduledChanges.id, scheduledSubscriptions.changeId),
      ),
    )
    .where(and(isAnyOf(scheduledChanges.contractId, contractIds), eq(scheduledChanges.state, "pending")))
    .orderBy(asc(scheduledSubscriptions.serviceId));
  return rows.flatMap(({ id }) => (id === null ? [] : [id]));
}
