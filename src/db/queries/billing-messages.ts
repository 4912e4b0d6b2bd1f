import { and, eq, sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { textArray } from "../postgres/lists.ts";
import { billingLinks, type billingMessages } from "../schema.ts";

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
