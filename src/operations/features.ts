import { CompactSign } from "jose";
import { and, asc, eq } from "drizzle-orm";
import {
  contexts,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  type FeatureResult,
} from "../core/pricing/evaluate.ts";
import { featureToWire } from "../core/pricing/wire.ts";
import { type PricingTokenPayload, serializeTokenPayload, tokenFeature } from "../core/pricing-token.ts";
import { pricings, services } from "../db/schema.ts";
import { containsText } from "./access.ts";
import type { Context } from "./context.ts";
import { evaluatedOrganization, type Mode, prepareSubject } from "./subject.ts";
import { compiledPricings } from "./subscriptions.ts";

/** Every feature of every contracted service that has an expression: true or false. Source: contract features-events §4. */
export async function evaluateAll(
  ctx: Context,
  input: { userId: string; mode: Mode },
): Promise<Record<string, boolean>> {
  const { evaluation, usage } = await prepareSubject(ctx, input.userId);
  const result: Record<string, boolean> = {};
  for (const id of featureIds(evaluation, input.mode)) {
    result[id] = evaluateBoolean(evaluation, id, usage, input.mode);
  }
  return result;
}

/** The same with limit, use and error of each. Source: contract features-events §4. */
export async function evaluateAllDetailed(
  ctx: Context,
  input: { userId: string; mode: Mode },
): Promise<Record<string, FeatureResult>> {
  const { evaluation, usage } = await prepareSubject(ctx, input.userId);
  const result: Record<string, FeatureResult> = {};
  for (const id of featureIds(evaluation, input.mode)) {
    result[id] = evaluateFeature(evaluation, id, usage, input.mode);
  }
  return result;
}

/** A signed pricing token with the details of every feature. Source: contract features-events §7. */
export async function issuePricingToken(ctx: Context, input: { userId: string; mode: Mode }): Promise<string> {
  const { evaluation, usage } = await prepareSubject(ctx, input.userId);
  const { pricingContext, subscriptionContext } = contexts(evaluation, usage);
  const features: PricingTokenPayload["features"] = {};
  for (const id of featureIds(evaluation, input.mode)) {
    features[id] = tokenFeature(evaluateFeature(evaluation, id, usage, input.mode));
  }
  const iat = Math.floor(ctx.now().getTime() / 1000);
  const payload = serializeTokenPayload({
    features,
    pricingContext,
    subscriptionContext,
    iat,
    exp: iat + ctx.settings.tokenLifetimeSeconds,
    sub: input.userId,
  });
  return new CompactSign(new TextEncoder().encode(payload))
    .setProtectedHeader({ alg: "HS256" })
    .sign(ctx.keyring.token);
}

export interface FeatureQuery {
  featureName: string;
  serviceName: string;
  pricingVersion: string;
  show: string;
  skip: number;
  limit: number;
  sort: string;
  order: "asc" | "desc";
}

/**
 * Features of the organization's enabled services, a row a feature and version, in two queries at most: pricings at hand
 * are not read again. Source: contract features-events §1.
 */
export async function listFeatures(ctx: Context, query: FeatureQuery) {
  const organizationId = evaluatedOrganization(ctx);
  if (query.show !== "active" && query.show !== "archived" && query.show !== "all") return [];
  const rows = await ctx.db
    .select({ service: services.name, version: pricings.version, pricingId: pricings.id, hash: pricings.modelHash })
    .from(pricings)
    .innerJoin(services, eq(services.id, pricings.serviceId))
    .where(
      and(
        eq(services.organizationId, organizationId),
        eq(services.disabled, false),
        query.show === "all" ? undefined : eq(pricings.availability, query.show),
        query.serviceName === "" ? undefined : containsText(services.name, query.serviceName),
        query.pricingVersion === "" ? undefined : containsText(pricings.version, query.pricingVersion),
      ),
    )
    .orderBy(asc(services.createdAt), asc(services.id), asc(pricings.availability), asc(pricings.position));
  const wanted = query.featureName.toLowerCase();
  const compiled = await compiledPricings(ctx, rows);
  const found = rows.flatMap(({ service, version, hash }) =>
    (compiled.get(hash)?.pricing.features ?? [])
      .filter((feature) => feature.name.toLowerCase().includes(wanted))
      .map((feature) => ({ feature, service, pricingVersion: version })),
  );
  const direction = query.order === "asc" ? 1 : -1;
  const sortKey = {
    serviceName: (row: (typeof found)[number]) => row.service.toLowerCase(),
    featureName: (row: (typeof found)[number]) => row.feature.name.toLowerCase(),
  }[query.sort];
  if (sortKey !== undefined) {
    found.sort((a, b) => {
      const [left, right] = [sortKey(a), sortKey(b)];
      return left < right ? -direction : left > right ? direction : 0;
    });
  }
  return found
    .slice(query.skip, query.skip + query.limit)
    .map(({ feature, service, pricingVersion }) => ({ info: featureToWire(feature), service, pricingVersion }));
}
