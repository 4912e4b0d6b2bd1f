import { and, asc, desc, eq, gt, sql } from "drizzle-orm";
import { violates } from "../../db/postgres/connect.ts";
import { readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { lockSubscribers, removeServicesFromContracts } from "../../db/queries/contracts.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { type Addressed, recordEvent } from "../../db/queries/outbox.ts";
import { serviceKey, type ServiceRow, type ServiceView, versionKey, viewServices } from "../../db/queries/pricings.ts";
import { givenTrials, pricingDecisions, pricings, services } from "../../db/schema.ts";
import { audit, auditAll } from "../audit.ts";
import { assessed, needsApproval, refuseHeldElsewhere, settleApproval } from "../policy/approval.ts";
import { auditOf, decideChange, keepDecision } from "../policy/change-decision.ts";
import { type Context, newId, transaction } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { expireHoldsOf } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import { isService, leavePending } from "../pending-changes.ts";
import { cancelRemoved } from "./removed-availability.ts";
import { insertPricing, type PricingSource, readUpload, type UploadReport } from "./pricing-source.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { requireService, type ServiceAddress, viewService } from "../service-address.ts";

/**
 * Lists services by name in byte order: the enabled ones, or the disabled ones. Default: those of every organization.
 * Source: contract services-pricings §4.1.
 */
export async function listServices(
  ctx: Context,
  input: {
    organizationId: string | undefined;
    disabled: boolean;
    name: string | undefined;
    skip: number;
    limit: number;
    order: "asc" | "desc";
    /** Lists by id, from the service behind this one; see PageQuery. */
    after: string | undefined;
  },
): Promise<{ services: ServiceView[]; next: string | undefined }> {
  const byName = sql`${services.name} collate "C"`;
  const rows = await ctx.db
    .select()
    .from(services)
    .where(
      and(
        eq(services.disabled, input.disabled),
        input.organizationId === undefined ? undefined : eq(services.organizationId, input.organizationId),
        // Lowercased in JavaScript as in lookups, because Postgres lowercases by locale. `strpos` has no wildcards.
        input.name === undefined ? undefined : sql`strpos(${services.nameKey}, ${input.name.toLowerCase()}) > 0`,
        input.after ? gt(services.id, input.after) : undefined,
      ),
    )
    .orderBy(
      ...(input.after === undefined ? [input.order === "asc" ? asc(byName) : desc(byName)] : []),
      asc(services.id),
    )
    .limit(input.limit)
    .offset(input.after === undefined ? input.skip : 0);
  const next = input.after !== undefined && rows.length === input.limit ? rows.at(-1)?.id : undefined;
  return { services: await viewServices(ctx.db, rows), next };
}

/**
 * Returns one enabled service. Source: contract services-pricings §4.4.
 * @throws Failure notFound.
 */
export async function showService(ctx: Context, address: ServiceAddress): Promise<ServiceView> {
  return viewService(ctx, await requireService(ctx, address));
}

/**
 * Creates the service named in the pricing, or re-enables the disabled one, with this version active. Source: contract
 * services-pricings §4.2, §6.2.
 */
export async function createService(
  ctx: Context,
  input: { organizationId: string; source: PricingSource },
): Promise<ServiceView & UploadReport> {
  const { pricing, keyRefusal, refusal, report } = await readUpload(ctx, input.organizationId, input.source);
  const refused = keyRefusal ?? refusal;
  if (refused !== undefined) throw refused;
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
      await auditAll(ctx, [
        {
          action: "service.create",
          organizationId: service.organizationId,
          target: service.name,
          before: held === undefined ? undefined : { name: held.name, disabled: true },
          after: { name: service.name, disabled: false },
        },
        {
          action: "pricing.create",
          organizationId: service.organizationId,
          target: `${service.name} ${pricing.version}`,
          after: { version: pricing.version, availability: "active" },
        },
      ]);
      const answer = await viewService(ctx, service);
      await recordEvent(ctx.db, service.organizationId, {
        code: "PRICING_CREATED",
        details: { serviceName: service.name, pricingVersion: pricing.version },
      });
      return { ...answer, ...report };
    });
  } catch (error) {
    if (violates(error, "services_name_unique")) throw exists();
    // The organization was deleted in the meantime.
    if (violates(error, "services_organization_fk")) {
      throw new Failure("notFound", `Organization with ID ${input.organizationId} not found`, { cause: error });
    }
    throw error;
  }
}

async function insertService(ctx: Context, organizationId: string, name: string): Promise<ServiceRow> {
  const [created] = await ctx.db
    .insert(services)
    .values({ id: newId(ctx.resources.now()), organizationId, name, nameKey: serviceKey(name) })
    .returning();
  if (created === undefined) throw new Error("an insert returned no row");
  return created;
}

async function enableService(ctx: Context, held: ServiceRow, version: string): Promise<ServiceRow> {
  await setAside(ctx, held.id, version);
  const [enabled] = await ctx.db
    .update(services)
    .set({ disabled: false, hasArchive: true, updatedAt: ctx.resources.now() })
    .where(eq(services.id, held.id))
    .returning();
  if (enabled === undefined) throw new Error("an update of a locked row returned no row");
  return enabled;
}

/** Renames an archived version with that label to `<version>.<epoch ms>`, where it stays addressable. */
async function setAside(ctx: Context, serviceId: string, version: string): Promise<void> {
  const versions = await ctx.db
    .select({ id: pricings.id, version: pricings.version, key: pricings.versionKey })
    .from(pricings)
    .where(eq(pricings.serviceId, serviceId));
  const held = versions.find((row) => row.key === versionKey(version));
  if (held === undefined) return;
  // That label may have been uploaded, or the clock may not have advanced.
  const taken = new Set(versions.map((row) => row.key));
  let moment = ctx.resources.now().getTime();
  while (taken.has(versionKey(`${held.version}.${moment}`))) moment += 1;
  const label = `${held.version}.${moment}`;
  await ctx.db
    .update(pricings)
    .set({ version: label, versionKey: versionKey(label) })
    .where(eq(pricings.id, held.id));
}

/**
 * Disables a service: archives its versions, reserves its name, and novates contracts without it. It can be re-created.
 * Source: contract services-pricings §4.6, §6.1, §6.3.
 * @throws Failure conflict for a broken gate rule.
 */
export async function disableService(
  ctx: Context,
  input: ServiceAddress & { overrideReason: string | undefined },
): Promise<void> {
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  await proposeFirst(ctx, async (ctx) => {
    const service = await requireService(ctx, input, "update");
    const { overrideReason } = input;
    const isHeld = await needsApproval(ctx, service.organizationId, "disable");
    const change = { action: "disable" } as const;
    const decision = await decideChange(ctx, { service, change, overrideReason, isAssessed: isHeld });
    const serviceIds = [service.id];
    const contractIds = (await lockSubscribers(ctx.db, { serviceIds })).map((row) => row.id);
    const before = await readFacts(ctx.db, contractIds);
    const now = ctx.resources.now();
    const expired = await expireHoldsOf(ctx, contractIds, now);
    await ctx.db
      .update(services)
      .set({ disabled: true, hasArchive: true, offerPublished: false, updatedAt: now })
      .where(eq(services.id, service.id));
    await ctx.db.update(pricings).set({ availability: "archived" }).where(eq(pricings.serviceId, service.id));
    const operationId = newId(now);
    const left = await leavePending(ctx, isService(serviceIds));
    const removed = await removeServicesFromContracts(ctx.db, { contractIds, serviceIds, now, operationId });
    const cancelled = await cancelRemoved(ctx, { serviceIds }, "The service was removed");
    const ended = [...removed, ...left, ...cancelled];
    await keepDecision(ctx, decision);
    await audit(ctx, {
      action: "service.disable",
      organizationId: service.organizationId,
      target: service.name,
      before: { name: service.name, disabled: false },
      after: { name: service.name, disabled: true, ...auditOf(decision) },
    });
    const disabled: Addressed = {
      organizationId: service.organizationId,
      event: { code: "SERVICE_DISABLED", details: { serviceName: service.name } },
    };
    await recordChanges(ctx.db, before, { first: [...expired, disabled, ...ended] });
    if (isHeld) {
      const summary = `Disable ${service.name}`;
      const { organizationId } = service;
      await settleApproval(ctx, {
        organizationId,
        action: "disable",
        summary,
        operation: "disableService",
        input,
        ...assessed(decision),
      });
    }
  });
}

/**
 * Permanently deletes every service of the organization, including disabled ones. Without an organization it deletes
 * all services of the instance. Returns their number. Source: contract services-pricings §4.3.
 */
export async function pruneServices(ctx: Context, input: { organizationId: string | undefined }): Promise<number> {
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  return transaction(ctx, async (ctx) => {
    const doomed = await ctx.db
      .select({ id: services.id, name: services.name, organizationId: services.organizationId })
      .from(services)
      .where(input.organizationId === undefined ? undefined : eq(services.organizationId, input.organizationId))
      .orderBy(asc(services.id))
      .for("update");
    const serviceIds = doomed.map((row) => row.id);
    if (serviceIds.length === 0) return 0;
    if (input.organizationId === undefined) {
      await refuseHeldElsewhere(ctx, [...new Set(doomed.map((row) => row.organizationId))], "disable");
    }
    const contractIds = (await lockSubscribers(ctx.db, { serviceIds })).map((row) => row.id);
    const before = await readFacts(ctx.db, contractIds);
    const now = ctx.resources.now();
    const operationId = newId(now);
    const expired = await expireHoldsOf(ctx, contractIds, now);
    const left = await leavePending(ctx, isService(serviceIds));
    const removed = await removeServicesFromContracts(ctx.db, { contractIds, serviceIds, now, operationId });
    const cancelled = await cancelRemoved(ctx, { serviceIds }, "The service was removed");
    const ended = [...removed, ...left, ...cancelled];
    // These two have no foreign key on services.
    await ctx.db.delete(givenTrials).where(isAnyOf(givenTrials.serviceId, serviceIds));
    await ctx.db.delete(pricingDecisions).where(isAnyOf(pricingDecisions.serviceId, serviceIds));
    await ctx.db.delete(services).where(isAnyOf(services.id, serviceIds));
    await auditAll(
      ctx,
      doomed.map(({ name, organizationId }) => ({
        action: "service.delete",
        organizationId,
        target: name,
        before: { name },
      })),
    );
    await recordChanges(ctx.db, before, { first: [...expired, ...ended] });
    const { organizationId } = input;
    if (organizationId !== undefined && (await needsApproval(ctx, organizationId, "disable"))) {
      const report = { services: doomed.map(({ name }) => name), contracts: contractIds.length };
      const { length } = serviceIds;
      const summary = length === 1 ? "Delete the only service" : `Delete all ${length} services`;
      await settleApproval(ctx, {
        organizationId,
        action: "disable",
        summary,
        operation: "pruneServices",
        input,
        report,
        // Services that were deleted and created again under their names are others.
        basis: { ...report, serviceIds },
      });
    }
    return serviceIds.length;
  });
}
