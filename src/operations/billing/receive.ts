import { and, eq } from "drizzle-orm";
import { ADAPTERS } from "../../core/billing/adapters.ts";
import {
  type BillingMessage,
  type BillingOutcome,
  type RawMessage,
  storableMessage,
} from "../../core/billing/message.ts";
import { arrivalsFirst } from "../../db/postgres/arrivals.ts";
import { databaseError, violates } from "../../db/postgres/connect.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { sentAhead, sentTogether } from "../../db/postgres/pipeline.ts";
import { findConnection } from "../../db/queries/billing.ts";
import { insertMessages, lockNames, type ReceivedMessage } from "../../db/queries/billing-messages.ts";
import { billingMessages } from "../../db/schema.ts";
import { isIdentifier, moveOf, refuseMove } from "../access.ts";
import { type Context, transaction } from "../context.ts";
import { openCachedSecret } from "../credentials.ts";
import { Failure } from "../errors.ts";
import type { ConnectionRow } from "./connections.ts";
import { type Addressee, OneUserTwice, readAhead, type Records } from "./follow.ts";
import { handleMessages, isShareable, namesOf, writeRecords } from "./handle.ts";

/** Answer to a provider. */
export interface MessageAnswer {
  outcome: BillingOutcome;
  reason: string | null;
}

const notFound = (connectionId: string) => new Failure("notFound", `Billing connection ${connectionId} not found`);

/**
 * Receives a provider's message: verifies it, moves the contract, and stores the outcome, all in one transaction. A repeated
 * message answers what it answered. Source: contract billing §3.
 * @throws Failure notFound for an unknown connection; invalid for a wrong signature; unavailable while too many messages wait.
 */
export async function receiveMessage(
  ctx: Context,
  { connectionId, raw }: { connectionId: string; raw: RawMessage },
): Promise<MessageAnswer> {
  if (!isIdentifier(connectionId)) throw notFound(connectionId);
  const found = await findConnection(ctx.db, connectionId);
  if (found === null) throw notFound(connectionId);
  const { connection, organization } = found;
  refuseMove(moveOf(organization), false);
  const adapter = ADAPTERS[connection.provider];
  const now = ctx.resources.now();
  if (!(await adapter.verify(raw, await secretsOf(ctx, connection, now), now))) {
    throw new Failure("invalid", "The signature is not valid");
  }
  const read = adapter.read(raw, connection.userIdRule);
  const message = typeof read === "string" ? read : storableMessage(read);
  // Without an id it cannot be stored; a provider that repeats it would not change it.
  if (typeof message === "string") return { outcome: "failed", reason: message };
  try {
    return await ctx.resources.messages.run(
      connectionId,
      { ctx, connection, message, requestId: ctx.requestId },
      apply,
    );
  } catch (error) {
    if (TABLES.some((table) => violates(error, `billing_${table}_connection_fk`))) throw notFound(connectionId);
    throw error;
  }
}

/** Tables of a connection: it was deleted meanwhile if a row of theirs finds none. */
const TABLES = ["messages", "subscriptions", "links"] as const;

async function secretsOf(ctx: Context, connection: ConnectionRow, now: Date): Promise<string[]> {
  const { secretSealed, previousSecretSealed, previousSecretUntil } = connection;
  const { keyring } = ctx.resources;
  const isAccepted = previousSecretUntil !== null && previousSecretUntil.getTime() > now.getTime();
  const sealed = isAccepted && previousSecretSealed !== null ? [secretSealed, previousSecretSealed] : [secretSealed];
  return Promise.all(sealed.map((each) => openCachedSecret(keyring, each)));
}

/** Attempts of which each may lose a race for the creation of the contract. */
const CREATION_ATTEMPTS = 4;

/** Repeats work that lost a race for the creation of a contract: it then finds the contract. */
export async function retryCreation<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (attempt === CREATION_ATTEMPTS || !violates(error, "contracts_user_unique")) throw error;
    }
  }
}

/** A verified message, with the context of its request. */
interface Received extends Addressee<BillingMessage> {
  ctx: Context;
}

/**
 * Applies messages of one connection that wait together: as many as possible in one transaction, then those that must not share
 * it with them. Returns answers and errors in their order.
 */
async function apply(received: readonly Received[]): Promise<(MessageAnswer | Error)[]> {
  const [first] = received;
  if (first === undefined) return [];
  const shared = shareable(received);
  const now = shared.length === 0 ? [first] : shared;
  const later = received.filter((each) => !now.includes(each));
  const answers = [...(await attempt(now)), ...(await apply(later))];
  const byMessage = new Map([...now, ...later].map((each, i) => [each, answers[i]]));
  return received.map((each) => byMessage.get(each) ?? new Error("a message has no answer"));
}

/** Applies messages in one transaction. If one of them fails it, repeats it with each half of them. */
async function attempt(received: readonly Received[]): Promise<(MessageAnswer | Error)[]> {
  try {
    return await retryCreation(() => store(received));
  } catch (error) {
    const isOfOne = error instanceof OneUserTwice || error instanceof Failure || databaseError(error) !== undefined;
    // Others, such as an unreachable database, fail every transaction.
    if (received.length === 1 || !isOfOne) {
      return received.map(() => (error instanceof Error ? error : new Error(String(error))));
    }
    const half = Math.ceil(received.length / 2);
    return [...(await attempt(received.slice(0, half))), ...(await attempt(received.slice(half)))];
  }
}

/** Returns the messages that can share a transaction: the first of each subscription, customer, user and id. */
function shareable(received: readonly Received[]): Received[] {
  const taken = new Set<string>();
  return received.filter(({ message }) => {
    const { content, id } = message;
    const user = content.kind === "subscription" && content.userId !== null ? [`user ${content.userId}`] : [];
    const names = [...namesOf(message), ...user, `message ${id}`];
    const isFree = isShareable(message) && names.every((name) => !taken.has(name));
    // Later messages of these names stay behind this one.
    for (const name of names) taken.add(name);
    return isFree;
  });
}

/** Stores messages of one connection with their outcomes, in one transaction. A repeated one answers what it answered. */
function store(received: readonly Received[]): Promise<MessageAnswer[]> {
  const [first] = received;
  if (first === undefined) return Promise.resolve([]);
  const { id: connectionId, organizationId } = first.connection;
  const author = { actorKind: "billing" as const, actorId: connectionId };
  return transaction({ ...first.ctx, author }, async (ctx) => {
    const messages = received.map(({ message }) => message);
    const ids = messages.map(({ id }) => id);
    // Sent together: Postgres reads after it has acquired the locks.
    const [, stored, ahead] = await Promise.all([
      lockNames(ctx.db, connectionId, [...messages.flatMap(namesOf), ...ids.map((id) => `message ${id}`)]),
      findStored(ctx, connectionId, ids),
      readAhead(ctx, first.connection, messages),
    ]);
    const answers = new Map<string, MessageAnswer>(stored.map(({ messageId, ...answer }) => [messageId, answer]));
    const fresh = received.filter(({ message }) => !answers.has(message.id));
    const records: Records = { audits: [], events: [] };
    const handled = await handleMessages(ctx, fresh, records, ahead);
    const now = ctx.resources.now();
    const rows = fresh.flatMap(({ message }, i): ReceivedMessage[] => {
      const result = handled[i];
      if (result === undefined) throw new Error(`message ${message.id} was not handled`);
      const { outcome, reason, userId } = result;
      answers.set(message.id, { outcome, reason });
      const { content } = message;
      return [
        {
          connectionId,
          organizationId,
          messageId: message.id,
          type: message.type,
          subscription: "subscription" in content ? content.subscription : null,
          customer: "customer" in content ? content.customer : null,
          userId,
          createdAt: message.createdAt === 0 ? now : new Date(message.createdAt),
          receivedAt: now,
          content,
          outcome,
          reason,
        },
      ];
    });
    const inserted = sentAhead(insertMessages(ctx.db, rows));
    await arrivalsFirst();
    await sentTogether([inserted, writeRecords(ctx, records)]);
    return ids.map((id) => {
      const answer = answers.get(id);
      if (answer === undefined) throw new Error(`message ${id} has no answer`);
      return answer;
    });
  });
}

const findStored = async (ctx: Context, connectionId: string, ids: readonly string[]) =>
  ctx.db
    .select({ messageId: billingMessages.messageId, outcome: billingMessages.outcome, reason: billingMessages.reason })
    .from(billingMessages)
    .where(and(eq(billingMessages.connectionId, connectionId), isAnyOf(billingMessages.messageId, ids)));
