import { and, eq, sql } from "drizzle-orm";
import { configurationKey, configurationOf, type Configuration } from "../../core/change/configuration.ts";
import type { SubscribedService } from "../../db/queries/contract-levels.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import type { ServiceRow } from "../../db/queries/pricings.ts";
import { contractServices, organizations, pricings, services } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { auditOf, decideChange, type Decision, keepDecision } from "../policy/change-decision.ts";
import type { ChangeAction } from "../policy/change-plan.ts";
import type { Context } from "../context.ts";

/** Contracts of one organization that all get the same subscription. */
export interface GroupNovation {
  organizationId: string;
  contractIds: readonly string[];
  next: readonly SubscribedService[];
}

/** The configurations of a group's contracts on one version of one service. */
interface Held {
  serviceId: string;
  pricingId: string;
  version: string;
  configurations: Configuration[];
}

/**
 * Checks a group novation against the gates of its organizations, once per service and version that contracts leave.
 * Each check equals a mass novation to the new version, or disabling the service if the new subscription lacks it.
 * Versions that contracts keep with the same plan and add-ons are skipped. Costs one query where no organization has
 * rules. Call it with the contracts locked, before any write. Failures as in decideChange. Source: contract README,
 * decision 21.
 */
export async function decideGroupNovations(
  ctx: Context,
  novations: readonly GroupNovation[],
  overrideReason: string | undefined,
): Promise<Decision[]> {
  const gated = await findGated(
    ctx,
    novations.map(({ organizationId }) => organizationId),
  );
  const decisions: Decision[] = [];
  for (const novation of novations) {
    if (!gated.has(novation.organizationId)) continue;
    const held = await readHeld(ctx, novation.contractIds);
    const rows = await readServices(ctx, held);
    for (const one of held) {
      const service = rows.get(one.serviceId);
      if (service === undefined) throw new Error(`service ${one.serviceId} has contracts and no row`);
      const change = await changeOf(ctx, one, novation);
      if (change === undefined) continue;
      const decision = await decideChange(ctx, { service, change, overrideReason });
      if (decision !== undefined) decisions.push(decision);
    }
  }
  return decisions;
}

/** Stores and audits the decisions on a group novation. */
export async function keepGroupDecisions(ctx: Context, decisions: readonly Decision[]): Promise<void> {
  for (const decision of decisions) {
    const { service, target } = decision.plan;
    await keepDecision(ctx, decision);
    await audit(ctx, {
      action: "pricing.novate",
      organizationId: service.organizationId,
      target: target === undefined ? service.name : `${service.name} ${target.version}`,
      after: { novatedContracts: decision.report.counts.contracts, ...auditOf(decision) },
    });
  }
}

/** Returns the organizations whose gate has rules. */
async function findGated(ctx: Context, organizationIds: readonly string[]): Promise<Set<string>> {
  const rows = await ctx.db
    .select({ id: organizations.id })
    .from(organizations)
    .where(and(isAnyOf(organizations.id, organizationIds), sql`json_array_length(${organizations.gateRules}) > 0`));
  return new Set(rows.map(({ id }) => id));
}

/** Grouped in the database: a group of many contracts has few configurations. */
async function readHeld(ctx: Context, contractIds: readonly string[]): Promise<Held[]> {
  const { serviceId, pricingId, plan } = contractServices;
  const addOns = sql<string | null>`${contractServices.addOns}::text`;
  const rows = await ctx.db
    .select({ serviceId, pricingId, version: pricings.version, plan, addOns })
    .from(contractServices)
    .innerJoin(pricings, eq(pricings.id, pricingId))
    .where(isAnyOf(contractServices.contractId, contractIds))
    .groupBy(serviceId, pricingId, pricings.version, plan, addOns)
    .orderBy(serviceId, pricingId);
  const held = new Map<string, Held>();
  for (const row of rows) {
    const one = held.get(row.pricingId) ?? { ...row, configurations: [] };
    one.configurations.push(configurationOf(row.plan ?? undefined, quantitiesIn(row.addOns)));
    held.set(row.pricingId, one);
  }
  return [...held.values()];
}

/** Safe cast: the column contains add-ons with quantities, or null. */
function quantitiesIn(addOns: string | null): Record<string, number> {
  return addOns === null ? {} : (JSON.parse(addOns) as Record<string, number>);
}

async function readServices(ctx: Context, held: readonly Held[]): Promise<Map<string, ServiceRow>> {
  const ids = [...new Set(held.map(({ serviceId }) => serviceId))];
  const rows = await ctx.db.select().from(services).where(isAnyOf(services.id, ids));
  return new Map(rows.map((row) => [row.id, row]));
}

/** Returns the equivalent change for contracts on this version; undefined if they do not change. */
async function changeOf(
  ctx: Context,
  { serviceId, pricingId, version, configurations }: Held,
  { contractIds, next }: GroupNovation,
): Promise<ChangeAction | undefined> {
  const target = next.find((service) => service.serviceId === serviceId);
  if (target === undefined) return { action: "disable", contractIds };
  const fallback = configurationOf(target.plan ?? undefined, target.addOns ?? {});
  const isKept = configurations.every((one) => configurationKey(one) === configurationKey(fallback));
  if (target.pricingId === pricingId && isKept) return undefined;
  const [row] = await ctx.db
    .select({ version: pricings.version })
    .from(pricings)
    .where(eq(pricings.id, target.pricingId));
  const targets = { fallback, groups: [] };
  return { action: "novation", pricingVersion: row?.version, from: [version], targets, contractIds };
}
