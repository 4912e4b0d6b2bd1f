import { and, eq } from "drizzle-orm";
import { ADAPTERS } from "../../core/billing/adapters.ts";
import {
  type BillingMessage,
  type BillingOutcome,
  type RawMessage,
  storableMessage,
} from "../../core/billing/message.ts";
import { violates } from "../../db/postgres/connect.ts";
import { lockNames } from "../../db/queries/billing.ts";
import { billingConnections, billingMessages, organizations } from "../../db/schema.ts";
import { isIdentifier, moveOf, refuseMove } from "../access.ts";
import { type Context, transaction } from "../context.ts";
import { openApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";
import type { ConnectionRow } from "./connections.ts";
import { handleMessage, namesOf, readAhead, type Records, writeRecords } from "./handle.ts";

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
  const [found] = await ctx.db
    .select({
      connection: billingConnections,
      organization: { frozenAt: organizations.frozenAt, movedTo: organizations.movedTo },
    })
    .from(billingConnections)
    .innerJoin(organizations, eq(organizations.id, billingConnections.organizationId))
    .where(eq(billingConnections.id, connectionId));
  if (found === undefined) throw notFound(connectionId);
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
    return await ctx.resources.messages.run(connectionId, () => retryCreation(() => store(ctx, connection, message)));
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
  return Promise.all(sealed.map((each) => openApiKey(keyring, each)));
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

function store(ctx: Context, connection: ConnectionRow, message: BillingMessage): Promise<MessageAnswer> {
  const { id: connectionId, organizationId } = connection;
  return transaction({ ...ctx, author: { actorKind: "billing", actorId: connectionId } }, async (ctx) => {
    const find = async () =>
      ctx.db
        .select({ outcome: billingMessages.outcome, reason: billingMessages.reason })
        .from(billingMessages)
        .where(and(eq(billingMessages.connectionId, connectionId), eq(billingMessages.messageId, message.id)));
    // Sent together: Postgres reads after it has acquired the locks.
    const [, [known], ahead] = await Promise.all([
      lockNames(ctx.db, connectionId, [...namesOf(message), `message ${message.id}`]),
      find(),
      readAhead(ctx, connection, message),
    ]);
    if (known !== undefined) return known;
    const records: Records = { audits: [], events: [] };
    const { outcome, reason, userId } = await handleMessage(ctx, connection, message, records, ahead);
    const { content } = message;
    const now = ctx.resources.now();
    const insert = async () =>
      ctx.db.insert(billingMessages).values({
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
      });
    await Promise.all([insert(), writeRecords(ctx, records)]);
    return { outcome, reason };
  });
}
