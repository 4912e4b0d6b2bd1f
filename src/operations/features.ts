import { CompactSign, errors, jwtVerify } from "jose";
import { and, asc, eq } from "drizzle-orm";
import {
  contexts,
  type Evaluation,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  type FeatureResult,
  readsUsage,
} from "../core/pricing/evaluate.ts";
import { featureToWire } from "../core/pricing/wire.ts";
import { type PricingTokenPayload, serializeTokenPayload, tokenFeature } from "../core/pricing-token.ts";
import { pricings, services } from "../db/schema.ts";
import { containsText } from "./access.ts";
import type { Context } from "./context.ts";
import type { Subject } from "../db/subjects.ts";
import { evaluatedOrganization, type Mode, type Prepared, prepareFor, prepareSubject } from "./subject.ts";
import { compiledPricings } from "./subscriptions.ts";

/** Answers about all features that depend on no balance, by the evaluation that they are made from and can only be made from. */
const kept = new WeakMap<Evaluation, Map<string, object>>();

async function evaluateEach<T>(
  ctx: Context,
  { userId, mode }: { userId: string; mode: Mode },
  kind: "booleans" | "details",
  evaluate: (evaluation: Evaluation, id: string, usage: ReadonlyMap<string, number>, mode: Mode) => T,
): Promise<Record<string, T>> {
  const { evaluation, usage } = await prepareFor(ctx, { userId, mode });
  const answer = () => {
    const result: Record<string, T> = {};
    for (const id of featureIds(evaluation, mode)) result[id] = evaluate(evaluation, id, usage, mode);
    return result;
  };
  if (readsUsage(evaluation, mode)) return answer();
  const name = `${kind} ${mode.server}`;
  const answers = kept.get(evaluation) ?? new Map<string, object>();
  kept.set(evaluation, answers);
  const known = (answers.get(name) ?? answer()) as Record<string, T>;
  answers.set(name, known);
  return known;
}

/**
 * Every feature of every contracted service that has an expression: true or false. The answer may be the same object as
 * before: it is not to be written to. Source: contract features-events §4.
 */
export function evaluateAll(
  ctx: Context,
  input: { userId: string; mode: Mode },
): Promise<Readonly<Record<string, boolean>>> {
  return evaluateEach(ctx, input, "booleans", evaluateBoolean);
}

/** The same with limit, use and error of each. Source: contract features-events §4. */
export function evaluateAllDetailed(
  ctx: Context,
  input: { userId: string; mode: Mode },
): Promise<Readonly<Record<string, FeatureResult>>> {
  return evaluateEach(ctx, input, "details", evaluateFeature);
}

/** The last token of a contract and its balances as they were read: signed again, it would be the same within its second. */
const signed = new WeakMap<Subject, { iat: number; server: boolean; token: Promise<string> }>();

/** A signed pricing token with the details of every feature. Source: contract features-events §7. */
export async function issuePricingToken(ctx: Context, input: { userId: string; mode: Mode }): Promise<string> {
  const prepared = await prepareSubject(ctx, input.userId);
  const iat = Math.floor(ctx.now().getTime() / 1000);
  const { server } = input.mode;
  const last = signed.get(prepared.subject);
  if (last?.iat === iat && last.server === server) return last.token;
  const token = signToken(ctx, prepared, { iat, ...input });
  signed.set(prepared.subject, { iat, server, token });
  return token;
}

function signToken(
  ctx: Context,
  { evaluation, usage }: Prepared,
  { userId, mode, iat }: { userId: string; mode: Mode; iat: number },
): Promise<string> {
  const { pricingContext, subscriptionContext } = contexts(evaluation, usage);
  const features: PricingTokenPayload["features"] = {};
  for (const id of featureIds(evaluation, mode)) {
    features[id] = tokenFeature(evaluateFeature(evaluation, id, usage, mode));
  }
  const payload = serializeTokenPayload({
    features,
    pricingContext,
    subscriptionContext,
    iat,
    exp: iat + ctx.settings.tokenLifetimeSeconds,
    sub: userId,
  });
  return new CompactSign(new TextEncoder().encode(payload))
    .setProtectedHeader({ alg: "HS256" })
    .sign(ctx.keyring.token);
}

/**
 * Whether a token was signed here and has not ended; `reason` says what is wrong otherwise. It tells nothing of what the token
 * says, which everybody can read who has it.
 */
export async function verifyPricingToken(
  ctx: Context,
  token: string,
): Promise<{ valid: boolean; reason: string | null }> {
  const { keyring } = ctx;
  const options = { algorithms: ["HS256"], currentDate: ctx.now() };
  try {
    await jwtVerify(token, keyring.token, options).catch((error: unknown) => {
      const { previousToken } = keyring;
      if (previousToken === undefined || !(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
      return jwtVerify(token, previousToken, options);
    });
    return { valid: true, reason: null };
  } catch (error) {
    if (error instanceof errors.JWTExpired) return { valid: false, reason: "The token has expired" };
    if (error instanceof errors.JWSSignatureVerificationFailed) {
      return { valid: false, reason: "The signature is not of this server" };
    }
    if (error instanceof errors.JOSEError) return { valid: false, reason: "This is no pricing token" };
    throw error;
  }
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
  const sortKey = new Map(
    Object.entries({
      serviceName: (row: (typeof found)[number]) => row.service.toLowerCase(),
      featureName: (row: (typeof found)[number]) => row.feature.name.toLowerCase(),
    }),
  ).get(query.sort);
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
