import { and, asc, count, eq, sql, type SQL } from "drizzle-orm";
import { addPeriod } from "../../core/period.ts";
import { violates } from "../../db/postgres/connect.ts";
import { readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import {
  addSubscriptions,
  appendHistory,
  type ContractView,
  lockContracts,
  replaceSubscriptions,
  restartBilling,
  type SubscribedService,
  USUAL_RENEWAL_DAYS,
  viewContracts,
} from "../../db/queries/contracts.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { contracts, contractServices, organizations } from "../../db/schema.ts";
import { type Context, newId, snapshot, transaction } from "../context.ts";
import { type ContractAddress, contractNotFound, findContract } from "../contract-address.ts";
import { auditContracts, auditNovations, billingOf, contactOf, factsOf } from "./contract-audit.ts";
import { Failure } from "../errors.ts";
import { decideGroupNovations, keepGroupDecisions } from "./group-decisions.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { lockServices, resolveSubscription, type Subscription } from "../subscriptions.ts";

export interface NewContract extends Subscription {
  userContact: {
    userId: string;
    username: string;
    firstName?: string | undefined;
    lastName?: string | undefined;
    email?: string | undefined;
    phone?: string | undefined;
  };
  billingPeriod?: { autoRenew?: boolean | undefined; renewalDays?: number | undefined } | undefined;
  groupId?: string | undefined;
}

async function viewOne(ctx: Context, contractId: string): Promise<ContractView> {
  const [view] = await viewContracts(ctx.db, [{ id: contractId }]);
  if (view === undefined) throw new Error(`contract ${contractId} vanished inside its transaction`);
  return view;
}

/** Records contract events. Must be the last statement of the transaction. */
function recordContracts(
  ctx: Context,
  code: "CONTRACT_CREATED" | "CONTRACT_NOVATED",
  views: readonly ContractView[],
): Promise<void> {
  return recordEvents(
    ctx.db,
    views.map(({ id, organizationId, userContact: { userId } }) => ({
      organizationId,
      event: { code, details: { contractId: id, userId } },
    })),
  );
}

/**
 * Creates an end user's contract with services of the organization. Source: contract contracts §4.
 * @throws Failure conflict when the end user already has a contract; a unique constraint also decides races.
 */
export async function createContract(
  ctx: Context,
  input: { organizationId: string; contract: NewContract },
): Promise<ContractView> {
  const { organizationId, contract } = input;
  const { userContact } = contract;
  const exists = (cause?: unknown) =>
    new Failure("conflict", `CONFLICT: Contract for user ${userContact.userId} already exists`, { cause });
  try {
    return await transaction(ctx, async (ctx) => {
      // Lock the organization before its services, in the same order as its deletion.
      const [organization] = await ctx.db
        .select({
          held: sql<boolean>`exists (
            select 1 from contracts c
            where c.organization_id = ${organizationId} and c.user_id = ${userContact.userId})`,
        })
        .from(organizations)
        .where(eq(organizations.id, organizationId))
        .for("key share");
      if (organization === undefined) {
        throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
      }
      if (organization.held) throw exists();
      if (Object.keys(contract.contractedServices).length === 0) {
        throw new Failure("invalid", "Invalid request: serviceNames must be a non-empty array");
      }
      const locked = await lockServices(ctx, [organizationId], contract);
      const next = await resolveSubscription(ctx, locked.get(organizationId) ?? new Map(), contract, "creation");
      const renewalDays = contract.billingPeriod?.renewalDays ?? USUAL_RENEWAL_DAYS;
      const now = ctx.resources.now();
      const id = newId(now);
      await ctx.db.insert(contracts).values({
        id,
        organizationId,
        userId: userContact.userId,
        username: userContact.username,
        firstName: userContact.firstName ?? null,
        lastName: userContact.lastName ?? null,
        email: userContact.email ?? null,
        phone: userContact.phone ?? null,
        groupId: contract.groupId ?? null,
        startDate: now,
        endDate: addPeriod(now, { value: renewalDays, unit: "DAY" }),
        autoRenew: contract.billingPeriod?.autoRenew ?? false,
        renewalDays,
      });
      await addSubscriptions(ctx.db, { contractIds: [id], next, now });
      await recordStates(ctx.db, { contractIds: [id], cause: "creation", now });
      const view = await viewOne(ctx, id);
      await auditContracts(ctx, "contract.create", [
        { organizationId, userId: userContact.userId, after: factsOf(view) },
      ]);
      await recordContracts(ctx, "CONTRACT_CREATED", [view]);
      return view;
    });
  } catch (error) {
    if (violates(error, "contracts_user_unique")) throw exists(error);
    throw error;
  }
}

/**
 * Shows an end user's contract. Source: contract contracts §5.
 * @throws Failure notFound, also for another organization's contract.
 */
export function showContract(ctx: Context, address: ContractAddress): Promise<ContractView> {
  return snapshot(ctx, async (ctx) => viewOne(ctx, (await findContract(ctx, address)).id));
}

export interface Novation extends Subscription {
  billingPeriod?: { autoRenew?: boolean | undefined } | undefined;
}

type ContractRow = typeof contracts.$inferSelect;

/**
 * Novates all matching contracts: validates all of them, then writes. The number of statements grows with the
 * organizations, not with the contracts. With `gate`, each organization's gate rules decide before any write.
 * @returns the contract ids; empty if none match once the locks are held.
 */
async function applyNovation(
  ctx: Context,
  where: SQL | undefined,
  novation: Novation,
  gate?: { overrideReason: string | undefined },
): Promise<string[]> {
  const organizationIds = await ctx.db
    .selectDistinct({ id: contracts.organizationId })
    .from(contracts)
    .where(where)
    .then((rows) => rows.map((row) => row.id));
  if (organizationIds.length === 0) return [];
  const services = await lockServices(ctx, organizationIds, novation);
  const rows = await lockContracts(ctx.db, where);
  const planned: { organizationId: string; contractIds: string[]; next: SubscribedService[] }[] = [];
  for (const [organizationId, locked] of services) {
    const contractIds = rows.filter((row) => row.organizationId === organizationId).map((row) => row.id);
    if (contractIds.length === 0) continue;
    const held = await heldByAll(ctx, contractIds);
    const next = await resolveSubscription(ctx, locked, novation, "novation", held);
    planned.push({ organizationId, contractIds, next });
  }
  const decisions = gate === undefined ? [] : await decideGroupNovations(ctx, planned, gate.overrideReason);
  const contractIds = planned.flatMap((one) => one.contractIds);
  // Take the time after acquiring the locks: the previous holder may have started a billing period later than our
  // request.
  const now = ctx.resources.now();
  const operationId = newId(now);
  await appendHistory(ctx.db, contractIds, now);
  for (const plan of planned) await replaceSubscriptions(ctx.db, { ...plan, now, operationId });
  await restartBilling(ctx.db, { contractIds, autoRenew: novation.billingPeriod?.autoRenew, now });
  await recordStates(ctx.db, { contractIds, cause: "novation", now });
  await keepGroupDecisions(ctx, decisions);
  return contractIds;
}

/** Returns the versions that all these contracts are on. They may stay on these even if archived. */
async function heldByAll(ctx: Context, contractIds: readonly string[]): Promise<Set<string>> {
  const rows = await ctx.db
    .select({ id: contractServices.pricingId })
    .from(contractServices)
    .where(isAnyOf(contractServices.contractId, contractIds))
    .groupBy(contractServices.pricingId)
    .having(eq(count(), contractIds.length));
  return new Set(rows.map((row) => row.id));
}

/** Replaces a contract's whole subscription and restarts its billing period. Source: contract contracts §6. */
export async function novateContract(
  ctx: Context,
  input: ContractAddress & { novation: Novation },
): Promise<ContractView> {
  return transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, input);
    const [novated] = await applyNovation(ctx, eq(contracts.id, row.id), input.novation);
    if (novated === undefined) throw contractNotFound(input.userId);
    const view = await viewOne(ctx, novated);
    await auditNovations(ctx, [view]);
    await recordContracts(ctx, "CONTRACT_NOVATED", [view]);
    return view;
  });
}

function inGroup(organizationId: string | undefined, groupId: string | undefined): SQL | undefined {
  return and(
    organizationId === undefined ? undefined : eq(contracts.organizationId, organizationId),
    groupId === undefined ? undefined : eq(contracts.groupId, groupId),
  );
}

async function viewByUsername(ctx: Context, ids: readonly string[]): Promise<ContractView[]> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(isAnyOf(contracts.id, ids))
    .orderBy(asc(sql`${contracts.username} collate "C"`), asc(contracts.id));
  return viewContracts(ctx.db, rows);
}

/**
 * Novates every contract of a group, or none. Source: contract contracts §7; README, decision 21.
 * @throws Failure conflict for a broken gate rule, as for a mass novation.
 */
export async function novateGroup(
  ctx: Context,
  input: {
    organizationId: string | undefined;
    groupId: string;
    novation: Novation;
    overrideReason: string | undefined;
  },
): Promise<ContractView[]> {
  return proposeFirst(ctx, async (ctx) => {
    const { overrideReason } = input;
    const where = inGroup(input.organizationId, input.groupId);
    const ids = await applyNovation(ctx, where, input.novation, { overrideReason });
    if (ids.length === 0) {
      throw new Failure(
        "notFound",
        `INVALID DATA: No contracts found with groupId ${input.groupId} within organization ${input.organizationId}`,
      );
    }
    const views = await viewByUsername(ctx, ids);
    await auditNovations(ctx, views);
    await recordContracts(ctx, "CONTRACT_NOVATED", views);
    return views;
  });
}

/** Deletes a contract with its history, balances and ledger. The end user can be contracted again immediately. */
export async function deleteContract(ctx: Context, address: ContractAddress): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, address, "delete");
    const before = await readFacts(ctx.db, [row.id]);
    const view = await viewOne(ctx, row.id);
    await ctx.db.delete(contracts).where(eq(contracts.id, row.id));
    await auditContracts(ctx, "contract.delete", [{ ...row, before: factsOf(view) }]);
    await recordChanges(ctx.db, before);
  });
}

/**
 * Deletes every contract of the organization. Without an organization it deletes all contracts of the instance; only a
 * platform ADMIN can do that.
 */
export async function deleteContracts(ctx: Context, organizationId: string | undefined): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const rows = await lockContracts(ctx.db, inGroup(organizationId, undefined));
    const ids = rows.map((row) => row.id);
    const before = await readFacts(ctx.db, ids);
    await ctx.db.delete(contracts).where(isAnyOf(contracts.id, ids));
    await auditContracts(
      ctx,
      "contract.delete",
      rows.map((row) => ({ ...row, before: { contractId: row.id, ...billingOf(row) } })),
    );
    await recordChanges(ctx.db, before);
  });
}

/** Mutable fields of a contact; the end user's id never changes. */
export interface ContactChanges {
  username?: string | undefined;
  firstName?: string | undefined;
  lastName?: string | undefined;
  email?: string | undefined;
  phone?: string | undefined;
}

/** Merges the given fields into the contact. Source: contract contracts §10. */
export async function updateContact(
  ctx: Context,
  input: ContractAddress & { changes: ContactChanges },
): Promise<ContractView> {
  return transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, input, "change");
    const { username, firstName, lastName, email, phone } = input.changes;
    const changes = {
      ...(username === undefined ? {} : { username }),
      ...(firstName === undefined ? {} : { firstName }),
      ...(lastName === undefined ? {} : { lastName }),
      ...(email === undefined ? {} : { email }),
      ...(phone === undefined ? {} : { phone }),
    };
    const before = await readFacts(ctx.db, [row.id]);
    await ctx.db
      .update(contracts)
      .set({ ...changes, updatedAt: ctx.resources.now() })
      .where(eq(contracts.id, row.id));
    const view = await viewOne(ctx, row.id);
    await auditContracts(ctx, "contract.contact", [{ ...row, before: contactOf(row), after: view.userContact }]);
    await recordChanges(ctx.db, before);
    return view;
  });
}

export interface BillingChanges {
  endDate?: Date | undefined;
  autoRenew?: boolean | undefined;
  renewalDays?: number | undefined;
}

const END_BEFORE_START = "End date cannot be before the start date";

async function applyBilling(ctx: Context, ids: readonly string[], changes: BillingChanges): Promise<void> {
  await ctx.db
    .update(contracts)
    .set({
      ...(changes.endDate === undefined ? {} : { endDate: changes.endDate }),
      ...(changes.autoRenew === undefined ? {} : { autoRenew: changes.autoRenew }),
      ...(changes.renewalDays === undefined ? {} : { renewalDays: changes.renewalDays }),
      updatedAt: ctx.resources.now(),
    })
    .where(isAnyOf(contracts.id, ids));
}

/** Updates the billing periods of locked contracts, and audits the previous values. */
async function changeBilling(ctx: Context, rows: readonly ContractRow[], changes: BillingChanges): Promise<void> {
  const ids = rows.map((row) => row.id);
  await applyBilling(ctx, ids, changes);
  await recordStates(ctx.db, { contractIds: ids, cause: "billing", now: ctx.resources.now() });
  const given = { endDate: changes.endDate, autoRenew: changes.autoRenew, renewalDays: changes.renewalDays };
  const after = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  await auditContracts(
    ctx,
    "contract.billing",
    rows.map((row) => ({ ...row, before: billingOf(row), after: { ...billingOf(row), ...after } })),
  );
}

const endsTooEarly = (row: ContractRow, changes: BillingChanges) =>
  changes.endDate !== undefined && changes.endDate.getTime() < row.startDate.getTime();

/** Merges the given fields into the billing period. Source: contract contracts §11. */
export async function updateBillingPeriod(
  ctx: Context,
  input: ContractAddress & { changes: BillingChanges },
): Promise<ContractView> {
  return transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, input, "change");
    if (endsTooEarly(row, input.changes)) throw new Failure("invalid", END_BEFORE_START);
    const before = await readFacts(ctx.db, [row.id]);
    await changeBilling(ctx, [row], input.changes);
    const view = await viewOne(ctx, row.id);
    await recordChanges(ctx.db, before);
    return view;
  });
}

/**
 * Updates the billing periods of a group, or of the organization's contracts; all or none. Source: contract contracts
 * §11, §14.2.
 */
export async function updateGroupBillingPeriod(
  ctx: Context,
  input: { organizationId: string | undefined; groupId: string | undefined; changes: BillingChanges },
): Promise<ContractView[]> {
  return transaction(ctx, async (ctx) => {
    const rows = await lockContracts(ctx.db, inGroup(input.organizationId, input.groupId));
    if (rows.length === 0) {
      throw new Failure(
        "notFound",
        `INVALID DATA: Contract with groupId ${input.groupId} not found within organization ${input.organizationId}`,
      );
    }
    const early = rows.find((row) => endsTooEarly(row, input.changes));
    if (early !== undefined) {
      throw new Failure(
        "invalid",
        `INVALID DATA: Error updating billing period for contract of user ${early.userId}. ${END_BEFORE_START}.`,
      );
    }
    const ids = rows.map((row) => row.id);
    const before = await readFacts(ctx.db, ids);
    await changeBilling(ctx, rows, input.changes);
    const views = await viewByUsername(ctx, ids);
    await recordChanges(ctx.db, before);
    return views;
  });
}
