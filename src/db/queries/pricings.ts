import { and, asc, desc, eq, inArray, sql } from "drizzle-orm";
import { serviceKey } from "../../core/pricing/names.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf, textArray } from "../postgres/lists.ts";
import { pricings, services } from "../schema.ts";

export { serviceKey, versionKey } from "../../core/pricing/names.ts";

export type ServiceRow = typeof services.$inferSelect;

/** Hashes a stored model's JSON text with SHA-256, in hex. Equal content has an equal hash in every process. */
export async function hashModelText(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Finds an organization's enabled service by full name, ignoring case, and locks it on request. */
export async function findService(
  db: Database,
  input: { organizationId: string; name: string; lock?: "update" | "share" },
): Promise<ServiceRow | undefined> {
  const query = db
    .select()
    .from(services)
    .where(
      and(
        eq(services.organizationId, input.organizationId),
        eq(services.nameKey, serviceKey(input.name)),
        eq(services.disabled, false),
      ),
    );
  const [row] = await (input.lock === undefined ? query : query.for(input.lock));
  return row;
}

/**
 * Gives a service to another organization, with contracts that have no other service, and all rows of both. Call it with
 * service and contracts locked, once no other contract has the service.
 * @throws a violation of contracts_user_unique or services_name_unique, or of a foreign key on the organization.
 */
export async function moveService(
  tx: Database,
  move: { serviceId: string; contractIds: readonly string[]; organizationId: string; now: Date },
): Promise<void> {
  const { serviceId, contractIds, organizationId, now } = move;
  await tx.execute(sql`select faregate_move_service(${serviceId}, ${textArray(contractIds)}, ${organizationId},
    ${now.toISOString()}::timestamptz)`);
}

/** A version of a service, without its content. */
export interface VersionRow {
  id: string;
  version: string;
  key: string;
  state: "active" | "archived";
  hash: string;
  /** `createdAt` of the file. */
  declaredAt: Date;
  /** Model of a draft as JSON text. The database has no row of a draft. */
  draft?: string;
}

/** Lists a service's versions, newest `createdAt` of the file first: contracts of an archived version move to the first. */
export function listVersions(db: Database, serviceId: string): Promise<VersionRow[]> {
  return db
    .select({
      id: pricings.id,
      version: pricings.version,
      key: pricings.versionKey,
      state: pricings.availability,
      hash: pricings.modelHash,
      declaredAt: pricings.declaredAt,
    })
    .from(pricings)
    .where(eq(pricings.serviceId, serviceId))
    .orderBy(desc(pricings.declaredAt), asc(pricings.position));
}

/**
 * Reads a version's model as JSON text, without parsing it: a large model would block the event loop.
 * @throws Error for an unknown id.
 */
export async function modelText(db: Database, pricingId: string): Promise<string> {
  const [row] = await db
    .select({ text: sql<string>`${pricings.model}::text` })
    .from(pricings)
    .where(eq(pricings.id, pricingId));
  if (row === undefined) throw new Error(`pricing ${pricingId} has no model`);
  return row.text;
}

/** Service in the form that every endpoint returns. Source: contract services-pricings §3.1. */
export interface ServiceView {
  name: string;
  organizationId: string;
  disabled: boolean;
  activePricings: Record<string, { id: string } | { url: string }>;
  archivedPricings?: Record<string, { id: string } | { url: string }>;
  id: string;
}

/** Builds the services' views in the given order, with versions in upload order, in one query. */
export async function viewServices(db: Database, rows: readonly ServiceRow[]): Promise<ServiceView[]> {
  if (rows.length === 0) return [];
  const versions = await db
    .select({
      id: pricings.id,
      serviceId: pricings.serviceId,
      version: pricings.version,
      availability: pricings.availability,
      url: pricings.url,
    })
    .from(pricings)
    .where(
      inArray(
        pricings.serviceId,
        rows.map((row) => row.id),
      ),
    )
    .orderBy(asc(pricings.position));
  const versionsOf = new Map<string, typeof versions>(rows.map((row) => [row.id, []]));
  for (const version of versions) versionsOf.get(version.serviceId)?.push(version);
  return rows.map((row) => {
    const view: ServiceView = {
      name: row.name,
      organizationId: row.organizationId,
      disabled: row.disabled,
      activePricings: {},
      ...(row.hasArchive ? { archivedPricings: {} } : {}),
      id: row.id,
    };
    for (const pricing of versionsOf.get(row.id) ?? []) {
      const locator = pricing.url === null ? { id: pricing.id } : { url: pricing.url };
      const map = pricing.availability === "active" ? view.activePricings : (view.archivedPricings ??= {});
      Object.defineProperty(map, pricing.version, { value: locator, enumerable: true });
    }
    return view;
  });
}

/** Finds the newest active version of each of these enabled services. Services without one are absent. */
export async function newestActiveVersions(
  db: Database,
  organizationId: string,
  serviceKeys: readonly string[],
): Promise<{ key: string; serviceId: string; pricingId: string; version: string; hash: string }[]> {
  if (serviceKeys.length === 0) return [];
  return db
    .selectDistinctOn([services.nameKey], {
      key: services.nameKey,
      serviceId: services.id,
      pricingId: pricings.id,
      version: pricings.version,
      hash: pricings.modelHash,
    })
    .from(services)
    .innerJoin(pricings, eq(pricings.serviceId, services.id))
    .where(
      and(
        eq(services.organizationId, organizationId),
        eq(services.disabled, false),
        eq(pricings.availability, "active"),
        isAnyOf(services.nameKey, serviceKeys),
      ),
    )
    .orderBy(asc(services.nameKey), desc(pricings.declaredAt), asc(pricings.position));
}
