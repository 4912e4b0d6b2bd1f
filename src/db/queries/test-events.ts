import { sql } from "drizzle-orm";
import type { PublicEvent } from "../../core/event-messages.ts";
import type { Connection, Database } from "../postgres/connect.ts";

/** The NOTIFY channel of test events. Its payload is the whole event: no table keeps one. */
const TEST_EVENT_CHANNEL = "faregate_test_events";

/** A test event and its sender; `organizationId` is null for a platform ADMIN who named none. */
export interface TestNotice {
  organizationId: string | null;
  event: PublicEvent;
}

/**
 * Notifies every event process once the caller's transaction commits. Postgres limits a payload to 7,999 bytes: two texts
 * of 255 characters take at most 3,060, with every character escaped. Rejects half a surrogate pair, as a column would.
 */
export async function notifyTestEvent(tx: Database, notice: TestNotice): Promise<void> {
  await tx.execute(sql`select pg_notify(${TEST_EVENT_CHANNEL}, ${JSON.stringify(notice)}::text::jsonb::text)`);
}

/** Calls `onNotice` for each test event until the connection closes. Events notified while it is disconnected are lost. */
export function listenForTestEvents(
  { client }: Connection,
  onNotice: (notice: TestNotice) => void,
  onError: (error: unknown) => void,
): void {
  const listening = client.listen(TEST_EVENT_CHANNEL, (payload) => onNotice(JSON.parse(payload) as TestNotice));
  // The driver subscribes again after a reconnect, even if the first attempt fails.
  listening.catch(onError);
}
