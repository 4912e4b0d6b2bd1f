import type { Database } from "../../db/postgres/connect.ts";
import type { Invalidations } from "../../db/postgres/invalidations.ts";
import { writeEvaluators } from "../../db/queries/evaluators.ts";

/** Counts the streams of changes of local evaluators per organization, for every process to read. */
export interface Evaluators {
  /** Counts a stream. Returns an idempotent function that stops counting it. */
  opened(organizationId: string): () => void;
  /** Writes the counts that changed. After a failure they stay for the next flush. */
  flush(): Promise<void>;
}

/** Creates counts for this database. The owner calls `flush` every second and before shutdown. Without `changes` it counts nothing. */
export function createEvaluators(db: Database, changes: Invalidations | undefined): Evaluators {
  const streams = new Map<string, number>();
  let unwritten = new Set<string>();
  /** True while another process may delete the rows, because this one does not listen. */
  let isAbsent = true;
  let last = Promise.resolve();

  const add = (organizationId: string, by: number) => {
    const count = (streams.get(organizationId) ?? 0) + by;
    if (count === 0) streams.delete(organizationId);
    else streams.set(organizationId, count);
    unwritten.add(organizationId);
  };
  changes?.follow(({ of }) => {
    if (of === "everything") isAbsent = true;
  });
  changes?.followHeartbeats(() => {
    if (isAbsent) for (const organizationId of streams.keys()) unwritten.add(organizationId);
    isAbsent = false;
  });
  const write = async () => {
    if (changes === undefined || unwritten.size === 0) return;
    const taken = unwritten;
    unwritten = new Set();
    try {
      await writeEvaluators(db, changes.session, new Map(Array.from(taken, (id) => [id, streams.get(id) ?? 0])));
    } catch (error) {
      for (const id of taken) unwritten.add(id);
      throw error;
    }
  };
  return {
    opened: (organizationId) => {
      add(organizationId, 1);
      let isOpen = true;
      return () => {
        if (isOpen) add(organizationId, -1);
        isOpen = false;
      };
    },
    flush: () => {
      // Chains the flushes, so that a later count is never overwritten by an earlier one.
      last = last.catch(() => {}).then(write);
      return last;
    },
  };
}
