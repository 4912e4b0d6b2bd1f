import { sum } from "../../core/exact.ts";
import { LATE_END_MS, OPEN_LEASES_PER_CONTRACT } from "../../core/leases.ts";
import { checkExpectedConsumption, evaluateFeature, type FeatureResult } from "../../core/pricing/evaluate.ts";
import type { ContractSnapshot, SeenLevel } from "../../db/queries/contract-snapshots.ts";
import {
  changeLease,
  countOpenLeases,
  findLease,
  type FoundLease,
  insertLease,
  type LeaseRow,
  takeBack,
} from "../../db/queries/leases.ts";
import { moveLevels, sameLevel } from "../../db/queries/usage.ts";
import { type Context, newId } from "../context.ts";
import { grantedLimit } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import { usageEvents } from "../usage-events.ts";
import { recordUsage } from "./consumption/serial.ts";
import { explained, involvedLevels, remainingOf } from "./decision.ts";
import {
  evaluatedOrganization,
  isOver,
  type LockedHolder,
  type Prepared,
  usageOf,
  validUntilOf,
  withLockedContract,
  withLockedHolder,
} from "./prepare.ts";
import type { FeatureAnswer, LeaseAnswer, LeaseView, Mode } from "./request.ts";

/*
 * Leases: a process reserves amounts of one feature's limits, spends them in its memory, and reports what it spent. Source:
 * contract tokens-and-leases §6.
 */

type Amounts = Readonly<Record<string, number>>;

/** A lease to open. */
export interface LeaseRequest {
  userId: string;
  featureId: string;
  mode: Mode;
  amounts: Amounts;
  durationMs: number;
}

/**
 * Opens a lease of as much as is available of the requested amounts. `lease` is null if the feature is off, if nothing is
 * available, or if the lease would end at once. Blocks on the contract's lock.
 * @throws Failure notFound without a contract; invalid when it has expired; unprocessable for an amount of an unknown
 * limit; conflict with too many open leases.
 */
export async function openLease(ctx: Context, request: LeaseRequest): Promise<LeaseAnswer> {
  const { userId, featureId, mode, amounts, durationMs } = request;
  const name = { organizationId: evaluatedOrganization(ctx), userId };
  return withLockedContract(ctx, name, async (ctx, prepared) => {
    const { evaluation, usage, contract, at } = prepared;
    const result = evaluateFeature(evaluation, featureId, usage, mode);
    const answer = (of: FeatureResult) => notLeased(prepared, of, request);
    if (result.error !== null) return answer(result);
    const involved = involvedLevels(prepared, request);
    const unknown = Object.keys(amounts).find((name) => !involved.some(({ id }) => id === name));
    if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in amounts: ${unknown}`);
    const incomplete = checkExpectedConsumption(evaluation, featureId, amounts, mode);
    if (incomplete !== undefined) return answer(incomplete);
    const limits = involved.map(({ id, level }) => {
      const amount = amounts[id] ?? 0;
      return { id, level, amount, granted: Math.min(amount, availableOf(result.limit?.[id], usage.get(id) ?? 0)) };
    });
    const isUsedUp = limits.some(({ amount, granted }) => amount > 0 && granted <= 0);
    if (!result.eval || isUsedUp) return answer({ ...result, eval: false });
    if ((await countOpenLeases(ctx.db, contract.contractId)) >= OPEN_LEASES_PER_CONTRACT) {
      const sentence = `CONFLICT: The contract of ${userId} has ${OPEN_LEASES_PER_CONTRACT} open leases`;
      throw new Failure("conflict", sentence);
    }
    const levels = limits.map(({ level }) => level);
    const until = endOf(contract, levels, { at, durationMs });
    if (until.getTime() <= at.getTime()) return answer(result);
    const lease = {
      id: newId(at),
      contractId: contract.contractId,
      featureId,
      amounts: limits.map(({ id, level: { serviceId, limitName }, granted }) => ({
        serviceId,
        limitName,
        id,
        amount: granted,
      })),
      createdAt: at,
      until,
      lease: { featureId, server: mode.server, spent: limits.map(({ id }) => ({ id, amount: 0 })) },
    };
    await insertLease(ctx.db, lease);
    for (const { id, granted } of limits) usage.set(id, sum(usage.get(id) ?? 0, granted));
    return { ...answer(result), lease: viewLease({ ...lease, state: "open" }, userId) };
  });
}

/** Answer without a lease. `usage` of `prepared` decides what remains. */
function notLeased(prepared: Prepared, result: FeatureResult, { featureId, mode }: LeaseRequest): LeaseAnswer {
  const request = { featureId, mode, explain: false, strict: true, dryRun: false };
  const {
    remaining = null,
    resetAt = null,
    ...rest
  }: FeatureAnswer = explained(prepared, result, request, prepared.usage);
  return { ...rest, remaining, resetAt, now: prepared.at.toISOString(), lease: null };
}

/** Returns the amount available of a limit; infinite if it is not numeric. */
const availableOf = (limit: unknown, usage: number): number => remainingOf(limit, usage) ?? Infinity;

/** The end of a lease: after its duration, but never beyond a reset or a change that time brings. */
function endOf(
  contract: ContractSnapshot,
  levels: readonly SeenLevel[],
  { at, durationMs }: { at: Date; durationMs: number },
): Date {
  const bounds = [validUntilOf(contract, at), ...levels.map(({ resetAt }) => resetAt)];
  const moments = bounds.flatMap((bound) => (bound ? [bound.getTime()] : []));
  return new Date(Math.min(at.getTime() + durationMs, ...moments));
}

/** Report of a lease's holder, with the ids of the lease. */
export interface LeaseReport {
  id: string;
  /** Total spent since the lease began. */
  spent: Amounts;
  /** Amounts to be left after the call; all 0 ends the lease. Default: what is left. */
  amounts: Amounts | undefined;
  /** New duration from now. Default: the end stays. */
  durationMs: number | undefined;
}

/**
 * Counts newly spent amounts of a lease. Adds what lacks of the wanted ones, as far as it is available. A lease that
 * expired accepts only its end, which takes back what its expiry counted and nobody spent.
 * @throws Failure notFound for an unknown lease and for one that is gone; unprocessable for missing and unknown limits;
 * conflict after its end, or if more was spent than granted, or less than reported before.
 */
export function reportLease(ctx: Context, report: LeaseReport): Promise<LeaseAnswer> {
  return withLease(ctx, report.id, (ctx, leased) => {
    checkLimits(leased.lease, "spent", report.spent);
    if (report.amounts !== undefined) checkLimits(leased.lease, "amounts", report.amounts);
    return applyReport(ctx, leased, report);
  });
}

/**
 * Ends a lease with what was reported last. Does nothing if that has happened before.
 * @throws Failure notFound as reportLease.
 */
export async function endLease(ctx: Context, id: string): Promise<void> {
  await withLease(ctx, id, (ctx, leased) => {
    const { spent } = leased.lease.lease;
    return applyReport(ctx, leased, {
      spent: Object.fromEntries(spent.map((one) => [one.id, one.amount])),
      amounts: Object.fromEntries(spent.map((one) => [one.id, 0])),
      durationMs: undefined,
    });
  });
}

/** A lease and its contract, both locked and current, with the levels of the lease by position. */
interface Leased extends LockedHolder, FoundLease {
  levels: readonly SeenLevel[];
}

async function withLease<T>(ctx: Context, id: string, work: (ctx: Context, leased: Leased) => Promise<T>): Promise<T> {
  const notFound = () => new Failure("notFound", `Lease ${id} not found`);
  const address = /^[0-9a-f]{24}$/.test(id) ? await findLease(ctx.db, id) : undefined;
  if (address === undefined || address.organizationId !== evaluatedOrganization(ctx)) throw notFound();
  return withLockedHolder(ctx, address, async (ctx, holder) => {
    const found = await findLease(ctx.db, id);
    const levels = found === undefined ? undefined : levelsOf(found.lease, holder);
    if (found === undefined || levels === undefined) throw notFound();
    return work(ctx, { ...holder, ...found, levels });
  });
}

/** Returns the levels of a lease; undefined if the lease is gone: it ended long ago, or its levels are tracked no more. */
function levelsOf({ state, until, amounts }: LeaseRow, { contract, at }: LockedHolder): SeenLevel[] | undefined {
  const isGone = state === "released" || (state !== "open" && at.getTime() - until.getTime() >= LATE_END_MS);
  const levels = amounts.flatMap((held) => contract.levels.find((level) => sameLevel(level, held)) ?? []);
  return isGone || levels.length < amounts.length ? undefined : levels;
}

/** @throws Failure unprocessable for a limit of the lease that is missing, or another one. */
function checkLimits({ lease: { spent } }: LeaseRow, field: "spent" | "amounts", given: Amounts): void {
  const missing = spent.find(({ id }) => !Object.hasOwn(given, id));
  if (missing !== undefined) throw new Failure("unprocessable", `The ${field}.${missing.id} field is required`);
  const unknown = Object.keys(given).find((name) => !spent.some(({ id }) => id === name));
  if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in ${field}: ${unknown}`);
}

type ReportedAmounts = Omit<LeaseReport, "id">;

/** One limit of a report. */
interface Part {
  /** Id of the limit when the lease was granted. */
  id: string;
  level: SeenLevel;
  limit: number | boolean | null;
  /** Totals before the report and after it. */
  reported: number;
  spent: number;
  /** Rest of the lease after the report, without what that adds. */
  left: number;
}

async function applyReport(ctx: Context, leased: Leased, report: ReportedAmounts): Promise<LeaseAnswer> {
  const parts = partsOf(leased, report);
  const isEnd = report.amounts !== undefined && Object.values(report.amounts).every((amount) => amount === 0);
  checkReport(leased, parts, isEnd);
  return leased.lease.state === "open"
    ? reportOpen(ctx, leased, parts, { ...report, isEnd })
    : endLate(ctx, leased, parts);
}

function partsOf(leased: Leased, { spent }: ReportedAmounts): Part[] {
  const { lease, levels, contract, evaluation } = leased;
  return levels.map((level, i) => {
    const { id = "", amount: reported = 0 } = lease.lease.spent[i] ?? {};
    const total = spent[id] ?? 0;
    const granted = sum(reported, lease.amounts[i]?.amount ?? 0);
    const limit = grantedLimit(contract, evaluation, level) ?? null;
    return { id, level, limit, reported, spent: total, left: sum(granted, -total) };
  });
}

function checkReport({ lease: { id, state, until } }: Leased, parts: readonly Part[], isEnd: boolean): void {
  const conflict = (how: string) => new Failure("conflict", `CONFLICT: Lease ${id} ${how}`);
  if (state !== "open" && !isEnd) throw conflict(`ended at ${until.toISOString()}`);
  const over = parts.find(({ left }) => left < 0);
  if (over !== undefined) {
    const granted = sum(over.spent, over.left);
    throw conflict(`was granted ${granted} of ${over.id}, and ${over.spent} are reported`);
  }
  const under = parts.find(({ spent, reported }) => spent < reported);
  if (under !== undefined) {
    throw conflict(`has ${under.reported} of ${under.id} reported already, and ${under.spent} are reported`);
  }
}

async function reportOpen(
  ctx: Context,
  leased: Leased,
  parts: readonly Part[],
  { amounts, durationMs, isEnd }: ReportedAmounts & { isEnd: boolean },
): Promise<LeaseAnswer> {
  const { lease, contract, at, organizationId, userId } = leased;
  const newlySpent = parts.filter(({ spent, reported }) => spent > reported);
  const moved = await moveLevels(
    ctx.db,
    lease.contractId,
    newlySpent.map(({ level, spent, reported }) => ({ level, delta: sum(spent, -reported) })),
    { kind: "consume", operationId: newId(at), now: at, featureId: lease.featureId },
  );
  // Held amounts are usage already, so spending them leaves usage the same.
  const usages = parts.map(({ level }) => sum(level.consumed, level.held));
  const result = evaluateWithout(
    leased,
    parts.map(({ left }, i) => sum(usages[i] ?? 0, -left)),
  );
  const goesOn = result.eval && !isEnd;
  const left = parts.map((part, i) => {
    if (isEnd) return 0;
    const lacking = Math.max(0, sum(goesOn ? (amounts?.[part.id] ?? 0) : 0, -part.left));
    return sum(part.left, Math.min(lacking, availableOf(part.limit, usages[i] ?? 0)));
  });
  const extended =
    goesOn && durationMs !== undefined ? endOf(contract, leased.levels, { at, durationMs }) : lease.until;
  const end = isEnd ? ({ state: "settled", until: at, endedAt: at } as const) : undefined;
  const after = {
    ...lease,
    until: extended.getTime() > at.getTime() ? extended : lease.until,
    ...end,
    ...amountsAfter(lease, parts, left),
  };
  const { state, until, endedAt } = after;
  await changeLease(ctx.db, lease, { amounts: after.amounts, lease: after.lease, state, until, endedAt });
  const changes = newlySpent.map(({ level, limit }, i) => ({
    level,
    before: level.consumed,
    after: moved[i]?.consumed ?? level.consumed,
    limit: limit ?? undefined,
  }));
  await recordUsage(ctx, organizationId, usageEvents(contract, userId, changes));
  const usagesAfter = parts.map((part, i) => sum(usages[i] ?? 0, sum(left[i] ?? 0, -part.left)));
  return reportAnswer(leased, parts, { result, lease: after, usages: usagesAfter });
}

/** Ends a lease after its end: what its expiry counted, and nobody spent, is taken back. */
async function endLate(ctx: Context, leased: Leased, parts: readonly Part[]): Promise<LeaseAnswer> {
  const { lease, at } = leased;
  const nothing = parts.map(() => 0);
  const after = { ...lease, ...amountsAfter(lease, parts, nothing) };
  const movements = parts.filter(({ left }) => left > 0).map(({ level, left }) => ({ level, delta: -left }));
  const moved = await takeBack(ctx.db, lease, movements, at);
  await changeLease(ctx.db, lease, { amounts: after.amounts, lease: after.lease });
  const usages = parts.map(({ level }) => {
    const { consumed } = moved.find((one) => sameLevel(one, level)) ?? level;
    return sum(consumed, level.held);
  });
  return reportAnswer(leased, parts, { result: evaluateWithout(leased, usages), lease: after, usages });
}

/** Columns of a lease after a report. `left` is by position. */
const amountsAfter = (
  { amounts, lease }: LeaseRow,
  parts: readonly Part[],
  left: readonly number[],
): Pick<LeaseRow, "amounts" | "lease"> => ({
  amounts: amounts.map((held, i) => ({ ...held, amount: left[i] ?? 0 })),
  lease: { ...lease, spent: parts.map(({ id, spent }) => ({ id, amount: spent })) },
});

/**
 * Evaluates the feature of a lease over usage without what the lease itself still holds, by position. It is off for a
 * contract whose evaluations are refused.
 */
function evaluateWithout(
  { lease, contract, evaluation, at }: Leased,
  usages: readonly number[],
): Pick<FeatureResult, "eval" | "error"> {
  if (evaluation === undefined || (isOver(contract, at) && !contract.autoRenew)) return { eval: false, error: null };
  const { usage } = usageOf(contract);
  for (const [i, { id }] of lease.amounts.entries()) usage.set(id, usages[i] ?? 0);
  return evaluateFeature(evaluation, lease.featureId, usage, lease.lease);
}

function reportAnswer(
  { userId, at }: Leased,
  parts: readonly Part[],
  {
    result,
    lease,
    usages,
  }: { result: Pick<FeatureResult, "eval" | "error">; lease: LeaseRow; usages: readonly number[] },
): LeaseAnswer {
  const by = <T>(value: (part: Part, usage: number, i: number) => T) =>
    Object.fromEntries(parts.map((part, i) => [part.id, value(part, usages[i] ?? 0, i)]));
  return {
    eval: result.eval,
    limit: by(({ limit }) => limit),
    used: by(({ spent }, usage, i) => Math.max(0, sum(usage, -sum(spent, lease.amounts[i]?.amount ?? 0)))),
    error: result.error,
    remaining: by(({ limit }, usage) => remainingOf(limit, usage)),
    resetAt: by(({ level }) => level.resetAt?.toISOString() ?? null),
    now: at.toISOString(),
    lease: viewLease(lease, userId),
  };
}

function viewLease(
  { id, amounts, until, state, lease }: Pick<LeaseRow, "id" | "amounts" | "until" | "state" | "lease">,
  userId: string,
): LeaseView {
  const { featureId, server, spent } = lease;
  return {
    id,
    userId,
    featureId,
    server,
    state: state === "open" ? "open" : "ended",
    granted: Object.fromEntries(spent.map((one, i) => [one.id, sum(one.amount, amounts[i]?.amount ?? 0)])),
    spent: Object.fromEntries(spent.map((one) => [one.id, one.amount])),
    until: until.toISOString(),
  };
}
