import { and, asc, eq, or, sql } from "drizzle-orm";
import { decide, unmappedReason } from "../../core/billing/decide.ts";
import type { BillingMessage, BillingOutcome, LinkContent, SubscriptionContent } from "../../core/billing/message.ts";
import {
  findServicesToLock,
  linkedUser,
  putLink,
  putSubscription,
  readSubscription,
} from "../../db/queries/billing.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { billingMessages, contracts } from "../../db/schema.ts";
import { type Change, auditAll } from "../audit.ts";
import type { Context } from "../context.ts";
import { isAtAddress } from "../contract-address.ts";
import { applyDueNow, lockServicesOfPending } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { followSubscriptions } from "../followed-contracts.ts";
import { readState } from "../followed-state.ts";
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

/** Audit entries and events of messages. */
export interface Records {
  audits: Change[];
  events: Addressed[];
}

/** Writes audit entries and events, in one round trip, as the transaction's last statements. */
export async function writeRecords(ctx: Context, { audits, events }: Records): Promise<void> {
  await Promise.all([auditAll(ctx, audits), recordEvents(ctx.db, events)]);
}

/**
 * Carries out a message, with its names locked. Adds to the records, which the caller writes. A refusal rolls back everything
 * that the message has changed. `ahead`: what the caller has read for it.
 */
export async function handleMessage(
  ctx: Context,
  connection: ConnectionRow,
  message: HandledInput,
  records: Records,
  ahead?: Ahead,
): Promise<HandledMessage> {
  const { content } = message;
  switch (content.kind) {
    case "ignored":
    case "failed":
      return { outcome: content.kind, reason: content.reason, userId: null };
    case "link":
      return link(ctx, connection, { ...message, content }, records);
    case "subscription":
      return subscribe(ctx, connection, { ...message, content }, records, ahead);
    case "payment":
      return pay(ctx, connection, { createdAt: message.createdAt, content });
    default:
      return refund(ctx, connection, content.payment);
  }
}

type Message<Content> = Omit<HandledInput, "content"> & { content: Content };

/** State of a subscription, and the services of the user that its message names. */
interface Ahead {
  known: Awaited<ReturnType<typeof readSubscription>>;
  /** Undefined: the message names no user. */
  services: LockableServices | undefined;
}

type LockableServices = Awaited<ReturnType<typeof findServicesToLock>>;

/** Reads in one round trip what a message of a subscription needs first. Undefined for other messages. */
export async function readAhead(
  ctx: Context,
  { id: connectionId, organizationId }: ConnectionRow,
  { content }: Pick<HandledInput, "content">,
): Promise<Ahead | undefined> {
  if (content.kind !== "subscription") return undefined;
  const { subscription, userId } = content;
  const [known, services] = await Promise.all([
    readSubscription(ctx.db, { connectionId, organizationId, subscription }),
    userId === null ? undefined : readServicesToLock(ctx, { organizationId, userId }),
  ]);
  return { known, services };
}

/** Finds the services to lock before the contract, and locks those of its pending change. */
async function readServicesToLock(
  ctx: Context,
  user: { organizationId: string; userId: string },
): Promise<LockableServices> {
  const [found] = await Promise.all([findServicesToLock(ctx.db, user), lockServicesOfPending(ctx, isAtAddress(user))]);
  return found;
}

async function subscribe(
  ctx: Context,
  connection: ConnectionRow,
  message: Message<SubscriptionContent>,
  records: Records,
  ahead: Ahead | undefined,
): Promise<HandledMessage> {
  const { id: connectionId, organizationId, prices } = connection;
  const { content, createdAt } = message;
  const { subscription } = content;
  const name = { connectionId, organizationId, subscription };
  const { known, services } = ahead ?? (await readAhead(ctx, connection, message)) ?? {};
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
    const user = { organizationId, userId };
    const lockable = services ?? (await readServicesToLock(ctx, user));
    const cause = { provider: connection.provider, subscription, message: message.id };
    const { isChanged, shown, events, audits } = await undoable(ctx, async () => {
      const [, followed] = await Promise.all([
        putSubscription(ctx.db, { ...name, userId, register }),
        follow(ctx, user, { lockable, bought: register.everServices, cause }),
      ]);
      return followed;
    });
    records.events.push(...events);
    records.audits.push(...audits);
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

/**
 * Runs `work` in a savepoint, which is sent together with its first statements. Rolls back to it if the contract refuses the
 * work; other errors end the transaction.
 */
async function undoable<T>(ctx: Context, work: () => Promise<T>): Promise<T> {
  const save = async () => ctx.db.execute(sql`savepoint message`);
  try {
    const [, result] = await Promise.all([save(), work()]);
    return result;
  } catch (error) {
    if (error instanceof Failure) await ctx.db.execute(sql`rollback to savepoint message`);
    throw error;
  }
}

/** Locks services and contract, applies what is due, and makes the contract what its subscriptions buy. */
async function follow(
  ctx: Context,
  user: { organizationId: string; userId: string },
  input: {
    lockable: LockableServices;
    bought: readonly string[];
    cause: { provider: string; subscription: string; message: string };
  },
) {
  const { lockable, bought, cause } = input;
  const held = new Set(lockable.flatMap(({ key, isHeld }) => (isHeld ? [key] : [])));
  const keys = [...new Set([...lockable.map(({ key }) => key), ...bought])];
  const wanted = {
    contractedServices: Object.fromEntries(keys.map((key) => [key, ""])),
    subscriptionPlans: {},
    subscriptionAddOns: {},
  };
  const find = async () => {
    const [row] = await ctx.db.select().from(contracts).where(isAtAddress(user)).for("update");
    return row;
  };
  const read = () =>
    readState(
      ctx,
      user,
      keys.filter((key) => !held.has(key)),
    );
  const [byOrganization, found, foundState] = await Promise.all([
    lockServices(ctx, [user.organizationId], wanted),
    find(),
    read(),
  ]);
  const locked = byOrganization.get(user.organizationId) ?? new Map<string, string>();
  // Only a contract with a pending change can have one that is due.
  const due = found === undefined || found.changeAt === null ? undefined : await applyDueNow(ctx, [found.id]);
  const isDue = due !== undefined && due.contractIds.size > 0;
  const [contract, state] = isDue ? await Promise.all([find(), read()]) : [found, foundState];
  const result = await followSubscriptions(ctx, { ...user, contract, state, locked, cause });
  return { ...result, events: [...(due?.events ?? []), ...result.events] };
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
    const handled = await handleMessage(ctx, connection, input, records);
    outcomes.add(handled.outcome);
    await setOutcome(ctx, row, handled);
  }
  return { outcome: outcomes.has("applied") ? "applied" : "unchanged", reason: null, userId };
}
