import { and, desc, eq, lt } from "drizzle-orm";
import type { BillingOutcome } from "../../core/billing/message.ts";
import { billingMessages } from "../../db/schema.ts";
import { clampPageSize, type Context } from "../context.ts";
import { type ConnectionAddress, requireConnection } from "./connections.ts";

/** A received message as members see it. */
export interface MessageView {
  id: string;
  type: string;
  subscription: string | null;
  userId: string | null;
  createdAt: Date;
  receivedAt: Date;
  outcome: BillingOutcome;
  reason: string | null;
}

export type MessageRow = typeof billingMessages.$inferSelect;

export const messageView = (row: MessageRow): MessageView => ({
  id: row.messageId,
  type: row.type,
  subscription: row.subscription,
  userId: row.userId,
  createdAt: row.createdAt,
  receivedAt: row.receivedAt,
  outcome: row.outcome,
  reason: row.reason,
});

/** Lists received messages, newest first. @throws Failure notFound without a connection. */
export async function listMessages(
  ctx: Context,
  query: ConnectionAddress & {
    outcome: BillingOutcome | undefined;
    userId: string | undefined;
    before: number | undefined;
    limit: number;
  },
): Promise<{ data: MessageView[]; next: string | null }> {
  const connection = await requireConnection(ctx, query);
  const limit = clampPageSize(ctx, query.limit);
  const { outcome, userId, before } = query;
  const rows = await ctx.db
    .select()
    .from(billingMessages)
    .where(
      and(
        eq(billingMessages.connectionId, connection.id),
        outcome === undefined ? undefined : eq(billingMessages.outcome, outcome),
        userId === undefined ? undefined : eq(billingMessages.userId, userId),
        before === undefined ? undefined : lt(billingMessages.seq, before),
      ),
    )
    .orderBy(desc(billingMessages.seq))
    .limit(limit);
  const last = rows.at(-1);
  return { data: rows.map(messageView), next: rows.length < limit || last === undefined ? null : String(last.seq) };
}
