import { eq } from "drizzle-orm";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import { renewedBillingEnd } from "../../core/period.ts";
import { sum } from "../../core/exact.ts";
import { hasKept } from "../../core/pricing/blocks.ts";
import { type Evaluation, readsUsage } from "../../core/pricing/evaluate.ts";
import { namedEvents, readFacts } from "../../db/queries/contract-facts.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { type ContractSnapshot, type EndUserName, loadSnapshot } from "../../db/queries/contract-snapshots.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { lockContract } from "../../db/queries/usage.ts";
import { contracts } from "../../db/schema.ts";
import { type Context, isInTransaction, transaction } from "../context.ts";
import { contractNotFound } from "../contract-address.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { keepsTooMuch } from "../due-blocks.ts";
import { applyDueOf } from "../due-holds.ts";
import { evaluationIfAny, evaluationOf, evaluationWithoutBlocks } from "../evaluations.ts";
import type { BudgetBook } from "./budget-book.ts";
import { isLockTimeout, LOCK_WAIT_MS, tooBusy } from "./contract-lock.ts";
import { hasDue, isChangeDue, isExpired, isOver, needsRenewal } from "./renewal.ts";
import type { Mode } from "./request.ts";

/** A contract ready for evaluation: its entitlements and its current balances. */
export interface Prepared {
  contract: ContractSnapshot;
  /** The moment of the evaluation, which decides which overrides hold. */
  at: Date;
  evaluation: Evaluation;
  /** The evaluation as if the contract had no blocks. Undefined if it has none. */
  withoutBlocks?: Evaluation;
  /** Budgets, with the balances of the spenders that it was prepared for. Undefined if it has none. */
  budgets?: BudgetBook | undefined;
  /** Ids that these spenders begin with and that are no members of the contract. Undefined for a contract without members. */
  strangers?: ReadonlySet<string> | undefined;
  /** `<service>-<limit>` -> usage: consumed and held. */
  usage: Map<string, number>;
  /** `<service>-<limit>` -> how much of its usage is held. Limits of which nothing is held are missing. */
  held: Map<string, number>;
}

export function evaluatedOrganization(ctx: Context): string {
  if (ctx.caller.kind !== "key") throw new Error("features are evaluated with organization keys only");
  return ctx.caller.organizationId;
}

/** Reads a contract from the cache, or inside of a transaction by it: a second connection can deadlock the pool. */
function snapshotOf(
  ctx: Context,
  name: EndUserName,
  read: "snapshot" | "cachedSnapshot",
): MaybePromise<ContractSnapshot | null> {
  if (!isInTransaction(ctx)) return ctx.resources.snapshots[read](name);
  return loadSnapshot(ctx.db, name.organizationId, name.userId).then((found) => found ?? null);
}

/**
 * Loads the end user's contract, renews due balances, and prepares the evaluation. Takes no lock unless something is
 * due. Source: contract features-events §2, contracts §12.
 * @throws Failure notFound without a contract; invalid when it has expired.
 */
export function prepareContract(ctx: Context, userId: string): MaybePromise<Prepared> {
  const name = { organizationId: evaluatedOrganization(ctx), userId };
  return chain(snapshotOf(ctx, name, "snapshot"), (contract) => {
    if (contract === null) throw contractNotFound(userId);
    const now = ctx.resources.now();
    if (needsRenewal(contract, now)) return withLockedContract(ctx, name, async (_, prepared) => prepared);
    return chain(prepare(ctx, contract, now), (prepared) =>
      keepsTooMuch(prepared.contract, prepared.evaluation)
        ? withLockedContract(ctx, name, async (_, current) => current)
        : prepared,
    );
  });
}

/**
 * Prepares one feature, or all of them, from the cached contract if possible. Avoids a database read when no expression
 * reads a balance and nothing is due.
 */
export function prepareFor(
  ctx: Context,
  { userId, featureId, mode }: { userId: string; featureId?: string; mode: Mode },
): MaybePromise<Prepared> {
  return chain(snapshotOf(ctx, { organizationId: evaluatedOrganization(ctx), userId }, "cachedSnapshot"), (cached) => {
    if (cached === null) throw contractNotFound(userId);
    const now = ctx.resources.now();
    if (isChangeDue(cached, now) || isOver(cached, now) || hasDue(cached, now)) return prepareContract(ctx, userId);
    return chain(evaluationOf(ctx, cached, now), (evaluation) =>
      readsUsage(evaluation, mode, featureId)
        ? prepareContract(ctx, userId)
        : preparedWith(ctx, cached, now, evaluation),
    );
  });
}

/** Thrown under the lock of a contract with a due change, whose services must be locked before the contract. */
class ChangeDue extends Error {}

/**
 * Locks the contract until `work` and its transaction end. Balances, plan and versions are current under the lock, and
 * all writes of `work` are atomic.
 */
export function withLockedContract<T>(
  ctx: Context,
  name: EndUserName,
  work: (ctx: Context, prepared: Prepared) => Promise<T>,
): Promise<T> {
  return withRenewedContract(ctx, name, async (ctx, contract, now) => {
    return work(ctx, await prepare(ctx, await applyDueOf(ctx, contract, name, now), now));
  });
}

/** A contract with open holds. `evaluation` is undefined if it cannot be evaluated. */
export type LockedHolder = Pick<Prepared, "contract" | "at"> & { evaluation: Evaluation | undefined };

/**
 * Locks a contract with open holds as withLockedContract does, whatever it has become: also an expired contract, or one that
 * cannot be evaluated.
 */
export function withLockedHolder<T>(
  ctx: Context,
  name: EndUserName,
  work: (ctx: Context, holder: LockedHolder) => Promise<T>,
): Promise<T> {
  return withCurrentContract(ctx, name, async (ctx, contract, at) => {
    const current = await applyDueOf(ctx, contract, name, at);
    return work(ctx, { contract: current, at, evaluation: await evaluationIfAny(ctx, current, at) });
  });
}

/**
 * Returns a locked contract as it is after ends of its holds: what ended blocks kept for them has left its limits. Call it within
 * the work of {@link withLockedHolder}, after they are written.
 */
export async function afterHoldEnds(
  ctx: Context,
  { organizationId, userId }: EndUserName,
  holder: LockedHolder,
): Promise<LockedHolder> {
  const { contract: before, at } = holder;
  const found = hasKept(before.blocks) ? await loadSnapshot(ctx.db, organizationId, userId) : undefined;
  if (found === undefined) return holder;
  const contract = await applyDueOf(ctx, found, { organizationId, userId }, at);
  return { contract, at, evaluation: await evaluationIfAny(ctx, contract, at) };
}

/** Applies the scheduled change and renews the billing period, if due. Resets no balance. */
export function renewBillingPeriod(ctx: Context, name: EndUserName): Promise<void> {
  return withRenewedContract(ctx, name, async () => {});
}

/** Locks the contract, and renews its billing period if due. */
function withRenewedContract<T>(
  ctx: Context,
  name: EndUserName,
  work: (ctx: Context, contract: ContractSnapshot, now: Date) => Promise<T>,
): Promise<T> {
  return withCurrentContract(ctx, name, async (ctx, contract, now) => {
    const { renewed, events } = isExpired(contract, now)
      ? await renewContract(ctx, contract, now)
      : { renewed: contract, events: [] };
    const result = await work(ctx, renewed, now);
    await recordEvents(ctx.db, events);
    return result;
  });
}

/** Locks the contract, after a scheduled change that is due. */
async function withCurrentContract<T>(
  ctx: Context,
  { organizationId, userId }: EndUserName,
  work: (ctx: Context, contract: ContractSnapshot, now: Date) => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await transaction(ctx, async (ctx) => {
        // Lock and read in two statements: a single one would read its snapshot from before the lock wait.
        const found = await lockContract(ctx.db, organizationId, userId, LOCK_WAIT_MS);
        const now = ctx.resources.now();
        const contract = found ? await loadSnapshot(ctx.db, organizationId, userId) : undefined;
        if (contract === undefined) throw contractNotFound(userId);
        if (isChangeDue(contract, now)) throw new ChangeDue();
        return await work(ctx, contract, now);
      });
    } catch (error) {
      if (isLockTimeout(error)) throw tooBusy();
      if (!(error instanceof ChangeDue)) throw error;
      // The rollback, if only to a savepoint, has released the lock.
      await applyDueChangesOf(ctx, { organizationId, userId });
    }
  }
}

/** Prepares the contract for an evaluation at that moment. Renewals that are due must have been applied. */
export function prepare(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  at: Date,
): MaybePromise<Prepared> {
  return chain(evaluationOf(ctx, contract, at), (evaluation) => preparedWith(ctx, contract, at, evaluation));
}

function preparedWith(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  at: Date,
  evaluation: Evaluation,
): MaybePromise<Prepared> {
  const { usage, held } = usageOf(contract);
  const prepared = { contract, at, evaluation, usage, held };
  if (contract.blocks.length === 0) return prepared;
  return chain(evaluationWithoutBlocks(ctx, contract, at, evaluation), (withoutBlocks) => ({
    ...prepared,
    withoutBlocks,
  }));
}

async function renewContract(
  ctx: Context,
  contract: ContractSnapshot,
  now: Date,
): Promise<{ renewed: ContractSnapshot; events: Addressed[] }> {
  const { contractId } = contract;
  const endDate = renewedBillingEnd(contract, now);
  const before = await readFacts(ctx.db, [contractId]);
  await ctx.db.update(contracts).set({ endDate, updatedAt: now }).where(eq(contracts.id, contractId));
  await recordStates(ctx.db, { contractIds: [contractId], cause: "renewal", now });
  const change = { code: "CONTRACT_RENEWED", contractId, fields: { endDate: endDate.toISOString() } } as const;
  const events = namedEvents([change], before, await readFacts(ctx.db, [contractId]));
  return { renewed: { ...contract, endDate }, events };
}

/** Returns a contract's usage, and how much of it is held, by `<service>-<limit>`. */
export function usageOf(contract: ContractSnapshot): Pick<Prepared, "usage" | "held"> {
  const usage = new Map<string, number>();
  const held = new Map<string, number>();
  for (const service of contract.services) {
    for (const level of contract.levels) {
      if (level.serviceId !== service.serviceId) continue;
      const id = `${service.key}-${level.limitName}`;
      if (level.held > 0) held.set(id, level.held);
      usage.set(id, level.held > 0 ? sum(level.consumed, level.held) : level.consumed);
    }
  }
  return { usage, held };
}
