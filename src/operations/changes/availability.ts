import { eq, sql } from "drizzle-orm";
import { configurationOf } from "../../core/change/configuration.ts";
import type { Configuration } from "../../core/change/configuration.ts";
import type { RecordedEvent } from "../../core/event-messages.ts";
import { CONTRACT_CHANGES, type FallbackSubscription } from "../../core/scheduled.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import { grantedLimits } from "../../core/pricing/subscription.ts";
import { type FactsById, readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { batchesOf, type Move, moveToVersion } from "../../db/queries/contract-moves.ts";
import { lockSubscribers } from "../../db/queries/contracts.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import {
  listVersions,
  type ServiceRow,
  type ServiceView,
  type VersionRow,
  versionKey,
} from "../../db/queries/pricings.ts";
import { lockContractsWithPending } from "../../db/queries/scheduled.ts";
import { listPendingConfigurations } from "../../db/queries/scheduled-services.ts";
import { pricings, services } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { assessed, needsApproval, settleApproval } from "../policy/approval.ts";
import { auditOf, checkTarget, decideChange, type Decision, keepDecision } from "../policy/change-decision.ts";
import type { Targets } from "../policy/change-plan.ts";
import { type Context, newId } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { expireHoldsOf } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import { movePending, type PendingMove } from "../pending-changes.ts";
import { proposeFirst } from "../policy/proposals.ts";
import {
  type PricingAddress,
  requireService,
  type ServiceAddress,
  versionNotFound,
  viewService,
} from "../service-address.ts";
import { compiledPricings } from "../subscriptions.ts";

export interface AvailabilityChange extends PricingAddress {
  availability: "active" | "archived";
  fallback: FallbackSubscription;
  /** True if the body had any key: `{}` and an unusable body are rejected with different messages. */
  fallbackGiven: boolean;
  /** The error in the body's shape. Not thrown when the version already has the requested availability. */
  fallbackFailure?: Failure | undefined;
  /** Reason for overriding a gate rule. */
  overrideReason?: string | undefined;
  /** The gate's rules that the reason was given for, of a change that was scheduled; see decideChange. */
  passedOver?: readonly string[] | undefined;
}

/** A validated change of one version's availability. */
export interface AvailabilityPlan {
  readonly service: ServiceRow;
  readonly target: VersionRow;
  readonly isArchiving: boolean;
  /** Version that takes the contracts of an archived one. */
  readonly newest: VersionRow | undefined;
  /** Target of contracts without one of their own. */
  readonly fallback: Configuration;
  readonly targets: Targets;
  readonly isAssessed: boolean;
}

/**
 * Archives or re-activates a version. Archiving moves every contract on it to the newest remaining active version, in
 * the same transaction. A contract that cannot move, or a broken gate rule, aborts everything.
 * Source: contract services-pricings §4.11, §5.
 */
export async function setAvailability(ctx: Context, input: AvailabilityChange): Promise<ServiceView> {
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  return proposeFirst(ctx, async (ctx) => {
    const service = await requireService(ctx, input, "update").catch((error: unknown) => {
      throw error instanceof Failure ? (input.fallbackFailure ?? error) : error;
    });
    const plan = planAvailability(service, await listVersions(ctx.db, service.id), input);
    if (plan === undefined) return viewService(ctx, service);
    const { organizationId } = service;
    const action = plan.isArchiving ? "archive" : "activate";
    const isHeld = await needsApproval(ctx, organizationId, action);
    const { answer, decision } = await applyAvailability(
      ctx,
      { ...plan, isAssessed: plan.isAssessed || isHeld },
      input,
    );
    if (isHeld) {
      const summary = summaryOf(plan);
      await settleApproval(ctx, {
        organizationId,
        action,
        summary,
        operation: "setAvailability",
        input,
        ...assessed(decision),
      });
    }
    return answer;
  });
}

/** Describes the change in one line. */
export const summaryOf = ({ isArchiving, target, service }: AvailabilityPlan): string =>
  `${isArchiving ? "Archive" : "Activate"} ${target.version} of ${service.name}`;

/**
 * Validates the change, in the contract's order. Returns undefined if the version has the requested availability.
 * @throws Failure
 */
export function planAvailability(
  service: ServiceRow,
  versions: readonly VersionRow[],
  input: AvailabilityChange,
): AvailabilityPlan | undefined {
  const target = versions.find((row) => row.key === versionKey(input.version));
  if (target?.state === input.availability) return undefined;
  if (input.fallbackFailure !== undefined) throw input.fallbackFailure;
  const isArchiving = input.availability === "archived";
  if (isArchiving) requireAnother(input, versions, target);
  if (isArchiving) requireFallback(input);
  if (target === undefined) throw versionNotFound(input);
  if (isArchiving) requireTargets(input);
  const { subscriptionPlan, subscriptionAddOns, groups } = input.fallback;
  const fallback = configurationOf(subscriptionPlan, subscriptionAddOns ?? {});
  return {
    service,
    target,
    isArchiving,
    newest: versions.find((row) => row !== target && row.state === "active"),
    fallback,
    targets: {
      fallback: isForAll(input.fallback) ? fallback : undefined,
      groups: groups ?? [],
      renames: input.fallback.renames,
    },
    isAssessed: groups !== undefined,
  };
}

const isForAll = ({ subscriptionPlan, subscriptionAddOns }: FallbackSubscription): boolean =>
  subscriptionPlan !== undefined || subscriptionAddOns !== undefined;

function requireFallback({ fallbackGiven, version, serviceName }: AvailabilityChange): void {
  if (fallbackGiven) return;
  throw new Failure(
    "invalid",
    `Invalid request: Archiving pricing version ${version} of service ${serviceName} cannot be completed. To proceed, you must provide a fallback subscription in the request body. All active contracts will be novated to this new version upon archiving.`,
  );
}

/** @throws Failure invalid for an archiving without a fallback, or with one that names no target. */
export function requireTargets(input: AvailabilityChange): void {
  requireFallback(input);
  if (isForAll(input.fallback) || input.fallback.groups !== undefined) return;
  throw new Failure(
    "invalid",
    "Invalid request: In order to novate contracts to the latest version, the provided fallback subscription must contain at least a subscriptionPlan (if the pricing has plans), and optionally a subset of add-ons. If the pricing do not have plans, the set of add-ons is mandatory.",
  );
}

/** @throws Failure invalid for archiving the last active version. */
export function requireAnother(
  { serviceName }: ServiceAddress,
  versions: readonly VersionRow[],
  target: VersionRow | undefined,
): void {
  if (target === undefined || versions.some((row) => row !== target && row.state === "active")) return;
  throw new Failure("invalid", `You cannot archive the last active pricing for service ${serviceName}`);
}

export async function applyAvailability(
  ctx: Context,
  plan: AvailabilityPlan,
  input: AvailabilityChange,
): Promise<{ answer: ServiceView; decision: Decision | undefined }> {
  const { service, target, isArchiving, fallback, targets } = plan;
  const pricingVersion = target.version;
  const decision = await decideChange(ctx, {
    service,
    change: isArchiving ? { action: "archive", pricingVersion, targets } : { action: "activate", pricingVersion },
    overrideReason: input.overrideReason,
    passedOver: input.passedOver,
    isAssessed: plan.isAssessed,
  });
  await ctx.db.update(pricings).set({ availability: input.availability }).where(eq(pricings.id, target.id));
  let novated: FactsById = new Map();
  let rewritten: Addressed[] = [];
  let expired: Addressed[] = [];
  if (isArchiving) {
    await ctx.db.update(services).set({ hasArchive: true }).where(eq(services.id, service.id));
    const affected = await lockSubscribers(ctx.db, { serviceIds: [service.id], pricingIds: [target.id] });
    const moves = decision?.moves;
    rewritten = await rewriteToNewest(ctx, plan, decision?.pendingMoves);
    novated = await readFacts(
      ctx.db,
      affected.map(({ id }) => id),
    );
    expired = await novateToNewest(ctx, { service, affected, target: plan.newest, fallback, moves });
  }
  await keepDecision(ctx, decision);
  await audit(ctx, {
    action: isArchiving ? "pricing.archive" : "pricing.activate",
    organizationId: service.organizationId,
    target: `${service.name} ${target.version}`,
    before: { availability: target.state },
    after: {
      availability: input.availability,
      ...(isArchiving ? { fallback: { ...input.fallback }, novatedContracts: novated.size } : {}),
      ...auditOf(decision),
    },
  });
  const answer = await viewService(ctx, { ...service, hasArchive: service.hasArchive || isArchiving });
  const event: RecordedEvent = {
    code: isArchiving ? "PRICING_ARCHIVED" : "PRICING_ACTIVED",
    details: { serviceName: service.name, pricingVersion: target.version },
  };
  const { organizationId } = service;
  await recordChanges(ctx.db, novated, {
    novated: true,
    first: [...expired, { organizationId, event }],
    last: rewritten,
  });
  return { answer, decision };
}

/** Takes pending changes off an archived version to the newest one, and returns the events. */
async function rewriteToNewest(
  ctx: Context,
  plan: AvailabilityPlan,
  moves: readonly PendingMove[] | undefined,
): Promise<Addressed[]> {
  const { service, target: archived, newest, fallback } = plan;
  if (moves === undefined) await lockContractsWithPending(ctx.db, sql`x.pricing_id = ${archived.id}`);
  const where = { serviceId: service.id, pricingIds: [archived.id] };
  const pending = await listPendingConfigurations(ctx.db, where, CONTRACT_CHANGES);
  if (pending.length === 0) return [];
  if (newest === undefined) throw new Failure("invalid", `No active pricing found for service ${service.name}`);
  if (moves !== undefined) return movePending(ctx, { serviceId: service.id, to: newest, moves });
  const target = checkTarget(service, newest, await compiledVersion(ctx, newest), fallback);
  const all = pending.map(({ kind, contractIds }) => ({ kind, contractIds, ...target }));
  return movePending(ctx, { serviceId: service.id, to: newest, moves: all });
}

export async function compiledVersion(ctx: Context, { id, hash }: VersionRow): Promise<CompiledPricing> {
  const pricing = (await compiledPricings(ctx, [{ pricingId: id, hash }])).get(hash);
  if (pricing === undefined) throw new Error(`pricing ${id} has no model`);
  return pricing;
}

/**
 * Moves every contract off an archived version. Returns the events of holds that expired before. Source:
 * services-pricings §5.
 */
async function novateToNewest(
  ctx: Context,
  input: {
    service: ServiceRow;
    /** The locked contracts on the archived version. */
    affected: readonly { id: string }[];
    target: VersionRow | undefined;
    fallback: Configuration;
    moves: readonly Move[] | undefined;
  },
): Promise<Addressed[]> {
  const { service, affected, target } = input;
  if (affected.length === 0) return [];
  if (target === undefined) throw new Failure("invalid", `No active pricing found for service ${service.name}`);
  const pricing = await compiledVersion(ctx, target);
  const everybody = affected.map((row) => row.id);
  const moves = input.moves ?? [{ contractIds: everybody, ...checkTarget(service, target, pricing, input.fallback) }];
  const now = ctx.resources.now();
  const operationId = newId(now);
  const expired: Addressed[] = [];
  for (const batch of batchesOf(moves)) {
    const contractIds = batch.flatMap((move) => move.contractIds);
    expired.push(...(await expireHoldsOf(ctx, contractIds, now)));
    await moveToVersion(ctx.db, {
      serviceId: service.id,
      pricingId: target.id,
      limitsOf: (move) => grantedLimits(pricing, move),
      moves: batch,
      usage: "reset",
      now,
      operationId,
    });
    await recordStates(ctx.db, { contractIds, cause: "archiving", now });
  }
  return expired;
}
