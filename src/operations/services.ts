import { and, asc, desc, eq, inArray, sql } from "drizzle-orm";
import { violates } from "../db/connect.ts";
import { lockContracts, recordServiceRemoval, removeServicesFromContracts } from "../db/contracts.ts";
import { recordEvent } from "../db/outbox.ts";
import {
  findService,
  serviceKey,
  type ServiceRow,
  type ServiceView,
  versionKey,
  viewServices,
} from "../db/pricings.ts";
import { contracts, contractServices, members, organizations, pricings, services } from "../db/schema.ts";
import { containsText, isIdentifier } from "./access.ts";
import { type Context, newId, transaction } from "./context.ts";
import { Failure } from "./errors.ts";
import { insertPricing, type PricingSource, readPricing } from "./pricing-source.ts";

function notFound(serviceName: string): Failure {
  return new Failure("notFound", `NOT FOUND: Service with name ${serviceName}`);
}

/**
 * Enabled services by name in byte order; without an organization, those of every organization.
 * Source: contract services-pricings §4.1.
 */
export async function listServices(
  ctx: Context,
  input: {
    organizationId: string | undefined;
    name: string | undefined;
    skip: number;
    limit: number;
    order: "asc" | "desc";
  },
): Promise<ServiceView[]> {
  const byName = sql`${services.name} collate "C"`;
  const rows = await ctx.db
    .select()
    .from(services)
    .where(
      and(
        eq(services.disabled, false),
        input.organizationId === undefined ? undefined : eq(services.organizationId, input.organizationId),
        input.name === undefined || input.name === "" ? undefined : containsText(services.name, input.name),
      ),
    )
    .orderBy(input.order === "asc" ? asc(byName) : desc(byName), asc(services.id))
    .limit(input.limit)
    .offset(input.skip);
  return viewServices(ctx.db, rows);
}

export async function showService(
  ctx: Context,
  input: { organizationId: string; serviceName: string },
): Promise<ServiceView> {
  const service = await findService(ctx.db, { organizationId: input.organizationId, name: input.serviceName });
  if (service === undefined) throw notFound(input.serviceName);
  return viewOne(ctx, service);
}

async function viewOne(ctx: Context, service: ServiceRow): Promise<ServiceView> {
  const [found] = await viewServices(ctx.db, [service]);
  if (found === undefined) throw notFound(service.name);
  return found;
}

/**
 * Creates the service that the pricing names, or re-enables the disabled one of that name, with this version active.
 * Source: contract services-pricings §4.2, §6.2.
 */
export async function createService(
  ctx: Context,
  input: { organizationId: string; source: PricingSource },
): Promise<ServiceView> {
  const pricing = readPricing(input.source, ctx.now());
  const exists = () => new Failure("invalid", `Invalid request: Service ${pricing.saasName} already exists`);
  try {
    return await transaction(ctx, async (ctx) => {
      const [held] = await ctx.db
        .select()
        .from(services)
        .where(
          and(eq(services.organizationId, input.organizationId), eq(services.nameKey, serviceKey(pricing.saasName))),
        )
        .for("update");
      if (held !== undefined && !held.disabled) throw exists();
      const service =
        held === undefined
          ? await insertService(ctx, input.organizationId, pricing.saasName)
          : await enableService(ctx, held, pricing.version);
      await insertPricing(ctx, { service, pricing, source: input.source });
      const answer = await viewOne(ctx, service);
      await recordEvent(ctx.db, service.organizationId, {
        code: "PRICING_CREATED",
        details: { serviceName: service.name, pricingVersion: pricing.version },
      });
      return answer;
    });
  } catch (error) {
    if (violates(error, "services_name_unique")) throw exists();
    throw error;
  }
}

async function insertService(ctx: Context, organizationId: string, name: string): Promise<ServiceRow> {
  const [created] = await ctx.db
    .insert(services)
    .values({ id: newId(ctx.now()), organizationId, name, nameKey: serviceKey(name) })
    .returning();
  if (created === undefined) throw new Error("an insert returned no row");
  return created;
}

async function enableService(ctx: Context, held: ServiceRow, version: string): Promise<ServiceRow> {
  await setAside(ctx, held.id, version);
  const [enabled] = await ctx.db
    .update(services)
    .set({ disabled: false, hasArchive: true, updatedAt: ctx.now() })
    .where(eq(services.id, held.id))
    .returning();
  if (enabled === undefined) throw new Error("an update of a locked row returned no row");
  return enabled;
}

/** An archived version of that label becomes `<version>.<epoch ms>`, under which it stays addressable. */
async function setAside(ctx: Context, serviceId: string, version: string): Promise<void> {
  const suffix = `.${ctx.now().getTime()}`;
  await ctx.db
    .update(pricings)
    .set({
      version: sql`${pricings.version} || ${suffix}`,
      versionKey: sql`${pricings.versionKey} || ${suffix}`,
    })
    .where(and(eq(pricings.serviceId, serviceId), eq(pricings.versionKey, versionKey(version))));
}

/**
 * Takes a service out of use: versions archived, name reserved, contracts novated without it; it can be re-created.
 * Source: contract services-pricings §4.6, §6.1, §6.3.
 */
export async function disableService(
  ctx: Context,
  input: { organizationId: string; serviceName: string },
): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const service = await findService(ctx.db, {
      organizationId: input.organizationId,
      name: input.serviceName,
      lock: "update",
    });
    if (service === undefined) throw notFound(input.serviceName);
    const now = ctx.now();
    await ctx.db
      .update(services)
      .set({ disabled: true, hasArchive: true, updatedAt: now })
      .where(eq(services.id, service.id));
    await ctx.db.update(pricings).set({ availability: "archived" }).where(eq(pricings.serviceId, service.id));
    await removeServicesFromContracts(ctx.db, { serviceIds: [service.id], now, operationId: newId(now) });
    await recordEvent(ctx.db, service.organizationId, {
      code: "SERVICE_DISABLED",
      details: { serviceName: service.name },
    });
  });
}

/**
 * Removes every service of the organization for good, disabled ones included; without an organization, of the instance.
 * Returns how many. Source: contract services-pricings §4.3.
 */
export async function pruneServices(ctx: Context, input: { organizationId: string | undefined }): Promise<number> {
  return transaction(ctx, async (ctx) => {
    const doomed = await ctx.db
      .select({ id: services.id })
      .from(services)
      .where(input.organizationId === undefined ? undefined : eq(services.organizationId, input.organizationId))
      .orderBy(asc(services.id))
      .for("update");
    const serviceIds = doomed.map((row) => row.id);
    if (serviceIds.length === 0) return 0;
    const now = ctx.now();
    await removeServicesFromContracts(ctx.db, { serviceIds, now, operationId: newId(now) });
    await ctx.db.delete(services).where(inArray(services.id, serviceIds));
    return serviceIds.length;
  });
}

/**
 * Renames and/or moves a service. A rename carries through everywhere by itself: contracts refer to the service, not to
 * its name. A move takes along contracts that have only this service. Source: contract services-pricings §4.5, §9.
 */
export async function updateService(
  ctx: Context,
  input: {
    organizationId: string;
    serviceName: string;
    name: string | undefined;
    targetOrganizationId: string | undefined;
  },
): Promise<ServiceView> {
  const name = input.name?.trim() ?? "";
  try {
    return await transaction(ctx, async (ctx) => {
      const service = await findService(ctx.db, {
        organizationId: input.organizationId,
        name: input.serviceName,
        lock: "update",
      });
      if (service === undefined) throw notFound(input.serviceName);
      const target = input.targetOrganizationId;
      if (target !== undefined && target !== service.organizationId) await moveContracts(ctx, service, target);
      const [changed] = await ctx.db
        .update(services)
        .set({
          ...(name === "" ? {} : { name, nameKey: serviceKey(name) }),
          ...(target === undefined ? {} : { organizationId: target }),
          updatedAt: ctx.now(),
        })
        .where(eq(services.id, service.id))
        .returning();
      return viewOne(ctx, changed ?? service);
    });
  } catch (error) {
    if (violates(error, "services_name_unique")) {
      const taken = name === "" ? input.serviceName : name;
      throw new Failure("conflict", `CONFLICT: Service name ${taken} already exists`, { cause: error });
    }
    throw error;
  }
}

async function moveContracts(ctx: Context, service: ServiceRow, targetId: string): Promise<void> {
  if (!isIdentifier(targetId)) throw new Failure("invalid", "INVALID DATA: Invalid organization ID");
  await requireMoveAllowed(ctx, service.organizationId, targetId);
  const holders = await lockContracts(
    ctx.db,
    inArray(
      contracts.id,
      ctx.db
        .select({ id: contractServices.contractId })
        .from(contractServices)
        .where(eq(contractServices.serviceId, service.id)),
    ),
  );
  if (holders.length === 0) return;
  const holderIds = holders.map((row) => row.id);
  const shared = await ctx.db
    .selectDistinct({ id: contractServices.contractId })
    .from(contractServices)
    .where(and(inArray(contractServices.contractId, holderIds), sql`${contractServices.serviceId} <> ${service.id}`));
  const staying = new Set(shared.map((row) => row.id));
  const moving = holders.filter((row) => !staying.has(row.id));
  if (moving.length > 0) await moveWhole(ctx, moving, targetId);
  if (staying.size > 0) {
    const now = ctx.now();
    const contractIds = [...staying];
    await recordServiceRemoval(ctx.db, { contractIds, serviceIds: [service.id], now, operationId: newId(now) });
    await ctx.db
      .delete(contractServices)
      .where(and(inArray(contractServices.contractId, contractIds), eq(contractServices.serviceId, service.id)));
  }
}

async function moveWhole(
  ctx: Context,
  moving: readonly { id: string; userId: string }[],
  targetId: string,
): Promise<void> {
  const [met] = await ctx.db
    .select({ userId: contracts.userId })
    .from(contracts)
    .where(
      and(
        eq(contracts.organizationId, targetId),
        inArray(
          contracts.userId,
          moving.map((row) => row.userId),
        ),
      ),
    )
    .limit(1);
  if (met !== undefined) throw new Failure("conflict", `CONFLICT: Contract for user ${met.userId} already exists`);
  await ctx.db
    .update(contracts)
    .set({ organizationId: targetId, updatedAt: ctx.now() })
    .where(
      inArray(
        contracts.id,
        moving.map((row) => row.id),
      ),
    );
}

/** Between organizations of one owner for a key; for a user, only into an organization in which it may write services. */
async function requireMoveAllowed(ctx: Context, sourceId: string, targetId: string): Promise<void> {
  const [source, target] = await Promise.all(
    [sourceId, targetId].map(async (id) => {
      const rows = await ctx.db
        .select({ ownerId: organizations.ownerId })
        .from(organizations)
        .where(eq(organizations.id, id));
      return rows[0];
    }),
  );
  if (target === undefined) {
    throw new Failure("invalid", `INVALID DATA: Organization with id ${targetId} not found`);
  }
  const caller = ctx.caller;
  if (caller.kind === "key" && source?.ownerId === target.ownerId) return;
  if (caller.kind === "user") {
    if (caller.role === "ADMIN" || target.ownerId === caller.id) return;
    const [member] = await ctx.db
      .select({ role: members.role })
      .from(members)
      .where(and(eq(members.organizationId, targetId), eq(members.userId, caller.id)));
    if (member?.role === "ADMIN" || member?.role === "MANAGER") return;
  }
  throw new Failure(
    "forbidden",
    `PERMISSION ERROR: You do not have permission to move services into organization ${targetId}`,
  );
}
