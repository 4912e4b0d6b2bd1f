import { and, asc, eq } from "drizzle-orm";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import {
  type Evaluation,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  type FeatureResult,
  readsUsage,
} from "../../core/pricing/evaluate.ts";
import { featureToWire } from "../../core/pricing/wire.ts";
import { pricings, services } from "../../db/schema.ts";
import { containsText } from "../access.ts";
import { type Context, isInTransaction } from "../context.ts";
import { compiledPricings } from "../subscriptions.ts";
import type { Spender } from "../../core/pricing/budgets.ts";
import { noteDenial } from "./budget-denials.ts";
import { consumeSerially } from "./consumption/serial.ts";
import { decide, explained, isOffByBudget, likelyOffReason, priced, withCost } from "./decision.ts";
import { evaluatedOrganization, type Prepared, prepareFor } from "./prepare.ts";
import { refuseStranger, withSpenders } from "./spenders.ts";
import type { EvaluationRequest, FeatureAnswer, Mode } from "./request.ts";

/**
 * Evaluates one feature, and counts the consumption in `expected` if granted. Check and count are atomic under the
 * contract's lock, for all limits of the expression or none. Source: contract features-events §6.
 */
export function evaluateOne(ctx: Context, request: EvaluationRequest): MaybePromise<FeatureAnswer> {
  const countsNothing = request.dryRun || Object.keys(request.expected).length === 0;
  if (countsNothing) {
    return chain(prepareForSpender(ctx, request), (prepared) => {
      if (isPlain(prepared, request)) return plainAnswer(prepared, request);
      const tried = priced(prepared, request);
      return withCost(explained(prepared, decide(prepared, tried).result, tried, prepared.usage), tried);
    });
  }
  if (isInTransaction(ctx)) return consumeSerially(ctx, request);
  return ctx.resources.consume({ ...request, organizationId: evaluatedOrganization(ctx) });
}

/** True for a call whose answer depends on nothing but the plan: no balance, spender or option has a part in it. */
function isPlain({ evaluation, budgets, strangers }: Prepared, request: EvaluationRequest): boolean {
  const { explain, strict, dryRun, blocks, hold, units, mode, featureId } = request;
  if (explain || strict || dryRun || blocks === false || hold !== undefined || units !== undefined) return false;
  return budgets === undefined && strangers === undefined && !readsUsage(evaluation, mode, featureId);
}

/** Answers of plain calls, keyed by the immutable evaluation, and then by feature and mode. */
const plainAnswers = new WeakMap<Evaluation, Map<string, FeatureAnswer>>();

/** Returns the frozen answer of a plain call. */
function plainAnswer({ evaluation, usage }: Prepared, { featureId, mode }: EvaluationRequest): FeatureAnswer {
  const name = `${featureId} ${mode.server}`;
  const cached = plainAnswers.get(evaluation)?.get(name);
  if (cached !== undefined) return cached;
  const answer = evaluateFeature(evaluation, featureId, usage, mode);
  // Callers choose the names of unknown features.
  if (answer.error !== null) return answer;
  const answers = plainAnswers.get(evaluation) ?? new Map<string, FeatureAnswer>();
  plainAnswers.set(evaluation, answers);
  answers.set(name, Object.freeze(answer));
  return answer;
}

/** Prepares as prepareFor, with the budgets that the spender moves. */
function prepareForSpender(
  ctx: Context,
  input: Parameters<typeof prepareFor>[1] & { spender?: Spender | undefined },
): MaybePromise<Prepared> {
  return chain(prepareFor(ctx, input), (prepared) => withSpenders(ctx, prepared, [input.spender ?? []]));
}

/** Counts a verdict that was not a dry run: consumptions for metrics, denials for the overview. A taken hold is neither. */
export function countVerdict(
  ctx: Context,
  { featureId, expected, hold }: Pick<EvaluationRequest, "featureId" | "expected" | "hold">,
  answer: FeatureAnswer,
): void {
  const { callCounter, now } = ctx.resources;
  const isTaken = hold !== undefined && answer.eval;
  if (Object.keys(expected).length > 0 && !isTaken) callCounter.totals[answer.eval ? "granted" : "denied"] += 1;
  if (answer.eval || answer.error !== null) return;
  callCounter.countDenial(now(), evaluatedOrganization(ctx), featureId, likelyOffReason(answer));
  noteDenial(ctx.resources, answer.budget);
}

/** Caches answers that depend on no balance, keyed by the immutable evaluation. */
const cachedAnswers = new WeakMap<Evaluation, Map<string, object>>();

function evaluateEach<T>(
  ctx: Context,
  { userId, mode, spender }: { userId: string; mode: Mode; spender?: Spender | undefined },
  kind: "booleans" | "details",
  evaluate: (evaluation: Evaluation, id: string, usage: ReadonlyMap<string, number>, mode: Mode) => T,
  off: (result: T) => T,
): MaybePromise<Record<string, T>> {
  return chain(prepareForSpender(ctx, { userId, mode, spender }), (prepared) => {
    refuseStranger(prepared, { userId, spender });
    const { evaluation, usage } = prepared;
    const name = `${kind} ${mode.server}`;
    const cached = cachedAnswers.get(evaluation)?.get(name);
    if (cached !== undefined) return cached as Record<string, T>;
    const result: Record<string, T> = {};
    for (const id of featureIds(evaluation, mode)) {
      const one = evaluate(evaluation, id, usage, mode);
      result[id] = isOffByBudget(prepared, { featureId: id, mode, spender }) ? off(one) : one;
    }
    if (!readsUsage(evaluation, mode)) cacheAnswer(evaluation, name, result);
    return result;
  });
}

function cacheAnswer(evaluation: Evaluation, name: string, answer: object): void {
  const answers = cachedAnswers.get(evaluation) ?? new Map<string, object>();
  cachedAnswers.set(evaluation, answers);
  answers.set(name, Object.freeze(answer));
}

/**
 * Evaluates every feature of the contracted services that has an expression. Cached answers are frozen. Source:
 * contract features-events §4.
 */
export function evaluateAll(
  ctx: Context,
  input: { userId: string; mode: Mode; spender?: Spender | undefined },
): MaybePromise<Readonly<Record<string, boolean>>> {
  return evaluateEach(ctx, input, "booleans", evaluateBoolean, () => false);
}

/** Evaluates every feature, with its limit, consumption and error. Source: contract features-events §4. */
export function evaluateAllDetailed(
  ctx: Context,
  input: { userId: string; mode: Mode; spender?: Spender | undefined },
): MaybePromise<Readonly<Record<string, FeatureResult>>> {
  return evaluateEach(ctx, input, "details", evaluateFeature, (result) => ({ ...result, eval: false }));
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
