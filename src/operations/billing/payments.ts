import { and, eq, sql } from "drizzle-orm";
import { unmappedReason } from "../../core/billing/decide.ts";
import type { PaymentContent } from "../../core/billing/message.ts";
import { mapBlocks } from "../../core/billing/terms.ts";
import { findPaidBlocks, subscribedUser } from "../../db/queries/billing.ts";
import { linkedUser } from "../../db/queries/billing-messages.ts";
import { billingMessages } from "../../db/schema.ts";
import { giveBlock, revokeBlock } from "../blocks/give.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import type { ConnectionRow } from "./connections.ts";
import { type HandledMessage, setOutcome, userProblem } from "./outcomes.ts";

/*
 * Payments that are made once buy blocks, and a refund revokes what is left of them. Source: contract billing §3, credits §1.
 */

const DAY_MS = 86_400_000;

/** Start of the keys of a payment's blocks. The key makes each block once. */
const keyOf = ({ provider }: ConnectionRow, payment: string) => `${provider} ${payment} `;

/** Gives the blocks that a payment buys, all or none, and carries out refunds that came before it. */
export async function pay(
  ctx: Context,
  connection: ConnectionRow,
  { createdAt, content }: { createdAt: number; content: PaymentContent },
): Promise<HandledMessage> {
  const { id: connectionId, organizationId, prices } = connection;
  const { payment, customer } = content;
  const userId = content.userId ?? (await userOf(ctx, connectionId, customer));
  if (userId === null) {
    return { outcome: "waiting", reason: `No message has named the user of ${payment} yet`, userId };
  }
  const wrong = userProblem(userId);
  if (wrong !== undefined) return { outcome: "failed", reason: wrong, userId: null };
  const mapped = mapBlocks(content.items, prices);
  if ("unmapped" in mapped) return { outcome: "unmapped", reason: unmappedReason(mapped.unmapped), userId };
  if ("problem" in mapped) return { outcome: "failed", reason: mapped.problem, userId };
  try {
    const isNew = await transaction(ctx, async (ctx) => {
      let isNew = false;
      for (const [place, { service, limit, amount, expiresInDays }] of mapped.blocks.entries()) {
        const given = await giveBlock(ctx, {
          organizationId,
          userId,
          block: {
            service,
            limit,
            amount,
            from: undefined,
            expiresAt: expiresInDays === null ? undefined : new Date(createdAt + expiresInDays * DAY_MS),
            reason: `Payment ${payment}`,
            key: `${keyOf(connection, payment)}${place}`,
            origin: "billing",
          },
        });
        isNew ||= given.isNew;
      }
      return isNew;
    });
    await refundEarlier(ctx, connection, payment);
    return { outcome: isNew ? "applied" : "unchanged", reason: null, userId };
  } catch (error) {
    if (!(error instanceof Failure) || error.code === "unavailable") throw error;
    return { outcome: "failed", reason: error.message, userId };
  }
}

/** Finds the user whom a checkout of the customer has named, else the only one of the customer's subscriptions. */
async function userOf(ctx: Context, connectionId: string, customer: string | null): Promise<string | null> {
  if (customer === null) return null;
  const linked = await linkedUser(ctx.db, connectionId, { subscription: null, customer });
  return linked ?? subscribedUser(ctx.db, connectionId, customer);
}

/** Carries out the refunds of a payment that waited for it. */
async function refundEarlier(ctx: Context, connection: ConnectionRow, payment: string): Promise<void> {
  const waiting = await ctx.db
    .select({ connectionId: billingMessages.connectionId, messageId: billingMessages.messageId })
    .from(billingMessages)
    .where(
      and(
        eq(billingMessages.connectionId, connection.id),
        eq(billingMessages.outcome, "waiting"),
        sql`${billingMessages.content}->>'kind' = 'refund' and ${billingMessages.content}->>'payment' = ${payment}`,
      ),
    );
  for (const message of waiting) await setOutcome(ctx, message, await refund(ctx, connection, payment));
}

/** Revokes what is left of the blocks of a payment; what was used stays. Waits for a payment that has not come yet. */
export async function refund(ctx: Context, connection: ConnectionRow, payment: string): Promise<HandledMessage> {
  const { organizationId } = connection;
  const blocks = await findPaidBlocks(ctx.db, organizationId, keyOf(connection, payment));
  const [first] = blocks;
  if (first === undefined) {
    return { outcome: "waiting", reason: `No message of ${payment} was applied yet`, userId: null };
  }
  let isRevoked = false;
  for (const { id, userId } of blocks) {
    try {
      await transaction(ctx, (ctx) => revokeBlock(ctx, { organizationId, userId, id }));
      isRevoked = true;
    } catch (error) {
      // Spent, expired or revoked already: nothing is left of it.
      if (!(error instanceof Failure) || error.code !== "conflict") throw error;
    }
  }
  return { outcome: isRevoked ? "applied" : "unchanged", reason: null, userId: first.userId };
}
