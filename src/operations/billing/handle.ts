import { and, asc, eq, or } from "drizzle-orm";
import { decide, unmappedReason } from "../../core/billing/decide.ts";
import type { BillingMessage, BillingOutcome, LinkContent, SubscriptionContent } from "../../core/billing/message.ts";
import { linkedUser, putLink, putSubscription, readSubscription } from "../../db/queries/billing.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { billingMessages, contracts } from "../../db/schema.ts";
import { type Context, transaction } from "../context.ts";
import { isAtAddress } from "../contract-address.ts";
import { applyDueNow, lockServicesOfPending } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { followSubscriptions, servicesToLock } from "../followed-contracts.ts";
import { lockServices } from "../subscriptions.ts";
import type { ConnectionRow } from "./connections.ts";
import { type HandledMessage, setOutcome, userProblem } from "./outcomes.ts";
import { pay, refund } from "./payments.ts";

/** Names that messages share which must not be handled at the same time. */
export function namesOf({ content }: Pick<BillingMessage, "content">): string[] {
  if (content.kind === "ignored" || content.kind === "failed") return [];
  const customer = "customer" in content ? content.customer : null;
  const subscription = "subscription" in content ? content.subscription : null;
  return [
    ...("payment" in content ? [`payment ${content.payment}`] : []),
    ...(subscription === null ? [] : [`subscription ${subscription}`]),
    ...(customer === null ? [] : [`customer ${customer}`]),
  ];
}

/** A message as it came, or as it is stored. */
export type HandledInput = Pick<BillingMessage, "id" | "content" | "createdAt">;

/**
 * Carries out a message, with its names locked. Pushes the events, which the caller records as the transaction's last
 * statement. A refusal rolls back everything that the message has changed.
 */
export async function handleMessage(
  ctx: Context,
  connection: ConnectionRow,
  message: HandledInput,
  events: Addressed[],
): Promise<HandledMessage> {
  const { content } = message;
  switch (content.kind) {
    case "ignored":
    case "failed":
      return { outcome: content.kind, reason: content.reason, userId: null };
    case "link":
      return link(ctx, connection, { ...message, content }, events);
    case "subscription":
      return subscribe(ctx, connection, { ...message, content }, events);
    case "payment":
      return pay(ctx, connection, { createdAt: message.createdAt, content });
    default:
      return refund(ctx, connection, content.payment);
  }
}

type Message<Content> = Omit<HandledInput, "content"> & { content: Content };

async function subscribe(
  ctx: Context,
  connection: ConnectionRow,
  message: Message<SubscriptionContent>,
  events: Addressed[],
): Promise<HandledMessage> {
  const { id: connectionId, organizationId, prices } = connection;
  const { content, createdAt } = message;
  const { subscription } = content;
  const name = { connectionId, organizationId, subscription };
  const known = await readSubscription(ctx.db, name);
  const userId = content.userId ?? known?.userId ?? (await linkedUser(ctx.db, connectionId, content));
  if (userId === null) {
    return { outcome: "waiting", reason: `No message has named the user of ${subscription} yet`, userId };
  }
  const problem = userProblem(userId);
  if (problem !== undefined) return { outcome: "failed", reason: problem, userId: null };
  if (known !== undefined && known.userId !== userId) {
    return { outcome: "failed", reason: `${subscription} belongs to another user already`, userId };
  }
  if (known?.isDetached === true) {
    return { outcome: "ignored", reason: `The contract was detached from ${subscription}`, userId };
  }
  const decision = decide(known?.register, { createdAt, content }, prices);
  if ("outcome" in decision) return { ...decision, userId };
  const { register, isNewest } = decision;
  try {
    const { isChanged, shown, ...followed } = await transaction(ctx, async (ctx) => {
      await putSubscription(ctx.db, { ...name, userId, register });
      return follow(ctx, { organizationId, userId }, register.everServices, {
        provider: connection.provider,
        subscription,
        message: message.id,
      });
    });
    events.push(...followed.events);
    if (decision.unmapped !== undefined) {
      return { outcome: "unmapped", reason: unmappedReason(decision.unmapped), userId };
    }
    if (!isNewest) {
      return { outcome: "stale", reason: `A newer message of ${subscription} was applied already`, userId };
    }
    if (isChanged) return { outcome: "applied", reason: null, userId };
    const isLeft = register.newest.status === "ended" && shown !== null && shown !== subscription;
    return isLeft
      ? { outcome: "stale", reason: `The contract follows ${shown}, which is newer`, userId }
      : { outcome: "unchanged", reason: null, userId };
  } catch (error) {
    if (!(error instanceof Failure) || error.code === "unavailable") throw error;
    return { outcome: "failed", reason: error.message, userId };
  }
}

/** Locks services and contract, applies what is due, and makes the contract what its subscriptions buy. */
async function follow(
  ctx: Context,
  user: { organizationId: string; userId: string },
  more: readonly string[],
  cause: { provider: string; subscription: string; message: string },
) {
  await lockServicesOfPending(ctx, isAtAddress(user));
  const keys = await servicesToLock(ctx, user, more);
  const wanted = {
    contractedServices: Object.fromEntries(keys.map((key) => [key, ""])),
    subscriptionPlans: {},
    subscriptionAddOns: {},
  };
  const locked = (await lockServices(ctx, [user.organizationId], wanted)).get(user.organizationId) ?? new Map();
  const find = async () => {
    const [row] = await ctx.db.select().from(contracts).where(isAtAddress(user)).for("update");
    return row;
  };
  const found = await find();
  const due = found === undefined ? undefined : await applyDueNow(ctx, [found.id]);
  const isDue = due !== undefined && due.contractIds.size > 0;
  const contract = isDue ? await find() : found;
  const result = await followSubscriptions(ctx, { ...user, contract, locked, cause });
  return { ...result, events: [...(due?.events ?? []), ...result.events] };
}

/** Stores whose a subscription or customer is, and carries out the messages that waited for it, oldest first. */
async function link(
  ctx: Context,
  connection: ConnectionRow,
  { content, createdAt }: Message<LinkContent>,
  events: Addressed[],
): Promise<HandledMessage> {
  const { id: connectionId, organizationId } = connection;
  const { subscription, customer, userId } = content;
  const problem = userProblem(userId);
  if (problem !== undefined) return { outcome: "failed", reason: problem, userId: null };
  const linkedAt = new Date(createdAt);
  const names = [
    { kind: "subscription" as const, name: subscription },
    { kind: "customer" as const, name: customer },
  ];
  for (const { kind, name } of names) {
    if (name !== null) await putLink(ctx.db, { connectionId, organizationId, kind, name, userId, linkedAt });
  }
  const waiting = await ctx.db
    .select()
    .from(billingMessages)
    .where(
      and(
        eq(billingMessages.connectionId, connectionId),
        eq(billingMessages.outcome, "waiting"),
        or(eq(billingMessages.subscription, subscription ?? ""), eq(billingMessages.customer, customer ?? "")),
      ),
    )
    .orderBy(asc(billingMessages.createdAt), asc(billingMessages.seq));
  const outcomes = new Set<BillingOutcome>();
  for (const row of waiting) {
    const input = { id: row.messageId, content: row.content, createdAt: row.createdAt.getTime() };
    const handled = await handleMessage(ctx, connection, input, events);
    outcomes.add(handled.outcome);
    await setOutcome(ctx, row, handled);
  }
  return { outcome: outcomes.has("applied") ? "applied" : "unchanged", reason: null, userId };
}
