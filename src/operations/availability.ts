import { and, asc, desc, eq, ne, sql } from "drizzle-orm";
import type { PrivateEvent, RecordedEvent } from "../core/event-messages.ts";
import { addPeriod } from "../core/period.ts";
import { type CompiledPricing, trackedLimits } from "../core/pricing/compile.ts";
import { checkSubscription } from "../core/pricing/subscription.ts";
import { lockContracts, recordServiceRemoval } from "../db/contracts.ts";
import { isAnyOf } from "../db/lists.ts";
import { recordEvents } from "../db/outbox.ts";
import { type ServiceRow, type ServiceView, versionKey } from "../db/pricings.ts";
import { contracts, contractServices, pricings, services, usageLevels } from "../db/schema.ts";
import { type Context, newId, transaction } from "./context.ts";
import { Failure } from "./errors.ts";
import { type PricingAddress, requireService, versionNotFound, viewService } from "./service-address.ts";

/** Where contracts of an archived version go. */
export interface FallbackSubscription {
  subscriptionPlan?: string | undefined;
  subscriptionAddOns?: Record<string, number> | undefined;
}

/**
 * Archives or re-activates a version. Archiving moves every contract that holds it to the newest remaining active version
 * in the same transaction; any contract that cannot be moved stops all of it. Source: contract services-pricings §4.11, §5.
 */
export async function setAvailability(
  ctx: Context,
  input: PricingAddress & {
    availability: "active" | "archived";
    fallback: FallbackSubscription;
    /** Whether the body had any key at all: `{}` and an unusable one are refused with different sentences. */
    fallbackGiven: boolean;
    /** What is wrong with the body's shape: thrown unless the version already is what is asked for. */
    fallbackFailure?: Failure | undefined;
  },
): Promise<ServiceView> {
  return transaction(ctx, async (ctx) => {
    const service = await requireService(ctx, input, "update").catch((error: unknown) => {
      throw error instanceof Failure ? (input.fallbackFailure ?? error) : error;
    });
    const versions = await ctx.db
      .select({ id: pricings.id, version: pricings.version, key: pricings.versionKey, state: pricings.availability })
      .from(pricings)
      .where(eq(pricings.serviceId, service.id));
    const target = versions.find((row) => row.key === versionKey(input.version));
    if (target?.state === input.availability) return viewService(ctx, service);
    if (input.fallbackFailure !== undefined) throw input.fallbackFailure;
    const archiving = input.availability === "archived";
    if (archiving && target !== undefined && versions.every((row) => row === target || row.state === "archived")) {
      throw new Failure("invalid", `You cannot archive the last active pricing for service ${input.serviceName}`);
    }
    if (archiving && !input.fallbackGiven) {
      throw new Failure(
        "invalid",
        `Invalid request: Archiving pricing version ${input.version} of service ${input.serviceName} cannot be completed. To proceed, you must provide a fallback subscription in the request body. All active contracts will be novated to this new version upon archiving.`,
      );
    }
    if (target === undefined) throw versionNotFound(input);
    const { subscriptionPlan, subscriptionAddOns } = input.fallback;
    if (archiving && subscriptionPlan === undefined && subscriptionAddOns === undefined) {
      throw new Failure(
        "invalid",
        "Invalid request: In order to novate contracts to the latest version, the provided fallback subscription must contain at least a subscriptionPlan (if the pricing has plans), and optionally a subset of add-ons. If the pricing do not have plans, the set of add-ons is mandatory.",
      );
    }
    await ctx.db.update(pricings).set({ availability: input.availability }).where(eq(pricings.id, target.id));
    let novated: PrivateEvent[] = [];
    if (archiving) {
      await ctx.db.update(services).set({ hasArchive: true }).where(eq(services.id, service.id));
      novated = await novateToNewest(ctx, { service, archivedId: target.id, fallback: input.fallback });
    }
    const answer = await viewService(ctx, { ...service, hasArchive: service.hasArchive || archiving });
    const event: RecordedEvent = {
      code: archiving ? "PRICING_ARCHIVED" : "PRICING_ACTIVED",
      details: { serviceName: service.name, pricingVersion: target.version },
    };
    const { organizationId } = service;
    await recordEvents(
      ctx.db,
      [event, ...novated].map((event) => ({ organizationId, event })),
    );
    return answer;
  });
}

/** Moves every contract on an archived version, and returns what to record of it. Source: services-pricings §5. */
async function novateToNewest(
  ctx: Context,
  input: { service: ServiceRow; archivedId: string; fallback: FallbackSubscription },
): Promise<PrivateEvent[]> {
  const { service } = input;
  const affected = await lockContracts(
    ctx.db,
    sql`${contracts.id} in (select contract_id from contract_services where pricing_id = ${input.archivedId})`,
  );
  if (affected.length === 0) return [];
  const [target] = await ctx.db
    .select({ id: pricings.id, version: pricings.version, hash: pricings.modelHash, model: pricings.model })
    .from(pricings)
    .where(
      and(eq(pricings.serviceId, service.id), eq(pricings.availability, "active"), ne(pricings.id, input.archivedId)),
    )
    .orderBy(desc(pricings.declaredAt), asc(pricings.position))
    .limit(1);
  if (target === undefined) throw new Failure("invalid", `No active pricing found for service ${service.name}`);
  const pricing = ctx.pricingCache.peek(target.hash) ?? ctx.pricingCache.put(target.hash, target.model);
  const choice = checkFallback(service, target.version, pricing, input.fallback);
  const contractIds = affected.map((row) => row.id);
  const now = ctx.now();
  await recordServiceRemoval(ctx.db, {
    contractIds,
    serviceIds: [service.id],
    now,
    operationId: newId(now),
  });
  const ofThisService = and(isAnyOf(usageLevels.contractId, contractIds), eq(usageLevels.serviceId, service.id));
  await ctx.db.delete(usageLevels).where(ofThisService);
  await ctx.db
    .update(contractServices)
    .set({ pricingId: target.id, plan: input.fallback.subscriptionPlan ?? null, addOns: choice })
    .where(eq(contractServices.pricingId, input.archivedId));
  for (const [position, limit] of trackedLimits(pricing).entries()) {
    const period = limit.period;
    await ctx.db.insert(usageLevels).select(
      ctx.db
        .select({
          contractId: contractServices.contractId,
          serviceId: contractServices.serviceId,
          limitName: sql<string>`${limit.name}::text`.as("limit_name"),
          position: sql<number>`${position}::integer`.as("position"),
          consumed: sql<number>`0::numeric`.as("consumed"),
          anchor: sql<Date>`${period === undefined ? null : now.toISOString()}::timestamptz`.as("anchor"),
          resetAt: sql<Date>`${period === undefined ? null : addPeriod(now, period).toISOString()}::timestamptz`.as(
            "reset_at",
          ),
          periodValue: sql<number>`${period?.value ?? null}::numeric`.as("period_value"),
          periodUnit: sql<"DAY">`${period?.unit ?? null}::text`.as("period_unit"),
        })
        .from(contractServices)
        .where(and(eq(contractServices.pricingId, target.id), isAnyOf(contractServices.contractId, contractIds))),
    );
  }
  return affected.map(({ id, userId }) => ({ code: "CONTRACT_NOVATED", details: { contractId: id, userId } }));
}

function checkFallback(
  service: ServiceRow,
  version: string,
  pricing: CompiledPricing,
  fallback: FallbackSubscription,
): Record<string, number> {
  const checked = checkSubscription(pricing, {
    serviceName: service.nameKey,
    version,
    ...(fallback.subscriptionPlan === undefined ? {} : { plan: fallback.subscriptionPlan }),
    addOns: fallback.subscriptionAddOns ?? {},
  });
  // Drizzle asks values for their constructor, which an object without a prototype does not have.
  if (checked.ok) return { ...checked.addOns };
  const missing = checked.rule === "planUnknown" || checked.rule === "addOnUnknown";
  throw new Failure(
    missing ? "notFound" : "invalid",
    `The configuration provided to novate affected contracts is not valid for version ${version} of service ${service.nameKey}. Error: Error: ${checked.message}`,
  );
}
