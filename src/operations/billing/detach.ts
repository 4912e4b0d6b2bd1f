import { and, eq } from "drizzle-orm";
import type { CancelReason } from "../../core/scheduled.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { cancelPending, changeEvent } from "../../db/queries/scheduled.ts";
import { billingSubscriptions, contractBilling, contracts } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { auditContracts } from "../contract-audit.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";

const WHY = "Its subscription is not followed any more";

/**
 * Detaches a contract from the subscriptions that it follows. The contract stays as it is. Source: contract billing §3.
 * @throws Failure notFound for an unknown contract, and one that follows none.
 */
export async function stopFollowing(ctx: Context, address: ContractAddress): Promise<void> {
  await applyDueChangesOf(ctx, address);
  await transaction(ctx, async (ctx) => {
    const { id, organizationId, userId } = await findContract(ctx, address, "change");
    const [followed] = await ctx.db.delete(contractBilling).where(eq(contractBilling.contractId, id)).returning();
    if (followed === undefined || followed.subscription === null) {
      throw new Failure("notFound", `Contract of user ${userId} follows no subscription`);
    }
    await ctx.db
      .update(billingSubscriptions)
      .set({ isDetached: true })
      .where(and(eq(billingSubscriptions.organizationId, organizationId), eq(billingSubscriptions.userId, userId)));
    const events = await cancelBilled(ctx, [id]);
    const { provider, subscription } = followed;
    await audit(ctx, { action: "billing.detach", organizationId, target: userId, before: { provider, subscription } });
    await recordEvents(ctx.db, events);
  });
}

/** Detaches all contracts that show a subscription of this connection, and cancels what it scheduled. */
export async function detachConnection(ctx: Context, connectionId: string): Promise<void> {
  const followed = await ctx.db
    .select({ id: contractBilling.contractId })
    .from(contractBilling)
    .where(eq(contractBilling.connectionId, connectionId));
  const ids = followed.map(({ id }) => id);
  await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(isAnyOf(contracts.id, ids))
    .orderBy(contracts.id)
    .for("no key update");
  await ctx.db.delete(contractBilling).where(isAnyOf(contractBilling.contractId, ids));
  await recordEvents(ctx.db, await cancelBilled(ctx, ids));
}

/** Cancels the pending changes of locked contracts that a connection scheduled. Returns the events. */
export async function cancelBilled(
  ctx: Context,
  contractIds: readonly string[],
  why: CancelReason = WHY,
): Promise<Addressed[]> {
  const pending = await cancelPending(ctx.db, contractIds, why, "novation", "billing");
  await auditContracts(
    ctx,
    "schedule.cancel",
    pending.map(({ id, at, organizationId, userId }) => ({
      organizationId,
      userId,
      before: { scheduledId: id, at },
      after: { why },
    })),
  );
  return pending.map((change) => changeEvent("CHANGE_CANCELLED", change, why));
}
