import { and, eq } from "drizzle-orm";
import { authorOf, isPlatformAdmin } from "../../core/access/caller.ts";
import { addPeriod } from "../../core/period.ts";
import type { AfterTrial } from "../../core/scheduled.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import type { SubscribedService } from "../../db/queries/contract-levels.ts";
import { insertChange } from "../../db/queries/scheduled.ts";
import { givenTrials } from "../../db/schema.ts";
import { organizationRole } from "../access.ts";
import { type Context, newId } from "../context.ts";
import { Failure } from "../errors.ts";
import { type LockedServices, resolveSubscription, type Subscription } from "../subscriptions.ts";

/** Longest trial. */
const MAX_DAYS = 365;
const USUAL_REMIND_DAYS = 3;
const DAY_MS = 86_400_000;

/** A trial as requested: it ends at a moment, or after a number of days. */
export interface NewTrial {
  until: Date | undefined;
  days: number | undefined;
  then: AfterTrial;
  /** TRIAL_ENDING is recorded so many days before the end; 0 for never. Default: 3. */
  remindDays: number | undefined;
  /** Allows another trial of a service that the end user had one of. */
  again: boolean;
}

/** A checked trial of services that the new contract has. */
export interface CheckedTrial {
  until: Date;
  /** The subscription afterwards; undefined if the contract ends. */
  after: readonly SubscribedService[] | undefined;
  trial: NewTrial;
}

/**
 * Checks that the caller may give another trial.
 * @throws Failure forbidden.
 */
export async function requireAgainAllowed(
  ctx: Context,
  organizationId: string,
  trial: NewTrial | undefined,
): Promise<void> {
  if (trial?.again !== true) return;
  const { caller } = ctx;
  if (caller.kind === "key" && caller.scope === "ALL") return;
  if (isPlatformAdmin(caller)) return;
  const role = caller.kind === "user" ? await organizationRole(ctx, organizationId) : undefined;
  if (role === "ADMIN" || role === "OWNER") return;
  throw new Failure(
    "forbidden",
    "PERMISSION ERROR: Only a key of scope ALL or an ADMIN or OWNER of the organization can give another trial",
  );
}

/**
 * Checks a trial of a new contract with the subscription `next`. Source: contract custom-terms §6.
 * @throws Failure invalid for an end that is not within a year, or a subscription that is not possible afterwards; conflict
 * when the end user has had a trial of a service.
 */
export async function checkTrial(
  ctx: Context,
  input: {
    organizationId: string;
    userId: string;
    trial: NewTrial;
    contract: Subscription;
    locked: LockedServices;
    next: readonly SubscribedService[];
    now: Date;
  },
): Promise<CheckedTrial> {
  const { organizationId, userId, trial, contract, locked, next, now } = input;
  const until = trial.until ?? addPeriod(now, { value: trial.days ?? 1, unit: "DAY" });
  const latest = addPeriod(now, { value: MAX_DAYS, unit: "DAY" });
  if (until.getTime() <= now.getTime() || until.getTime() > latest.getTime()) {
    throw new Failure("invalid", "INVALID DATA: trial.until must be within the next 365 days");
  }
  const after = trial.then === "end" ? undefined : await resolveAfter(ctx, locked, contract, trial.then);
  const keys = new Map([...locked].map(([key, id]) => [id, key]));
  for (const { serviceId, plan, addOns } of after === undefined ? [] : next) {
    const then = after?.find((service) => service.serviceId === serviceId);
    if ((plan === null && addOns === null) || then?.plan !== null || then.addOns !== null) continue;
    throw new Failure("invalid", `INVALID DATA: trial.then says nothing of service ${keys.get(serviceId)}`);
  }
  if (!trial.again) await requireFirst(ctx, organizationId, userId, keys);
  return { until, after, trial };
}

function resolveAfter(
  ctx: Context,
  locked: LockedServices,
  { contractedServices }: Subscription,
  { subscriptionPlans, subscriptionAddOns }: Exclude<AfterTrial, "end">,
): Promise<SubscribedService[]> {
  const wanted = {
    contractedServices,
    subscriptionPlans: { ...subscriptionPlans },
    subscriptionAddOns: { ...subscriptionAddOns },
  };
  return resolveSubscription(ctx, locked, wanted, "trial");
}

async function requireFirst(
  ctx: Context,
  organizationId: string,
  userId: string,
  keys: ReadonlyMap<string, string>,
): Promise<void> {
  const given = await ctx.db
    .select({ serviceId: givenTrials.serviceId })
    .from(givenTrials)
    .where(
      and(
        eq(givenTrials.organizationId, organizationId),
        eq(givenTrials.userId, userId),
        isAnyOf(givenTrials.serviceId, [...keys.keys()]),
      ),
    );
  const had = [...keys].find(([id]) => given.some(({ serviceId }) => serviceId === id));
  if (had !== undefined) {
    throw new Failure("conflict", `CONFLICT: User ${userId} has had a trial of ${had[1]} already`);
  }
}

/** Begins a checked trial of a new contract, and remembers it. */
export async function beginTrial(
  ctx: Context,
  input: {
    contractId: string;
    organizationId: string;
    userId: string;
    checked: CheckedTrial;
    locked: LockedServices;
    next: readonly SubscribedService[];
    now: Date;
  },
): Promise<void> {
  const { contractId, organizationId, userId, locked, next, now } = input;
  const { until, after, trial } = input.checked;
  const { remindDays = USUAL_REMIND_DAYS } = trial;
  const remindAt = remindDays === 0 ? null : new Date(until.getTime() - remindDays * DAY_MS);
  const change = {
    id: newId(now),
    organizationId,
    kind: "trialEnd" as const,
    state: "pending" as const,
    contractId,
    at: until,
    atPeriodEnd: true,
    endsContract: after === undefined,
    remindDays,
    remindAt,
    createdAt: now,
    ...authorOf(ctx.caller),
  };
  const keys = new Map([...locked].map(([key, id]) => [id, key]));
  const services = (after ?? next).map(({ serviceId, plan, addOns }) => ({
    serviceId,
    pricingId: null,
    plan: after === undefined ? null : plan,
    addOns: after === undefined ? null : addOns,
    serviceName: keys.get(serviceId) ?? "",
    version: "",
  }));
  await insertChange(ctx.db, change, services);
  await ctx.db
    .insert(givenTrials)
    .values(next.map(({ serviceId }) => ({ organizationId, userId, serviceId })))
    .onConflictDoNothing();
}
