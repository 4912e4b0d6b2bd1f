import { eq } from "drizzle-orm";
import {
  checkExpectedConsumption,
  evaluateFeature,
  type FeatureResult,
  involvedLimits,
} from "../core/pricing/evaluate.ts";
import { type ContractView, viewContracts } from "../db/contracts.ts";
import { serviceKey } from "../db/pricings.ts";
import { contracts, contractServices, services } from "../db/schema.ts";
import { boundaryAfter, type Level, loadLevels, moveLevels, renewDue, revertFeature } from "../db/usage.ts";
import { type Context, newId, transaction } from "./context.ts";
import { type ContractAddress, findContract } from "./contract-address.ts";
import { Failure } from "./errors.ts";
import { type Mode, type Prepared, prepareSubject, withLockedSubject } from "./subject.ts";

/** How long a consumption can be undone. */
const REVERT_WINDOW_MS = 120_000;

/** One feature asked for one end user, with the use that is to be counted if it is granted. */
export interface Ask {
  userId: string;
  featureId: string;
  /** `<service>-<limit>` -> amount; empty to ask only. */
  expected: Readonly<Record<string, number>>;
  mode: Mode;
  /** Refuses what would pass a limit, where the contract alone lets one call pass it. */
  strict: boolean;
  /** Answers what would happen, and counts nothing. */
  dryRun: boolean;
  /** Adds what is left and when it resets to the answer; strict and dry calls always have it. */
  explain: boolean;
}

/** A feature's result; the additional fields speak of the balances as they are after the call. */
export interface FeatureAnswer extends FeatureResult {
  /** By limit: how much may still be consumed; null for a limit that is not a number. */
  readonly remaining?: Record<string, number | null> | null;
  /** By limit: when its balance starts again at zero, ISO 8601; null for one that never does. */
  readonly resetAt?: Record<string, string | null> | null;
}

/**
 * Evaluates one feature and, where `expected` names its limits and it is granted, counts that use: check and count are one
 * step under the contract's lock, over all limits of the expression or none. Source: contract features-events §6.
 */
export async function evaluateOne(ctx: Context, ask: Ask): Promise<FeatureAnswer> {
  const asksOnly = ask.dryRun || Object.keys(ask.expected).length === 0;
  if (asksOnly) {
    const prepared = await prepareSubject(ctx, ask.userId);
    return explained(prepared, decide(prepared, ask).result, ask, prepared.usage);
  }
  return withLockedSubject(ctx, ask.userId, async (ctx, prepared) => {
    const { result, counts } = decide(prepared, ask);
    if (!counts) return explained(prepared, result, ask, prepared.usage);
    const now = ctx.now();
    const involved = involvedLevels(prepared, ask);
    const moved = await moveLevels(
      ctx.db,
      prepared.subject.contractId,
      involved.map(({ id, level }) => ({ level, delta: ask.expected[id] ?? 0 })),
      { kind: "consume", operationId: newId(now), now, featureId: ask.featureId },
    );
    const used = new Map(involved.map(({ id }, i) => [id, moved[i]?.consumed ?? 0]));
    const counted = { ...result, used: mapValues(result.used ?? {}, (id, sum) => used.get(id) ?? sum) };
    return explained(prepared, counted, ask, used);
  });
}

/** What the balances as read say to it, and whether the use is to be counted. */
function decide(
  { evaluation, usage }: Prepared,
  { featureId, expected, mode, strict }: Ask,
): { result: FeatureResult; counts: boolean } {
  const result = evaluateFeature(evaluation, featureId, usage, mode);
  if (result.error !== null || Object.keys(expected).length === 0) return { result, counts: false };
  const incomplete = checkExpectedConsumption(evaluation, featureId, expected, mode);
  if (incomplete !== undefined) return { result: incomplete, counts: false };
  if (result.used === null) return { result, counts: false };
  const used = mapValues(result.used, (id, consumed) => sum(consumed, expected[id] ?? 0));
  const fits = Object.entries(used).every(([id, total]) => {
    const limit = result.limit?.[id];
    return typeof limit !== "number" || total <= limit || (expected[id] ?? 0) === 0;
  });
  const granted = result.eval && (fits || !strict);
  return { result: { ...result, eval: granted, used }, counts: granted };
}

/** The sum without the noise of binary fractions: 0.1 and 0.2 are 0.3, as they are in the database. */
function sum(a: number, b: number): number {
  const total = a + b;
  return Number.isInteger(total) ? total : Number(total.toPrecision(15));
}

/** The levels that the feature's expression reads, with the identifiers under which it does. */
function involvedLevels({ evaluation, subject }: Prepared, { featureId, mode }: Pick<Ask, "featureId" | "mode">) {
  return involvedLimits(evaluation, featureId, mode).flatMap(({ id, serviceName, limitName }) => {
    const service = subject.services.find((one) => one.key === serviceName);
    const level = subject.levels.find((one) => one.serviceId === service?.serviceId && one.limitName === limitName);
    return level === undefined ? [] : [{ id, level }];
  });
}

function explained(
  prepared: Prepared,
  result: FeatureResult,
  ask: Ask,
  balances: ReadonlyMap<string, number>,
): FeatureAnswer {
  if (!ask.explain && !ask.strict && !ask.dryRun) return result;
  if (result.used === null) return { ...result, remaining: null, resetAt: null };
  const levels = new Map(involvedLevels(prepared, ask).map(({ id, level }) => [id, level]));
  // A dry call speaks of the balances that it would leave.
  const after = ask.dryRun && result.eval ? result.used : undefined;
  const remaining: Record<string, number | null> = {};
  const resetAt: Record<string, string | null> = {};
  for (const id of Object.keys(result.used)) {
    const limit = result.limit?.[id];
    const balance = after?.[id] ?? balances.get(id) ?? 0;
    remaining[id] = typeof limit === "number" ? Math.max(0, sum(limit, -balance)) : null;
    resetAt[id] = levels.get(id)?.resetAt?.toISOString() ?? null;
  }
  return { ...result, remaining, resetAt };
}

function mapValues<T>(map: Record<string, T>, change: (key: string, value: T) => T): Record<string, T> {
  const result: Record<string, T> = {};
  for (const [key, value] of Object.entries(map)) result[key] = change(key, value);
  return result;
}

/**
 * Undoes what this feature consumed within the last 120 s: all of it, or only the newest call. Each consumption is undone
 * at most once, by its recorded amount, so what others consumed meanwhile stays. Source: contract features-events §6.1.
 */
export async function revertConsumption(
  ctx: Context,
  input: { userId: string; featureId: string; latest: boolean; mode: Mode },
): Promise<void> {
  const { userId, featureId, latest } = input;
  await withLockedSubject(ctx, userId, async (ctx, { subject, evaluation, usage }) => {
    const known = evaluateFeature(evaluation, featureId, usage, input.mode);
    if (known.error?.code === "FLAG_NOT_FOUND") {
      throw new Failure("notFound", `Feature ${featureId} not found in contract for userId ${userId}`);
    }
    const now = ctx.now();
    await revertFeature(ctx.db, {
      contractId: subject.contractId,
      featureId,
      since: new Date(now.getTime() - REVERT_WINDOW_MS),
      latest,
      operationId: newId(now),
      now,
    });
  });
}

/** How PUT usageLevels changes balances. Source: contract contracts §9. */
export type UsageChange =
  /** Every level of that limit name, in every service, back to zero. */
  | { kind: "resetLimit"; limitName: string }
  /** All renewable levels back to zero; the others too when asked. */
  | { kind: "resetAll"; renewableOnly: boolean }
  /** Amounts by service and limit, negative ones give back; a balance never goes below zero. */
  | { kind: "increment"; amounts: Readonly<Record<string, Readonly<Record<string, number>>>> };

/** Changes balances of one contract under its lock, all or none, each with its ledger row. Source: contract contracts §9. */
export async function changeUsage(
  ctx: Context,
  input: ContractAddress & { change: UsageChange },
): Promise<ContractView> {
  return transaction(ctx, async (ctx) => {
    const contract = await findContract(ctx, input, "change");
    const now = ctx.now();
    const operationId = newId(now);
    const levels = await loadLevels(ctx.db, contract.id);
    if (input.change.kind === "increment") {
      // What was used before the boundary belongs to the period that is over.
      const current = await renewDue(ctx.db, contract.id, levels, { operationId, now });
      const movements = await increments(ctx, contract.id, current, input.change.amounts);
      await moveLevels(ctx.db, contract.id, movements, { kind: "adjust", operationId, now });
    } else {
      const movements = selectLevels(levels, input.change).map((level) => ({
        level,
        delta: -level.consumed,
        resetAt: level.resetAt === null ? undefined : boundaryAfter(level, level.resetAt),
      }));
      await moveLevels(ctx.db, contract.id, movements, { kind: "reset", operationId, now });
    }
    const rows = await ctx.db.select().from(contracts).where(eq(contracts.id, contract.id));
    const [view] = await viewContracts(ctx.db, rows);
    if (view === undefined) throw new Error(`contract ${contract.id} vanished inside its transaction`);
    return view;
  });
}

function selectLevels(levels: readonly Level[], change: Exclude<UsageChange, { kind: "increment" }>): Level[] {
  if (change.kind === "resetAll") {
    return levels.filter((level) => !change.renewableOnly || level.resetAt !== null);
  }
  const named = levels.filter((level) => level.limitName === change.limitName);
  if (named.length === 0) {
    throw new Failure(
      "notFound",
      `Usage limit: ${change.limitName} not found in the contract. Maybe it's not being tracked as usage level`,
    );
  }
  return named;
}

/** Failure notFound for a service that is not contracted; a limit that it does not track is ignored. */
async function increments(
  ctx: Context,
  contractId: string,
  levels: readonly Level[],
  amounts: Readonly<Record<string, Readonly<Record<string, number>>>>,
): Promise<{ level: Level; delta: number }[]> {
  const contracted = await ctx.db
    .select({ id: services.id, key: services.nameKey })
    .from(contractServices)
    .innerJoin(services, eq(services.id, contractServices.serviceId))
    .where(eq(contractServices.contractId, contractId));
  return Object.entries(amounts).flatMap(([name, limits]) => {
    const service = contracted.find((one) => one.key === serviceKey(name));
    if (service === undefined) throw new Failure("notFound", `Service ${name} not found in the contract`);
    return Object.entries(limits).flatMap(([limitName, delta]) => {
      const level = levels.find((one) => one.serviceId === service.id && one.limitName === limitName);
      return level === undefined ? [] : [{ level, delta }];
    });
  });
}
