import { and, asc, eq, or, type SQL, sql } from "drizzle-orm";
import type { BillingMessage, BillingOutcome, LinkContent } from "../../core/billing/message.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { putLink } from "../../db/queries/billing-messages.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { billingMessages } from "../../db/schema.ts";
import { auditAll } from "../audit.ts";
import type { Context } from "../context.ts";
import type { ConnectionRow } from "./connections.ts";
import { type Addressee, type Ahead, type HandledInput, type Message, type Records, subscribe } from "./follow.ts";
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

/** Writes audit entries and events, in one round trip, as the transaction's last statements. */
export async function writeRecords(ctx: Context, { audits, events }: Records): Promise<void> {
  await Promise.all([auditAll(ctx, audits), recordEvents(ctx.db, events)]);
}

/** True if a message can share a transaction with others. */
export const isShareable = ({ content }: Pick<HandledInput, "content">): boolean =>
  content.kind === "subscription" || content.kind === "ignored" || content.kind === "failed";

/** Returns a stored message as it is carried out again. */
export const storedInput = (row: typeof billingMessages.$inferSelect): HandledInput => ({
  id: row.messageId,
  content: row.content,
  createdAt: row.createdAt.getTime(),
  arrivedAt: row.receivedAt,
});

/** Carries out a message, as handleMessages does. */
export async function handleMessage(
  ctx: Context,
  connection: ConnectionRow,
  message: HandledInput,
  records: Records,
): Promise<HandledMessage> {
  const [handled] = await handleMessages(ctx, [{ connection, message }], records);
  if (handled === undefined) throw new Error(`message ${message.id} was not handled`);
  return handled;
}

/**
 * Carries out one message, or several shareable ones of one connection with as few statements as one. Their names are locked, and
 * each is of another subscription. Adds to the records, which the caller writes. A refusal of one rolls back all that it has changed.
 * The first message that names the user of a subscription also carries out those of the subscription, and payments of its customer,
 * that waited for it.
 * `ahead`: what the caller has read for them. Returns the results in their order.
 * @throws Failure if one of several is refused, and OneUserTwice: roll back and carry out fewer.
 */
export async function handleMessages(
  ctx: Context,
  messages: readonly Addressee[],
  records: Records,
  ahead?: Ahead,
): Promise<HandledMessage[]> {
  const subscriptions = messages.flatMap(({ message, ...addressee }) => {
    const { content } = message;
    return content.kind === "subscription" ? [{ ...addressee, message: { ...message, content } }] : [];
  });
  const followed = new Map(await subscribe(ctx, subscriptions, records, ahead));
  const handle = async ({ connection, message }: Addressee): Promise<HandledMessage> => {
    const { content, createdAt } = message;
    switch (content.kind) {
      case "ignored":
      case "failed":
        return { outcome: content.kind, reason: content.reason, userId: null };
      case "link":
        return link(ctx, connection, { ...message, content }, records);
      case "payment":
        return pay(ctx, connection, { createdAt, content });
      case "refund":
        return refund(ctx, connection, content.payment);
      default: {
        const result = followed.get(message.id);
        if (result === undefined) throw new Error(`message ${message.id} was not handled`);
        return result;
      }
    }
  };
  const handled: HandledMessage[] = [];
  for (const each of messages) handled.push(await handle(each));
  const known = new Set(ahead?.known.map(({ subscription }) => subscription));
  const named = subscriptions.flatMap(({ message: { id, content } }) => {
    const outcome = followed.get(id)?.outcome ?? "failed";
    const isNamed = content.userId !== null && FOLLOWED.has(outcome) && !known.has(content.subscription);
    return isNamed ? content : [];
  });
  const [first] = subscriptions;
  if (first !== undefined && named.length > 0) {
    const customers = named.flatMap(({ customer }) => customer ?? []);
    const areNamed = or(
      isAnyOf(
        billingMessages.subscription,
        named.map(({ subscription }) => subscription),
      ),
      and(isAnyOf(billingMessages.customer, customers), sql`${billingMessages.content}->>'kind' = 'payment'`),
    );
    await carryOutWaiting(ctx, first.connection, areNamed, records);
  }
  return handled;
}

/** Outcomes of messages whose subscription is known afterwards. */
const FOLLOWED: ReadonlySet<BillingOutcome> = new Set(["applied", "unchanged", "stale"]);

/** Carries out the messages that waited for their user, oldest first. Returns their outcomes. */
async function carryOutWaiting(
  ctx: Context,
  connection: ConnectionRow,
  areNamed: SQL | undefined,
  records: Records,
): Promise<ReadonlySet<BillingOutcome>> {
  const waiting = await ctx.db
    .select()
    .from(billingMessages)
    .where(and(eq(billingMessages.connectionId, connection.id), eq(billingMessages.outcome, "waiting"), areNamed))
    .orderBy(asc(billingMessages.createdAt), asc(billingMessages.seq));
  const outcomes = new Set<BillingOutcome>();
  for (const row of waiting) {
    const handled = await handleMessage(ctx, connection, storedInput(row), records);
    outcomes.add(handled.outcome);
    await setOutcome(ctx, row, handled);
  }
  return outcomes;
}

/** Stores whose a subscription or customer is, and carries out the messages that waited for it, oldest first. */
async function link(
  ctx: Context,
  connection: ConnectionRow,
  { content, createdAt }: Message<LinkContent>,
  records: Records,
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
  const areNamed = or(
    eq(billingMessages.subscription, subscription ?? ""),
    eq(billingMessages.customer, customer ?? ""),
  );
  const outcomes = await carryOutWaiting(ctx, connection, areNamed, records);
  return { outcome: outcomes.has("applied") ? "applied" : "unchanged", reason: null, userId };
}
