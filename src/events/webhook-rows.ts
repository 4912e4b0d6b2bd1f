import { and, eq, inArray, sql } from "drizzle-orm";
import { passes } from "../core/event-messages.ts";
import type { Database } from "../db/postgres/connect.ts";
import { numberEvents, type OutboxEvent, readOutbox } from "../db/queries/outbox.ts";
import { webhookCursor, webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import type { Claim } from "./webhook-claims.ts";

const PAGE = 500;
/** Bytes of events per page. Each is written once per endpoint. */
const PAGE_BYTES = 4 * 1024 * 1024;

/** Body for receivers, identical in every attempt. */
function payloadOf({ id, code, details, createdAt }: OutboxEvent): string {
  return JSON.stringify({ type: code, timestamp: createdAt, id, data: details });
}

/**
 * Creates the deliveries of a page of new events. Returns the id up to which all events have deliveries; undefined
 * while another process works on it. One transaction moves the cursor and inserts the rows, so each event is handled
 * once.
 */
export async function makeDeliveries(db: Database): Promise<number | undefined> {
  await numberEvents(db);
  return db.transaction(async (tx) => {
    const [cursor] = await tx.select().from(webhookCursor).for("update", { skipLocked: true });
    if (cursor === undefined) return undefined;
    const events = await readOutbox(tx, { after: cursor.lastId, filter: {}, limit: PAGE, maxBytes: PAGE_BYTES });
    const last = events.at(-1);
    if (last === undefined) return cursor.lastId;
    const organizations = [...new Set(events.flatMap(({ organizationId }) => organizationId ?? []))];
    const endpoints = await tx
      .select()
      .from(webhookEndpoints)
      .where(and(inArray(webhookEndpoints.organizationId, organizations), eq(webhookEndpoints.state, "enabled")))
      // Waits for a concurrent deletion of the endpoint, which is then absent.
      .for("key share");
    const rows = events.flatMap((event) =>
      endpoints
        .filter(
          ({ organizationId, codes, afterEventId }) =>
            event.id > afterEventId && passes({ organizationId, codes: codes ?? undefined }, event),
        )
        .map((endpoint) => ({
          endpoint_id: endpoint.id,
          organization_id: endpoint.organizationId,
          event_id: event.id,
          code: event.code,
          payload: payloadOf(event),
        })),
    );
    if (rows.length > 0) {
      await tx.execute(sql`
        insert into webhook_deliveries (endpoint_id, organization_id, event_id, code, payload, next_attempt_at)
        select endpoint_id, organization_id, event_id, code, payload, now()
        from json_to_recordset(${JSON.stringify(rows)}::json)
          as given (endpoint_id text, organization_id text, event_id bigint, code text, payload text)
        on conflict do nothing`);
    }
    await tx.update(webhookCursor).set({ lastId: last.id });
    return last.id;
  });
}

/** Result of an attempt. */
export interface Outcome {
  delivered: boolean;
  responseStatus: number | null;
  durationMs: number;
  error: string | null;
}

/** Records a success, after which the endpoint is healthy again. */
export async function settleDelivered(db: Database, claim: Claim, outcome: Outcome): Promise<void> {
  await settle(db, claim, outcome, { status: "delivered" });
  await db
    .update(webhookEndpoints)
    .set({ failures: 0, failingSince: null })
    .where(and(eq(webhookEndpoints.id, claim.endpointId), sql`${webhookEndpoints.failures} > 0`));
}

/**
 * Records a failure. The next attempt follows after `retryMs`; undefined for none. Suspends the endpoint after
 * `suspendAfter` consecutive failures over at least `suspendOverMs`, or immediately with a reason.
 */
export async function settleFailed(
  db: Database,
  claim: Claim,
  outcome: Outcome,
  next: { retryMs: number | undefined; suspendAfter: number; suspendOverMs: number; suspendNow: string | undefined },
): Promise<void> {
  await settle(
    db,
    claim,
    outcome,
    next.retryMs === undefined
      ? { status: "failed" }
      : { nextAttemptAt: sql<Date>`now() + ${Math.round(next.retryMs)}::integer * interval '1 millisecond'` },
  );
  const over = sql`${Math.round(next.suspendOverMs)}::bigint * interval '1 millisecond'`;
  const reason =
    next.suspendNow ?? `${next.suspendAfter} or more attempts in a row failed, the last with: ${outcome.error}`;
  await db.execute(sql`
    with counted as (
      select id, failures + 1 as failures, coalesce(failing_since, now()) as since
      from webhook_endpoints where id = ${claim.endpointId} for no key update
    ), judged as (
      select *, ${next.suspendNow !== undefined}::boolean
        or (failures >= ${next.suspendAfter}::integer and since <= now() - ${over}) as suspend
      from counted
    )
    update webhook_endpoints e set
      failures = j.failures,
      failing_since = j.since,
      state = case when j.suspend and e.state = 'enabled' then 'suspended' else e.state end,
      suspended_at = case when j.suspend and e.state = 'enabled' then now() else e.suspended_at end,
      suspended_reason = case when j.suspend and e.state = 'enabled' then ${reason}::text else e.suspended_reason end
    from judged j where j.id = e.id
  `);
}

/** Only the holder of the newest attempt may record its result: an older one has lost its lease. */
async function settle(
  db: Database,
  claim: Claim,
  outcome: Outcome,
  change: Partial<{ status: "delivered" | "failed"; nextAttemptAt: ReturnType<typeof sql<Date>> }>,
): Promise<void> {
  const { responseStatus, durationMs, error } = outcome;
  await db
    .update(webhookDeliveries)
    .set({ responseStatus, durationMs, error, ...change })
    .where(
      and(
        eq(webhookDeliveries.id, claim.id),
        eq(webhookDeliveries.attempts, claim.attempt),
        eq(webhookDeliveries.status, "pending"),
      ),
    );
}

/**
 * Deletes finished deliveries older than `days`, and all but the newest `keep` per endpoint. Deletes a bounded number
 * per call.
 */
export async function pruneDeliveries(db: Database, input: { days: number; keep: number }): Promise<void> {
  await db.execute(sql`
    delete from webhook_deliveries where id in (
      select id from webhook_deliveries
      where status <> 'pending' and created_at < now() - ${input.days}::integer * interval '1 day' limit 5000)`);
  await db.execute(sql`
    delete from webhook_deliveries where id in (
      select id from (
        select id, row_number() over (partition by endpoint_id order by id desc) as place
        from webhook_deliveries where status <> 'pending'
      ) ranked where place > ${input.keep}::integer limit 5000)`);
}
