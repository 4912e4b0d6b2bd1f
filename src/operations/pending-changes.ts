import { type SQL, sql } from "drizzle-orm";
import { isAnyOf } from "../db/postgres/lists.ts";
import type { ContractChange } from "../core/scheduled.ts";
import type { Move } from "../db/queries/contract-moves.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import type { VersionRow } from "../db/queries/pricings.ts";
import {
  cancelPending,
  changeEvent,
  lockContractsWithPending,
  type PendingChange,
  readPending,
  trialEvent,
} from "../db/queries/scheduled.ts";
import { removePendingServices, rewritePending } from "../db/queries/scheduled-services.ts";
import { auditAll, type AuditAction } from "./audit.ts";
import type { Context } from "./context.ts";

/*
 * Pending changes follow their services and versions. Source: contract custom-terms §7.
 */

/** Condition of leavePending: one of these services. */
export const isService = (serviceIds: readonly string[]): SQL => isAnyOf(sql`x.service_id`, serviceIds);

/** Condition of leavePending: a service that moves to an organization without the contracts of these changes. */
export const movesWithout = (serviceId: string, contractIds: readonly string[]): SQL =>
  sql`x.service_id = ${serviceId} and not ${isAnyOf(sql`s.contract_id`, contractIds)}`;

/** Condition of leavePending: the other services of contracts that a service takes along. */
export const isLeft = (serviceId: string, contractIds: readonly string[]): SQL =>
  sql`${isAnyOf(sql`s.contract_id`, contractIds)} and x.service_id <> ${serviceId}`;

/**
 * Removes matching services from all pending changes, and cancels changes that lose their last one. Returns the events.
 * Call it with the services locked. Events and audit entries are of `organizationId`. Default: that of each contract.
 */
export async function leavePending(ctx: Context, leaving: SQL, organizationId?: string): Promise<Addressed[]> {
  const contractIds = await lockContractsWithPending(ctx.db, leaving);
  if (contractIds.length === 0) return [];
  const without = await removePendingServices(ctx.db, contractIds, leaving);
  const why = "Its services were removed";
  const pending = await cancelPending(ctx.db, without, why);
  const cancelled = pending.map((change) => ({ ...change, organizationId: organizationId ?? change.organizationId }));
  const trials = cancelled.filter(({ kind }) => kind === "trialEnd");
  const novations = cancelled.filter(({ kind }) => kind === "novation");
  await auditChanges(ctx, "schedule.cancel", novations, { why });
  await auditChanges(ctx, "trial.end", trials, { outcome: "removed" });
  return [
    ...novations.map((change) => changeEvent("CHANGE_CANCELLED", change, why)),
    ...trials.map((change) => trialEvent(change, "removed")),
  ];
}

/** A target of pending changes of one kind. */
export interface PendingMove extends Pick<Move, "plan" | "addOns"> {
  kind: ContractChange;
  contractIds: readonly string[];
}

/**
 * Points pending changes to another version, and trials to what follows there. Returns the events, which trials have none
 * of. Call it with the contracts locked, before their state is recorded.
 */
export async function movePending(
  ctx: Context,
  input: { serviceId: string; to: VersionRow; moves: readonly PendingMove[] },
): Promise<Addressed[]> {
  const { serviceId, to, moves } = input;
  for (const move of moves) await rewritePending(ctx.db, { ...move, serviceId, to });
  const moved = await readPending(
    ctx.db,
    moves.flatMap(({ contractIds }) => contractIds),
  );
  await auditChanges(ctx, "schedule.rewrite", moved, { to: to.version });
  const novations = moved.filter(({ kind }) => kind === "novation");
  return novations.map((change) => changeEvent("CHANGE_SCHEDULED", change));
}

function auditChanges(
  ctx: Context,
  action: AuditAction,
  changes: readonly PendingChange[],
  facts: object,
): Promise<void> {
  return auditAll(
    ctx,
    changes.map(({ id, at, organizationId, userId }) => ({
      action,
      organizationId,
      target: userId,
      before: { scheduledId: id, at },
      after: { scheduledId: id, ...facts },
    })),
  );
}
