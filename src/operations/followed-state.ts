import { and, asc, eq, sql } from "drizzle-orm";
import type { AppliedTarget } from "../core/billing/plan.ts";
import { readApplied, readFollowed, type UserAddresses } from "../db/queries/billing.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { newestActiveVersions, versionKey } from "../db/queries/pricings.ts";
import { contracts, contractServices, pricings, services } from "../db/schema.ts";
import type { Context } from "./context.ts";
import type { ResolvedVersion } from "./subscriptions.ts";

/*
 * State from which a contract that follows subscriptions is made.
 *
 * Statements that need no result of each other are sent together in one Promise.all, and Postgres executes them in this order.
 * Each must stand in an async function that awaits it first: Drizzle sends a bare query of the list after all others.
 */

/** Services of a contract as they matter to a plan, with the versions held. */
export interface HeldService extends ResolvedVersion {
  key: string;
  plan: string | null;
  addOns: Record<string, number> | null;
}

/** Reads the services of the contracts of end users, each contract's in its order. */
export async function readServices(
  ctx: Context,
  { organizationId, userIds }: UserAddresses,
): Promise<(HeldService & { userId: string })[]> {
  return ctx.db
    .select({
      userId: contracts.userId,
      key: services.nameKey,
      serviceId: services.id,
      pricingId: pricings.id,
      version: pricings.version,
      versionKey: pricings.versionKey,
      hash: pricings.modelHash,
      active: sql<boolean>`${pricings.availability} = 'active'`,
      plan: contractServices.plan,
      addOns: contractServices.addOns,
    })
    .from(contracts)
    .innerJoin(contractServices, eq(contractServices.contractId, contracts.id))
    .innerJoin(services, eq(services.id, contractServices.serviceId))
    .innerJoin(pricings, eq(pricings.id, contractServices.pricingId))
    .where(and(eq(contracts.organizationId, organizationId), isAnyOf(contracts.userId, userIds)))
    .orderBy(asc(contractServices.position));
}

/** A newest active version by service key. */
type Versions = ReadonlyMap<string, ResolvedVersion>;

/** Reads the newest active versions of services. */
export async function readVersions(ctx: Context, organizationId: string, keys: readonly string[]): Promise<Versions> {
  const rows = await newestActiveVersions(ctx.db, organizationId, keys);
  return new Map(rows.map((row) => [row.key, { ...row, versionKey: versionKey(row.version), active: true }]));
}

/** State that decides what a contract becomes. */
export interface FollowedState {
  followed: Awaited<ReturnType<typeof readFollowed>>;
  held: readonly HeldService[];
  applied: AppliedTarget | null;
  /** Newest active versions of some services; those of others are read when a plan needs them. */
  newest: Versions;
}

/**
 * Reads the states of end users' contracts in one round trip, by user. Call it with the contracts and their services locked.
 * `added`: keys of services that some of the contracts lack.
 */
export async function readStates(
  ctx: Context,
  users: UserAddresses,
  added: readonly string[],
): Promise<ReadonlyMap<string, FollowedState>> {
  const [followed, held, applied, newest] = await Promise.all([
    readFollowed(ctx.db, users),
    readServices(ctx, users),
    readApplied(ctx.db, users),
    readVersions(ctx, users.organizationId, added),
  ]);
  const states = users.userIds.map((userId) => {
    const isTheirs = (row: { userId: string }) => row.userId === userId;
    const target = applied.find(isTheirs)?.applied ?? null;
    return [
      userId,
      { followed: followed.filter(isTheirs), held: held.filter(isTheirs), applied: target, newest },
    ] as const;
  });
  return new Map(states);
}
