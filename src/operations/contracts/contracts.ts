import { eq, sql } from "drizzle-orm";
import { addPeriod, type RenewalPeriod } from "../../core/period.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { violates } from "../../db/postgres/connect.ts";
import { namedEvents, readFacts, recordChanges } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import type { ContractView } from "../../db/queries/contract-view.ts";
import { addSubscriptions, lockContracts, USUAL_RENEWAL_DAYS } from "../../db/queries/contracts.ts";
import { endLeavingBlocks } from "../../db/queries/blocks.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { contracts, organizations } from "../../db/schema.ts";
import { type Context, newId, snapshot, transaction } from "../context.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { stageBlocksOf } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import { lockServices, resolveSubscription, type Subscription } from "../subscriptions.ts";
import { auditContracts, billingOf, contactOf, factsOf } from "../contract-audit.ts";
import { inGroup, viewOne } from "./contract-rows.ts";
import { beginTrial, checkTrial, type NewTrial, requireAgainAllowed } from "./trials.ts";

export interface NewContract extends Subscription {
  userContact: {
    userId: string;
    username: string;
    firstName?: string | undefined;
    lastName?: string | undefined;
    email?: string | undefined;
    phone?: string | undefined;
  };
  billingPeriod?:
    | {
        autoRenew?: boolean | undefined;
        renewalDays?: number | undefined;
        renewalPeriod?: RenewalPeriod | undefined;
      }
    | undefined;
  groupId?: string | undefined;
  trial?: NewTrial | undefined;
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
      const lockOrganization = async () =>
        ctx.db
          .select({
            hasContract: sql<boolean>`exists (
              select 1 from contracts c
              where c.organization_id = ${organizationId} and c.user_id = ${userContact.userId})`,
          })
          .from(organizations)
          .where(eq(organizations.id, organizationId))
          .for("key share");
      // Lock the organization before its services, in the same order as its deletion. Both statements are sent together.
      const [[organization], lockedServices] = await Promise.all([
        lockOrganization(),
        lockServices(ctx, [organizationId], contract),
      ]);
      if (organization === undefined) {
        throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
      }
      await requireAgainAllowed(ctx, organizationId, contract.trial);
      if (organization.hasContract) throw exists();
      if (Object.keys(contract.contractedServices).length === 0) {
        throw new Failure("invalid", "Invalid request: serviceNames must be a non-empty array");
      }
      const locked = lockedServices.get(organizationId) ?? new Map<string, string>();
      const next = await resolveSubscription(ctx, locked, contract, "creation");
      const { renewalDays = USUAL_RENEWAL_DAYS, renewalPeriod } = contract.billingPeriod ?? {};
      const now = ctx.resources.now();
      const { userId } = userContact;
      const { trial } = contract;
      const given = { organizationId, userId, locked, next, now };
      const checked = trial === undefined ? undefined : await checkTrial(ctx, { ...given, trial, contract });
      const id = newId(now);
      const insert = async () =>
        ctx.db.insert(contracts).values({
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
          endDate: checked?.until ?? addPeriod(now, renewalPeriod ?? { value: renewalDays, unit: "DAY" }),
          autoRenew: contract.billingPeriod?.autoRenew ?? false,
          renewalDays,
          renewalValue: renewalPeriod?.value ?? null,
          renewalUnit: renewalPeriod?.unit ?? null,
          changeAt: checked?.until ?? null,
        });
      const inserted = Promise.all([insert(), addSubscriptions(ctx.db, [{ contractIds: [id], next }], now)]);
      if (checked !== undefined) {
        await inserted;
        await beginTrial(ctx, { ...given, contractId: id, checked });
      }
      // Executed in this order, after the insertions.
      const [, , view, facts] = await Promise.all([
        inserted,
        recordStates(ctx.db, { contractIds: [id], cause: "creation", now }),
        viewOne(ctx, id),
        readFacts(ctx.db, [id]),
      ]);
      const after = { ...factsOf(view), ...(view.trial === undefined ? {} : { trial: view.trial }) };
      await Promise.all([
        auditContracts(ctx, "contract.create", [{ organizationId, userId, after }]),
        recordEvents(ctx.db, namedEvents([{ code: "CONTRACT_CREATED", contractId: id }], new Map(), facts)),
      ]);
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
export async function showContract(ctx: Context, address: ContractAddress): Promise<ContractView> {
  await applyDueChangesOf(ctx, address);
  return snapshot(ctx, async (ctx) => viewOne(ctx, (await findContract(ctx, address)).id));
}

/** Deletes a contract with its history, balances and ledger. The end user can be contracted again immediately. */
export async function deleteContract(ctx: Context, address: ContractAddress): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, address, "delete");
    const before = await readFacts(ctx.db, [row.id]);
    const view = await viewOne(ctx, row.id);
    const ended = await endBlocksOf(ctx, [row.id]);
    await ctx.db.delete(contracts).where(eq(contracts.id, row.id));
    await auditContracts(ctx, "contract.delete", [{ ...row, before: factsOf(view) }]);
    await recordChanges(ctx.db, before, { first: ended });
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
    const ended = await endBlocksOf(ctx, ids);
    await ctx.db.delete(contracts).where(isAnyOf(contracts.id, ids));
    await auditContracts(
      ctx,
      "contract.delete",
      rows.map((row) => ({ ...row, before: { contractId: row.id, ...billingOf(row) } })),
    );
    await recordChanges(ctx.db, before, { first: ended });
  });
}

/** Revokes the blocks of locked contracts that are deleted. Returns the events. */
async function endBlocksOf(ctx: Context, contractIds: readonly string[]): Promise<Addressed[]> {
  const now = ctx.resources.now();
  const staged = await stageBlocksOf(ctx, contractIds, now);
  return [...staged, ...(await endLeavingBlocks(ctx.db, { contractIds, leaving: sql`true`, now }))];
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
  await applyDueChangesOf(ctx, input);
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
