import { and, eq, sql, type SQL } from "drizzle-orm";
import { isPlatformAdmin } from "../../core/access/caller.ts";
import { actorOf, denyMoveService } from "../../core/access/membership.ts";
import { findRule } from "../../core/access/find-rule.ts";
import { checkPermission } from "../../core/access/check-permission.ts";
import { isDotSegment } from "../../core/pricing/names.ts";
import { violates } from "../../db/postgres/connect.ts";
import { type FactsById, readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { recordServiceRemoval } from "../../db/queries/contract-levels.ts";
import { lockSubscribers } from "../../db/queries/contracts.ts";
import { stopFollowingIn } from "../../db/queries/billing.ts";
import { renameInBilling } from "../../db/queries/billing-renames.ts";
import { followLevels, renameInHolds } from "../../db/queries/holds.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { endLeavingTerms } from "../../db/queries/overrides.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { moveService, serviceKey, type ServiceRow, type ServiceView } from "../../db/queries/pricings.ts";
import { contracts, contractServices, organizations, services } from "../../db/schema.ts";
import { relabelFeatures, REVERT_WINDOW_MS } from "../../db/queries/usage-reverts.ts";
import { isIdentifier, organizationRole, refuseMove, standingIn } from "../access.ts";
import { auditAll } from "../audit.ts";
import { assessed, needsApproval, settleApproval } from "../policy/approval.ts";
import { auditOf, decideChange, type Decision, keepDecision } from "../policy/change-decision.ts";
import { type Context, newId } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { expireHoldsOf } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import { isLeft, leavePending, movesWithout } from "../pending-changes.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { requireService, type ServiceAddress, viewService } from "../service-address.ts";

/** Changes to a service; undefined and blank fields stay unchanged. */
export interface ServiceChanges {
  name: string | undefined;
  targetOrganizationId: string | undefined;
  /** Reason for overriding a gate rule when moving. */
  overrideReason?: string | undefined;
}

const unknownOrganization = (id: string, cause?: unknown) =>
  new Failure("invalid", `INVALID DATA: Organization with id ${id} not found`, { cause });

/**
 * Renames and/or moves a service. Contracts reference the service's id, so a rename takes effect everywhere. A move
 * takes along contracts with only this service, and removes it from the others. For the source organization, a move is
 * a removal. It needs the permissions of disabling the service, and passes the same gate. Source: contract README,
 * decision 20; services-pricings §4.5, §9.
 * @throws Failure notFound; conflict when the target already has the name or an end user's contract, or a gate rule is
 * broken; invalid for an unknown organization or a name that no path can carry; forbidden for callers who may not
 * remove here or write there.
 */
export async function updateService(ctx: Context, input: ServiceAddress & ServiceChanges): Promise<ServiceView> {
  const name = input.name?.trim() ?? "";
  // No path could name the service again, not even to rename it back.
  if (isDotSegment(name)) throw new Failure("invalid", "INVALID DATA: The name of a service must not be . or ..");
  const target = input.targetOrganizationId;
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  try {
    return await proposeFirst(ctx, async (ctx) => {
      const service = await requireService(ctx, input, "update");
      const isMoved = target !== undefined && target !== service.organizationId;
      // For the source organization, a move is a removal.
      const isHeld = isMoved && (await needsApproval(ctx, service.organizationId, "disable"));
      const decision = isMoved ? await decideMove(ctx, service, target, { ...input, isAssessed: isHeld }) : undefined;
      const isRenamed = name !== "" && serviceKey(name) !== service.nameKey;
      const before = isMoved || isRenamed ? await readHolders(ctx, service) : new Map();
      const ended = isMoved ? await moveContracts(ctx, service, { targetId: target, isRenamed }) : [];
      const [changed] = await ctx.db
        .update(services)
        .set({
          ...(name === "" ? {} : { name, nameKey: serviceKey(name) }),
          ...(isMoved ? { offerPublished: false } : {}),
          updatedAt: ctx.resources.now(),
        })
        .where(eq(services.id, service.id))
        .returning();
      const after = changed ?? service;
      if (after.nameKey !== service.nameKey) {
        await renameInLedger(ctx, service, after.nameKey);
        await renameInBilling(ctx.db, { organizationId: service.organizationId, from: service.nameKey, to: name });
      }
      const change = {
        action: "service.update" as const,
        target: service.name,
        before: { name: service.name, organizationId: service.organizationId },
        after: { name: after.name, organizationId: after.organizationId },
      };
      await keepDecision(ctx, decision);
      // Both organizations can read an audited move; only the source gets the gate's result.
      await auditAll(ctx, [
        {
          ...change,
          after: { ...change.after, ...auditOf(decision) },
          organizationId: service.organizationId,
        },
        ...(isMoved ? [{ ...change, organizationId: after.organizationId }] : []),
      ]);
      const answer = await viewService(ctx, after);
      await recordChanges(ctx.db, before, { first: ended });
      if (isHeld) {
        const { organizationId } = service;
        const summary = `Move ${service.name} to organization ${target}`;
        await settleApproval(ctx, {
          organizationId,
          action: "disable",
          summary,
          operation: "updateService",
          input,
          ...assessed(decision),
        });
      }
      return answer;
    });
  } catch (error) {
    if (violates(error, "services_name_unique")) {
      const taken = name === "" ? input.serviceName : name;
      throw new Failure("conflict", `CONFLICT: Service name ${taken} already exists`, { cause: error });
    }
    // The target organization gained a contract of that end user after the check. Run again to name the end user.
    if (violates(error, "contracts_user_unique")) return updateService(ctx, input);
    const ofOrganization = ["services", "contracts", "scheduled_changes"].map((table) => `${table}_organization_fk`);
    if (ofOrganization.some((key) => violates(error, key))) throw unknownOrganization(target ?? "", error);
    throw error;
  }
}

/**
 * Relabels recent consumption, so that it can still be reverted under the new name. Locks the contracts, so that no
 * consumption in flight still records the old name.
 */
async function renameInLedger(ctx: Context, service: ServiceRow, nameKey: string): Promise<void> {
  const holders = await lockSubscribers(ctx.db, { serviceIds: [service.id] });
  const contractIds = holders.map((row) => row.id);
  const now = ctx.resources.now();
  const renaming = { contractIds, serviceId: service.id, from: service.nameKey, to: nameKey };
  await relabelFeatures(ctx.db, { ...renaming, since: new Date(now.getTime() - REVERT_WINDOW_MS) });
  await renameInHolds(ctx.db, renaming);
  await recordStates(ctx.db, { contractIds, cause: "rename", now });
}

/** Locks the contracts with the service, and returns their facts. */
async function readHolders(ctx: Context, service: ServiceRow): Promise<FactsById> {
  const holders = await lockSubscribers(ctx.db, { serviceIds: [service.id] });
  return readFacts(
    ctx.db,
    holders.map((row) => row.id),
  );
}

/** Checks permissions on both sides, then the source organization's gate, as for disabling the service. */
async function decideMove(
  ctx: Context,
  service: ServiceRow,
  targetId: string,
  {
    serviceName,
    overrideReason,
    isAssessed,
  }: { serviceName: string; overrideReason?: string | undefined; isAssessed: boolean },
): Promise<Decision | undefined> {
  await requireMoveAllowed(ctx, service, { serviceName, targetId });
  return decideChange(ctx, { service, change: { action: "disable" }, overrideReason, isAssessed });
}

/** Moves or leaves the service's contracts. Returns the events of overrides and pending changes that end with it. */
async function moveContracts(
  ctx: Context,
  service: ServiceRow,
  { targetId, isRenamed }: { targetId: string; isRenamed: boolean },
): Promise<Addressed[]> {
  const holders = await lockSubscribers(ctx.db, { serviceIds: [service.id] });
  const holderIds = holders.map((row) => row.id);
  const sharing = await ctx.db
    .selectDistinct({ id: contractServices.contractId })
    .from(contractServices)
    .where(and(isAnyOf(contractServices.contractId, holderIds), sql`${contractServices.serviceId} <> ${service.id}`));
  const staying = new Set(sharing.map((row) => row.id));
  const moving = holders.filter((row) => !staying.has(row.id));
  await requireNoneOf(
    ctx,
    targetId,
    moving.map((row) => row.userId),
  );
  const contractIds = moving.map((row) => row.id);
  const ended = [
    ...(await leavePending(ctx, movesWithout(service.id, contractIds))),
    ...(await leavePending(ctx, isLeft(service.id, contractIds), targetId)),
    ...(await leaveBehind(ctx, [...staying], service.id)),
  ];
  const now = ctx.resources.now();
  // The subscriptions stay with the connection of the organization that the contracts leave.
  await stopFollowingIn(ctx.db, contractIds);
  // The target may have the old name, and this organization the new one. No service has a key that begins with a blank.
  if (isRenamed)
    await ctx.db
      .update(services)
      .set({ nameKey: ` ${service.id}` })
      .where(eq(services.id, service.id));
  await moveService(ctx.db, { serviceId: service.id, contractIds, organizationId: targetId, now });
  return ended;
}

/** @throws Failure conflict if the organization has a contract of one of these end users. */
async function requireNoneOf(ctx: Context, targetId: string, userIds: readonly string[]): Promise<void> {
  const [met] = await ctx.db
    .select({ userId: contracts.userId })
    .from(contracts)
    .where(and(eq(contracts.organizationId, targetId), isAnyOf(contracts.userId, userIds)))
    .limit(1);
  if (met !== undefined) throw new Failure("conflict", `CONFLICT: Contract for user ${met.userId} already exists`);
}

/**
 * Removes the service from contracts that also have others. They stay in the source organization; the service's
 * balances and overrides end. Returns the events of expired holds and of those overrides.
 */
async function leaveBehind(ctx: Context, contractIds: readonly string[], serviceId: string): Promise<Addressed[]> {
  if (contractIds.length === 0) return [];
  const now = ctx.resources.now();
  const expired = await expireHoldsOf(ctx, contractIds, now);
  const ended = await endLeavingTerms(ctx.db, { contractIds, leaving: sql`service_id = ${serviceId}`, now });
  const input = { contractIds, now, operationId: newId(now) };
  await recordServiceRemoval(ctx.db, { ...input, serviceIds: [serviceId] });
  const theirs: SQL | undefined = and(
    isAnyOf(contractServices.contractId, contractIds),
    eq(contractServices.serviceId, serviceId),
  );
  await ctx.db.delete(contractServices).where(theirs);
  await followLevels(ctx.db, input);
  await recordStates(ctx.db, { contractIds, cause: "move", now });
  return [...expired, ...ended];
}

/**
 * Checks that the caller may remove the service here and create it there.
 * @throws Failure forbidden for missing permissions; invalid for an invalid or unknown target.
 */
async function requireMoveAllowed(
  ctx: Context,
  service: ServiceRow,
  { serviceName, targetId }: { serviceName: string; targetId: string },
): Promise<void> {
  const denial = await denyRemoval(ctx, service, serviceName);
  if (denial !== undefined) throw new Failure("forbidden", denial);
  if (!isIdentifier(targetId)) throw new Failure("invalid", "INVALID DATA: Invalid organization ID");
  await requireTarget(ctx, service.organizationId, targetId);
}

/** Denies an organization key with the same message as its DELETE of the service under the name that it sent. */
async function denyRemoval(ctx: Context, service: ServiceRow, serviceName: string): Promise<string | undefined> {
  const { caller } = ctx;
  if (caller.kind !== "key")
    return denyMoveService(actorOf(caller, await organizationRole(ctx, service.organizationId)));
  const path = `/services/${encodeURIComponent(serviceName)}`;
  return checkPermission(findRule("DELETE", path), caller, "DELETE", path, false)?.message;
}

/**
 * Checks the target. A key may move only between organizations of one owner; a user only where it may write services.
 * @throws Failure invalid for an unknown target, forbidden; gone or unavailable as refuseMove.
 */
async function requireTarget(ctx: Context, sourceId: string, targetId: string): Promise<void> {
  const owners = await ctx.db
    .select({ id: organizations.id, ownerId: organizations.ownerId })
    .from(organizations)
    .where(isAnyOf(organizations.id, [sourceId, targetId]));
  const ownerOf = (id: string) => owners.find((one) => one.id === id)?.ownerId;
  if (ownerOf(targetId) === undefined) throw unknownOrganization(targetId);
  const { caller } = ctx;
  const { role, move } = await standingIn(ctx, targetId);
  const mayWrite =
    caller.kind === "key"
      ? ownerOf(sourceId) === ownerOf(targetId)
      : isPlatformAdmin(caller) || role === "OWNER" || role === "ADMIN" || role === "MANAGER";
  if (!mayWrite) {
    throw new Failure(
      "forbidden",
      `PERMISSION ERROR: You do not have permission to move services into organization ${targetId}`,
    );
  }
  refuseMove(move, false);
}
