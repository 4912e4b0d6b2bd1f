import { and, desc, eq, sql, type SQLWrapper } from "drizzle-orm";
import type { ConnectedPrices } from "../../core/billing/prices-of.ts";
import type { Followed, ShownSubscription } from "../../core/billing/target.ts";
import type { AppliedTarget } from "../../core/billing/plan.ts";
import type { SubscriptionRegister } from "../../core/billing/register.ts";
import { serviceKey } from "../../core/pricing/names.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf, textArray } from "../postgres/lists.ts";
import {
  billingConnections,
  billingLinks,
  type billingMessages,
  billingSubscriptions,
  contractBilling,
  contractBlocks,
  contracts,
  organizations,
} from "../schema.ts";

/** Address of a subscription. */
export interface SubscriptionName {
  connectionId: string;
  organizationId: string;
  subscription: string;
}

const at = ({ connectionId, subscription }: SubscriptionName) =>
  and(eq(billingSubscriptions.connectionId, connectionId), eq(billingSubscriptions.subscription, subscription));

const prepareLookup = (db: Database) =>
  db
    .select({
      connection: billingConnections,
      organization: { frozenAt: organizations.frozenAt, movedTo: organizations.movedTo },
    })
    .from(billingConnections)
    .innerJoin(organizations, eq(organizations.id, billingConnections.organizationId))
    .where(eq(billingConnections.id, sql.placeholder("connectionId")))
    .prepare("billing_connection");

/** Texts of the statement that finds a connection, which each message sends: building one takes longer than sending it. */
const lookups = new WeakMap<Database, ReturnType<typeof prepareLookup>>();

/** Finds a connection, and where its organization is. */
export async function findConnection(db: Database, connectionId: string) {
  const lookup = lookups.get(db) ?? prepareLookup(db);
  lookups.set(db, lookup);
  const [found] = await lookup.execute({ connectionId });
  return found;
}

/**
 * Locks names of a connection until the transaction ends, in byte order: messages that share a subscription, a customer or a
 * payment are handled one after the other.
 */
export async function lockNames(tx: Database, connectionId: string, names: readonly string[]): Promise<void> {
  const sorted = [...new Set(names)].sort().map((name) => `billing ${connectionId} ${name}`);
  await tx.execute(sql`
    select pg_advisory_xact_lock(hashtextextended(name, 0)) from unnest(${textArray(sorted)}) with ordinality as given (name, place)
    order by place`);
}

/** Counts the messages of an organization that could not be applied. */
export async function countUnapplied(db: Database, organizationId: string): Promise<number> {
  const [row] = await db.execute<{ count: number }>(sql`
    select count(*)::integer as count from billing_messages
    where connection_id in (select id from billing_connections where organization_id = ${organizationId})
      and organization_id = ${organizationId} and outcome in ('unmapped', 'failed')`);
  return row?.count ?? 0;
}

/** Reads what is known of subscriptions of a connection. */
export async function readSubscriptions(
  tx: Database,
  { connectionId, subscriptions }: { connectionId: string; subscriptions: readonly string[] },
): Promise<(typeof billingSubscriptions.$inferSelect)[]> {
  return tx
    .select()
    .from(billingSubscriptions)
    .where(
      and(
        eq(billingSubscriptions.connectionId, connectionId),
        isAnyOf(billingSubscriptions.subscription, subscriptions),
      ),
    );
}

/** Stores what is known of subscriptions, of which each is named once. */
export async function putSubscriptions(
  tx: Database,
  rows: readonly (SubscriptionName & { userId: string; register: SubscriptionRegister })[],
): Promise<void> {
  await tx.execute(sql`
    insert into billing_subscriptions (connection_id, organization_id, subscription, user_id, register)
    select "connectionId", "organizationId", subscription, "userId", register
    from json_to_recordset(${JSON.stringify(rows)}::json) as given ("connectionId" text, "organizationId" text,
      subscription text, "userId" text, register json)
    on conflict (connection_id, subscription, organization_id) do update set register = excluded.register`);
}

/** A received message with its outcome. */
export type ReceivedMessage = Omit<typeof billingMessages.$inferInsert, "seq">;

/** Stores received messages, in their order. */
export async function insertMessages(tx: Database, messages: readonly ReceivedMessage[]): Promise<void> {
  if (messages.length === 0) return;
  await tx.execute(sql`
    insert into billing_messages (connection_id, organization_id, message_id, type, subscription, customer, user_id,
      created_at, received_at, content, outcome, reason)
    select "connectionId", "organizationId", "messageId", type, subscription, customer, "userId", "createdAt", "receivedAt",
      content, outcome, reason
    from json_to_recordset(${JSON.stringify(messages)}::json) as given ("connectionId" text, "organizationId" text,
      "messageId" text, type text, subscription text, customer text, "userId" text, "createdAt" timestamptz,
      "receivedAt" timestamptz, content json, outcome text, reason text)`);
}

/** End users of one organization. */
export interface UserAddresses {
  organizationId: string;
  userIds: readonly string[];
}

/** Reads the subscriptions of end users over all connections of the organization, without detached ones. */
export async function readFollowed(
  tx: Database,
  { organizationId, userIds }: UserAddresses,
): Promise<(Followed & { connectionId: string; userId: string })[]> {
  return tx
    .select({
      userId: billingSubscriptions.userId,
      connectionId: billingConnections.id,
      provider: billingConnections.provider,
      register: billingSubscriptions.register,
      terms: { graceDays: billingConnections.graceDays, ended: billingConnections.ended },
    })
    .from(billingSubscriptions)
    .innerJoin(billingConnections, eq(billingConnections.id, billingSubscriptions.connectionId))
    .where(
      and(
        eq(billingSubscriptions.organizationId, organizationId),
        isAnyOf(billingSubscriptions.userId, userIds),
        eq(billingSubscriptions.isDetached, false),
      ),
    )
    .orderBy(billingSubscriptions.connectionId, billingSubscriptions.subscription);
}

/** Reads the targets that were applied last to the contracts of end users. */
export async function readApplied(
  tx: Database,
  { organizationId, userIds }: UserAddresses,
): Promise<{ userId: string; applied: AppliedTarget }[]> {
  return tx
    .select({ userId: contracts.userId, applied: contractBilling.applied })
    .from(contracts)
    .innerJoin(contractBilling, eq(contractBilling.contractId, contracts.id))
    .where(and(eq(contracts.organizationId, organizationId), isAnyOf(contracts.userId, userIds)));
}

/** A service that the contract of an end user has (`isHeld`), or that the user ever bought. */
export interface LockableService {
  userId: string;
  key: string;
  isHeld: boolean;
}

/** Finds the services of end users' contracts, and those that the users ever bought. */
export async function findServicesToLock(
  tx: Database,
  { organizationId, userIds }: UserAddresses,
): Promise<LockableService[]> {
  return tx.execute<LockableService & Record<string, unknown>>(sql`
    select c.user_id as "userId", s.name_key as key, true as "isHeld"
    from contracts c
    join contract_services cs on cs.contract_id = c.id
    join services s on s.id = cs.service_id
    where c.organization_id = ${organizationId} and ${isAnyOf(sql`c.user_id`, userIds)}
    union all
    select b.user_id, json_array_elements_text(b.register->'everServices'), false
    from billing_subscriptions b
    where b.organization_id = ${organizationId} and ${isAnyOf(sql`b.user_id`, userIds)} and not b.is_detached`);
}

/** Stores the target that was applied to a contract, and the subscription that it shows. */
export async function putApplied(
  tx: Database,
  input: {
    contractId: string;
    organizationId: string;
    applied: AppliedTarget;
    shown: (ShownSubscription & { connectionId: string }) | null;
  },
): Promise<void> {
  const { contractId, organizationId, applied, shown } = input;
  const since = shown === null ? null : new Date(shown.since).toISOString();
  await tx.execute(sql`
    insert into contract_billing
      (contract_id, organization_id, applied, connection_id, provider, subscription, customer, status, since)
    values (${contractId}, ${organizationId}, ${JSON.stringify(applied)}::text::json, ${shown?.connectionId ?? null},
      ${shown?.provider ?? null}, ${shown?.subscription ?? null}, ${shown?.customer ?? null}, ${shown?.status ?? null},
      ${since}::timestamptz)
    on conflict (contract_id, organization_id) do update set applied = excluded.applied,
      connection_id = excluded.connection_id, provider = excluded.provider, subscription = excluded.subscription,
      customer = excluded.customer, status = excluded.status, since = excluded.since`);
}

/** A subscription or customer of a connection. */
interface LinkName {
  kind: "subscription" | "customer";
  name: string;
}

/** Finds the user that messages named for a subscription, else for its customer. */
export async function linkedUser(
  tx: Database,
  connectionId: string,
  { subscription, customer }: { subscription: string | null; customer: string | null },
): Promise<string | null> {
  const rows = await tx
    .select({ kind: billingLinks.kind, userId: billingLinks.userId })
    .from(billingLinks)
    .where(
      and(
        eq(billingLinks.connectionId, connectionId),
        sql`(${billingLinks.kind}, ${billingLinks.name}) in (('subscription', ${subscription ?? ""}), ('customer', ${customer ?? ""}))`,
      ),
    );
  return (rows.find(({ kind }) => kind === "subscription") ?? rows[0])?.userId ?? null;
}

/** Stores the user of a subscription or customer, unless a newer message has named one. */
export async function putLink(
  tx: Database,
  link: LinkName & { connectionId: string; organizationId: string; userId: string; linkedAt: Date },
): Promise<void> {
  await tx
    .insert(billingLinks)
    .values(link)
    .onConflictDoUpdate({
      target: [billingLinks.connectionId, billingLinks.kind, billingLinks.name, billingLinks.organizationId],
      set: { userId: link.userId, linkedAt: link.linkedAt },
      setWhere: sql`${billingLinks.linkedAt} <= ${link.linkedAt.toISOString()}::timestamptz`,
    });
}

/** Makes contracts follow no subscription. */
export async function stopFollowingIn(tx: Database, contractIds: readonly string[]): Promise<void> {
  await tx.delete(contractBilling).where(isAnyOf(contractBilling.contractId, contractIds));
}

/** Gives a service its new name in the maps, subscriptions and applied targets of its organization. */
export async function renameInBilling(
  tx: Database,
  { organizationId, from, to }: { organizationId: string; from: string; to: string },
): Promise<void> {
  const key = serviceKey(to);
  const connected = await tx
    .select()
    .from(billingConnections)
    .where(eq(billingConnections.organizationId, organizationId))
    .for("update");
  if (connected.length === 0) return;
  const renamed = <T>(record: Readonly<Record<string, T>>) =>
    Object.fromEntries(Object.entries(record).map(([name, value]) => [name === from ? key : name, value]));
  for (const { id, prices, ended } of connected) {
    const entries = Object.entries(prices).map(
      ([price, mapped]) => [price, serviceKey(mapped.service) === from ? { ...mapped, service: to } : mapped] as const,
    );
    await tx
      .update(billingConnections)
      .set({ prices: Object.fromEntries(entries), ended: renamed(ended) })
      .where(eq(billingConnections.id, id));
  }
  const mentions = (column: SQLWrapper) => sql`strpos(${column}::text, ${JSON.stringify(from)}) > 0`;
  const subscriptions = await tx
    .select()
    .from(billingSubscriptions)
    .where(and(eq(billingSubscriptions.organizationId, organizationId), mentions(billingSubscriptions.register)));
  for (const { register, ...name } of subscriptions) {
    const { everServices, newest } = register;
    const everRenamed = everServices.map((each) => (each === from ? key : each)).sort();
    const changed = {
      ...register,
      everServices: everRenamed,
      newest: { ...newest, services: renamed(newest.services) },
    };
    await tx.update(billingSubscriptions).set({ register: changed }).where(at(name));
  }
  const followed = await tx
    .select({ contractId: contractBilling.contractId, applied: contractBilling.applied })
    .from(contractBilling)
    .where(and(eq(contractBilling.organizationId, organizationId), mentions(contractBilling.applied)));
  for (const { contractId, applied } of followed) {
    await tx
      .update(contractBilling)
      .set({ applied: { ...applied, services: renamed(applied.services) } })
      .where(eq(contractBilling.contractId, contractId));
  }
}

/** Finds the blocks of an organization's contracts whose key begins so, oldest first. */
export function findPaidBlocks(
  tx: Database,
  organizationId: string,
  keyStart: string,
): Promise<{ id: string; userId: string }[]> {
  return tx
    .select({ id: contractBlocks.id, userId: contracts.userId })
    .from(contractBlocks)
    .innerJoin(contracts, eq(contracts.id, contractBlocks.contractId))
    .where(and(eq(contractBlocks.organizationId, organizationId), sql`starts_with(${contractBlocks.key}, ${keyStart})`))
    .orderBy(contractBlocks.id);
}

/** Reads the maps of an organization's connections. */
export function readPrices(db: Database, organizationId: string): Promise<ConnectedPrices[]> {
  return db
    .select({ provider: billingConnections.provider, prices: billingConnections.prices })
    .from(billingConnections)
    .where(eq(billingConnections.organizationId, organizationId))
    .orderBy(desc(billingConnections.provider));
}

/** SQL expression: the subscription that contract `c` follows; null without one. Read it with {@link billingIn}. */
export const BILLING_JSON = sql.raw(`(select json_build_object('provider', b.provider, 'subscription', b.subscription,
      'customer', b.customer, 'status', b.status, 'since', b.since)
    from contract_billing b where b.contract_id = c.id and b.subscription is not null)`);

/** The subscription that a contract follows, as contracts show it. Source: contract billing §3. */
export interface BillingView extends Omit<ShownSubscription, "since"> {
  /** Start of the subscription. */
  since: Date;
}

export type BillingJson = Omit<BillingView, "since"> & { since: string };

/** Reads a subscription that {@link BILLING_JSON} built. */
export const billingIn = (json: BillingJson | null): BillingView | null =>
  json === null ? null : { ...json, since: new Date(json.since) };
