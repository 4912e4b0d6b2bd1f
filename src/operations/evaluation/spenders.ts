import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import type { HeldBudget } from "../../core/holds.ts";
import { type Spender, spenderText } from "../../core/pricing/budgets.ts";
import { knownMembers } from "../../db/queries/contract-members.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import type { Context } from "../context.ts";
import { loadBudgets } from "./budget-book.ts";
import { memberNotFound } from "../contract-address.ts";
import type { Failure } from "../errors.ts";
import type { Prepared } from "./prepare.ts";

/**
 * Adds the budgets of spenders to a prepared contract, and those who are no members of it.
 * `held`: balances of holds, which it loads too. Source: contract budgets §1.
 */
export function withSpenders(
  ctx: Pick<Context, "db" | "resources">,
  prepared: Prepared,
  spenders: readonly Spender[],
  held: readonly HeldBudget[] = [],
): MaybePromise<Prepared> {
  return chain(loadBudgets(ctx, prepared, spenders, held), (budgets) =>
    chain(findStrangers(ctx, prepared.contract, spenders), (strangers) =>
      budgets === undefined && strangers === undefined ? prepared : { ...prepared, budgets, strangers },
    ),
  );
}

/** Finds the first ids that are no members. Undefined, and no query, for a contract without members. */
function findStrangers(
  ctx: Pick<Context, "db">,
  { contractId, memberCount }: ContractSnapshot,
  spenders: readonly Spender[],
): MaybePromise<ReadonlySet<string> | undefined> {
  if (memberCount === 0) return undefined;
  const ids = [...new Set(spenders.flatMap(([id]) => id ?? []))];
  if (ids.length === 0) return undefined;
  return knownMembers(ctx.db, contractId, ids).then((known) => new Set(ids.filter((id) => !known.has(id))));
}

/** Returns the failure of a spender whose first id is no member of a contract with members. */
export function strangerFailure(
  { strangers }: Pick<Prepared, "strangers">,
  { userId, spender }: { userId: string; spender?: Spender | undefined },
): Failure | undefined {
  const id = spender?.[0];
  return id !== undefined && strangers?.has(id) === true ? memberNotFound(id, userId) : undefined;
}

/** @throws Failure notFound for a spender whose first id is no member of a contract with members. */
export function refuseStranger(...given: Parameters<typeof strangerFailure>): void {
  const failure = strangerFailure(...given);
  if (failure !== undefined) throw failure;
}

/** Text of a spender as it is recorded; null without one. */
export const recordedSpender = (spender: Spender | undefined): string | null =>
  spender === undefined || spender.length === 0 ? null : spenderText(spender);
