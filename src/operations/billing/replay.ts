import { and, asc, count, eq, gt } from "drizzle-orm";
import type { BillingOutcome } from "../../core/billing/message.ts";
import { lockNames } from "../../db/queries/billing-messages.ts";
import { billingMessages } from "../../db/schema.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { type ConnectionAddress, type ConnectionRow, requireConnection } from "./connections.ts";
import type { Records } from "./follow.ts";
import { handleMessage, namesOf, storedInput, writeRecords } from "./handle.ts";
import { setOutcome } from "./outcomes.ts";
import { type MessageRow, messageView, type MessageView } from "./messages.ts";
import { retryCreation } from "./receive.ts";

/** Messages that one call repeats. */
const MAX_REPLAYED = 1000;

/**
 * Carries out a stored message again. Source: contract billing §4.
 * @throws Failure notFound for an unknown message, and another organization's.
 */
export async function replayMessage(
  ctx: Context,
  { messageId, ...address }: ConnectionAddress & { messageId: string },
): Promise<MessageView> {
  const connection = await requireConnection(ctx, address);
  const row = await replay(ctx, connection, messageId);
  if (row === undefined) throw new Failure("notFound", `Message ${messageId} not found`);
  return messageView(row);
}

/** Carries out all stored messages of an outcome again, oldest first, each in a transaction of its own. */
export async function replayMessages(
  ctx: Context,
  { outcome, ...address }: ConnectionAddress & { outcome: BillingOutcome },
): Promise<{ replayed: number; outcomes: Partial<Record<BillingOutcome, number>>; remaining: number }> {
  const connection = await requireConnection(ctx, address);
  const theirs = and(eq(billingMessages.connectionId, connection.id), eq(billingMessages.outcome, outcome));
  const outcomes: Partial<Record<BillingOutcome, number>> = {};
  const rows = await ctx.db
    .select({ messageId: billingMessages.messageId, seq: billingMessages.seq })
    .from(billingMessages)
    .where(theirs)
    .orderBy(asc(billingMessages.seq))
    .limit(MAX_REPLAYED);
  for (const { messageId } of rows) {
    const row = await replay(ctx, connection, messageId);
    if (row !== undefined) outcomes[row.outcome] = (outcomes[row.outcome] ?? 0) + 1;
  }
  const last = rows.at(-1);
  const [left] =
    rows.length < MAX_REPLAYED || last === undefined
      ? []
      : await ctx.db
          .select({ count: count() })
          .from(billingMessages)
          .where(and(theirs, gt(billingMessages.seq, last.seq)));
  return { replayed: rows.length, outcomes, remaining: left?.count ?? 0 };
}

function replay(ctx: Context, connection: ConnectionRow, messageId: string): Promise<MessageRow | undefined> {
  const author = { actorKind: "billing" as const, actorId: connection.id };
  const { id: connectionId } = connection;
  return retryCreation(() =>
    transaction({ ...ctx, author }, async (ctx) => {
      const find = async () => {
        const [row] = await ctx.db
          .select()
          .from(billingMessages)
          .where(and(eq(billingMessages.connectionId, connectionId), eq(billingMessages.messageId, messageId)));
        return row;
      };
      const stored = await find();
      if (stored === undefined) return undefined;
      await lockNames(ctx.db, connectionId, [...namesOf(stored), `message ${messageId}`]);
      const records: Records = { audits: [], events: [] };
      const handled = await handleMessage(ctx, connection, storedInput(stored), records);
      await setOutcome(ctx, stored, handled);
      const row = await find();
      await writeRecords(ctx, records);
      return row;
    }),
  );
}
