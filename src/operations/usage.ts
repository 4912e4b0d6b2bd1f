import { and, eq, or } from "drizzle-orm";
import {
  checkExpectedConsumption,
  evaluateFeature,
  type FeatureResult,
  involvedLimits,
} from "../core/pricing/evaluate.ts";
import { type ContractView, viewContracts } from "../db/contracts.ts";
import { serviceKey } from "../db/pricings.ts";
import { contracts, contractServices, services, usageLevels } from "../db/schema.ts";
import {
  boundaryAfter,
  lockLevels,
  markReverted,
  moveLevels,
  renewDue,
  revertibleRows,
  type UsageLevelRow,
} from "../db/usage.ts";
import { type Context, newId, transaction } from "./context.ts";
import { type ContractAddress, findContract } from "./contract-address.ts";
import { Failure } from "./errors.ts";
import { type Mode, type Prepared, prepareSubject } from "./subject.ts";

/** How long a consumption can be undone. */
const REVERT_WINDOW_MS = 120_000;
/** A novation between reading the contract and locking its balances starts the consumption over; it is rare. */
const MAX_ATTEMPTS = 5;

/**
 * Evaluates one feature and, where `expected` names its limits and it is granted, counts that use: check and count are one
 * step under the balances' lock, over all limits of the expression or none. Source: contract features-events §6.
 */
export async function evaluateOne(
  ctx: Context,
  input: { userId: string; featureId: string; expected: Readonly<Record<string, number>>; mode: Mode },
): Promise<FeatureResult> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const prepared = await prepareSubject(ctx, input.userId);
    const { evaluation, usage } = prepared;
    const read = evaluateFeature(evaluation, input.featureId, usage, input.mode);
    if (Object.keys(input.expected).length === 0 || read.error !== null) return read;
    const incomplete = checkExpectedConsumption(evaluation, input.featureId, input.expected, input.mode);
    if (incomplete !== undefined) return incomplete;
    if (read.used === null) return read;
    const counted = await consume(ctx, prepared, input);
    if (counted !== undefined) return counted;
  }
  throw new Failure("unavailable", "The contract is being changed. Please try again", { retryAfterSeconds: 1 });
}

/** Undefined when the contract changed under our feet: start over. */
async function consume(
  ctx: Context,
  { subject, evaluation, usage }: Prepared,
  input: { featureId: string; expected: Readonly<Record<string, number>>; mode: Mode },
): Promise<FeatureResult | undefined> {
  const involved = involvedLimits(evaluation, input.featureId, input.mode).flatMap((limit) => {
    const service = subject.services.find((one) => one.key === limit.serviceName);
    return service === undefined ? [] : [{ ...limit, serviceId: service.serviceId }];
  });
  return transaction(ctx, async (ctx) => {
    const now = ctx.now();
    const operationId = newId(now);
    const rows = await lockLevels(
      ctx.db,
      subject.contractId,
      or(
        ...involved.map((limit) =>
          and(eq(usageLevels.serviceId, limit.serviceId), eq(usageLevels.limitName, limit.limitName)),
        ),
      ),
    );
    if (rows.length < new Set(involved.map((limit) => limit.id)).size) return undefined;
    const levels = await renewDue(ctx.db, rows, now, operationId);
    const fresh = new Map(usage);
    const levelOf = new Map<string, (typeof levels)[number]>();
    for (const { id, serviceId, limitName } of involved) {
      const level = levels.find((one) => one.serviceId === serviceId && one.limitName === limitName);
      if (level === undefined) return undefined;
      levelOf.set(id, level);
      fresh.set(id, level.consumed);
    }
    const result = evaluateFeature(evaluation, input.featureId, fresh, input.mode);
    if (result.error !== null || result.used === null) return result;
    if (!result.eval) {
      return { ...result, used: mapValues(result.used, (id, used) => used + (input.expected[id] ?? 0)) };
    }
    const moved = await moveLevels(
      ctx.db,
      [...levelOf].map(([id, level]) => ({ level, delta: input.expected[id] ?? 0 })),
      { kind: "consume", operationId, now, featureId: input.featureId },
    );
    const ids = [...levelOf.keys()];
    return { ...result, used: mapValues(result.used, (id, used) => moved[ids.indexOf(id)]?.consumed ?? used) };
  });
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
  const { subject, evaluation, usage } = await prepareSubject(ctx, input.userId);
  const known = evaluateFeature(evaluation, input.featureId, usage, input.mode);
  if (known.error?.code === "FLAG_NOT_FOUND") {
    throw new Failure("notFound", `Feature ${input.featureId} not found in contract for userId ${input.userId}`);
  }
  await transaction(ctx, async (ctx) => {
    const now = ctx.now();
    const levels = await lockLevels(ctx.db, subject.contractId);
    const rows = await revertibleRows(ctx.db, {
      contractId: subject.contractId,
      featureId: input.featureId,
      since: new Date(now.getTime() - REVERT_WINDOW_MS),
    });
    const newest = rows[0]?.operationId;
    const undone = input.latest ? rows.filter((row) => row.operationId === newest) : rows;
    if (undone.length === 0) return;
    const operationId = newId(now);
    for (const row of undone) {
      const level = levels.find((one) => one.serviceId === row.serviceId && one.limitName === row.limitName);
      if (level === undefined) continue;
      await moveLevels(ctx.db, [{ level, delta: -row.delta }], { kind: "revert", operationId, now });
    }
    await markReverted(
      ctx.db,
      undone.map((row) => row.id),
      now,
    );
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

/** Changes balances of one contract, each by one atomic statement with its ledger row. */
export async function changeUsage(
  ctx: Context,
  input: ContractAddress & { change: UsageChange },
): Promise<ContractView> {
  return transaction(ctx, async (ctx) => {
    const contract = await findContract(ctx, input);
    const now = ctx.now();
    const operationId = newId(now);
    const locked = await lockLevels(ctx.db, contract.id);
    if (input.change.kind === "increment") {
      // What was used before the boundary belongs to the period that is over.
      const levels = await renewDue(ctx.db, locked, now, operationId);
      await increment(ctx, { contractId: contract.id, levels, amounts: input.change.amounts, operationId });
    } else {
      const levels = selectLevels(locked, input.change);
      await moveLevels(
        ctx.db,
        levels.map((level) => ({
          level,
          delta: -level.consumed,
          resetAt: level.resetAt === null ? undefined : boundaryAfter(level, level.resetAt),
        })),
        { kind: "reset", operationId, now },
      );
    }
    const [view] = await viewContracts(
      ctx.db,
      await ctx.db.select().from(contracts).where(eq(contracts.id, contract.id)),
    );
    if (view === undefined) throw new Failure("notFound", `Contract with userId ${input.userId} not found`);
    return view;
  });
}

function selectLevels(
  levels: readonly UsageLevelRow[],
  change: Exclude<UsageChange, { kind: "increment" }>,
): UsageLevelRow[] {
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

async function increment(
  ctx: Context,
  input: {
    contractId: string;
    levels: readonly UsageLevelRow[];
    amounts: Readonly<Record<string, Readonly<Record<string, number>>>>;
    operationId: string;
  },
): Promise<void> {
  const contracted = await ctx.db
    .select({ id: services.id, key: services.nameKey })
    .from(contractServices)
    .innerJoin(services, eq(services.id, contractServices.serviceId))
    .where(eq(contractServices.contractId, input.contractId));
  for (const [name, amounts] of Object.entries(input.amounts)) {
    const service = contracted.find((one) => one.key === serviceKey(name));
    if (service === undefined) throw new Failure("notFound", `Service ${name} not found in the contract`);
    const movements = Object.entries(amounts).flatMap(([limitName, delta]) => {
      const level = input.levels.find((one) => one.serviceId === service.id && one.limitName === limitName);
      return level === undefined ? [] : [{ level, delta }];
    });
    await moveLevels(ctx.db, movements, { kind: "adjust", operationId: input.operationId, now: ctx.now() });
  }
}
