import { sql } from "drizzle-orm";
import { type ActorKind, authorOf, type Caller } from "../../core/access/caller.ts";
import type { Database } from "../../db/postgres/connect.ts";

/** The `action` of audit entries about denied attempts. */
export const DENIED_ACTION = "access.refuse";

/** Entries that one process writes per flush. Further attempts are summed up in one more entry. */
const MAX_ENTRIES = 20;

/** A mutating request that was answered with 401 or 403. */
export interface DeniedAttempt {
  caller: Caller;
  /**
   * The target organization. Its log gets the entry only if the caller belongs to it; otherwise only the platform's log
   * does.
   */
  organizationId: string | null;
  /** Method and route pattern; never the path, which may contain secrets. */
  route: string;
  status: number;
  requestId: string;
}

/**
 * Aggregates denied attempts in memory, and writes them to the audit log once per minute. Any number of identical
 * attempts makes one entry per minute. A flush writes at most `MAX_ENTRIES` + 1 entries.
 */
export interface DeniedAttempts {
  record(refusal: DeniedAttempt, now: Date): void;
  /** Writes the pending entries. After a failure they stay for the next flush. */
  flush(): Promise<void>;
}

interface Entry {
  at: Date;
  organizationId: string | null;
  actorKind: ActorKind;
  actorId: string | null;
  target: string;
  status: number;
  attempts: number;
  requestId: string;
}

/** Creates an aggregator for this database. The owner calls `flush` every minute and before shutdown. */
export function createDeniedAttempts(db: Database): DeniedAttempts {
  let pending = new Map<string, Entry>();
  const add = (key: string, entry: Entry) => {
    const known = pending.get(key);
    pending.set(key, { ...entry, attempts: entry.attempts + (known?.attempts ?? 0) });
  };
  return {
    record: ({ caller, organizationId, route, status, requestId }, at) => {
      const author = authorOf(caller);
      const key = [author.actorKind, author.actorId, organizationId, route, status].join(" ");
      const full = !pending.has(key) && pending.size >= MAX_ENTRIES;
      const of = full
        ? { organizationId: null, actorKind: "anonymous" as const, actorId: null, target: "others" }
        : { organizationId, ...author, target: route };
      add(full ? "" : key, { ...of, at, status, attempts: 1, requestId });
    },
    flush: async () => {
      if (pending.size === 0) return;
      const taken = pending;
      pending = new Map();
      try {
        await db.execute(sql`
          insert into audit_log (at, organization_id, actor_kind, actor_id, action, target, after, request_id)
          select "at", coalesce(case when "actorKind" = 'key'
              or exists (select from members where organization_id = "organizationId" and user_id = "actorId")
              or exists (select from organizations where id = "organizationId" and owner_id = "actorId")
              then "organizationId" end, ''),
            "actorKind", "actorId", ${DENIED_ACTION}, target,
            json_build_object('status', status, 'attempts', attempts), "requestId"
          from json_to_recordset(${JSON.stringify([...taken.values()])}::json) as given ("at" timestamptz,
            "organizationId" text, "actorKind" text, "actorId" text, target text, status int, attempts int, "requestId" text)`);
      } catch (error) {
        for (const [key, entry] of taken) add(key, entry);
        throw error;
      }
    },
  };
}
