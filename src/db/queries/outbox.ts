import { and, asc, eq, getTableColumns, gt, inArray, lte, sql } from "drizzle-orm";
import { type EventDetails, type EventFilter, isPublicCode, type RecordedEvent } from "../../core/event-messages.ts";
import type { TransactionSql } from "postgres";
import type { Database } from "../postgres/connect.ts";
import { outbox, outboxCounter } from "../schema.ts";

/** NOTIFY channel. See parseNotification for its payload. */
export const OUTBOX_CHANNEL = "faregate_events";

/** One row of the outbox. */
export interface OutboxEvent {
  /** Increases by one in commit order across the whole instance. */
  id: number;
  organizationId: string | null;
  code: string;
  details: EventDetails;
  createdAt: Date;
}

/** An event with its organization; null for the whole instance. */
export interface Addressed {
  organizationId: string | null;
  event: RecordedEvent;
}

/** An event with its details as JSON text. */
export interface SerializedEvent {
  organizationId: string | null;
  code: RecordedEvent["code"];
  details: string;
}

/** Records one event; see recordEvents. A null organization means the whole instance. */
export function recordEvent(tx: Database, organizationId: string | null, event: RecordedEvent): Promise<void> {
  return recordEvents(tx, [{ organizationId, event }]);
}

/**
 * Records events in the caller's transaction, in one statement: they exist if and only if the change commits.
 * Must be the transaction's last statement. If the counter of ids is free, the events get their ids at once and its row lock
 * lasts until commit, so that ids follow commit order without gaps; with a sequence, a reader tailing `id > last` would lose
 * rows. If it is locked, the events are staged without ids instead of waiting for the other transaction's commit, and the next
 * reader numbers them: see numberEvents.
 * Only public events NOTIFY, because NOTIFY takes a server-wide lock until commit; polling finds the others. A notification
 * is only a hint to read the rows.
 */
export function recordEvents(tx: Database, events: readonly Addressed[]): Promise<void> {
  return recordSerialized(tx, events.map(serialized));
}

/** Records serialized events, and takes them as it writes them; see recordEvents. */
export async function recordSerialized(tx: Database, events: Iterable<SerializedEvent>): Promise<void> {
  let some: SerializedEvent[] = [];
  for (const event of events) {
    some.push(event);
    if (some.length < MAX_PER_STATEMENT) continue;
    await recordSome(tx, some);
    some = [];
  }
  if (some.length > 0) await recordSome(tx, some);
}

/** Returns the event as it is stored. */
export const serialized = ({ organizationId, event }: Addressed): SerializedEvent => ({
  organizationId,
  code: event.code,
  details: JSON.stringify(event.details),
});

/** Serializing more events at once would block the event loop for longer than 10 ms. */
const MAX_PER_STATEMENT = 2_000;
/** Postgres limits a notification to 8,000 bytes; a character takes at most three. */
const MAX_NOTIFIED_CHARACTERS = 2_500;

async function recordSome(tx: Database, events: readonly SerializedEvent[]): Promise<void> {
  const rows = rowsOf(events);
  const id = sql`faregate_record_events(${rows}::text::json)`;
  if (!events.some(({ code }) => isPublicCode(code))) {
    await tx.execute(sql`select ${id}`);
    return;
  }
  const content =
    events.length === 1 && rows.length <= MAX_NOTIFIED_CHARACTERS
      ? sql` || ' ' || (extract(epoch from now()::timestamptz(3)) * 1000)::bigint || ' ' || ${rows}::text`
      : sql``;
  await tx.execute(sql`select pg_notify(${OUTBOX_CHANNEL}, coalesce(${id}::text${content}, ''))`);
}

/**
 * Reads the payload of a notification: `<id> <milliseconds since 1970> <rows>` if the transaction recorded one short event, `<id>`
 * of the last one if it recorded others, or empty if these have no ids yet.
 */
export function parseNotification(payload: string): { isNumbered: boolean; event?: OutboxEvent } {
  const [, id, milliseconds, rows] = /^(\d+)(?: (\d+) (.+))?$/s.exec(payload) ?? [];
  if (id === undefined) return { isNumbered: false };
  if (rows === undefined) return { isNumbered: true };
  // `recordSome` writes the payload with `rowsOf`, which guarantees this shape.
  const [row] = JSON.parse(rows) as [{ organization_id: string | null; code: string; details: EventDetails }];
  const { organization_id: organizationId, code, details } = row;
  const createdAt = new Date(Number(milliseconds));
  return { isNumbered: true, event: { id: Number(id), organizationId, code, details, createdAt } };
}

/** Records private events in a driver transaction without Drizzle, and without NOTIFY. See recordEvents. */
export async function recordPrivately(tx: TransactionSql, events: readonly Addressed[]): Promise<void> {
  await tx`select faregate_record_events(${rowsOf(events.map(serialized))}::text::json)`;
}

/** Staged events numbered per transaction: about 50 ms. */
const NUMBERED = 5000;

/**
 * Numbers all committed events that are staged, in the order of their staging. Afterwards the outbox has every event that was
 * committed before the call. Costs one look-up while none are staged. In a transaction, it locks the counter until commit.
 */
export async function numberEvents(db: Database): Promise<void> {
  for (let numbered = NUMBERED; numbered === NUMBERED;) {
    const [row] = await db.execute<{ numbered: number }>(
      sql`select faregate_number_events(${NUMBERED}::integer) as numbered`,
    );
    numbered = row?.numbered ?? 0;
  }
}

function rowsOf(events: readonly SerializedEvent[]): string {
  const rows = events.map(
    ({ organizationId, code, details }, position) =>
      `{"position":${position},"organization_id":${JSON.stringify(organizationId)},"code":"${code}","details":${details}}`,
  );
  return `[${rows.join(",")}]`;
}

/** Range of numbered events: `newest` was assigned last; events below `oldest` are pruned. */
export interface OutboxRange {
  oldest: number;
  newest: number;
}

/** Reads the current range of stored ids. In an empty outbox, `oldest` is `newest + 1`. */
export async function outboxRange(db: Database): Promise<OutboxRange> {
  const [range] = await db
    .select({
      newest: outboxCounter.lastId,
      oldest: sql<string | null>`(select min(id) from outbox)`,
    })
    .from(outboxCounter);
  if (range === undefined) throw new Error("the outbox counter has no row: the schema is not migrated");
  return { newest: range.newest, oldest: range.oldest === null ? range.newest + 1 : Number(range.oldest) };
}

/** Returns the id of the newest event that was committed before the call; 0 if there was none. */
export async function newestEvent(db: Database): Promise<number> {
  await numberEvents(db);
  return (await outboxRange(db)).newest;
}

/** Maximum bytes of details per read: private events contain whole contracts, which may be large. */
const MAX_READ_BYTES = 16 * 1024 * 1024;

/**
 * Reads events with ids in (after, upTo] that match the filter, in order: at most `limit`, and at most `maxBytes` of details
 * except for a single event. Omits pruned events: call outboxRange afterwards to detect them.
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

/** Returns true if `readOutbox` may have cut this page at MAX_READ_BYTES: a character takes at most three bytes. */
export function mayBeCut(events: readonly OutboxEvent[]): boolean {
  const characters = events.reduce((sum, { details }) => sum + JSON.stringify(details).length, 0);
  return characters * 3 >= MAX_READ_BYTES;
}

/** Page of the event log for one reader. */
export interface EventPage {
  events: OutboxEvent[];
  /** Cursor of the next page: all matching events up to this id have been read. */
  position: number;
  /** True if events after the requested cursor are pruned, or the cursor does not exist: `position` is then the newest. */
  lost: boolean;
}

/** Event log as one process follows it. */
export interface EventLog {
  /** Newest id that this process has received, without gaps. */
  position(): number;
  /** Reads at most `limit` matching events after `after`, never beyond `position()`. */
  read(after: number, filter: EventFilter, limit: number): Promise<EventPage>;
  /** Resolves when an event after `after` arrives, or when the signal aborts. */
  moved(after: number, signal: AbortSignal): Promise<void>;
}

/**
 * Maximum ids scanned per statement. Without it, a reader that starts at 0 with a selective filter makes Postgres scan the
 * whole outbox, 100,000 rows or more, on a pooled connection that others wait for.
 */
const SCANNED_IDS = 5000;

/** Reads a page from the database in short statements, up to the id `upTo`. Default: everything committed before the call. */
export async function readPage(
  db: Database,
  input: { after: number; upTo?: number; filter: EventFilter; limit: number },
): Promise<EventPage> {
  if (input.upTo === undefined) await numberEvents(db);
  const range = await outboxRange(db);
  if (input.after + 1 < range.oldest) return { events: [], position: range.newest, lost: true };
  const lastId = input.upTo ?? range.newest;
  let { after } = input;
  let before: number;
  let events: OutboxEvent[];
  for (;;) {
    before = Math.min(lastId, after + SCANNED_IDS);
    events = await readOutbox(db, { ...input, after, upTo: before });
    if (events.length > 0 || before >= lastId) break;
    after = before;
  }
  // Read the range after the rows: an event in this range existed while the rows were read.
  const { oldest, newest } = await outboxRange(db);
  if (input.after > newest || input.after + 1 < oldest) return { events: [], position: newest, lost: true };
  const last = events.at(-1);
  // A page below `limit` may have been cut at its byte limit: continue after its last event.
  const position = last?.id ?? Math.max(before, input.after);
  return { events, position, lost: false };
}
