import { and, eq, sql } from "drizzle-orm";
import { decide, type Decision, unmappedReason } from "../../core/billing/decide.ts";
import type { BillingMessage, SubscriptionContent } from "../../core/billing/message.ts";
import { arrivalsFirst } from "../../db/postgres/arrivals.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { sentAhead, sentTogether } from "../../db/postgres/pipeline.ts";
import {
  findServicesToLock,
  type LockableService,
  putSubscriptions,
  readSubscriptions,
  type UserAddresses,
} from "../../db/queries/billing.ts";
import { linkedUser } from "../../db/queries/billing-messages.ts";
import { lockContracts } from "../../db/queries/contracts.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { contracts } from "../../db/schema.ts";
import type { Change } from "../audit.ts";
import type { Context } from "../context.ts";
import { applyDueNow, lockServicesOfPending } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { type FollowedResult, followSubscriptions } from "../followed-contracts.ts";
import { readStates } from "../followed-state.ts";
import { lockServices } from "../subscriptions.ts";
import type { ConnectionRow } from "./connections.ts";
import { type HandledMessage, userProblem } from "./outcomes.ts";

/*
 * Messages of subscriptions. One transaction carries out those of several users with as few statements as for one.
 */

/** A message as it came, or as it is stored. */
export interface HandledInput extends Pick<BillingMessage, "id" | "content" | "createdAt"> {
  /** Moment at which a stored message arrived. Default: now. */
  arrivedAt?: Date;
}

/** A message with its connection as it was when the message came. */
export interface Addressee<Message = HandledInput> {
  connection: ConnectionRow;
  message: Message;
  /** Request of the message, if not the caller's. */
  requestId?: string | undefined;
}

/** Audit entries and events of messages. */
export interface Records {
  audits: Change[];
  events: Addressed[];
}

/** Two messages that were to be handled together belong to one user. */
export class OneUserTwice extends Error {}

export type Message<Content> = Omit<HandledInput, "content"> & { content: Content };

/** States of subscriptions, and services of the users that their messages name. */
export interface Ahead {
  known: Awaited<ReturnType<typeof readSubscriptions>>;
  services: readonly LockableService[];
  /** Users whose services were read. */
  userIds: ReadonlySet<string>;
}

/** Reads in one round trip what messages of one connection's subscriptions need first. */
export async function readAhead(
  ctx: Context,
  { id: connectionId, organizationId }: ConnectionRow,
  messages: readonly Pick<HandledInput, "content">[],
): Promise<Ahead> {
  const contents = messages.flatMap(({ content }) => (content.kind === "subscription" ? [content] : []));
  const subscriptions = contents.map(({ subscription }) => subscription);
  const userIds = [...new Set(contents.flatMap(({ userId }) => userId ?? []))];
  const [known, services] = await Promise.all([
    subscriptions.length === 0 ? [] : readSubscriptions(ctx.db, { connectionId, subscriptions }),
    readServicesToLock(ctx, { organizationId, userIds }),
  ]);
  return { known, services, userIds: new Set(userIds) };
}

/** Finds the services to lock before the contracts, and locks those of their pending changes. */
async function readServicesToLock(ctx: Context, users: UserAddresses): Promise<LockableService[]> {
  if (users.userIds.length === 0) return [];
  const [found] = await Promise.all([findServicesToLock(ctx.db, users), lockServicesOfPending(ctx, areAt(users))]);
  return found;
}

/** SQL condition: the contract is that of one of these users. */
const areAt = ({ organizationId, userIds }: UserAddresses) =>
  and(eq(contracts.organizationId, organizationId), isAnyOf(contracts.userId, userIds));

/** A message that moves the contract of a user, unless the contract is so already. */
interface Mover extends Addressee<Message<SubscriptionContent>> {
  userId: string;
  decision: Extract<Decision, { register: object }>;
}

/**
 * Carries out messages of one connection's subscriptions, each named once, with their names locked. Adds to the records. Returns
 * results by the message's id.
 * @throws Failure if one of several is refused, and OneUserTwice.
 */
export async function subscribe(
  ctx: Context,
  messages: readonly Addressee<Message<SubscriptionContent>>[],
  records: Records,
  ahead: Ahead | undefined,
): Promise<[string, HandledMessage][]> {
  const [first] = messages;
  if (first === undefined) return [];
  const contents = messages.map(({ message }) => message);
  const read = ahead ?? (await readAhead(ctx, first.connection, contents));
  const handled: [string, HandledMessage][] = [];
  const movers: Mover[] = [];
  for (const each of messages) {
    const judged = await judge(ctx, each, read);
    await arrivalsFirst();
    if ("outcome" in judged) handled.push([each.message.id, judged]);
    else movers.push(judged);
  }
  // Transactions of several connections create contracts in one order, so that they cannot deadlock.
  movers.sort((a, b) => (a.userId < b.userId ? -1 : 1));
  if (movers.length > 0) handled.push(...(await move(ctx, movers, records, read)));
  return handled;
}

/** Decides what a message of a subscription does. */
async function judge(
  ctx: Context,
  addressee: Addressee<Message<SubscriptionContent>>,
  ahead: Ahead,
): Promise<HandledMessage | Mover> {
  const { connection, message } = addressee;
  const { content, createdAt } = message;
  const { subscription } = content;
  const known = ahead.known.find((row) => row.subscription === subscription);
  const userId = content.userId ?? known?.userId ?? (await linkedUser(ctx.db, connection.id, content));
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
  const arrivedAt = (message.arrivedAt ?? ctx.resources.now()).getTime();
  const decision = decide(known?.register, { createdAt, arrivedAt, content }, connection.prices);
  return "outcome" in decision ? { ...decision, userId } : { ...addressee, userId, decision };
}

/** Moves the contracts of the messages' users. Adds to the records. */
async function move(
  ctx: Context,
  movers: readonly Mover[],
  records: Records,
  ahead: Ahead,
): Promise<[string, HandledMessage][]> {
  const [first] = movers;
  if (first === undefined) return [];
  const { id: connectionId, organizationId } = first.connection;
  const userIds = movers.map(({ userId }) => userId);
  if (new Set(userIds).size < userIds.length) throw new OneUserTwice("two messages of one user");
  const unread = userIds.filter((userId) => !ahead.userIds.has(userId));
  const lockable = [...ahead.services, ...(await readServicesToLock(ctx, { organizationId, userIds: unread }))];
  const rows = movers.map(({ userId, decision: { register } }) => {
    const { subscription } = register;
    return { connectionId, organizationId, subscription, userId, register };
  });
  const work = async () => {
    const put = sentAhead(putSubscriptions(ctx.db, rows));
    await arrivalsFirst();
    const [, followed] = await sentTogether([put, follow(ctx, movers, lockable)]);
    return followed;
  };
  try {
    const { due, results } = await (movers.length === 1 ? undoable(ctx, work) : work());
    records.events.push(...due, ...results.flatMap(({ events }) => events));
    for (const [i, { audits }] of results.entries()) {
      records.audits.push(...audits.map((each) => ({ requestId: movers[i]?.requestId, ...each })));
    }
    return movers.map((mover, i) => [mover.message.id, outcomeOf(mover, results[i])]);
  } catch (error) {
    if (movers.length > 1 || !(error instanceof Failure) || error.code === "unavailable") throw error;
    return [[first.message.id, { outcome: "failed", reason: error.message, userId: first.userId }]];
  }
}

/** Names the outcome of a message that its contract followed. */
function outcomeOf({ userId, decision }: Mover, result: FollowedResult | undefined): HandledMessage {
  if (result === undefined) throw new Error("a contract was not followed");
  const { register, isNewest, unmapped } = decision;
  const { subscription, newest } = register;
  if (unmapped !== undefined) return { outcome: "unmapped", reason: unmappedReason(unmapped), userId };
  if (!isNewest) {
    return { outcome: "stale", reason: `A newer message of ${subscription} was applied already`, userId };
  }
  if (result.isChanged) return { outcome: "applied", reason: null, userId };
  const { shown } = result;
  return newest.status === "ended" && shown !== null && shown !== subscription
    ? { outcome: "stale", reason: `The contract follows ${shown}, which is newer`, userId }
    : { outcome: "unchanged", reason: null, userId };
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

/** Locks services and contracts, applies what is due, and makes the contracts what their subscriptions buy. */
async function follow(
  ctx: Context,
  movers: readonly Mover[],
  lockable: readonly LockableService[],
): Promise<{ due: Addressed[]; results: FollowedResult[] }> {
  const organizationId = movers[0]?.connection.organizationId ?? "";
  const users = { organizationId, userIds: movers.map(({ userId }) => userId) };
  const held = new Map(users.userIds.map((userId) => [userId, new Set<string>()]));
  for (const { userId, key, isHeld } of lockable) if (isHeld) held.get(userId)?.add(key);
  const bought = movers.flatMap(({ userId, decision }) =>
    decision.register.everServices.map((key) => ({ userId, key })),
  );
  const keys = [...new Set([...lockable, ...bought].map(({ key }) => key))];
  const wanted = {
    contractedServices: Object.fromEntries(keys.map((key) => [key, ""])),
    subscriptionPlans: {},
    subscriptionAddOns: {},
  };
  const added = [...lockable, ...bought].flatMap(({ userId, key }) => (held.get(userId)?.has(key) === true ? [] : key));
  const find = async () => lockContracts(ctx.db, areAt(users));
  const read = () => readStates(ctx, users, [...new Set(added)]);
  const [byOrganization, found, foundStates] = await Promise.all([
    lockServices(ctx, [organizationId], wanted),
    find(),
    read(),
  ]);
  const locked = byOrganization.get(organizationId) ?? new Map<string, string>();
  // Only a contract with a pending change can have one that is due.
  const pending = found.flatMap(({ id, changeAt }) => (changeAt === null ? [] : id));
  const due = pending.length === 0 ? undefined : await applyDueNow(ctx, pending);
  const isDue = due !== undefined && due.contractIds.size > 0;
  const [rows, states] = isDue ? await Promise.all([find(), read()]) : [found, foundStates];
  const followers = movers.map(({ userId, connection, message, decision }) => {
    const state = states.get(userId);
    if (state === undefined) throw new Error("the state of a contract was not read");
    const { provider } = connection;
    const cause = { provider, subscription: decision.register.subscription, message: message.id };
    return { userId, contract: rows.find((row) => row.userId === userId), state, cause };
  });
  const results = await followSubscriptions(ctx, { organizationId, locked, followers });
  return { due: due?.events ?? [], results };
}
