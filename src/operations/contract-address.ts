import { and, asc, eq, type SQL } from "drizzle-orm";
import { contracts } from "../db/schema.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";

export function contractNotFound(userId: string): Failure {
  return new Failure("notFound", `Contract with userId ${userId} not found`);
}

/** Failure of a call that names a person who is no member of the contract. */
export function memberNotFound(memberId: string, userId: string): Failure {
  return new Failure("notFound", `Member ${memberId} of ${userId} not found`);
}

/**
 * Addresses one contract by end user and organization. A platform ADMIN may omit the organization if the end user has
 * exactly one contract.
 */
export interface ContractAddress {
  organizationId: string | undefined;
  userId: string;
}

/** SQL condition: the contract has this address; all of an organization without an end user. */
export function isAtAddress({ organizationId, userId }: Partial<ContractAddress>): SQL | undefined {
  return and(
    userId === undefined ? undefined : eq(contracts.userId, userId),
    organizationId === undefined ? undefined : eq(contracts.organizationId, organizationId),
  );
}

/**
 * Finds the contract's row. Pass `lock` before changing anything that belongs to it. Source: contract contracts §14.1.
 * @throws Failure notFound, also for another organization's contract; conflict when a platform ADMIN names no
 * organization and several match.
 */
export async function findContract(ctx: Context, address: ContractAddress, lock?: "change" | "delete") {
  const query = ctx.db.select().from(contracts).where(isAtAddress(address)).orderBy(asc(contracts.id)).limit(2);
  const strength = lock === "delete" ? "update" : "no key update";
  const [row, another] = await (lock === undefined ? query : query.for(strength));
  if (row === undefined) throw contractNotFound(address.userId);
  if (another !== undefined) {
    throw new Failure(
      "conflict",
      `CONFLICT: Several contracts found for userId ${address.userId}. Please specify the organizationId query parameter`,
    );
  }
  return row;
}
