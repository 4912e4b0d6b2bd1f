import { and, desc, eq, sql } from "drizzle-orm";
import type { ConnectedPrices } from "../../core/billing/prices-of.ts";
import type { Followed, ShownSubscription } from "../../core/billing/target.ts";
import type { AppliedTarget } from "../../core/billing/plan.ts";
import type { SubscriptionRegister } from "../../core/billing/register.ts";
import { createBatch, LOOKUP } from "../postgres/batch.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import {
  billingConnections,
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

/** A connection, and where its organization is. */
type FoundConnection = Awaited<ReturnType<ReturnType<typeof prepareLookup>["execute"]>>[number];

/** Creates a lookup that reads the connection of messages that arrive together once. */
function createLookup(db: Database) {
  const lookup = prepareLookup(db);
  return createBatch<string, FoundConnection | null>(async (ids) => {
    const read = async (connectionId: string) => (await lookup.execute({ connectionId }))[0] ?? null;
    const distinct = [...new Set(ids)];
    const rows = await Promise.all(distinct.map(read));
    const byId = new Map(distinct.map((id, i) => [id, rows[i] ?? null]));
    return ids.map((id) => byId.get(id) ?? null);
  }, LOOKUP);
}

/** Lookups by database: building the statement of one takes longer than sending it. */
const lookups = new WeakMap<Database, ReturnType<typeof createLookup>>();

/** Finds a connection, and where its organization is. */
export async function findConnection(db: Database, connectionId: string): Promise<FoundConnection | null> {
  const lookup = lookups.get(db) ?? createLookup(db);
  lookups.set(db, lookup);
  return lookup(connectionId);
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

/** Finds the user of a customer's subscriptions; null for none and for several. */
export async function subscribedUser(tx: Database, connectionId: string, customer: string): Promise<string | null> {
  const users = await tx
    .selectDistinct({ userId: billingSubscriptions.userId })
    .from(billingSubscriptions)
    .where(
      and(
        eq(billingSubscriptions.connectionId, connectionId),
        sql`${billingSubscriptions.register} ->> 'customer' = ${customer}`,
      ),
    )
    .limit(2);
  return users.length === 1 ? (users[0]?.userId ?? null) : null;
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
  type Row = LockableService & Record<string, unknown>;
  // Sent at once, in one round trip.
  const [held, bought] = await Promise.all([
    tx.execute<Row>(sql`
      select c.user_id as "userId", s.name_key as key, true as "isHeld"
      from contracts c
      join contract_services cs on cs.contract_id = c.id
      join services s on s.id = cs.service_id
      where c.organization_id = ${organizationId} and ${isAnyOf(sql`c.user_id`, userIds)}`),
    tx.execute<Row>(sql`
      select b.user_id as "userId", json_array_elements_text(b.register->'everServices') as key, false as "isHeld"
      from billing_subscriptions b
      where b.organization_id = ${organizationId} and ${isAnyOf(sql`b.user_id`, userIds)} and not b.is_detached`),
  ]);
  return [...held, ...bought];
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

/** Makes contracts follow no subscription. */
export async function stopFollowingIn(tx: Database, contractIds: readonly string[]): Promise<void> {
  await tx.delete(contractBilling).where(isAnyOf(contractBilling.contractId, contractIds));
}

/** Finds the blocks of an organization's contracts whose key is this and a number, oldest first. */
export function findPaidBlocks(
  tx: Database,
  organizationId: string,
  keyStart: string,
): Promise<{ id: string; userId: string }[]> {
  return tx
    .select({ id: contractBlocks.id, userId: contracts.userId })
    .from(contractBlocks)
    .innerJoin(contracts, eq(contracts.id, contractBlocks.contractId))
    .where(
      and(
        eq(contractBlocks.organizationId, organizationId),
        eq(contractBlocks.origin, "billing"),
        sql`starts_with(${contractBlocks.key}, ${keyStart})`,
        // The id of another payment may begin with this one.
        sql`substr(${contractBlocks.key}, length(${keyStart}::text) + 1) ~ '^[0-9]+$'`,
      ),
    )
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
