import { sql } from "drizzle-orm";
import type { Caller } from "../core/access/caller.ts";
import type { Database } from "../db/postgres/connect.ts";

/** The `action` of an entry about attempts that were refused. */
export const REFUSED_ACTION = "access.refuse";

/** Entries that one process writes at most at once; what is beyond is counted together, in one more. */
const MAX_ENTRIES = 20;

/** An attempt to change something that was answered with 401 or 403. */
export interface Refusal {
  caller: Caller;
  /** The one it was about: its log has the entry if the caller belongs to it, otherwise only the platform's has. */
  organizationId: string | null;
  /** Method and pattern, never the path. */
  route: string;
  status: number;
  requestId: string;
}

/**
 * Refused attempts, summed up in memory and written to the audit log once a minute: whoever is refused a thousand times a
 * second makes one entry a minute, and all of them together no more than `MAX_ENTRIES` and one.
 */
export interface Refusals {
  note(refusal: Refusal, now: Date): void;
  /** Writes what has been noted. Failures keep it for the next flush. */
  flush(): Promise<void>;
}

interface Entry {
  at: Date;
  organizationId: string | null;
  actorKind: Caller["kind"];
  actorId: string | null;
  target: string;
  status: number;
  attempts: number;
  requestId: string;
}

/** Refusals over this database; the owner calls flush once a minute and at the end. */
export function createRefusals(db: Database): Refusals {
  let pending = new Map<string, Entry>();
  const add = (key: string, entry: Entry) => {
    const known = pending.get(key);
    pending.set(key, { ...entry, attempts: entry.attempts + (known?.attempts ?? 0) });
  };
  return {
    note: ({ caller, organizationId, route, status, requestId }, at) => {
      const actorId = caller.kind === "user" ? caller.id : caller.kind === "key" ? caller.keyId : null;
      const key = [caller.kind, actorId, organizationId, route, status].join(" ");
      const full = !pending.has(key) && pending.size >= MAX_ENTRIES;
      const of = full
        ? { organizationId: null, actorKind: "anonymous" as const, actorId: null, target: "others" }
        : { organizationId, actorKind: caller.kind, actorId, target: route };
      add(full ? "" : key, { ...of, at, status, attempts: 1, requestId });
    },
    flush: async () => {
      if (pending.size === 0) return;
      const taken = pending;
      pending = new Map();
      try {
        await db.execute(sql`
          insert into audit_log (at, organization_id, actor_kind, actor_id, action, target, after, request_id)
          select "at", case when "actorKind" = 'key'
              or exists (select from members where organization_id = "organizationId" and user_id = "actorId")
              or exists (select from organizations where id = "organizationId" and owner_id = "actorId")
              then "organizationId" end,
            "actorKind", "actorId", ${REFUSED_ACTION}, target,
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
