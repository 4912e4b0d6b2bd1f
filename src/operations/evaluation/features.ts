import { CompactSign } from "jose";
import { and, asc, eq } from "drizzle-orm";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import {
  contexts,
  type Evaluation,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  type FeatureResult,
  readsUsage,
} from "../../core/pricing/evaluate.ts";
import { featureToWire } from "../../core/pricing/wire.ts";
import { type PricingTokenPayload, serializeTokenPayload, tokenFeature } from "../../core/pricing-token.ts";
import { pricings, services } from "../../db/schema.ts";
import { containsText } from "../access.ts";
import type { Context } from "../context.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import { evaluatedOrganization, type Mode, type Prepared, prepareFor, prepareContract } from "./prepare.ts";
import { compiledPricings } from "../subscriptions.ts";

/** Caches answers that depend on no balance, keyed by the immutable evaluation. */
const kept = new WeakMap<Evaluation, Map<string, object>>();

function evaluateEach<T>(
  ctx: Context,
  { userId, mode }: { userId: string; mode: Mode },
  kind: "booleans" | "details",
  evaluate: (evaluation: Evaluation, id: string, usage: ReadonlyMap<string, number>, mode: Mode) => T,
): MaybePromise<Record<string, T>> {
  return chain(prepareFor(ctx, { userId, mode }), ({ evaluation, usage }) => {
    const name = `${kind} ${mode.server}`;
    const known = kept.get(evaluation)?.get(name);
    if (known !== undefined) return known as Record<string, T>;
    const result: Record<string, T> = {};
    for (const id of featureIds(evaluation, mode)) result[id] = evaluate(evaluation, id, usage, mode);
    if (!readsUsage(evaluation, mode)) keep(evaluation, name, result);
    return result;
  });
}

function keep(evaluation: Evaluation, name: string, answer: object): void {
  const answers = kept.get(evaluation) ?? new Map<string, object>();
  kept.set(evaluation, answers);
  answers.set(name, Object.freeze(answer));
}

/**
 * Evaluates every feature of the contracted services that has an expression. Cached answers are frozen. Source:
 * contract features-events §4.
 */
export function evaluateAll(
  ctx: Context,
  input: { userId: string; mode: Mode },
): MaybePromise<Readonly<Record<string, boolean>>> {
  return evaluateEach(ctx, input, "booleans", evaluateBoolean);
}

/** Evaluates every feature, with its limit, consumption and error. Source: contract features-events §4. */
export function evaluateAllDetailed(
  ctx: Context,
  input: { userId: string; mode: Mode },
): MaybePromise<Readonly<Record<string, FeatureResult>>> {
  return evaluateEach(ctx, input, "details", evaluateFeature);
}

export interface IssuedToken {
  readonly pricingToken: string;
}

/**
 * Caches the last token per contract snapshot, for one second. A token signed again within that second would be
 * identical.
 */
const issued = { iat: 0, bySubject: new Map<ContractSnapshot, Issued>() };

interface Issued {
  server: boolean;
  issuer: string;
  token: MaybePromise<IssuedToken>;
}

/** Issues a signed, frozen pricing token with the details of every feature. Source: contract features-events §7. */
export function issuePricingToken(ctx: Context, input: { userId: string; mode: Mode }): MaybePromise<IssuedToken> {
  return chain(prepareContract(ctx, input.userId), (prepared) =>
    chain(ctx.resources.issuer(ctx.db), (issuer) => issueOnce(ctx, prepared, { ...input, issuer })),
  );
}

function issueOnce(
  ctx: Context,
  prepared: Prepared,
  input: { userId: string; mode: Mode; issuer: string },
): MaybePromise<IssuedToken> {
  const { contract } = prepared;
  const { issuer } = input;
  const { server } = input.mode;
  const iat = Math.floor(ctx.resources.now().getTime() / 1000);
  if (issued.iat !== iat) {
    issued.iat = iat;
    issued.bySubject = new Map();
  }
  const { bySubject } = issued;
  const last = bySubject.get(contract);
  if (last?.server === server && last.issuer === issuer) return last.token;
  const token = signToken(ctx, prepared, { iat, ...input });
  const mine: Issued = { server, issuer, token };
  bySubject.set(contract, mine);
  token.then(
    (known) => (mine.token = known),
    () => bySubject.delete(contract),
  );
  return token;
}

async function signToken(
  ctx: Context,
  { evaluation, usage }: Prepared,
  { userId, mode, issuer, iat }: { userId: string; mode: Mode; issuer: string; iat: number },
): Promise<IssuedToken> {
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
    exp: iat + ctx.resources.settings.tokenLifetimeSeconds,
    sub: userId,
    iss: issuer,
    aud: evaluatedOrganization(ctx),
  });
  const pricingToken = await new CompactSign(new TextEncoder().encode(payload))
    .setProtectedHeader({ alg: "HS256" })
    .sign(ctx.resources.keyring.token);
  return Object.freeze({ pricingToken });
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
 * Lists features of the organization's enabled services, one row per feature and version. Uses at most two queries;
 * cached pricings are not read again. Source: contract features-events §1.
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
