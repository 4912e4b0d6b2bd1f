import { and, asc, eq, sql } from "drizzle-orm";
import { ADAPTERS } from "../../core/billing/adapters.ts";
import type { BillingProvider } from "../../core/billing/message.ts";
import { type MapProblem, mapProblems } from "../../core/billing/problems.ts";
import type { PriceMap } from "../../core/billing/terms.ts";
import { serviceKey } from "../../core/pricing/names.ts";
import { newestActiveVersions } from "../../db/queries/pricings.ts";
import { billingConnections, organizations } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { openApiKey, sealSecret } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { compiledPricings } from "../subscriptions.ts";
import { detachConnection } from "./detach.ts";

/** A replaced secret is accepted for this long. */
const PREVIOUS_SECRET_MS = 24 * 3_600_000;
const USUAL_GRACE_DAYS = 7;

/** The configurable fields of a connection. Absent ones get their defaults, an absent secret stays. */
export interface ConnectionChoice {
  secret?: string | undefined;
  previousSecret?: string | undefined;
  prices: PriceMap;
  userId?: string | undefined;
  ended?: Readonly<Record<string, string | null>> | undefined;
  graceDays?: number | undefined;
}

export interface ConnectionAddress {
  organizationId: string;
  provider: BillingProvider;
}

/** A connection as members see it, still without its address. */
export interface ConnectionView {
  id: string;
  provider: BillingProvider;
  /** The last four characters, behind `whsec_…`. */
  secret: string;
  previousSecretUntil: Date | null;
  prices: PriceMap;
  userId: string;
  ended: Readonly<Record<string, string | null>>;
  graceDays: number;
  problems: readonly MapProblem[];
  createdAt: Date;
  updatedAt: Date;
}

export type ConnectionRow = typeof billingConnections.$inferSelect;

const at = ({ organizationId, provider }: ConnectionAddress) =>
  and(eq(billingConnections.organizationId, organizationId), eq(billingConnections.provider, provider));

/**
 * Finds an organization's connection to a provider.
 * @throws Failure notFound without one.
 */
export async function requireConnection(ctx: Context, address: ConnectionAddress): Promise<ConnectionRow> {
  const [row] = await ctx.db.select().from(billingConnections).where(at(address));
  if (row === undefined) throw notConnected(address);
  return row;
}

const notConnected = ({ provider }: ConnectionAddress) =>
  new Failure("notFound", `The organization has no connection to ${provider}`);

/** Shows a connection, and what its map lacks today. @throws Failure notFound. */
export async function showConnection(ctx: Context, address: ConnectionAddress): Promise<ConnectionView> {
  return viewOf(ctx, await requireConnection(ctx, address));
}

/** Lists the connections of an organization, in the order of their providers. */
export async function listConnections(ctx: Context, organizationId: string): Promise<ConnectionView[]> {
  const rows = await ctx.db
    .select()
    .from(billingConnections)
    .where(eq(billingConnections.organizationId, organizationId))
    .orderBy(asc(billingConnections.provider));
  const views: ConnectionView[] = [];
  for (const row of rows) views.push(await viewOf(ctx, row));
  return views;
}

async function viewOf(ctx: Context, row: ConnectionRow): Promise<ConnectionView> {
  const now = ctx.resources.now();
  const { id, provider, prices, ended, graceDays, createdAt, updatedAt } = row;
  const until = row.previousSecretUntil;
  return {
    id,
    provider,
    secret: `whsec_…${row.secretEnd}`,
    previousSecretUntil: until !== null && until.getTime() > now.getTime() ? until : null,
    prices,
    userId: row.userIdRule,
    ended,
    graceDays,
    problems: await problemsOf(ctx, row),
    createdAt,
    updatedAt,
  };
}

async function problemsOf(
  ctx: Context,
  { organizationId, prices, ended }: Pick<ConnectionRow, "organizationId" | "prices" | "ended">,
): Promise<MapProblem[]> {
  const named = [...Object.values(prices).map(({ service }) => service), ...Object.keys(ended)];
  const keys = [...new Set(named.map(serviceKey))];
  const versions = await newestActiveVersions(ctx.db, organizationId, keys);
  const compiled = await compiledPricings(ctx, versions);
  const byKey = versions.flatMap(({ key, hash }) => {
    const pricing = compiled.get(hash);
    return pricing === undefined ? [] : [[key, pricing] as const];
  });
  return mapProblems(prices, ended, new Map(byKey));
}

/** Lower-cases the service keys of `ended`, as contracts have them. */
const keyed = (ended: Readonly<Record<string, string | null>>) =>
  Object.fromEntries(Object.entries(ended).map(([service, plan]) => [serviceKey(service), plan]));

/**
 * Creates or replaces the connection to a provider. Source: contract billing §2.
 * @throws Failure unprocessable for a missing or malformed secret.
 */
export async function setConnection(
  ctx: Context,
  { choice, ...address }: ConnectionAddress & { choice: ConnectionChoice },
): Promise<{ isNew: boolean; connection: ConnectionView }> {
  const { organizationId, provider } = address;
  const { secret, previousSecret } = choice;
  for (const given of [secret, previousSecret]) {
    const problem = given === undefined ? undefined : ADAPTERS[provider].secretProblem(given);
    if (problem !== undefined) throw new Failure("unprocessable", problem);
  }
  const { keyring } = ctx.resources;
  const sealed = secret === undefined ? undefined : await sealSecret(keyring, secret);
  const previousSealed = previousSecret === undefined ? undefined : await sealSecret(keyring, previousSecret);
  const { row, isNew } = await transaction(ctx, async (ctx) => {
    // Two first connections at once wait for each other.
    const [organization] = await ctx.db
      .select({ id: organizations.id })
      .from(organizations)
      .where(eq(organizations.id, organizationId))
      .for("no key update");
    if (organization === undefined) {
      throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
    }
    const [before] = await ctx.db.select().from(billingConnections).where(at(address)).for("update");
    if (before === undefined && sealed === undefined) {
      throw new Failure("unprocessable", "The secret field is required");
    }
    const now = ctx.resources.now();
    const isReplaced = sealed !== undefined && before !== undefined && !(await isSame(ctx, before, secret));
    const previous = previousSealed ?? (isReplaced ? before.secretSealed : undefined);
    const chosen = {
      prices: choice.prices,
      userIdRule: choice.userId ?? "metadata.userId",
      ended: keyed(choice.ended ?? {}),
      graceDays: choice.graceDays ?? USUAL_GRACE_DAYS,
      ...(secret === undefined || sealed === undefined ? {} : { secretSealed: sealed, secretEnd: secret.slice(-4) }),
      ...(previous === undefined
        ? {}
        : {
            previousSecretSealed: previous,
            previousSecretUntil: new Date(now.getTime() + PREVIOUS_SECRET_MS),
          }),
      updatedAt: now,
    };
    const [row] =
      before === undefined
        ? await ctx.db
            .insert(billingConnections)
            .values({
              id: newId(now),
              organizationId,
              provider,
              secretSealed: "",
              secretEnd: "",
              createdAt: now,
              ...chosen,
            })
            .returning()
        : await ctx.db.update(billingConnections).set(chosen).where(at(address)).returning();
    if (row === undefined) throw new Error("a connection vanished inside its transaction");
    await audit(ctx, {
      action: before === undefined ? "billing.connect" : "billing.update",
      organizationId,
      target: provider,
      before: before === undefined ? undefined : factsOf(before),
      after: { ...factsOf(row), ...(isReplaced ? { secretChanged: true } : {}) },
    });
    return { row, isNew: before === undefined };
  });
  return { isNew, connection: await viewOf(ctx, row) };
}

async function isSame(ctx: Context, { secretSealed }: ConnectionRow, secret: string | undefined): Promise<boolean> {
  return (await openApiKey(ctx.resources.keyring, secretSealed).catch(() => undefined)) === secret;
}

/** The audited fields of a connection: everything but its secrets. */
const factsOf = ({ id, prices, userIdRule: userId, ended, graceDays }: ConnectionRow) => ({
  id,
  prices,
  userId,
  ended,
  graceDays,
});

/**
 * Deletes a connection with its messages. Contracts stay as they are and follow no subscription of it.
 * @throws Failure notFound.
 */
export async function deleteConnection(ctx: Context, address: ConnectionAddress): Promise<void> {
  await transaction(ctx, async (ctx) => {
    // Waits for messages in flight, whose contracts would keep what they schedule, and keeps others away.
    const [row] = await ctx.db.select().from(billingConnections).where(at(address)).for("update");
    if (row === undefined) throw notConnected(address);
    const { organizationId, provider } = row;
    await detachConnection(ctx, row.id);
    await ctx.db.delete(billingConnections).where(sql`${billingConnections.id} = ${row.id}`);
    await audit(ctx, { action: "billing.disconnect", organizationId, target: provider, before: factsOf(row) });
  });
}
