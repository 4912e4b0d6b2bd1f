import { and, asc, eq } from "drizzle-orm";
import { contracts } from "../db/schema.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";

export function contractNotFound(userId: string): Failure {
  return new Failure("notFound", `Contract with userId ${userId} not found`);
}

/** Names one contract: by end user within an organization, or, for a platform ADMIN, wherever there is exactly one. */
export interface ContractAddress {
  organizationId: string | undefined;
  userId: string;
}

/**
 * The contract's row. Failure notFound, also for somebody else's; conflict when a platform ADMIN's userId exists in
 * several organizations and none is named. Lock it to change what belongs to it. Source: contract contracts §14.1.
 */
export async function findContract(ctx: Context, address: ContractAddress, lock?: "change" | "delete") {
  const query = ctx.db
    .select()
    .from(contracts)
    .where(
      and(
        eq(contracts.userId, address.userId),
        address.organizationId === undefined ? undefined : eq(contracts.organizationId, address.organizationId),
      ),
    )
    .orderBy(asc(contracts.id))
    .limit(2);
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
