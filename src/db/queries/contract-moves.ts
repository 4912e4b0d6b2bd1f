import { sql } from "drizzle-orm";
import type { GrantedLimit } from "../../core/pricing/subscription.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import {
  dropLevels,
  findChangingLevels,
  numberedContracts,
  putLevels,
  putLimits,
  recordServiceRemoval,
} from "./contract-levels.ts";
import { countSeats } from "./contract-members.ts";
import { followLevels } from "./holds.ts";

/** Contracts that move to the same plan and add-ons of a service. */
export interface Move {
  contractIds: readonly string[];
  plan: string | null;
  addOns: Record<string, number>;
}

/** Contracts per batch. With 20 limits each, the statements of a batch take half a second. */
const BATCH = 2_000;

/** Splits moves into batches, so that no statement reaches its timeout. */
export function batchesOf(moves: readonly Move[]): Move[][] {
  const batches: Move[][] = [];
  let room = 0;
  for (const { contractIds, ...target } of moves)
    for (let at = 0; at < contractIds.length;) {
      if (room === 0) {
        batches.push([]);
        room = BATCH;
      }
      const ids = contractIds.slice(at, at + room);
      batches.at(-1)?.push({ contractIds: ids, ...target });
      room -= ids.length;
      at += ids.length;
    }
  return batches;
}

/**
 * Moves contracts to another version of a service that they have, in a fixed number of statements. Levels still tracked
 * keep their balance, as in replaceSubscriptions; with `reset` all start at zero. Call it with the contracts locked.
 */
export async function moveToVersion(
  tx: Database,
  input: {
    serviceId: string;
    pricingId: string;
    /** Limits that the version grants a plan with add-ons. */
    limitsOf: (move: Move) => readonly GrantedLimit[];
    moves: readonly Move[];
    usage: "kept" | "reset";
    now: Date;
    operationId: string;
  },
): Promise<void> {
  const { serviceId, pricingId, moves, now, operationId } = input;
  const groups = moves.map((move) => ({
    contractIds: move.contractIds,
    next: [{ serviceId, tracked: input.limitsOf(move) }],
  }));
  const contractIds = moves.flatMap((move) => move.contractIds);
  // All configurations of a version track the same limits with the same periods.
  const next = groups[0]?.next ?? [];
  const levelsOf = (ids: readonly string[]) => sql`${isAnyOf(sql`contract_id`, ids)} and service_id = ${serviceId}`;
  let changing: readonly string[] = contractIds;
  if (input.usage === "reset") {
    await recordServiceRemoval(tx, { contractIds, serviceIds: [serviceId], now, operationId });
    await tx.execute(sql`delete from usage_levels where ${levelsOf(contractIds)}`);
  } else {
    const found = await findChangingLevels(tx, { contractIds, serviceId, next, now });
    changing = found.changing;
    // Renew levels whose period is over first: the new version may have no period, so no later renewal would.
    if (found.due.length > 0) {
      const due = sql`${levelsOf(found.due)} and reset_at < ${now.toISOString()}::timestamptz and consumed > 0`;
      await tx.execute(sql`
        insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
        select contract_id, organization_id, service_id, limit_name, 'renew', ${operationId}, -consumed, ${now.toISOString()}::timestamptz
        from usage_levels where ${due}
      `);
      await tx.execute(sql`
        update usage_levels set consumed = 0, used_tenths = faregate_used_tenths(0, limit_value),
          running_since = reset_at + interval '1 millisecond', alerted_threshold = null, alerted_limit = null
        where ${due}
      `);
    }
    if (changing.length > 0) await dropLevels(tx, { of: levelsOf(changing), next, now, operationId });
  }
  const targets = moves.map(({ plan, addOns }, number) => ({ number, plan, add_ons: addOns }));
  await tx.execute(sql`
    update contract_services cs set pricing_id = ${pricingId}, plan = m.plan, add_ons = m.add_ons
    from ${numberedContracts(moves)} as c (id, number)
    join json_to_recordset(${JSON.stringify(targets)}::json) as m (number integer, plan text, add_ons json) using (number)
    where ${isAnyOf(sql`cs.contract_id`, contractIds)} and cs.contract_id = c.id and cs.service_id = ${serviceId}
  `);
  const isChanging = new Set(changing);
  const ofGroups = (wanted: (id: string) => boolean) =>
    groups.map((group) => ({ ...group, contractIds: group.contractIds.filter(wanted) }));
  await putLevels(
    tx,
    ofGroups((id) => isChanging.has(id)),
    now,
  );
  await putLimits(
    tx,
    ofGroups((id) => !isChanging.has(id)),
    now,
  );
  await countSeats(tx, { contractIds: changing, now, operationId });
  await followLevels(tx, { contractIds: changing, now });
}
