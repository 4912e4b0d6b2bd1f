import { and, asc, eq, inArray, sql } from "drizzle-orm";
import { parseJsonSteps, stringifySteps } from "../../core/json-steps.ts";
import type { Pricing } from "../../core/pricing/model.ts";
import { pricingToWire } from "../../core/pricing/wire.ts";
import { violates } from "../../db/postgres/connect.ts";
import { recordEvent, recordEvents } from "../../db/queries/outbox.ts";
import { type ServiceRow, type ServiceView, versionKey } from "../../db/queries/pricings.ts";
import { deletedPricings, pricings } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { needsApproval, settleApproval } from "../policy/approval.ts";
import { Failure } from "../errors.ts";
import { cancelRemoved } from "./removed-availability.ts";
import { inSlices } from "../state/analysis.ts";
import { duplicateVersion, insertPricing, type PricingSource, readNamed, type UploadReport } from "./pricing-source.ts";
import { type PricingAddress, requireService, versionNotFound, viewService } from "../service-address.ts";

/** Columns of a pricing's GET response. The model is read as text, because parsing a large one blocks the event loop. */
const SHOWN = {
  version: pricings.version,
  yamlPath: pricings.yamlPath,
  url: pricings.url,
  model: sql<string>`${pricings.model}::text`,
};
type ShownRow = Pick<typeof pricings.$inferSelect, "version" | "yamlPath" | "url"> & { model: string };

/**
 * Builds the GET response of a pricing as JSON text, in slices, with `url` last as in the contract.
 * Source: contract services-pricings §3.2.
 */
async function toWire(service: ServiceRow, row: ShownRow): Promise<string> {
  const model = (await inSlices(parseJsonSteps(row.model))) as Pricing;
  const wire = pricingToWire(model, {
    organizationId: service.organizationId,
    version: row.version,
    ...(row.yamlPath === null ? {} : { yamlPath: row.yamlPath }),
  });
  return inSlices(stringifySteps(row.url === null ? wire : { ...wire, url: row.url }));
}

/** Bytes of models read at once. A larger model is read alone. */
const BATCH_BYTES = 1024 * 1024;

/** Groups consecutive versions until their models reach the batch size. */
function batchesOf(versions: readonly { id: string; bytes: number }[]): string[][] {
  const batches: string[][] = [];
  let room = 0;
  for (const { id, bytes } of versions) {
    room -= bytes;
    const last = batches.at(-1);
    if (last !== undefined && room >= 0) last.push(id);
    else {
      batches.push([id]);
      room = BATCH_BYTES - bytes;
    }
  }
  return batches;
}

/**
 * Streams the versions of one availability as JSON texts, in batches, oldest upload first. All of them together may exceed the memory
 * of the process. `isLarge` means more than one batch. Source: contract services-pricings §4.7.
 */
export async function listPricings(
  ctx: Context,
  input: { organizationId: string; serviceName: string; status: string | undefined },
): Promise<{ isLarge: boolean; batches: AsyncIterable<string[]> }> {
  const status = input.status === undefined || input.status === "" ? "active" : input.status;
  if (status !== "active" && status !== "archived") throw new Failure("invalid", "Invalid pricing status");
  const service = await requireService(ctx, input);
  const versions = await ctx.db
    .select({ id: pricings.id, bytes: sql<number>`octet_length(${pricings.model}::text)` })
    .from(pricings)
    .where(and(eq(pricings.serviceId, service.id), eq(pricings.availability, status)))
    .orderBy(asc(pricings.position));
  const batches = batchesOf(versions);
  async function* read() {
    for (const ids of batches) {
      const rows = await ctx.db
        .select(SHOWN)
        .from(pricings)
        .where(inArray(pricings.id, ids))
        .orderBy(asc(pricings.position));
      const texts: string[] = [];
      for (const row of rows) texts.push(await toWire(service, row));
      yield texts;
    }
  }
  return { isLarge: batches.length > 1, batches: read() };
}

async function findPricing(ctx: Context, input: PricingAddress): Promise<{ service: ServiceRow; row: ShownRow }> {
  const service = await requireService(ctx, input);
  const [row] = await ctx.db
    .select(SHOWN)
    .from(pricings)
    .where(and(eq(pricings.serviceId, service.id), eq(pricings.versionKey, versionKey(input.version))));
  if (row === undefined) throw versionNotFound(input);
  return { service, row };
}

/** Returns one version, active or archived, as JSON text. Source: contract services-pricings §4.9. */
export async function showPricing(ctx: Context, input: PricingAddress): Promise<string> {
  const { service, row } = await findPricing(ctx, input);
  return toWire(service, row);
}

/**
 * Returns the public path of the uploaded text, without the host. Source: §4.10.
 * @throws Failure notFound for a pricing uploaded by URL.
 */
export async function publicPath(ctx: Context, input: PricingAddress): Promise<string> {
  const { row } = await findPricing(ctx, input);
  if (row.yamlPath === null) {
    throw new Failure(
      "notFound",
      `Pricing version ${input.version} for service ${input.serviceName} does not have a persisted yamlPath`,
    );
  }
  return row.yamlPath;
}

/** Returns the text exactly as uploaded, by its public path; undefined if it does not exist or was deleted. */
export async function publicText(ctx: Pick<Context, "db">, yamlPath: string): Promise<string | undefined> {
  const [row] = await ctx.db.select({ source: pricings.source }).from(pricings).where(eq(pricings.yamlPath, yamlPath));
  return row?.source;
}

/** Adds an active version to a service. Contracts do not change. Source: contract services-pricings §4.8. */
export async function addPricing(
  ctx: Context,
  input: { organizationId: string; serviceName: string; source: PricingSource },
): Promise<ServiceView & UploadReport> {
  const { pricing, keyRefusal, refusal, report } = await readNamed(ctx, input, input.source);
  const duplicate = () => duplicateVersion({ ...input, version: pricing.version });
  if (refusal !== undefined) throw refusal;
  try {
    return await transaction(ctx, async (ctx) => {
      const service = await requireService(ctx, input, "update");
      const [held] = await ctx.db
        .select({ id: pricings.id })
        .from(pricings)
        .where(and(eq(pricings.serviceId, service.id), eq(pricings.versionKey, versionKey(pricing.version))));
      if (held !== undefined) throw duplicate();
      if (keyRefusal !== undefined) throw keyRefusal;
      await insertPricing(ctx, { service, pricing, source: input.source });
      await audit(ctx, {
        action: "pricing.create",
        organizationId: service.organizationId,
        target: `${service.name} ${pricing.version}`,
        after: { version: pricing.version, availability: "active" },
      });
      const answer = await viewService(ctx, service);
      await recordEvent(ctx.db, service.organizationId, {
        code: "PRICING_CREATED",
        details: { serviceName: service.name, pricingVersion: pricing.version },
      });
      return { ...answer, ...report };
    });
  } catch (error) {
    if (violates(error, "pricings_version_unique")) throw duplicate();
    throw error;
  }
}

/**
 * Deletes an archived version permanently; its version name can be uploaded again. Source: contract services-pricings
 * §4.12.
 */
export async function deletePricing(ctx: Context, input: PricingAddress): Promise<void> {
  try {
    await transaction(ctx, async (ctx) => {
      const service = await requireService(ctx, input, "update");
      const isDoomed = and(
        eq(pricings.serviceId, service.id),
        eq(pricings.versionKey, versionKey(input.version)),
        eq(pricings.availability, "archived"),
      );
      const [doomed] = await ctx.db.select({ id: pricings.id }).from(pricings).where(isDoomed);
      const where = { serviceIds: [service.id], pricingId: doomed?.id ?? "" };
      const cancelled = await cancelRemoved(ctx, where, "The version was deleted");
      const [gone] = await ctx.db.delete(pricings).where(isDoomed).returning({
        id: pricings.id,
        serviceId: pricings.serviceId,
        organizationId: pricings.organizationId,
        version: pricings.version,
        model: pricings.model,
        modelHash: pricings.modelHash,
      });
      if (gone === undefined) {
        throw new Failure(
          "notFound",
          `Invalid request: No archived version ${input.version} found for service ${input.serviceName}. Remember that a pricing must be archived before it can be deleted.`,
        );
      }
      // Keep the model: questions about past contract states still need it.
      const { version: _, ...kept } = gone;
      await ctx.db.insert(deletedPricings).values({ ...kept, deletedAt: ctx.resources.now() });
      await audit(ctx, {
        action: "pricing.delete",
        organizationId: service.organizationId,
        target: `${service.name} ${gone.version}`,
        before: { version: gone.version, availability: "archived" },
      });
      await recordEvents(ctx.db, cancelled);
      const { organizationId } = service;
      if (await needsApproval(ctx, organizationId, "delete")) {
        const report = { serviceName: service.name, pricingVersion: gone.version, cancelled: cancelled.length };
        const summary = `Delete ${gone.version} of ${service.name}`;
        await settleApproval(ctx, {
          organizationId,
          action: "delete",
          summary,
          operation: "deletePricing",
          input,
          report,
          basis: { ...report, modelHash: gone.modelHash },
        });
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
