import { and, asc, eq, sql } from "drizzle-orm";
import { parseJsonSteps } from "../core/json-steps.ts";
import type { Pricing } from "../core/pricing/model.ts";
import { compileSteps } from "../core/pricing/compile.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import { checkSubscription, grantedLimits } from "../core/pricing/subscription.ts";
import type { SubscribedService } from "../db/queries/contract-levels.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { serviceKey, versionKey } from "../db/queries/pricings.ts";
import { deletedPricings, pricings, services } from "../db/schema.ts";
import { inSlices } from "./state/analysis.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";

/** A requested subscription, with names as sent. */
export interface Subscription {
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
}

/** Selects status and wording of a broken rule; creation and novation differ in both. */
type Occasion = "creation" | "novation" | "trial";

function refusal(message: string, missing: boolean, occasion: Occasion): Failure {
  if (missing && occasion === "novation") return new Failure("notFound", message);
  return new Failure("invalid", `Invalid ${occasion === "trial" ? "trial" : "subscription"}: Error: ${message}`);
}

/**
 * Lower-cases the service keys of a map.
 * @throws Failure invalid when two keys become one.
 */
function keyed<T>(map: Record<string, T>): Map<string, T> {
  const result = new Map<string, T>();
  for (const [name, value] of Object.entries(map)) {
    const key = serviceKey(name);
    if (result.has(key)) throw new Failure("invalid", `INVALID DATA: Service ${name} is given more than once`);
    result.set(key, value);
  }
  return result;
}

/** Enabled services of one organization: lower-case name -> id. */
export type LockedServices = ReadonlyMap<string, string>;

/**
 * Finds and locks a subscription's services, by organization. The locks prevent archiving and disabling until the
 * transaction ends. All code locks services before contracts, ordered by id, so that archiving, novation and deletion
 * cannot deadlock.
 */
export async function lockServices(
  ctx: Context,
  organizationIds: readonly string[],
  wanted: Subscription,
): Promise<Map<string, LockedServices>> {
  const byOrganization = new Map(organizationIds.map((id) => [id, new Map<string, string>()]));
  const keys = Object.keys(wanted.contractedServices).map(serviceKey);
  if (keys.length === 0) return byOrganization;
  const rows = await ctx.db
    .select({ id: services.id, key: services.nameKey, organizationId: services.organizationId })
    .from(services)
    .where(
      and(
        isAnyOf(services.organizationId, organizationIds),
        eq(services.disabled, false),
        isAnyOf(services.nameKey, keys),
      ),
    )
    .orderBy(asc(services.id))
    .for("share");
  for (const row of rows) byOrganization.get(row.organizationId)?.set(row.key, row.id);
  return byOrganization;
}

/**
 * Resolves names to rows and checks every subscription rule, in the contract's order. Versions among `heldPricingIds`
 * may be archived. Pass `versions` if the caller has read those of all services. Call it with the services locked. Source:
 * contract contracts §4.2, §4.3, §6.
 */
export async function resolveSubscription(
  ctx: Context,
  found: LockedServices,
  wanted: Subscription,
  occasion: Occasion,
  heldPricingIds: ReadonlySet<string> = new Set(),
  versions?: readonly ResolvedVersion[],
): Promise<SubscribedService[]> {
  const contracted = keyed(wanted.contractedServices);
  const plans = keyed(wanted.subscriptionPlans);
  const addOns = keyed(wanted.subscriptionAddOns);
  if (occasion === "creation") {
    const unknown = [...contracted.keys()].filter((key) => !found.has(key));
    if (unknown.length > 0) {
      throw new Failure("invalid", `Invalid contract: Services not found: ${unknown.join(", ")}`);
    }
  }
  const candidates =
    versions ?? (await findVersions(ctx, [...found.values()], Object.values(wanted.contractedServices)));
  const resolved = resolveVersions(candidates, { found, wanted, occasion, heldPricingIds });
  const compiled = await compiledPricings(ctx, [...resolved.values()]);
  const result = new Map<string, SubscribedService>();
  for (const [key, row] of resolved) {
    const pricing = compiled.get(row.hash);
    if (pricing === undefined) throw new Error(`pricing ${row.pricingId} has no model`);
    result.set(key, {
      serviceId: row.serviceId,
      pricingId: row.pricingId,
      plan: plans.get(key) ?? null,
      addOns: null,
      tracked: [],
    });
  }
  const chosen = new Set([...plans.keys(), ...addOns.keys()]);
  for (const key of chosen) {
    if (resolved.has(key)) continue;
    throw refusal(
      `NOT FOUND: Service with name ${key} in the request organization. Please check the services declared in subscriptionPlans and subscriptionAddOns.`,
      true,
      occasion,
    );
  }
  for (const key of chosen) {
    const row = resolved.get(key);
    const target = result.get(key);
    const pricing = row === undefined ? undefined : compiled.get(row.hash);
    if (row === undefined || target === undefined || pricing === undefined) continue;
    const checked = checkChoice(pricing, key, row.version, { plan: plans.get(key), addOns: addOns.get(key) }, occasion);
    // Drizzle reads `constructor` of values, which objects without a prototype lack.
    if (addOns.has(key)) target.addOns = { ...checked };
  }
  for (const [key, target] of result) {
    const pricing = compiled.get(resolved.get(key)?.hash ?? "");
    if (pricing !== undefined) target.tracked = grantedLimits(pricing, target);
  }
  return [...result.values()];
}

/** A version that a subscription may name. */
export type ResolvedVersion = Awaited<ReturnType<typeof findVersions>>[number];

/** Finds the version of each contracted service. @throws Failure for one that may not be contracted. */
function resolveVersions(
  versions: readonly ResolvedVersion[],
  {
    found,
    wanted,
    occasion,
    heldPricingIds,
  }: { found: LockedServices; wanted: Subscription; occasion: Occasion; heldPricingIds: ReadonlySet<string> },
): Map<string, ResolvedVersion> {
  const resolved = new Map<string, ResolvedVersion>();
  for (const [name, version] of Object.entries(wanted.contractedServices)) {
    const key = serviceKey(name);
    const serviceId = found.get(key);
    const row = versions.find(
      (candidate) =>
        candidate.serviceId === serviceId &&
        candidate.versionKey === versionKey(version) &&
        (candidate.active || heldPricingIds.has(candidate.pricingId)),
    );
    if (row === undefined) {
      throw occasion === "creation"
        ? new Failure("invalid", `Invalid contract: Pricing version ${version} for service ${name} not found`)
        : refusal(
            `Pricing version ${version} for service ${key} not found in the request organization`,
            true,
            occasion,
          );
    }
    resolved.set(key, row);
  }
  return resolved;
}

/** Checks the plan and add-ons of one service. Returns the add-ons with the pricing's spelling. @throws Failure */
function checkChoice(
  pricing: CompiledPricing,
  serviceName: string,
  version: string,
  { plan, addOns }: { plan: string | undefined; addOns: Readonly<Record<string, number>> | undefined },
  occasion: Occasion,
): Readonly<Record<string, number>> {
  const checked = checkSubscription(pricing, {
    serviceName,
    version,
    ...(plan === undefined ? {} : { plan }),
    ...(addOns === undefined ? {} : { addOns }),
  });
  if (checked.ok) return checked.addOns;
  const isMissing = checked.rule === "planUnknown" || checked.rule === "addOnUnknown";
  throw refusal(checked.message, isMissing, occasion);
}

async function findVersions(ctx: Context, serviceIds: readonly string[], versions: readonly string[]) {
  if (serviceIds.length === 0) return [];
  return ctx.db
    .select({
      serviceId: pricings.serviceId,
      pricingId: pricings.id,
      version: pricings.version,
      versionKey: pricings.versionKey,
      hash: pricings.modelHash,
      active: sql<boolean>`${pricings.availability} = 'active'`,
    })
    .from(pricings)
    .where(and(isAnyOf(pricings.serviceId, serviceIds), isAnyOf(pricings.versionKey, versions.map(versionKey))));
}

/** Compiles a model and caches the result by the model's hash. */
export async function compileModel(
  { resources }: Pick<Context, "resources">,
  { hash, text }: { hash: string; text: string },
): Promise<CompiledPricing> {
  const model = (await inSlices(parseJsonSteps(text))) as Pricing;
  return resources.pricingCache.put(hash, await inSlices(compileSteps(model)), text.length);
}

/** Returns compiled pricings by model hash; uncached ones take one query. */
export async function compiledPricings(
  ctx: Pick<Context, "db" | "resources">,
  rows: readonly { pricingId: string; hash: string }[],
) {
  const { pricingCache } = ctx.resources;
  const compiled = new Map(rows.map((row) => [row.hash, pricingCache.peek(row.hash)] as const));
  const missing = rows.filter((row) => compiled.get(row.hash) === undefined);
  if (missing.length > 0) {
    const models = await ctx.db
      .select({ hash: pricings.modelHash, model: sql<string>`${pricings.model}::text` })
      .from(pricings)
      .where(
        isAnyOf(
          pricings.id,
          missing.map((row) => row.pricingId),
        ),
      );
    // Only past contract states reference deleted versions.
    const gone = missing.filter((row) => !models.some(({ hash }) => hash === row.hash)).map((row) => row.pricingId);
    if (gone.length > 0) {
      const { modelHash, model, id } = deletedPricings;
      const columns = { hash: modelHash, model: sql<string>`${model}::text` };
      models.push(...(await ctx.db.select(columns).from(deletedPricings).where(isAnyOf(id, gone))));
    }
    for (const { hash, model: text } of models) compiled.set(hash, await compileModel(ctx, { hash, text }));
  }
  return compiled;
}
