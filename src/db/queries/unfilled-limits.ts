import { asc, sql } from "drizzle-orm";
import { isAnyOf, textArray } from "../postgres/lists.ts";
import type { Database } from "../postgres/connect.ts";
import { contracts } from "../schema.ts";
import type { Configuration } from "./near-limits.ts";

/*
 * Balances from before the column `limit_value`. `npm run migrate` fills them in batches; db/queries/near-limits.ts computes
 * their limits until then.
 */

/** Balances per batch. */
const BATCH = 2_000;

/** A contracted service with balances that lack `limit_value`. */
export interface UnfilledService extends Omit<Configuration, "addOnsText"> {
  contractId: string;
  serviceId: string;
}

/** Locks some contracts with unfilled balances, and returns these services; none once all are filled. */
export async function takeUnfilled(tx: Database): Promise<UnfilledService[]> {
  const rows = await tx.execute<{ contract_id: string }>(
    sql`select contract_id from usage_levels where limit_value is null limit ${BATCH}::integer`,
  );
  const ids = [...new Set(rows.map((row) => row.contract_id))];
  await tx
    .select({ id: contracts.id })
    .from(contracts)
    .where(isAnyOf(contracts.id, ids))
    .orderBy(asc(contracts.id))
    .for("no key update");
  const services = await tx.execute<UnfilledService & Record<string, unknown>>(sql`
    select cs.contract_id as "contractId", cs.service_id as "serviceId", p.id as "pricingId", p.model_hash as hash,
      cs.plan, cs.add_ons as "addOns"
    from contract_services cs join pricings p on p.id = cs.pricing_id
    where cs.contract_id = any(${textArray(ids)}) and exists (
      select 1 from usage_levels u
      where u.contract_id = cs.contract_id and u.service_id = cs.service_id and u.limit_value is null)
  `);
  return [...services];
}

/** Sets the limits of unfilled balances. One that the service does not name cannot be approached. */
export async function fillLimits(
  tx: Database,
  services: readonly { contractId: string; serviceId: string; limits: Readonly<Record<string, number>> }[],
): Promise<void> {
  const rows = services.map(({ contractId, serviceId, limits }) => ({
    contract_id: contractId,
    service_id: serviceId,
    limits,
  }));
  await tx.execute(sql`
    update usage_levels u
    set limit_value = coalesce((filled.limits ->> u.limit_name)::numeric, 'Infinity'),
      used_tenths = faregate_used_tenths(u.consumed, coalesce((filled.limits ->> u.limit_name)::numeric, 'Infinity'))
    from json_to_recordset(${JSON.stringify(rows)}::json) as filled (contract_id text, service_id text, limits json)
    where u.contract_id = filled.contract_id and u.service_id = filled.service_id and u.limit_value is null
  `);
}
