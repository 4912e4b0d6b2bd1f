import { sql } from "drizzle-orm";
import type { Database } from "../../db/postgres/connect.ts";

/**
 * Tracks when keys and sessions were last used, in memory, and writes once per minute. Updating a row per request would make that
 * row the bottleneck. A crash loses at most the last minute.
 */
export interface KeyUses {
  /** `id` is the id of the user, of the organization key, or of the session. */
  note(kind: "user" | "key" | "session", id: string, now: Date): void;
  /** Writes the pending times. After a failure they stay for the next flush. */
  flush(): Promise<void>;
}

/** Creates a tracker for this database. The owner calls `flush` every minute and before shutdown. */
export function createKeyUses(db: Database): KeyUses {
  const pending = {
    user: new Map<string, number>(),
    key: new Map<string, number>(),
    session: new Map<string, number>(),
  };
  const columns = {
    user: { table: sql.raw("users"), column: sql.raw("api_key_last_used_at") },
    key: { table: sql.raw("organization_keys"), column: sql.raw("last_used_at") },
    session: { table: sql.raw("sessions"), column: sql.raw("last_used_at") },
  };
  const write = async (kind: keyof typeof pending) => {
    const taken = pending[kind];
    if (taken.size === 0) return;
    pending[kind] = new Map();
    const uses = JSON.stringify([...taken].map(([id, at]) => ({ id, at: new Date(at).toISOString() })));
    const { table, column } = columns[kind];
    try {
      // Skips locked keys: their next use is recorded soon enough.
      await db.execute(sql`
        with used as (
          select k.id, given.at from ${table} k
          join json_to_recordset(${uses}::json) as given (id text, at timestamptz) on given.id = k.id
          where k.${column} is null or k.${column} < given.at
          order by k.id for update of k skip locked
        )
        update ${table} k set ${column} = used.at from used where used.id = k.id`);
    } catch (error) {
      for (const [id, at] of taken) if (!pending[kind].has(id)) pending[kind].set(id, at);
      throw error;
    }
  };
  return {
    note: (kind, id, now) => void pending[kind].set(id, now.getTime()),
    flush: async () => {
      await write("user");
      await write("key");
      await write("session");
    },
  };
}
