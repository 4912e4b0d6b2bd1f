import { nextChangeAt, shownAt, targetAt } from "../core/billing/target.ts";
import { type CurrentServices, planContract } from "../core/billing/plan.ts";
import type { BillingCause } from "../core/event-messages.ts";
import { arrivalsFirst } from "../db/postgres/arrivals.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import type { contracts } from "../db/schema.ts";
import type { Change } from "./audit.ts";
import { planNext } from "./billed-changes.ts";
import type { Context } from "./context.ts";
import type { FollowedState, HeldService } from "./followed-state.ts";
import { resolveTerms } from "./followed-terms.ts";
import { change, create } from "./followed-writes.ts";
import type { LockedServices } from "./subscriptions.ts";

/*
 * Contracts that follow the subscriptions of a payment provider. What a contract becomes is decided in core/billing; followed-writes.ts
 * writes it. Source: contract billing §3, "Effect".
 */

type ContractRow = typeof contracts.$inferSelect;

const termsOf = (held: readonly HeldService[]): CurrentServices =>
  Object.fromEntries(held.map(({ key, plan, addOns }) => [key, { plan, addOns: addOns ?? {} }]));

/** Result of following: whether the contract was changed, and what the caller records of it. */
export interface FollowedResult {
  isChanged: boolean;
  /** Id of the subscription that the contract shows. Null: none. */
  shown: string | null;
  events: Addressed[];
  audits: Change[];
}

const NOTHING: FollowedResult = { isChanged: false, shown: null, events: [], audits: [] };

/** A user whose contract follows subscriptions. */
export interface Follower {
  userId: string;
  contract: ContractRow | undefined;
  state: FollowedState;
  /** Undefined where time alone changes the contract. */
  cause: BillingCause | undefined;
}

/**
 * Makes contracts what the subscriptions of their users buy now. Call it with the contracts and `locked`, all services of
 * both, locked. Creates missing contracts; a unique constraint decides races. Returns results in the order of `followers`, of
 * whom each is named once.
 * @throws Failure for a subscription that the pricing refuses.
 */
export async function followSubscriptions(
  ctx: Context,
  { organizationId, locked, followers }: { organizationId: string; locked: LockedServices; followers: Follower[] },
): Promise<FollowedResult[]> {
  const now = ctx.resources.now();
  const at = now.getTime();
  const planned = followers.map((follower) => planFollower(follower, at));
  const targets = planned.flatMap((target) => (target === null ? [] : [{ ...target, organizationId, locked, now }]));
  const missing = targets.filter(({ contract }) => contract === undefined);
  const existing = targets.flatMap(({ contract, ...target }) =>
    contract === undefined ? [] : [{ ...target, contract }],
  );
  const written = new Map([...(await create(ctx, missing)), ...(await change(ctx, existing))]);
  const results = new Map<string, FollowedResult>();
  for (const target of targets) {
    const { userId, plan, state, shown } = target;
    const own = written.get(userId);
    if (own === undefined) throw new Error("a contract was not written");
    const next = await planNext(ctx, {
      row: own.row,
      plan,
      followed: state.followed,
      nextAt: nextChangeAt(state.followed, at),
      resolve: async (wanted) => resolveTerms(ctx, { ...target, held: await own.held() }, wanted),
    });
    await arrivalsFirst();
    results.set(userId, {
      isChanged: own.isChanged || next.isChanged,
      shown: shown?.subscription ?? null,
      events: [...own.events, ...next.events],
      audits: [...own.audits, ...next.audits],
    });
  }
  return followers.map(({ userId }) => results.get(userId) ?? NOTHING);
}

/** Plans a contract; null if there is nothing to make a contract of. */
function planFollower(follower: Follower, at: number) {
  const { contract, state } = follower;
  const { followed, held, applied } = state;
  if (followed.length === 0) return null;
  const isOver = contract !== undefined && !contract.autoRenew && contract.endDate.getTime() <= at;
  const current = contract === undefined ? null : { services: termsOf(held), isOver };
  const plan = planContract(current, applied, targetAt(followed, at));
  if (plan === null) return null;
  const shown = shownAt(followed, at);
  const connectionId = followed.find(
    ({ provider, register }) => provider === shown?.provider && register.subscription === shown.subscription,
  )?.connectionId;
  return {
    ...follower,
    held,
    plan,
    shown: shown === null || connectionId === undefined ? null : { ...shown, connectionId },
  };
}
