import { and, eq } from "drizzle-orm";
import type { BillingOutcome } from "../../core/billing/message.ts";
import { isDotSegment } from "../../core/pricing/names.ts";
import { billingMessages } from "../../db/schema.ts";
import type { Context } from "../context.ts";

/** Result of a message. */
export interface HandledMessage {
  outcome: BillingOutcome;
  reason: string | null;
  /** Null: unknown. */
  userId: string | null;
}

/** Longest id of a user that a message may name: that of a contract. */
const MAX_USER_ID = 512;

/** Returns a sentence on what is wrong with the id of a user; undefined for a good one. */
export const userProblem = (userId: string) =>
  userId.length > MAX_USER_ID || isDotSegment(userId)
    ? `The id of the user must have 1 to ${MAX_USER_ID} characters and not be . or ..`
    : undefined;

/** Stores the outcome of a message that was carried out again. */
export async function setOutcome(
  ctx: Context,
  { connectionId, messageId }: { connectionId: string; messageId: string },
  { outcome, reason, userId }: HandledMessage,
): Promise<void> {
  await ctx.db
    .update(billingMessages)
    .set({ outcome, reason, userId })
    .where(and(eq(billingMessages.connectionId, connectionId), eq(billingMessages.messageId, messageId)));
}
