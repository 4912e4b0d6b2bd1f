import { and, eq, lt, sql } from "drizzle-orm";
import type { Database } from "../db/connect.ts";
import { isAnyOf } from "../db/lists.ts";
import { recordEvents } from "../db/outbox.ts";
import { contracts } from "../db/schema.ts";

const BATCH = 200;

/**
 * Records CONTRACT_EXPIRED for contracts whose billing period has ended without being renewed, once for each such end, and
 * returns how many. Any number of processes may do so at once: who finds a contract locked leaves it to the other.
 */
export async function announceExpired(db: Database, now: Date): Promise<number> {
  for (let announced = 0; ;) {
    const found = await db.transaction(async (tx) => {
      const rows = await tx
        .select({
          id: contracts.id,
          userId: contracts.userId,
          organizationId: contracts.organizationId,
          endDate: contracts.endDate,
        })
        .from(contracts)
        .where(
          and(
            eq(contracts.autoRenew, false),
            sql`${contracts.expiryAnnounced} is distinct from ${contracts.endDate}`,
            lt(contracts.endDate, now),
          ),
        )
        .orderBy(contracts.id)
        .limit(BATCH)
        .for("no key update", { skipLocked: true });
      if (rows.length === 0) return 0;
      const ids = rows.map(({ id }) => id);
      await tx
        .update(contracts)
        .set({ expiryAnnounced: sql`${contracts.endDate}` })
        .where(isAnyOf(contracts.id, ids));
      await recordEvents(
        tx,
        rows.map(({ id, userId, organizationId, endDate }) => ({
          organizationId,
          event: { code: "CONTRACT_EXPIRED", details: { contractId: id, userId, endDate: endDate.toISOString() } },
        })),
      );
      return rows.length;
    });
    announced += found;
    if (found < BATCH) return announced;
  }
}
