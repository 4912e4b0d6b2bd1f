import { and, asc, eq, sql } from "drizzle-orm";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { services } from "../../db/schema.ts";
import { lockOrganization } from "../access.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { serviceNotFound } from "../service-address.ts";

/** The services whose offer everybody may read, by name in byte order. */
export interface PublicOffer {
  services: string[];
}

/** Returns the published services of an organization. Source: contract offers §5. */
export async function showPublicOffer(ctx: Context, organizationId: string): Promise<PublicOffer> {
  const rows = await ctx.db
    .select({ name: services.name })
    .from(services)
    .where(and(eq(services.organizationId, organizationId), eq(services.offerPublished, true)))
    .orderBy(sql`${services.name} collate "C"`);
  return { services: rows.map(({ name }) => name) };
}

/**
 * Publishes exactly these services of an organization.
 * @throws Failure notFound for the first unknown or disabled service.
 */
export async function setPublicOffer(
  ctx: Context,
  input: { organizationId: string; services: readonly string[] },
): Promise<PublicOffer> {
  const { organizationId } = input;
  return transaction(ctx, async (ctx) => {
    const organization = await lockOrganization(ctx, organizationId);
    const rows = await ctx.db
      .select({ id: services.id, key: services.nameKey, published: services.offerPublished })
      .from(services)
      .where(and(eq(services.organizationId, organizationId), eq(services.disabled, false)))
      .orderBy(asc(services.id))
      .for("no key update");
    const known = new Set(rows.map(({ key }) => key));
    const unknown = input.services.find((name) => !known.has(serviceKey(name)));
    if (unknown !== undefined) throw serviceNotFound(unknown);
    const before = await showPublicOffer(ctx, organizationId);
    const wanted = new Set(input.services.map(serviceKey));
    const changed = rows.filter(({ key, published }) => published !== wanted.has(key));
    if (changed.length === 0) return before;
    for (const offerPublished of [true, false]) {
      const ids = changed.filter(({ published }) => published !== offerPublished).map(({ id }) => id);
      if (ids.length > 0) await ctx.db.update(services).set({ offerPublished }).where(isAnyOf(services.id, ids));
    }
    const after = await showPublicOffer(ctx, organizationId);
    await audit(ctx, { action: "offer.publish", organizationId, target: organization.name, before, after });
    return after;
  });
}
