import type { Connection } from "./connect.ts";
import { type Addressed, recordPrivately } from "./outbox.ts";
import { columnsOf, keyOf, readSubjects, type Subject, type SubjectName } from "./subjects.ts";

/** One granted use of one limit. */
export interface Consumption {
  contractId: string;
  serviceId: string;
  limitName: string;
  /** Not negative. */
  amount: number;
  featureId: string;
  operationId: string;
}

/** What a group of consumptions finds: a subject under lock, none, or a contract that somebody else holds right now. */
export type Held = Subject | "absent" | "busy";

/**
 * Runs `decide` over many contracts in one transaction with their rows locked, and counts what it returns, in three round
 * trips however many callers. Contracts that somebody else has locked are waited for at most `lockWaitMs`, which then fails
 * for all of them (SQLSTATE 55P03). With 0 they are not waited for, because one that is being novated must not hold up the
 * others: they are "busy".
 */
export async function consumeTogether<T>(
  { client }: Connection,
  { names, now, lockWaitMs }: { names: readonly SubjectName[]; now: Date; lockWaitMs: number },
  decide: (held: (name: SubjectName) => Held) => Promise<{
    result: T;
    consumptions: readonly Consumption[];
    /** What to record with them; hardly ever any. */
    events: readonly Addressed[];
  }>,
): Promise<T> {
  let counted: Promise<unknown> = Promise.resolve();
  const result = await client.begin(async (tx) => {
    const [organizationIds, userIds] = columnsOf(names);
    const held = tx`
      select organization_id as "organizationId", user_id as "userId" from contracts
      where (organization_id, user_id) in (select * from unnest(${organizationIds}::text[], ${userIds}::text[]))
      order by id for no key update`;
    // Sent together, in this order: `execute` queues a statement, a query that is only awaited is queued later. So the
    // reading begins when the locks are held, and sees what was committed by then.
    const limited = lockWaitMs === 0 ? undefined : tx.unsafe(`set local lock_timeout = ${lockWaitMs}`).execute();
    const locking = tx<SubjectName[]>`${held} ${lockWaitMs === 0 ? tx`skip locked` : tx``}`.execute();
    const [locked, subjects] = await Promise.all([locking, readSubjects(tx, names), limited]);
    const mine = new Set(locked.map(keyOf));
    const { result, consumptions, events } = await decide((name) => {
      const subject = subjects.get(keyOf(name));
      if (subject === undefined) return "absent";
      return mine.has(keyOf(name)) ? subject : "busy";
    });
    if (consumptions.length > 0) {
      const rows = JSON.stringify(consumptions);
      // Sent together with the commit, which would turn into a rollback if this failed: so it is awaited below.
      counted = tx`
        with movement as (
          select * from json_to_recordset(${rows}::text::json) as given
            ("contractId" text, "serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
        ), written as (
          insert into usage_ledger
            (contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
          select "contractId", "serviceId", "limitName", 'consume', "featureId", "operationId", amount,
            ${now.toISOString()}::text::timestamptz
          from movement
        )
        update usage_levels u set consumed = u.consumed + m.amount
        from (
          select "contractId", "serviceId", "limitName", sum(amount) as amount from movement group by 1, 2, 3
        ) m
        where u.contract_id = m."contractId" and u.service_id = m."serviceId" and u.limit_name = m."limitName"`.execute();
    }
    // Last, because the ids are given under a lock that all share.
    if (events.length > 0) {
      await counted;
      await recordPrivately(tx, events);
    }
    return { result };
  });
  await counted;
  return result.result;
}
