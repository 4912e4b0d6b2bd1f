import { and, eq, sql, type SQL } from "drizzle-orm";
import { actorOf, denyMoveService } from "../core/access/membership.ts";
import { denyAtGate, findRule } from "../core/access/permissions.ts";
import { violates } from "../db/postgres/connect.ts";
import { readFacts, recordChanges } from "../db/queries/contract-facts.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { lockHolders, recordServiceRemoval } from "../db/queries/contracts.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { serviceKey, type ServiceRow, type ServiceView } from "../db/queries/pricings.ts";
import { contracts, contractServices, members, organizations, services } from "../db/schema.ts";
import { relabelFeatures, REVERT_WINDOW_MS } from "../db/queries/usage.ts";
import { isIdentifier, organizationRole } from "./access.ts";
import { auditAll } from "./audit.ts";
import { auditOf, decideChange, type Decision, keepDecision } from "./change-decision.ts";
import { type Context, newId } from "./context.ts";
import { Failure } from "./errors.ts";
import { proposeFirst } from "./proposals.ts";
import { requireService, type ServiceAddress, viewService } from "./service-address.ts";

/** What may change of a service; absent and blank parts stay. */
export interface ServiceChanges {
  name: string | undefined;
  targetOrganizationId: string | undefined;
  /** Why a move may break a rule of the gate. */
  overrideReason?: string | undefined;
}

const unknownOrganization = (id: string, cause?: unknown) =>
  new Failure("invalid", `INVALID DATA: Organization with id ${id} not found`, { cause });

/**
 * Renames and/or moves a service. A rename carries through everywhere by itself: contracts refer to the service, not to
 * its name. A move takes along contracts that have only this service and removes it from the others. For the organization
 * that the service leaves, a move is a removal: it needs the same rights as disabling the service, and the same gate decides.
 * Failure notFound, conflict when the name or an end user's contract exists already where it goes or a rule of the gate is
 * broken, invalid for an unknown organization, forbidden for callers who may not remove here or write there.
 * Source: contract README, decision 20; services-pricings §4.5, §9.
 */
export async function updateService(ctx: Context, input: ServiceAddress & ServiceChanges): Promise<ServiceView> {
  const name = input.name?.trim() ?? "";
  const target = input.targetOrganizationId;
  try {
    return await proposeFirst(ctx, async (ctx) => {
      const service = await requireService(ctx, input, "update");
      const isMoved = target !== undefined && target !== service.organizationId;
      const decision = isMoved ? await decideMove(ctx, service, target, input.overrideReason) : undefined;
      const isRenamed = name !== "" && serviceKey(name) !== service.nameKey;
      const before = isMoved || isRenamed ? await readHolders(ctx, service) : new Map<string, string>();
      if (isMoved) await moveContracts(ctx, service, target);
      const [changed] = await ctx.db
        .update(services)
        .set({
          ...(name === "" ? {} : { name, nameKey: serviceKey(name) }),
          ...(target === undefined ? {} : { organizationId: target }),
          updatedAt: ctx.now(),
        })
        .where(eq(services.id, service.id))
        .returning();
      const after = changed ?? service;
      if (after.nameKey !== service.nameKey) await renameInLedger(ctx, service, after.nameKey);
      const change = {
        action: "service.update" as const,
        target: service.name,
        before: { name: service.name, organizationId: service.organizationId },
        after: { name: after.name, organizationId: after.organizationId },
      };
      await keepDecision(ctx, decision);
      // Both sides of a move can read it; the gate is the business of the side that the service leaves.
      await auditAll(ctx, [
        {
          ...change,
          after: { ...change.after, ...auditOf(decision) },
          organizationId: service.organizationId,
        },
        ...(isMoved ? [{ ...change, organizationId: after.organizationId }] : []),
      ]);
      const answer = await viewService(ctx, after);
      await recordChanges(ctx.db, before);
      return answer;
    });
  } catch (error) {
    if (violates(error, "services_name_unique")) {
      const taken = name === "" ? input.serviceName : name;
      throw new Failure("conflict", `CONFLICT: Service name ${taken} already exists`, { cause: error });
    }
    // Somebody contracted that end user in the target organization since we looked: look again, and say who it is.
    if (violates(error, "contracts_user_unique")) return updateService(ctx, input);
    if (violates(error, "services_organization_fk") || violates(error, "contracts_organization_fk")) {
      throw unknownOrganization(target ?? "", error);
    }
    throw error;
  }
}

/**
 * What was consumed under the old name can be reverted under the new one, for as long as it can be at all. The contracts are
 * locked, so that nobody who still counts under the old name comes after.
 */
async function renameInLedger(ctx: Context, service: ServiceRow, nameKey: string): Promise<void> {
  const holders = await lockHolders(ctx.db, { serviceIds: [service.id] });
  const contractIds = holders.map((row) => row.id);
  const now = ctx.now();
  await relabelFeatures(ctx.db, {
    contractIds,
    serviceId: service.id,
    from: service.nameKey,
    to: nameKey,
    since: new Date(now.getTime() - REVERT_WINDOW_MS),
  });
  await recordStates(ctx.db, { contractIds, cause: "rename", now });
}

/** The facts of the contracts that have the service, which are locked. */
async function readHolders(ctx: Context, service: ServiceRow): Promise<Map<string, string>> {
  const holders = await lockHolders(ctx.db, { serviceIds: [service.id] });
  return readFacts(
    ctx.db,
    holders.map((row) => row.id),
  );
}

/** Checks both sides' permissions, then asks the gate of the organization that the service leaves, as for disabling it. */
async function decideMove(
  ctx: Context,
  service: ServiceRow,
  targetId: string,
  overrideReason: string | undefined,
): Promise<Decision | undefined> {
  await requireMoveAllowed(ctx, service, targetId);
  return decideChange(ctx, { service, change: { action: "disable" }, overrideReason });
}

async function moveContracts(ctx: Context, service: ServiceRow, targetId: string): Promise<void> {
  const holders = await lockHolders(ctx.db, { serviceIds: [service.id] });
  const holderIds = holders.map((row) => row.id);
  const sharing = await ctx.db
    .selectDistinct({ id: contractServices.contractId })
    .from(contractServices)
    .where(and(isAnyOf(contractServices.contractId, holderIds), sql`${contractServices.serviceId} <> ${service.id}`));
  const staying = new Set(sharing.map((row) => row.id));
  await takeAlong(
    ctx,
    holders.filter((row) => !staying.has(row.id)),
    targetId,
  );
  await leaveBehind(ctx, [...staying], service.id);
}

/** Contracts with only the moving service: they go with it, unchanged. */
async function takeAlong(
  ctx: Context,
  moving: readonly { id: string; userId: string }[],
  targetId: string,
): Promise<void> {
  if (moving.length === 0) return;
  const userIds = moving.map((row) => row.userId);
  const [met] = await ctx.db
    .select({ userId: contracts.userId })
    .from(contracts)
    .where(and(eq(contracts.organizationId, targetId), isAnyOf(contracts.userId, userIds)))
    .limit(1);
  if (met !== undefined) throw new Failure("conflict", `CONFLICT: Contract for user ${met.userId} already exists`);
  const ids = moving.map((row) => row.id);
  await ctx.db
    .update(contracts)
    .set({ organizationId: targetId, updatedAt: ctx.now() })
    .where(isAnyOf(contracts.id, ids));
}

/** Contracts with other services too: they stay where they are, without this one; its balances end at zero. */
async function leaveBehind(ctx: Context, contractIds: readonly string[], serviceId: string): Promise<void> {
  if (contractIds.length === 0) return;
  const now = ctx.now();
  await recordServiceRemoval(ctx.db, { contractIds, serviceIds: [serviceId], now, operationId: newId(now) });
  const theirs: SQL | undefined = and(
    isAnyOf(contractServices.contractId, contractIds),
    eq(contractServices.serviceId, serviceId),
  );
  await ctx.db.delete(contractServices).where(theirs);
  await recordStates(ctx.db, { contractIds, cause: "move", now });
}

/** Failure forbidden for callers who may not remove services where this one is; invalid where it cannot go. */
async function requireMoveAllowed(ctx: Context, service: ServiceRow, targetId: string): Promise<void> {
  const denial = await denyRemoval(ctx, service);
  if (denial !== undefined) throw new Failure("forbidden", denial);
  if (!isIdentifier(targetId)) throw new Failure("invalid", "INVALID DATA: Invalid organization ID");
  await requireTarget(ctx, service.organizationId, targetId);
}

/** A key is refused with the sentence that the permission table has for its DELETE of the service. */
async function denyRemoval(ctx: Context, service: ServiceRow): Promise<string | undefined> {
  const { caller } = ctx;
  if (caller.kind !== "key")
    return denyMoveService(actorOf(caller, await organizationRole(ctx, service.organizationId)));
  const path = `/services/${encodeURIComponent(service.name)}`;
  return denyAtGate(findRule("DELETE", path), caller, "DELETE", path, false)?.message;
}

/** Between organizations of one owner for a key; for a user, only into an organization in which it may write services. */
async function requireTarget(ctx: Context, sourceId: string, targetId: string): Promise<void> {
  const [source, target] = await Promise.all(
    [sourceId, targetId].map(async (id) => {
      const rows = await ctx.db
        .select({ ownerId: organizations.ownerId })
        .from(organizations)
        .where(eq(organizations.id, id));
      return rows[0];
    }),
  );
  if (target === undefined) throw unknownOrganization(targetId);
  const caller = ctx.caller;
  if (caller.kind === "key" && source?.ownerId === target.ownerId) return;
  if (caller.kind === "user") {
    if (caller.role === "ADMIN" || target.ownerId === caller.id) return;
    const [member] = await ctx.db
      .select({ role: members.role })
      .from(members)
      .where(and(eq(members.organizationId, targetId), eq(members.userId, caller.id)));
    if (member?.role === "ADMIN" || member?.role === "MANAGER") return;
  }
  throw new Failure(
    "forbidden",
    `PERMISSION ERROR: You do not have permission to move services into organization ${targetId}`,
  );
}
