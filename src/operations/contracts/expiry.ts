import { and, eq, lt, sql } from "drizzle-orm";
import { type Renewal, renewedBillingEnd } from "../../core/period.ts";
import type { Database } from "../../db/postgres/connect.ts";
import { type NamedChange, namedEvents, readFacts } from "../../db/queries/contract-facts.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { isAnyOf, textArray } from "../../db/postgres/lists.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { ENDS_AT_ONCE, takeEndedOverrides } from "../../db/queries/overrides.ts";
import { REMINDED_AT_ONCE, takeReminders } from "../../db/queries/scheduled.ts";
import { contracts } from "../../db/schema.ts";

const BATCH = 200;

/**
 * Records CONTRACT_EXPIRED once for each billing period that ended without renewal. Returns the number of contracts.
 * Safe to run in several processes at once: each skips contracts that another has locked.
 */
export async function announceExpired(db: Database, now: Date): Promise<number> {
  for (let announced = 0; ;) {
    const found = await db.transaction(async (tx) => {
      const rows = await tx
        .select({ id: contracts.id, endDate: contracts.endDate })
        .from(contracts)
        .where(
          and(
            eq(contracts.autoRenew, false),
            sql`${contracts.expiryAnnounced} is distinct from ${contracts.endDate}`,
            lt(contracts.endDate, now),
            hasNoDueChange(now),
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
      const facts = await readFacts(tx, ids);
      await recordEvents(
        tx,
        namedEvents(
          rows.map((row) => ended("CONTRACT_EXPIRED", row)),
          facts,
          facts,
        ),
      );
      return rows.length;
    });
    announced += found;
    if (found < BATCH) return announced;
  }
}

/** The event at the end of a billing period, with the end afterwards. */
const ended = (
  code: "CONTRACT_EXPIRED" | "CONTRACT_RENEWED",
  { id, endDate }: { id: string; endDate: Date },
): NamedChange => ({ code, contractId: id, fields: { endDate: endDate.toISOString() } });

/** SQL condition: no scheduled change comes first, which may give the contract another billing period. */
const hasNoDueChange = (now: Date) =>
  sql`(${contracts.changeAt} is null or ${contracts.changeAt} > ${now.toISOString()}::timestamptz)`;

/**
 * Records CONTRACT_OVERRIDE_ENDED once for each override whose end has passed. Returns their number. Safe to run in several
 * processes at once. Source: contract custom-terms §8.
 */
export function announceEndedOverrides(db: Database, now: Date): Promise<number> {
  return announce(db, ENDS_AT_ONCE, (tx) => takeEndedOverrides(tx, now));
}

/** Records what `take` marks as announced, in transactions of at most `atOnce` events. Returns their number. */
async function announce(db: Database, atOnce: number, take: (tx: Database) => Promise<Addressed[]>): Promise<number> {
  for (let announced = 0; ;) {
    const found = await db.transaction(async (tx) => {
      const events = await take(tx);
      if (events.length > 0) await recordEvents(tx, events);
      return events.length;
    });
    announced += found;
    if (found < atOnce) return announced;
  }
}

/** Records TRIAL_ENDING for trials whose reminder is due. Returns their number. Safe to run in several processes at once. */
export function announceEndingTrials(db: Database, now: Date): Promise<number> {
  return announce(db, REMINDED_AT_ONCE, (tx) => takeReminders(tx, now));
}

/**
 * Renews contracts whose billing period has ended and that renew automatically. Each gets CONTRACT_RENEWED; returns
 * their number. Safe beside other processes and evaluations: locked contracts are skipped. A renewed contract is no
 * longer due, so each end is renewed once. A failed batch is rolled back as a whole. Source: contract usage-records §6.
 */
export async function renewDueContracts(db: Database, now: Date): Promise<number> {
  for (let renewed = 0; ;) {
    const found = await db.transaction((tx) => renewBatch(tx, now));
    renewed += found;
    if (found < BATCH) return renewed;
  }
}

async function renewBatch(tx: Database, now: Date): Promise<number> {
  const rows = await tx
    .select({
      id: contracts.id,
      startDate: contracts.startDate,
      endDate: contracts.endDate,
      renewalDays: contracts.renewalDays,
      renewalValue: contracts.renewalValue,
      renewalUnit: contracts.renewalUnit,
    })
    .from(contracts)
    // A literal, not a parameter: the planner uses the partial index only if it can prove the predicate.
    .where(and(sql`${contracts.autoRenew}`, lt(contracts.endDate, now), hasNoDueChange(now)))
    .orderBy(contracts.endDate)
    .limit(BATCH)
    .for("no key update", { skipLocked: true });
  if (rows.length === 0) return 0;
  const { events } = await renewContracts(tx, rows, now);
  await recordEvents(tx, events);
  return rows.length;
}

type RenewableRow = Renewal & { id: string };

/** Renews locked contracts whose billing period has ended. Returns the new end of each, and the events. */
export async function renewContracts(
  tx: Database,
  rows: readonly RenewableRow[],
  now: Date,
): Promise<{ endDates: Date[]; events: Addressed[] }> {
  const renewed = rows.map((row) => ({ id: row.id, endDate: renewedBillingEnd(row, now) }));
  const ends = renewed.map(({ endDate }) => endDate.toISOString());
  const contractIds = rows.map(({ id }) => id);
  const before = await readFacts(tx, contractIds);
  await tx.execute(sql`
    update contracts set end_date = due.end_date, updated_at = ${now.toISOString()}::timestamptz
    from unnest(${textArray(contractIds)}, ${textArray(ends)}::timestamptz[]) as due (id, end_date)
    where contracts.id = due.id
  `);
  await recordStates(tx, { contractIds, cause: "renewal", now });
  const changes = renewed.map((row) => ended("CONTRACT_RENEWED", row));
  return {
    endDates: renewed.map(({ endDate }) => endDate),
    events: namedEvents(changes, before, await readFacts(tx, contractIds)),
  };
}
