import { and, asc, eq, type SQL, sql } from "drizzle-orm";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { type ContractView, viewContracts } from "../../db/queries/contracts.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { contracts } from "../../db/schema.ts";
import type { Context } from "../context.ts";

/** Returns the contract with its subscription and balances. */
export async function viewOne(ctx: Context, contractId: string): Promise<ContractView> {
  const [view] = await viewContracts(ctx.db, [{ id: contractId }]);
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
  return viewContracts(ctx.db, rows);
}

/** Records contract events. Must be the last statement of the transaction. */
export function recordContracts(
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
