import { sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { LISTENER_LOCKS } from "../postgres/invalidations.ts";

/*
 * Counts of local evaluators that are connected to any process. A process writes its counts when they change. Those of a
 * process that crashed stay behind, and stop counting with its connection.
 */

/** SQL condition: the process that wrote row `e` still listens for changes. */
const IS_LISTENING = sql`exists (
  select from pg_locks l
  where l.locktype = 'advisory' and l.classid = ${sql.raw(String(LISTENER_LOCKS))} and l.objid = e.session
    and l.objsubid = 2 and l.database = (select oid from pg_database where datname = current_database()))`;

/** Writes the number of open streams per organization, and deletes rows of processes that are gone. */
export async function writeEvaluators(
  db: Database,
  session: number,
  streams: ReadonlyMap<string, number>,
): Promise<void> {
  const given = JSON.stringify(Array.from(streams, ([organizationId, count]) => ({ organizationId, count })));
  const counts = sql`json_to_recordset(${given}::json) as given ("organizationId" text, count integer)`;
  // Skips locked rows: another process deletes them.
  await db.execute(sql`
    delete from evaluators where (organization_id, session) in (
      select e.organization_id, e.session from evaluators e
      where (e.session = ${session} and e.organization_id in (select "organizationId" from ${counts} where count = 0))
        or (e.session <> ${session} and not ${IS_LISTENING})
      for update skip locked)`);
  await db.execute(sql`
    insert into evaluators (organization_id, session, streams)
    select o.id, ${session}::integer, given.count from ${counts} join organizations o on o.id = given."organizationId"
    where given.count > 0
    for key share of o
    on conflict on constraint evaluators_pk do update set streams = excluded.streams`);
}

/** Counts the evaluators of an organization that are connected to any process. */
export async function countEvaluators(db: Database, organizationId: string): Promise<number> {
  const [row] = await db.execute<{ count: number }>(sql`
    select coalesce(sum(e.streams), 0)::integer as count from evaluators e
    where e.organization_id = ${organizationId} and ${IS_LISTENING}`);
  return row?.count ?? 0;
}
