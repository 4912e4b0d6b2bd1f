import { and, asc, type SQL, sql } from "drizzle-orm";
import { hasDueEnd } from "../db/queries/due-holds.ts";
import { type Addressed, recordEvents } from "../db/queries/outbox.ts";
import { servicesOfPending } from "../db/queries/scheduled-services.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { contracts, services } from "../db/schema.ts";
import { carryOut, type Locked } from "./carried-out-changes.ts";
import { type Context, transaction } from "./context.ts";
import { isAtAddress } from "./contract-address.ts";
import { expireDueHolds } from "./due-holds.ts";

/*
 * Applies scheduled changes of contracts once they are due: before anything reads or changes such a contract, or in the
 * sweep of an event server. The contract's lock makes it happen once. Source: contract custom-terms §4.
 */

/** Contracts changed in one transaction. */
const BATCH = 200;

/**
 * Applies scheduled changes and writes the ends of holds and blocks that are due, of the matching contracts. Default: all contracts of
 * the instance. Call it before an operation on contracts begins its transaction. Costs one query on two partial indexes if
 * nothing is due.
 */
export async function applyDueChanges(ctx: Context, where?: SQL): Promise<void> {
  const { changes, holds } = await findKindsDue(ctx, where);
  if (changes) await applyChanges(ctx, where);
  if (changes || holds) await expireDueHolds(ctx, where);
}

async function applyChanges(ctx: Context, where: SQL | undefined): Promise<void> {
  for (;;) {
    const found = await transaction(ctx, async (ctx) => {
      const ids = await findDue(ctx, where);
      const lockedServices = await lockServicesOf(ctx, ids);
      const rows = await lockDue(ctx, ids, undefined);
      await recordEvents(ctx.db, await carryOut(ctx, rows, lockedServices));
      return ids.length;
    });
    if (found === 0) return;
  }
}

/** Applies what is due of the contract at this address, or of every contract in an organization. */
export function applyDueChangesOf(ctx: Context, address: { organizationId?: string | undefined; userId?: string }) {
  return applyDueChanges(ctx, isAtAddress(address));
}

/**
 * Applies everything that is due in the background. Returns the number of contracts. Safe to run in several processes at
 * once: each skips contracts that another has locked.
 */
export async function sweepDueChanges(ctx: Context): Promise<number> {
  for (let applied = 0; ;) {
    const found = await transaction(ctx, async (ctx) => {
      const ids = await findDue(ctx, undefined);
      const lockedServices = await lockServicesOf(ctx, ids);
      const rows = await lockDue(ctx, ids, { skipLocked: true });
      await recordEvents(ctx.db, await carryOut(ctx, rows, lockedServices));
      return rows.length;
    });
    applied += found;
    if (found === 0) return applied;
  }
}

/**
 * Applies what is due of locked contracts in the caller's transaction. Returns these contracts and the events. Their services should be
 * locked before the contracts, with lockServicesOfPending.
 */
export async function applyDueNow(
  ctx: Context,
  contractIds: readonly string[],
): Promise<{ contractIds: ReadonlySet<string>; events: Addressed[] }> {
  const due = await lockDue(ctx, contractIds, undefined);
  return { contractIds: new Set(due), events: await carryOut(ctx, due, await lockServicesOf(ctx, due)) };
}

/** Locks the services that pending changes of the matching contracts name. Call it before locking the contracts. */
export async function lockServicesOfPending(ctx: Context, where: SQL | undefined): Promise<void> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(and(sql`${contracts.changeAt} is not null`, where));
  await lockServicesOf(
    ctx,
    rows.map(({ id }) => id),
  );
}

/** SQL condition: the contract has a change that is due. */
const isDueAt = (now: Date) => sql`${contracts.changeAt} <= ${now.toISOString()}::timestamptz`;

async function findKindsDue(ctx: Context, where: SQL | undefined): Promise<{ changes: boolean; holds: boolean }> {
  const now = ctx.resources.now();
  const isAny = (condition: SQL) => sql`exists (select 1 from ${contracts} where ${and(condition, where)})`;
  const [row] = await ctx.db.execute<{ changes: boolean; holds: boolean }>(
    sql`select ${isAny(isDueAt(now))} as changes, ${isAny(hasDueEnd(now))} as holds`,
  );
  return row ?? { changes: false, holds: false };
}

async function findDue(ctx: Context, where: SQL | undefined): Promise<string[]> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(and(isDueAt(ctx.resources.now()), where))
    .orderBy(asc(contracts.changeAt), asc(contracts.id))
    .limit(BATCH);
  return rows.map(({ id }) => id);
}

/** Locks contracts that are still due, in id order. */
async function lockDue(
  ctx: Context,
  ids: readonly string[],
  options: { skipLocked: true } | undefined,
): Promise<string[]> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(and(isAnyOf(contracts.id, ids), isDueAt(ctx.resources.now())))
    .orderBy(asc(contracts.id))
    .for("update", options);
  return rows.map(({ id }) => id);
}

async function lockServicesOf(ctx: Context, contractIds: readonly string[]): Promise<Locked> {
  const ids = await servicesOfPending(ctx.db, contractIds);
  const { id, nameKey: key, organizationId, disabled } = services;
  const rows =
    ids.length === 0
      ? []
      : await ctx.db
          .select({ id, key, organizationId, disabled })
          .from(services)
          .where(isAnyOf(id, ids))
          .orderBy(asc(id))
          .for("share");
  const byOrganization = new Map<string, Map<string, string>>();
  for (const row of rows) {
    if (row.disabled) continue;
    const theirs = byOrganization.get(row.organizationId) ?? new Map<string, string>();
    byOrganization.set(row.organizationId, theirs.set(row.key, row.id));
  }
  return { ids: new Set(ids), byOrganization };
}
