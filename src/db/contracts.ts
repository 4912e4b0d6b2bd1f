import { and, asc, eq, sql, type SQL, type SQLWrapper } from "drizzle-orm";
import { addPeriod } from "../core/period.ts";
import type { Period } from "../core/pricing/model.ts";
import type { Database } from "./connect.ts";
import {
  contractHistory,
  contracts,
  contractServices,
  pricings,
  services,
  usageLedger,
  usageLevels,
} from "./schema.ts";

/**
 * The column is one of these texts, however many: they travel as one parameter, where a list would end at the 65 534 that
 * a statement may have. An array literal, because drivers serialize arrays only after asking the server for its types.
 */
export function oneOf(column: SQLWrapper, texts: readonly string[]): SQL {
  const literal = `{${texts.map((text) => `"${text.replace(/[\\"]/g, "\\$&")}"`).join(",")}}`;
  return sql`${column} = any(${literal}::text[])`;
}

/** A contract as every endpoint shows it. Source: contract contracts §2. */
export interface ContractView {
  id: string;
  userContact: {
    userId: string;
    username: string;
    firstName?: string;
    lastName?: string;
    email?: string;
    phone?: string;
  };
  billingPeriod: { startDate: Date; endDate: Date; autoRenew: boolean; renewalDays: number };
  usageLevels: Record<string, Record<string, { resetTimeStamp?: Date; consumed: number }>>;
  organizationId: string;
  groupId?: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
  history: {
    startDate: Date;
    endDate: Date;
    contractedServices: Record<string, string>;
    subscriptionPlans: Record<string, string>;
    subscriptionAddOns: Record<string, Record<string, number>>;
  }[];
}

type ContractRow = typeof contracts.$inferSelect;

function userContact(row: ContractRow): ContractView["userContact"] {
  const contact: ContractView["userContact"] = { userId: row.userId, username: row.username };
  if (row.firstName !== null) contact.firstName = row.firstName;
  if (row.lastName !== null) contact.lastName = row.lastName;
  if (row.email !== null) contact.email = row.email;
  if (row.phone !== null) contact.phone = row.phone;
  return contact;
}

function groupBy<T>(rows: readonly T[], key: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(key(row));
    if (group === undefined) groups.set(key(row), [row]);
    else group.push(row);
  }
  return groups;
}

/** The contracts in the order of the rows given, with everything that belongs to them, in three queries however many. */
export async function viewContracts(db: Database, rows: readonly ContractRow[]): Promise<ContractView[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  const contracted = await db
    .select({
      contractId: contractServices.contractId,
      service: services.nameKey,
      version: pricings.version,
      plan: contractServices.plan,
      addOns: contractServices.addOns,
    })
    .from(contractServices)
    .innerJoin(services, eq(services.id, contractServices.serviceId))
    .innerJoin(pricings, eq(pricings.id, contractServices.pricingId))
    .where(oneOf(contractServices.contractId, ids))
    .orderBy(contractServices.position);
  const levels = await db
    .select({
      contractId: usageLevels.contractId,
      service: services.nameKey,
      limit: usageLevels.limitName,
      consumed: usageLevels.consumed,
      resetAt: usageLevels.resetAt,
    })
    .from(usageLevels)
    .innerJoin(services, eq(services.id, usageLevels.serviceId))
    .innerJoin(
      contractServices,
      and(
        eq(contractServices.contractId, usageLevels.contractId),
        eq(contractServices.serviceId, usageLevels.serviceId),
      ),
    )
    .where(oneOf(usageLevels.contractId, ids))
    .orderBy(contractServices.position, usageLevels.position);
  const past = await db
    .select()
    .from(contractHistory)
    .where(oneOf(contractHistory.contractId, ids))
    .orderBy(contractHistory.id);
  const contractedBy = groupBy(contracted, (row) => row.contractId);
  const levelsBy = groupBy(levels, (row) => row.contractId);
  const pastBy = groupBy(past, (row) => row.contractId);
  return rows.map((row) => {
    const view: ContractView = {
      id: row.id,
      userContact: userContact(row),
      billingPeriod: {
        startDate: row.startDate,
        endDate: row.endDate,
        autoRenew: row.autoRenew,
        renewalDays: row.renewalDays,
      },
      usageLevels: {},
      organizationId: row.organizationId,
      ...(row.groupId === null ? {} : { groupId: row.groupId }),
      contractedServices: {},
      subscriptionPlans: {},
      subscriptionAddOns: {},
      history: (pastBy.get(row.id) ?? []).map((entry) => ({
        startDate: entry.startDate,
        endDate: entry.endDate,
        contractedServices: entry.contractedServices,
        subscriptionPlans: entry.subscriptionPlans,
        subscriptionAddOns: entry.subscriptionAddOns,
      })),
    };
    for (const { service, version, plan, addOns } of contractedBy.get(row.id) ?? []) {
      define(view.contractedServices, service, version);
      if (plan !== null) define(view.subscriptionPlans, service, plan);
      if (addOns !== null) define(view.subscriptionAddOns, service, addOns);
    }
    for (const { service, limit, consumed, resetAt } of levelsBy.get(row.id) ?? []) {
      if (!Object.hasOwn(view.usageLevels, service)) define(view.usageLevels, service, {});
      const level = resetAt === null ? { consumed } : { resetTimeStamp: resetAt, consumed };
      define(view.usageLevels[service] ?? {}, limit, level);
    }
    return view;
  });
}

/** Sets an own property whatever its name: service names are user text, `__proto__` among the possible ones. */
function define<T>(target: Record<string, T>, key: string, value: T): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Locks the contracts that match, in id order so that two callers cannot deadlock, until the transaction ends. */
export async function lockContracts(tx: Database, where: SQL | undefined): Promise<ContractRow[]> {
  return tx.select().from(contracts).where(where).orderBy(asc(contracts.id)).for("update");
}

/** One service of a subscription, resolved to rows. */
export interface SubscribedService {
  serviceId: string;
  pricingId: string;
  /** As sent; null when the service has no entry in `subscriptionPlans`. */
  plan: string | null;
  /** In the pricing's spelling; null when the service has no entry in `subscriptionAddOns`. */
  addOns: Record<string, number> | null;
  /** The limits whose use is counted. */
  tracked: readonly TrackedLimit[];
}

/** A limit that has a usage level; with a period it renews. */
export interface TrackedLimit {
  name: string;
  period?: Period | undefined;
}

interface LevelKey {
  serviceId: string;
  limitName: string;
}

const sameLevel = (a: LevelKey, b: LevelKey) => a.serviceId === b.serviceId && a.limitName === b.limitName;

/**
 * Makes the contract's subscription exactly `next`. Levels still tracked keep their balance and reset moment, missing ones
 * start at zero, the rest go, each movement with its ledger row. Call it with the contract locked.
 * Source: contract contracts §6 step 4.
 */
export async function replaceSubscription(
  tx: Database,
  input: { contractId: string; next: readonly SubscribedService[]; now: Date; operationId: string },
): Promise<void> {
  const { contractId, next, now } = input;
  const before = await tx.select().from(usageLevels).where(eq(usageLevels.contractId, contractId)).for("update");
  const wanted = next.flatMap((service) =>
    service.tracked.map((limit, position) => ({
      serviceId: service.serviceId,
      limitName: limit.name,
      period: limit.period,
      position,
    })),
  );
  const leaving = before.filter((level) => !wanted.some((limit) => sameLevel(limit, level)));
  await recordRemoval(tx, contractId, leaving, now, input.operationId);

  // Rows of services that stay must not be deleted: their levels would go with them.
  const staying = next.map((service) => service.serviceId);
  await tx
    .delete(contractServices)
    .where(
      and(
        eq(contractServices.contractId, contractId),
        staying.length === 0 ? undefined : sql`${contractServices.serviceId} not in ${staying}`,
      ),
    );
  for (const [position, service] of next.entries()) {
    const columns = { pricingId: service.pricingId, position, plan: service.plan, addOns: service.addOns };
    await tx
      .insert(contractServices)
      .values({ contractId, serviceId: service.serviceId, ...columns })
      .onConflictDoUpdate({ target: [contractServices.contractId, contractServices.serviceId], set: columns });
  }
  for (const level of leaving) {
    await tx.delete(usageLevels).where(levelIs(contractId, level));
  }
  for (const limit of wanted) {
    const old = before.find((level) => sameLevel(level, limit));
    const columns = { ...renewalColumns(limit.period, old, now), position: limit.position };
    if (old === undefined) {
      await tx
        .insert(usageLevels)
        .values({ contractId, serviceId: limit.serviceId, limitName: limit.limitName, ...columns });
    } else {
      await tx.update(usageLevels).set(columns).where(levelIs(contractId, old));
    }
  }
}

function levelIs(contractId: string, level: LevelKey): SQL | undefined {
  return and(
    eq(usageLevels.contractId, contractId),
    eq(usageLevels.serviceId, level.serviceId),
    eq(usageLevels.limitName, level.limitName),
  );
}

/** The renewal columns of a level: kept while its period is the same, re-anchored at the kept reset when it changed. */
function renewalColumns(
  period: Period | undefined,
  old: typeof usageLevels.$inferSelect | undefined,
  now: Date,
): Pick<typeof usageLevels.$inferInsert, "anchor" | "resetAt" | "periodValue" | "periodUnit"> {
  if (period === undefined) return { anchor: null, resetAt: null, periodValue: null, periodUnit: null };
  const columns = { periodValue: period.value, periodUnit: period.unit };
  if (old?.resetAt === undefined || old.resetAt === null) {
    return { ...columns, anchor: now, resetAt: addPeriod(now, period) };
  }
  const unchanged = old.periodValue === period.value && old.periodUnit === period.unit;
  return { ...columns, anchor: unchanged ? old.anchor : old.resetAt, resetAt: old.resetAt };
}

async function recordRemoval(
  tx: Database,
  contractId: string,
  levels: readonly (LevelKey & { consumed: number })[],
  now: Date,
  operationId: string,
): Promise<void> {
  const rows = levels
    .filter((level) => level.consumed !== 0)
    .map((level) => ({
      contractId,
      serviceId: level.serviceId,
      limitName: level.limitName,
      kind: "remove" as const,
      operationId,
      delta: -level.consumed,
      createdAt: now,
    }));
  if (rows.length > 0) await tx.insert(usageLedger).values(rows);
}

/** Appends to each contract's history what it subscribes to at this moment, from its billing start to `endDate`. */
export async function appendHistory(tx: Database, contractIds: readonly string[], endDate: Date): Promise<void> {
  if (contractIds.length === 0) return;
  await tx.execute(sql`
    insert into contract_history
      (contract_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons)
    select c.id, c.start_date, ${endDate.toISOString()}::timestamptz,
      coalesce(json_object_agg(s.name_key, p.version order by cs.position) filter (where s.id is not null), '{}'),
      coalesce(json_object_agg(s.name_key, cs.plan order by cs.position) filter (where cs.plan is not null), '{}'),
      coalesce(json_object_agg(s.name_key, cs.add_ons order by cs.position) filter (where cs.add_ons is not null), '{}')
    from contracts c
    left join contract_services cs on cs.contract_id = c.id
    left join services s on s.id = cs.service_id
    left join pricings p on p.id = cs.pricing_id
    where ${oneOf(sql`c.id`, contractIds)}
    group by c.id
    order by c.id
  `);
}

/**
 * Writes the ledger rows that take every level of these services in these contracts back to zero, before they go, and
 * locks the levels: what is consumed between a look and the removal would be missing from the ledger.
 */
export async function recordServiceRemoval(
  tx: Database,
  input: { contractIds: readonly string[]; serviceIds: readonly string[]; now: Date; operationId: string },
): Promise<void> {
  await tx.execute(sql`
    insert into usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, service_id, limit_name, 'remove', ${input.operationId}, -consumed, ${input.now.toISOString()}::timestamptz
    from (
      select contract_id, service_id, limit_name, consumed from usage_levels
      where ${oneOf(sql`contract_id`, input.contractIds)} and ${oneOf(sql`service_id`, input.serviceIds)}
      order by contract_id, service_id, limit_name
      for update
    ) locked
    where consumed <> 0
  `);
}

/**
 * Takes services out of every contract that has them, as a novation: history entry, billing period restarted, or ended
 * where nothing is left. Source: contract services-pricings §6.3.
 */
export async function removeServicesFromContracts(
  tx: Database,
  input: { serviceIds: readonly string[]; now: Date; operationId: string },
): Promise<void> {
  const { serviceIds, now } = input;
  if (serviceIds.length === 0) return;
  const affected = await lockContracts(
    tx,
    sql`${contracts.id} in (select contract_id from contract_services where ${oneOf(sql`service_id`, serviceIds)})`,
  );
  const contractIds = affected.map((row) => row.id);
  if (contractIds.length === 0) return;
  await appendHistory(tx, contractIds, now);
  await recordServiceRemoval(tx, { ...input, contractIds });
  await tx
    .delete(contractServices)
    .where(and(oneOf(contractServices.contractId, contractIds), oneOf(contractServices.serviceId, serviceIds)));
  const moment = now.toISOString();
  await tx.execute(sql`
    update contracts c set
      start_date = ${moment}::timestamptz,
      end_date = ${moment}::timestamptz + case when kept.any then c.renewal_days else 0 end * interval '24 hours',
      auto_renew = kept.any and c.auto_renew,
      renewal_days = case when kept.any then c.renewal_days else 0 end,
      updated_at = ${moment}::timestamptz
    from (
      select id, exists (select 1 from contract_services cs where cs.contract_id = contracts.id) as any
      from contracts where ${oneOf(sql`id`, contractIds)}
    ) kept
    where kept.id = c.id
  `);
}
