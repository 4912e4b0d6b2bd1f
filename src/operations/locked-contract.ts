import { type ContractSnapshot, loadSnapshot } from "../db/queries/contract-snapshots.ts";
import type { Context } from "./context.ts";
import { type ContractAddress, contractNotFound, findContract } from "./contract-address.ts";
import { applyDueOf } from "./due-holds.ts";

/** A contract with its lock, as it is now. */
export interface LockedContract {
  contract: ContractSnapshot;
  organizationId: string;
  userId: string;
  now: Date;
}

/**
 * Locks the contract until the transaction ends, and writes what is due of it.
 * @throws Failure notFound for an unknown contract.
 */
export async function lockCurrent(ctx: Context, address: ContractAddress): Promise<LockedContract> {
  const { organizationId, userId } = await findContract(ctx, address, "change");
  const found = await loadSnapshot(ctx.db, organizationId, userId);
  if (found === undefined) throw contractNotFound(userId);
  const now = ctx.resources.now();
  return { contract: await applyDueOf(ctx, found, { organizationId, userId }, now), organizationId, userId, now };
}
