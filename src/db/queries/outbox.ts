import { and, asc, eq, getTableColumns, gt, inArray, lte, sql } from "drizzle-orm";
import { type EventDetails, type EventFilter, isPublicCode, type RecordedEvent } from "../../core/event-messages.ts";
import type { TransactionSql } from "postgres";
import type { Database } from "../postgres/connect.ts";
import { outbox, outboxCounter } from "../schema.ts";

/** NOTIFY channel. The payload is the event's id in decimal. */
export const OUTBOX_CHANNEL = "faregate_events";

/** One row of the outbox. */
export interface OutboxEvent {
  /** Ascending without gaps in commit order, over the whole instance. */
  id: number;
  organizationId: string | null;
  code: string;
  details: EventDetails;
  createdAt: Date;
}

/** An event with its organization; null for events of the instance. */
export interface Addressed {
  organizationId: string | null;
  event: RecordedEvent;
}

/** Records one event; see recordEvents. Null stands for the instance. */
export function recordEvent(tx: Database, organizationId: string | null, event: RecordedEvent): Promise<void> {
  return recordEvents(tx, [{ organizationId, event }]);
}

/**
 * Records events in the caller's transaction, so that they exist if and only if the change commits. Must be the
 * transaction's last statement: a one-row counter, locked until the commit, assigns the ids in commit order without
 * gaps. A sequence does not, and a reader of `id > last` would lose rows. Only public events NOTIFY, because NOTIFY
 * takes a server-wide lock until the commit; polling finds the others.
 */
export async function recordEvents(tx: Database, events: readonly Addressed[]): Promise<void> {
  if (events.length === 0) return;
  const rows = rowsOf(events);
  const announce = events.some(({ event }) => isPublicCode(event.code));
  const [recorded] = await tx.execute<{ last_id: string }>(sql`
    with bumped as (
      update outbox_counter set last_id = last_id + ${events.length}::integer returning last_id
    ), written as (
      insert into outbox (id, organization_id, code, details)
      select bumped.last_id - ${events.length - 1}::integer + given.position,
        given.organization_id, given.code, given.details
      from bumped, json_to_recordset(${rows}::text::json)
        as given (position integer, organization_id text, code text, details json)
    )
    select last_id, ${announce ? sql`pg_notify(${OUTBOX_CHANNEL}, last_id::text)` : sql`null`} from bumped
  `);
  if (recorded === undefined) throw notMigrated();
}

/** Records events in a transaction of the bare driver, for events that are never announced. */
export async function recordPrivately(tx: TransactionSql, events: readonly Addressed[]): Promise<void> {
  const recorded = await tx`
    with bumped as (
      update outbox_counter set last_id = last_id + ${events.length}::integer returning last_id
    )
    insert into outbox (id, organization_id, code, details)
    select bumped.last_id - ${events.length - 1}::integer + given.position,
      given.organization_id, given.code, given.details
    from bumped, json_to_recordset(${rowsOf(events)}::text::json)
      as given (position integer, organization_id text, code text, details json)
    returning id`;
  if (recorded.length !== events.length) throw notMigrated();
}

function rowsOf(events: readonly Addressed[]): string {
  return JSON.stringify(
    events.map(({ organizationId, event }, position) => ({
      position,
      organization_id: organizationId,
      code: event.code,
      details: event.details,
    })),
  );
}

function notMigrated(): Error {
  return new Error("the outbox counter has no row: the schema is not migrated");
}

/** Ids in the outbox: `newest` was assigned last; everything below `oldest` is pruned. */
export interface OutboxRange {
  oldest: number;
  newest: number;
}

/** Returns the ids that the outbox holds; an empty one starts after its newest. */
export async function outboxRange(db: Database): Promise<OutboxRange> {
  const [range] = await db
    .select({
      newest: outboxCounter.lastId,
      oldest: sql<string | null>`(select min(id) from outbox)`,
    })
    .from(outboxCounter);
  if (range === undefined) throw notMigrated();
  return { newest: range.newest, oldest: range.oldest === null ? range.newest + 1 : Number(range.oldest) };
}

/** Maximum bytes of event details per read: private events carry whole contracts. */
const MAX_READ_BYTES = 16 * 1024 * 1024;

/**
 * Reads events with ids in (after, upTo] that pass the filter, in order. Returns at most `limit`, or fewer if their
 * details exceed `maxBytes`, but at least one. Pruned events are absent: check outboxRange afterwards.
 */
export function readOutbox(
  db: Database,
  input: { after: number; upTo?: number; filter: EventFilter; limit: number; maxBytes?: number },
): Promise<OutboxEvent[]> {
  const { organizationId, codes } = input.filter;
  const length = sql`octet_length(${outbox.details}::text)`;
  const page = db
    .select({
      id: outbox.id,
      bytesBefore: sql`sum(${length}) over (order by ${outbox.id}) - ${length}`.as("bytes_before"),
    })
    .from(outbox)
    .where(
      and(
        gt(outbox.id, input.after),
        input.upTo === undefined ? undefined : lte(outbox.id, input.upTo),
        organizationId === undefined ? undefined : eq(outbox.organizationId, organizationId),
        codes === undefined ? undefined : inArray(outbox.code, [...codes]),
      ),
    )
    .orderBy(asc(outbox.id))
    .limit(input.limit)
    .as("page");
  return db
    .select(getTableColumns(outbox))
    .from(page)
    .innerJoin(outbox, eq(outbox.id, page.id))
    .where(sql`${page.bytesBefore} < ${input.maxBytes ?? MAX_READ_BYTES}::bigint`)
    .orderBy(asc(outbox.id));
}

/** True if `readOutbox` may have cut this page by size. A character takes at most three bytes. */
export function mayBeCut(events: readonly OutboxEvent[]): boolean {
  const characters = events.reduce((sum, { details }) => sum + JSON.stringify(details).length, 0);
  return characters * 3 >= MAX_READ_BYTES;
}

/** A page of the log for one reader. */
export interface EventPage {
  events: OutboxEvent[];
  /** Position for the next read: every passing event up to here has been read. */
  position: number;
  /** True if events after the requested position are pruned, or it does not exist. `position` is then the newest id. */
  lost: boolean;
}

/** The event log as one process follows it. */
export interface EventLog {
  /** Id up to which this process has read. */
  position(): number;
  /** Returns at most `limit` passing events after `after`, never beyond `position()`. */
  read(after: number, filter: EventFilter, limit: number): Promise<EventPage>;
  /** Resolves when there is an event after `after`, or the signal is aborted. */
  moved(after: number, signal: AbortSignal): Promise<void>;
}

/**
 * Ids scanned per statement. Without a bound, a reader from 0 with a narrow filter would scan the whole outbox of
 * 100,000 rows or more while others wait for the connection.
 */
const SCANNED_IDS = 5000;

/** Reads a page from the database in short statements. `upTo` is the reader's upper bound. */
export async function readPage(
  db: Database,
  input: { after: number; upTo?: number; filter: EventFilter; limit: number },
): Promise<EventPage> {
  const range = await outboxRange(db);
  if (input.after + 1 < range.oldest) return { events: [], position: range.newest, lost: true };
  const newestKnown = input.upTo ?? range.newest;
  let { after } = input;
  let before: number;
  let events: OutboxEvent[];
  for (;;) {
    before = Math.min(newestKnown, after + SCANNED_IDS);
    events = await readOutbox(db, { ...input, after, upTo: before });
    if (events.length > 0 || before >= newestKnown) break;
    after = before;
  }
  // Read last, so that rows present now were also present during the read.
  const { oldest, newest } = await outboxRange(db);
  if (input.after > newest || input.after + 1 < oldest) return { events: [], position: newest, lost: true };
  const last = events.at(-1);
  // A page below the limit may have been cut by size; the next read continues after it.
  const position = last?.id ?? Math.max(before, input.after);
  return { events, position, lost: false };
}
