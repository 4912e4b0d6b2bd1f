import { and, asc, desc, eq, inArray, ne, sql } from "drizzle-orm";
import { addPeriod } from "../core/period.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import { trackedLimits } from "../core/pricing/compile.ts";
import { checkSubscription } from "../core/pricing/subscription.ts";
import { pricingToWire } from "../core/pricing/wire.ts";
import { violates } from "../db/connect.ts";
import { lockContracts, recordServiceRemoval } from "../db/contracts.ts";
import { recordEvent } from "../db/outbox.ts";
import { findService, type ServiceRow, type ServiceView, versionKey, viewServices } from "../db/pricings.ts";
import { contracts, contractServices, pricings, services, usageLevels } from "../db/schema.ts";
import { type Context, newId, transaction } from "./context.ts";
import { Failure } from "./errors.ts";
import { insertPricing, type PricingSource, readPricing } from "./pricing-source.ts";

type PricingRow = typeof pricings.$inferSelect;

/** A pricing as GET returns it, plus what only the server needs. */
function toWire(service: ServiceRow, row: PricingRow) {
  return pricingToWire(row.model, {
    organizationId: service.organizationId,
    version: row.version,
    ...(row.yamlPath === null ? {} : { yamlPath: row.yamlPath }),
    ...(row.url === null ? {} : { url: row.url }),
  });
}

async function serviceOf(ctx: Context, organizationId: string, serviceName: string, lock?: "update" | "share") {
  const service = await findService(ctx.db, {
    organizationId,
    name: serviceName,
    ...(lock === undefined ? {} : { lock }),
  });
  if (service === undefined) throw new Failure("notFound", `NOT FOUND: Service with name ${serviceName}`);
  return service;
}

async function view(ctx: Context, serviceId: string): Promise<ServiceView> {
  const rows = await ctx.db.select().from(services).where(eq(services.id, serviceId));
  const [found] = await viewServices(ctx.db, rows);
  if (found === undefined) throw new Failure("notFound", "NOT FOUND: The service is gone");
  return found;
}

/** The versions of one availability, oldest upload first. Source: contract services-pricings §4.7. */
export async function listPricings(
  ctx: Context,
  input: { organizationId: string; serviceName: string; status: string | undefined },
) {
  const status = input.status === undefined || input.status === "" ? "active" : input.status;
  if (status !== "active" && status !== "archived") throw new Failure("invalid", "Invalid pricing status");
  const service = await serviceOf(ctx, input.organizationId, input.serviceName);
  const rows = await ctx.db
    .select()
    .from(pricings)
    .where(and(eq(pricings.serviceId, service.id), eq(pricings.availability, status)))
    .orderBy(asc(pricings.position));
  return rows.map((row) => toWire(service, row));
}

interface Addressed {
  organizationId: string;
  serviceName: string;
  version: string;
}

async function findPricing(ctx: Context, input: Addressed): Promise<{ service: ServiceRow; row: PricingRow }> {
  const service = await serviceOf(ctx, input.organizationId, input.serviceName);
  const [row] = await ctx.db
    .select()
    .from(pricings)
    .where(and(eq(pricings.serviceId, service.id), eq(pricings.versionKey, versionKey(input.version))));
  if (row === undefined) throw versionNotFound(input);
  return { service, row };
}

function versionNotFound(input: Addressed): Failure {
  return new Failure("notFound", `Pricing version ${input.version} not found for service ${input.serviceName}`);
}

/** One version, active or archived. Source: contract services-pricings §4.9. */
export async function showPricing(ctx: Context, input: Addressed) {
  const { service, row } = await findPricing(ctx, input);
  return toWire(service, row);
}

/** The path below the host at which the uploaded text is public. Failure notFound for a pricing given by URL. Source: §4.10. */
export async function publicPath(ctx: Context, input: Addressed): Promise<string> {
  const { row } = await findPricing(ctx, input);
  if (row.yamlPath === null) {
    throw new Failure(
      "notFound",
      `Pricing version ${input.version} for service ${input.serviceName} does not have a persisted yamlPath`,
    );
  }
  return row.yamlPath;
}

/** The text exactly as uploaded, by its public path; undefined when there is none (any more). */
export async function publicText(ctx: Pick<Context, "db">, yamlPath: string): Promise<string | undefined> {
  const [row] = await ctx.db
    .select({ source: pricings.source })
    .from(pricings)
    .innerJoin(services, eq(services.id, pricings.serviceId))
    .where(eq(pricings.yamlPath, yamlPath));
  return row?.source;
}

/** Adds an active version to a service; contracts are not touched. Source: contract services-pricings §4.8. */
export async function addPricing(
  ctx: Context,
  input: { organizationId: string; serviceName: string; source: PricingSource },
): Promise<ServiceView> {
  const pricing = readPricing(input.source, ctx.now());
  if (pricing.saasName !== input.serviceName) {
    throw new Failure(
      "invalid",
      `Invalid request: The service name in the pricing file (${pricing.saasName}) does not match the service name in the URL (${input.serviceName})`,
    );
  }
  const duplicate = () =>
    new Failure("invalid", `Pricing version ${pricing.version} already exists for service ${input.serviceName}`);
  try {
    return await transaction(ctx, async (ctx) => {
      const service = await serviceOf(ctx, input.organizationId, input.serviceName, "update");
      const [held] = await ctx.db
        .select({ id: pricings.id })
        .from(pricings)
        .where(and(eq(pricings.serviceId, service.id), eq(pricings.versionKey, versionKey(pricing.version))));
      if (held !== undefined) throw duplicate();
      await insertPricing(ctx, { service, pricing, source: input.source });
      const answer = await view(ctx, service.id);
      await recordEvent(ctx.db, service.organizationId, {
        code: "PRICING_CREATED",
        details: { serviceName: service.name, pricingVersion: pricing.version },
      });
      return answer;
    });
  } catch (error) {
    if (violates(error, "pricings_version_unique")) throw duplicate();
    throw error;
  }
}

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
  input: Addressed & {
    availability: "active" | "archived";
    fallback: FallbackSubscription;
    /** Whether the body had any key at all: `{}` and an unusable one are refused with different sentences. */
    fallbackGiven: boolean;
    /** What is wrong with the body's shape: thrown unless the version already is what is asked for. */
    fallbackFailure?: Failure | undefined;
  },
): Promise<ServiceView> {
  return transaction(ctx, async (ctx) => {
    const service = await serviceOf(ctx, input.organizationId, input.serviceName, "update").catch((error) => {
      throw input.fallbackFailure ?? error;
    });
    const versions = await ctx.db
      .select({ id: pricings.id, version: pricings.version, key: pricings.versionKey, state: pricings.availability })
      .from(pricings)
      .where(eq(pricings.serviceId, service.id));
    const target = versions.find((row) => row.key === versionKey(input.version));
    if (target?.state === input.availability) return view(ctx, service.id);
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
    if (archiving) {
      await ctx.db.update(services).set({ hasArchive: true }).where(eq(services.id, service.id));
      await novateToNewest(ctx, { service, archivedId: target.id, fallback: input.fallback });
    }
    const answer = await view(ctx, service.id);
    await recordEvent(ctx.db, service.organizationId, {
      code: archiving ? "PRICING_ARCHIVED" : "PRICING_ACTIVED",
      details: { serviceName: service.name, pricingVersion: target.version },
    });
    return answer;
  });
}

/** Moves every contract on an archived version; see contract services-pricings §5 for the exact rules. */
async function novateToNewest(
  ctx: Context,
  input: { service: ServiceRow; archivedId: string; fallback: FallbackSubscription },
): Promise<void> {
  const { service } = input;
  const affected = await lockContracts(
    ctx.db,
    inArray(
      contracts.id,
      ctx.db
        .select({ id: contractServices.contractId })
        .from(contractServices)
        .where(eq(contractServices.pricingId, input.archivedId)),
    ),
  );
  if (affected.length === 0) return;
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
  const ofThisService = and(inArray(usageLevels.contractId, contractIds), eq(usageLevels.serviceId, service.id));
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
        .where(and(eq(contractServices.pricingId, target.id), inArray(contractServices.contractId, contractIds))),
    );
  }
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

/** Removes an archived version for good; the same version may be uploaded again. Source: contract services-pricings §4.12. */
export async function deletePricing(ctx: Context, input: Addressed): Promise<void> {
  try {
    await transaction(ctx, async (ctx) => {
      const service = await serviceOf(ctx, input.organizationId, input.serviceName, "update");
      const removed = await ctx.db
        .delete(pricings)
        .where(
          and(
            eq(pricings.serviceId, service.id),
            eq(pricings.versionKey, versionKey(input.version)),
            eq(pricings.availability, "archived"),
          ),
        )
        .returning({ id: pricings.id });
      if (removed.length === 0) {
        throw new Failure(
          "notFound",
          `Invalid request: No archived version ${input.version} found for service ${input.serviceName}. Remember that a pricing must be archived before it can be deleted.`,
        );
      }
    });
  } catch (error) {
    if (violates(error, "contract_services_pricing_fk")) {
      throw new Failure(
        "conflict",
        `CONFLICT: Pricing version ${input.version} of service ${input.serviceName} is still contracted`,
        { cause: error },
      );
    }
    throw error;
  }
}
