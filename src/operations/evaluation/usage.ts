import { eq } from "drizzle-orm";
import type { Spender } from "../../core/pricing/budgets.ts";
import { evaluateFeature } from "../../core/pricing/evaluate.ts";
import type { ContractView } from "../../db/queries/contract-view.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { contracts, contractServices, services } from "../../db/schema.ts";
import type { PrivateEvent } from "../../core/event-messages.ts";
import { type Level, loadSnapshot } from "../../db/queries/contract-snapshots.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { rememberRaised } from "../../db/queries/usage-alerts.ts";
import { loadLevels, type Movement, moveLevels, sameLevel } from "../../db/queries/usage.ts";
import { boundaryAfter, renewDue } from "../../db/queries/usage-renewals.ts";
import { REVERT_WINDOW_MS, revertFeature } from "../../db/queries/usage-reverts.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { showContracts } from "../contract-views.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { closeBlockPeriods, expireHoldsOf } from "../due-holds.ts";
import { evaluationIfAny, grantedLimit } from "../evaluations.ts";
import { type AlertedLevel, thresholdEvents } from "../usage-events.ts";
import { recordedSpender } from "./spenders.ts";
import { evaluatedOrganization, withLockedContract } from "./prepare.ts";
import type { Mode } from "./request.ts";
import { countsMembers } from "./seats.ts";

/**
 * Reverts this feature's consumption of the last 120 s: all of it, or only the newest call. Each consumption is
 * reverted at most once, by its recorded amount, so concurrent consumption is unaffected. Source: contract
 * features-events §6.1.
 */
export async function revertConsumption(
  ctx: Context,
  input: { userId: string; featureId: string; latest: boolean; mode: Mode; spender?: Spender | undefined },
): Promise<void> {
  const { userId, featureId, latest } = input;
  const name = { organizationId: evaluatedOrganization(ctx), userId };
  const isContracted = await withLockedContract(ctx, name, async (ctx, { contract, evaluation, usage }) => {
    const result = evaluateFeature(evaluation, featureId, usage, input.mode);
    if (result.error?.code === "FLAG_NOT_FOUND") return false;
    const now = ctx.resources.now();
    await revertFeature(ctx.db, {
      contractId: contract.contractId,
      featureId,
      since: new Date(now.getTime() - REVERT_WINDOW_MS),
      latest,
      operationId: newId(now),
      now,
      spender: recordedSpender(input.spender),
    });
    return true;
  });
  // Thrown after the commit, so that due renewals persist.
  if (!isContracted) throw new Failure("notFound", `Feature ${featureId} not found in contract for userId ${userId}`);
}

/** How PUT usageLevels changes balances. Source: contract contracts §9. */
export type UsageChange =
  /** Resets every level of that limit name to zero, in all services. */
  | { kind: "resetLimit"; limitName: string }
  /** Resets all renewable levels to zero, and the others if requested. */
  | { kind: "resetAll"; renewableOnly: boolean }
  /** Adds amounts by service and limit. Negative ones give back; a balance never drops below zero. */
  | { kind: "increment"; amounts: Readonly<Record<string, Readonly<Record<string, number>>>> };

/**
 * Changes balances of one contract under its lock, all or none, each with its ledger row. Source: contract contracts
 * §9.
 */
export async function changeUsage(
  ctx: Context,
  input: ContractAddress & { change: UsageChange },
): Promise<ContractView> {
  await applyDueChangesOf(ctx, input);
  return transaction(ctx, async (ctx) => {
    const contract = await findContract(ctx, input, "change");
    const now = ctx.resources.now();
    const operationId = newId(now);
    const expired = await expireHoldsOf(ctx, [contract.id], now);
    const levels = await loadLevels(ctx.db, contract.id);
    await requireNoSeats(ctx, levels, input.change);
    let before: readonly Level[];
    let after: readonly Level[];
    let events: readonly PrivateEvent[] = [];
    if (input.change.kind === "increment") {
      const { amounts } = input.change;
      // Renew first: consumption before the boundary belongs to the previous period. An empty body changes nothing.
      const isEmpty = Object.keys(amounts).length === 0;
      const current = isEmpty ? levels : await renewDue(ctx.db, contract.id, levels, { operationId, now });
      const movements = await increments(ctx, contract.id, current, amounts);
      before = movements.map(({ level }) => level);
      after = await moveLevels(ctx.db, contract.id, movements, { kind: "adjust", operationId, now });
      events = await raiseThresholds(ctx, contract, { movements, after, now });
    } else {
      const movements = selectLevels(levels, input.change).map((level) => ({
        level,
        delta: -level.consumed,
        resetAt: level.resetAt === null ? undefined : boundaryAfter(level, level.resetAt),
        runningSince: now,
      }));
      before = movements.map(({ level }) => level);
      expired.push(...(await closeBlockPeriods(ctx, contract, before, now)));
      after = await moveLevels(ctx.db, contract.id, movements, { kind: "reset", operationId, now });
    }
    await audit(ctx, {
      action: "contract.usage",
      organizationId: contract.organizationId,
      target: contract.userId,
      before: before.map(factsOf),
      after: after.map(factsOf),
    });
    const rows = await ctx.db.select().from(contracts).where(eq(contracts.id, contract.id));
    const [view] = await showContracts(ctx, rows);
    if (view === undefined) throw new Error(`contract ${contract.id} vanished inside its transaction`);
    const { organizationId } = contract;
    await recordEvents(ctx.db, [...expired, ...events.map((event) => ({ organizationId, event }))]);
    return view;
  });
}

/** Remembers the thresholds that adjusted balances reach, and returns their events. */
async function raiseThresholds(
  ctx: Context,
  { organizationId, userId }: { organizationId: string; userId: string },
  input: { movements: readonly Movement<AlertedLevel>[]; after: readonly Level[]; now: Date },
): Promise<PrivateEvent[]> {
  const { movements, after, now } = input;
  const raising = movements.filter(({ delta }) => delta > 0);
  const contract = raising.length === 0 ? undefined : await loadSnapshot(ctx.db, organizationId, userId);
  if (contract === undefined) return [];
  const evaluation = await evaluationIfAny(ctx, contract, now);
  // Several amounts of one level are one movement.
  const levels = [...new Set(raising.map(({ level }) => level))];
  const changes = levels.map((level) => ({
    level,
    before: level.consumed,
    after: after.find((one) => sameLevel(one, level))?.consumed ?? level.consumed,
    limit: grantedLimit(contract, evaluation, level),
  }));
  const { events, raised } = thresholdEvents(contract, userId, changes);
  await rememberRaised(ctx.db, raised);
  return events;
}

/** Selects the audited fields of a balance. */
const factsOf = ({ serviceId, limitName, consumed }: Level) => ({ serviceId, limitName, consumed });

type CountingLevel = Level & { countsMembers: boolean };

/**
 * Refuses changes that name a balance of seats, which only the list of members moves.
 * @throws Failure unprocessable.
 */
async function requireNoSeats(ctx: Context, levels: readonly CountingLevel[], change: UsageChange): Promise<void> {
  const seats = levels.filter(({ countsMembers }) => countsMembers);
  if (seats.length === 0 || change.kind === "resetAll") return;
  for (const { serviceId, limitName } of seats) {
    const [service] = await ctx.db.select({ key: services.nameKey }).from(services).where(eq(services.id, serviceId));
    const key = service?.key ?? "";
    const isNamed =
      change.kind === "resetLimit"
        ? change.limitName === limitName
        : Object.entries(change.amounts).some(
            ([name, amounts]) => serviceKey(name) === key && Object.hasOwn(amounts, limitName),
          );
    if (isNamed) throw countsMembers(`${key}-${limitName}`);
  }
}

function selectLevels(levels: readonly CountingLevel[], change: Exclude<UsageChange, { kind: "increment" }>): Level[] {
  if (change.kind === "resetAll") {
    return levels.filter((level) => !level.countsMembers && (!change.renewableOnly || level.resetAt !== null));
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

/**
 * Resolves amounts to balance changes; untracked limits are ignored.
 * @throws Failure notFound for a service that is not contracted.
 */
async function increments(
  ctx: Context,
  contractId: string,
  levels: readonly AlertedLevel[],
  amounts: Readonly<Record<string, Readonly<Record<string, number>>>>,
): Promise<Movement<AlertedLevel>[]> {
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
