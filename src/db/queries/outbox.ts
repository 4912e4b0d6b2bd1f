import { and, asc, eq, getTableColumns, gt, inArray, lte, sql } from "drizzle-orm";
import { type EventDetails, type EventFilter, isPublicCode, type RecordedEvent } from "../../core/event-messages.ts";
import type { TransactionSql } from "postgres";
import type { Database } from "../postgres/connect.ts";
import { outbox, outboxCounter } from "../schema.ts";

/** The NOTIFY channel; its payload is the event's id in decimal and nothing else. */
export const OUTBOX_CHANNEL = "faregate_events";

/** A row of the outbox. */
export interface OutboxEvent {
  /** Ascending by one in the order of commit, over the whole instance. */
  id: number;
  organizationId: string | null;
  code: string;
  details: EventDetails;
  createdAt: Date;
}

/** An event with whose it is; without an organization it is the instance's. */
export interface Addressed {
  organizationId: string | null;
  event: RecordedEvent;
}

/** Records one event; see recordEvents. Without an organization it is the instance's. */
export function recordEvent(tx: Database, organizationId: string | null, event: RecordedEvent): Promise<void> {
  return recordEvents(tx, [{ organizationId, event }]);
}

/**
 * Records events in the caller's transaction: they exist if and only if the change commits.
 * Must be the transaction's last statement: the ids come from a one-row counter whose lock is held until the commit, which
 * is what makes ids follow commit order without gaps (a sequence does not: a reader tailing `id > last` loses rows).
 * One statement, however many they are. Only public events NOTIFY, because that takes a lock of the whole server until the
 * commit; the others are found by the poll. NOTIFY is a hint: whoever follows the outbox reads the rows.
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

/** The same in a transaction of the bare driver, for events that are never announced. */
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

/** The ids there are: `newest` was the last to be given, below `oldest` everything is pruned. */
export interface OutboxRange {
  oldest: number;
  newest: number;
}

/** What the outbox holds at this moment; an empty one begins after its newest. */
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

/** Text of details that is read at once, in bytes: private events carry whole contracts, which may be large. */
const MAX_READ_BYTES = 16 * 1024 * 1024;

/**
 * The events with ids in (after, upTo] that pass, in order: at most `limit`, and fewer where their details are longer than
 * `maxBytes` together, but one at least. What is pruned is missing: ask outboxRange afterwards.
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

/** Returns true when `readOutbox` may have cut this page for its length: a character takes at most three bytes. */
export function mayBeCut(events: readonly OutboxEvent[]): boolean {
  const characters = events.reduce((sum, { details }) => sum + JSON.stringify(details).length, 0);
  return characters * 3 >= MAX_READ_BYTES;
}

/** A piece of the log for one reader. */
export interface EventPage {
  events: OutboxEvent[];
  /** Where to go on: everything up to here that passes has been read. */
  position: number;
  /** True when events after the asked place are gone, or that place does not exist: `position` is then the newest. */
  lost: boolean;
}

/** The log as one process follows it. */
export interface EventLog {
  /** The id up to which this process has seen everything. */
  position(): number;
  /** What passes after `after`, at most `limit`; never beyond `position()`. */
  read(after: number, filter: EventFilter, limit: number): Promise<EventPage>;
  /** Resolves when there is something after `after`, or when the signal is aborted. */
  moved(after: number, signal: AbortSignal): Promise<void>;
}

/**
 * Ids that one statement looks at. Without a bound, a reader that begins at 0 and whose filter passes little makes Postgres
 * read the whole outbox at once: 100,000 rows or more, on a connection that others wait for.
 */
const SCANNED_IDS = 5000;

/** Reads a page from the database in short statements; `upTo` is as far as the reader may go. */
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
  // Asked afterwards: what was there then was there while the rows were read.
  const { oldest, newest } = await outboxRange(db);
  if (input.after > newest || input.after + 1 < oldest) return { events: [], position: newest, lost: true };
  const last = events.at(-1);
  // A page that is not full may have been cut for its length: what is after it is asked for next.
  const position = last?.id ?? Math.max(before, input.after);
  return { events, position, lost: false };
}
