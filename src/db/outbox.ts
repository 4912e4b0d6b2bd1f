import { sql } from "drizzle-orm";
import type { PublicEvent } from "../core/event-messages.ts";
import type { Database } from "./connect.ts";
import { outbox, outboxCounter } from "./schema.ts";

/** The NOTIFY channel; its payload is the event's id in decimal and nothing else. */
export const OUTBOX_CHANNEL = "faregate_events";

/**
 * Records an event in the caller's transaction: it exists if and only if the change commits.
 * Must be the transaction's last statement: the id comes from a one-row counter whose lock is held until the commit, which
 * is what makes ids follow commit order without gaps (a sequence does not: a reader tailing `id > last` loses rows).
 * Without an organization it is the instance's. NOTIFY is a hint; whoever follows the outbox reads the rows.
 */
export async function recordEvent(tx: Database, organizationId: string | null, event: PublicEvent): Promise<void> {
  const [next] = await tx
    .update(outboxCounter)
    .set({ lastId: sql`${outboxCounter.lastId} + 1` })
    .returning({ id: outboxCounter.lastId });
  if (next === undefined) throw new Error("the outbox counter has no row: the schema is not migrated");
  await tx.insert(outbox).values({ id: next.id, organizationId, code: event.code, details: event.details });
  await tx.execute(sql`select pg_notify(${OUTBOX_CHANNEL}, ${String(next.id)})`);
}
