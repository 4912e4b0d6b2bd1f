import { asc, eq, sql } from "drizzle-orm";
import type { AppliedTarget } from "../core/billing/plan.ts";
import { readApplied, readFollowed } from "../db/queries/billing.ts";
import { newestActiveVersions, versionKey } from "../db/queries/pricings.ts";
import { contracts, contractServices, pricings, services } from "../db/schema.ts";
import { isAtAddress } from "./contract-address.ts";
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

/** Reads the services of the contract at this address, in its order. */
export async function readServices(ctx: Context, user: UserAddress): Promise<HeldService[]> {
  return ctx.db
    .select({
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
    .where(isAtAddress(user))
    .orderBy(asc(contractServices.position));
}

/** Address of a user's contract, which need not exist. */
interface UserAddress {
  organizationId: string;
  userId: string;
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
 * Reads the state of a user's contract in one round trip. Call it with the contract and its services locked. `added`: keys of
 * services that the contract lacks.
 */
export async function readState(ctx: Context, user: UserAddress, added: readonly string[]): Promise<FollowedState> {
  const [followed, held, applied, newest] = await Promise.all([
    readFollowed(ctx.db, user),
    readServices(ctx, user),
    readApplied(ctx.db, user),
    readVersions(ctx, user.organizationId, added),
  ]);
  return { followed, held, applied, newest };
}
