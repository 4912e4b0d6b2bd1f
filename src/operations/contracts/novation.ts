import { count, eq, type SQL } from "drizzle-orm";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import {
  appendHistory,
  type ContractView,
  lockContracts,
  replaceSubscriptions,
  restartBilling,
  type SubscribedService,
} from "../../db/queries/contracts.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { contracts, contractServices } from "../../db/schema.ts";
import { type Context, newId, transaction } from "../context.ts";
import { type ContractAddress, contractNotFound, findContract } from "../contract-address.ts";
import { Failure } from "../errors.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { lockServices, resolveSubscription, type Subscription } from "../subscriptions.ts";
import { auditNovations } from "./contract-audit.ts";
import { inGroup, recordContracts, viewByUsername, viewOne } from "./contract-rows.ts";
import { decideGroupNovations, keepGroupDecisions } from "./group-decisions.ts";

export interface Novation extends Subscription {
  billingPeriod?: { autoRenew?: boolean | undefined } | undefined;
}

/**
 * Novates all matching contracts: validates all of them, then writes. The number of statements grows with the
 * organizations, not with the contracts. With `gate`, each organization's gate rules decide before any write.
 * @returns the contract ids, empty if none match once the locks are held; and the events of overrides that ended.
 */
async function applyNovation(
  ctx: Context,
  where: SQL | undefined,
  novation: Novation,
  gate?: { overrideReason: string | undefined },
): Promise<{ contractIds: string[]; ended: Addressed[] }> {
  const organizationIds = await ctx.db
    .selectDistinct({ id: contracts.organizationId })
    .from(contracts)
    .where(where)
    .then((rows) => rows.map((row) => row.id));
  if (organizationIds.length === 0) return { contractIds: [], ended: [] };
  const services = await lockServices(ctx, organizationIds, novation);
  const rows = await lockContracts(ctx.db, where);
  const planned: { organizationId: string; contractIds: string[]; next: SubscribedService[] }[] = [];
  for (const [organizationId, locked] of services) {
    const contractIds = rows.filter((row) => row.organizationId === organizationId).map((row) => row.id);
    if (contractIds.length === 0) continue;
    const current = await commonVersions(ctx, contractIds);
    const next = await resolveSubscription(ctx, locked, novation, "novation", current);
    planned.push({ organizationId, contractIds, next });
  }
  const decisions = gate === undefined ? [] : await decideGroupNovations(ctx, planned, gate.overrideReason);
  const contractIds = planned.flatMap((one) => one.contractIds);
  // Take the time after acquiring the locks: the previous holder may have started a billing period later than our
  // request.
  const now = ctx.resources.now();
  const operationId = newId(now);
  await appendHistory(ctx.db, contractIds, now);
  const ended: Addressed[] = [];
  for (const plan of planned) ended.push(...(await replaceSubscriptions(ctx.db, { ...plan, now, operationId })));
  await restartBilling(ctx.db, { contractIds, autoRenew: novation.billingPeriod?.autoRenew, now });
  await recordStates(ctx.db, { contractIds, cause: "novation", now });
  await keepGroupDecisions(ctx, decisions);
  return { contractIds, ended };
}

/** Returns the versions that all these contracts are on. They may stay on these even if archived. */
async function commonVersions(ctx: Context, contractIds: readonly string[]): Promise<Set<string>> {
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
    const { contractIds, ended } = await applyNovation(ctx, eq(contracts.id, row.id), input.novation);
    const [novated] = contractIds;
    if (novated === undefined) throw contractNotFound(input.userId);
    const view = await viewOne(ctx, novated);
    await auditNovations(ctx, [view]);
    await recordContracts(ctx, "CONTRACT_NOVATED", [view], ended);
    return view;
  });
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
    const { contractIds, ended } = await applyNovation(ctx, where, input.novation, { overrideReason });
    if (contractIds.length === 0) {
      throw new Failure(
        "notFound",
        `INVALID DATA: No contracts found with groupId ${input.groupId} within organization ${input.organizationId}`,
      );
    }
    const views = await viewByUsername(ctx, contractIds);
    await auditNovations(ctx, views);
    await recordContracts(ctx, "CONTRACT_NOVATED", views, ended);
    return views;
  });
}
