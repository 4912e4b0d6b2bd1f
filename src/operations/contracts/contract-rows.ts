import { and, asc, eq, type SQL, sql } from "drizzle-orm";
import { isAnyOf } from "../../db/postgres/lists.ts";
import type { ContractView } from "../../db/queries/contract-view.ts";
import { contracts } from "../../db/schema.ts";
import type { Context } from "../context.ts";
import { showContracts } from "../contract-views.ts";

/** Returns the contract with its subscription and balances. */
export async function viewOne(ctx: Context, contractId: string): Promise<ContractView> {
  const [view] = await showContracts(ctx, [{ id: contractId }]);
  if (view === undefined) throw new Error(`contract ${contractId} vanished inside its transaction`);
  return view;
}

/** Selects the contracts of an organization and of a group. An omitted condition matches every contract. */
export function inGroup(organizationId: string | undefined, groupId: string | undefined): SQL | undefined {
  return and(
    organizationId === undefined ? undefined : eq(contracts.organizationId, organizationId),
    groupId === undefined ? undefined : eq(contracts.groupId, groupId),
  );
}

/** Returns these contracts by username, then by id. */
export async function viewByUsername(ctx: Context, ids: readonly string[]): Promise<ContractView[]> {
  const rows = await ctx.db
    .select({ id: contracts.id })
    .from(contracts)
    .where(isAnyOf(contracts.id, ids))
    .orderBy(asc(sql`${contracts.username} collate "C"`), asc(contracts.id));
  return showContracts(ctx, rows);
}
