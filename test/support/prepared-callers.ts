import { inject } from "vitest";
import { databaseError } from "../../src/db/postgres/connect.ts";
import { createOnOneServer, type TestDatabase } from "./database.ts";
import { callersTemplateOf, onServer } from "./postgres-server.ts";

/**
 * Returns a template database in which `create` has created callers, and these. The first worker of a run creates it, because
 * a file that creates them needs 30 requests. A comment on the database names the callers.
 */
export async function preparedCallers<Callers>(
  create: (database: TestDatabase) => Promise<Callers>,
): Promise<{ template: string; callers: Callers }> {
  const { url: server, template: empty } = inject("postgres");
  const template = callersTemplateOf(empty);
  const find = async () => {
    const [row] = await onServer(
      server,
      `select shobj_description(oid, 'pg_database') as comment from pg_database where datname = '${template}'`,
    );
    return row === undefined ? undefined : (JSON.parse(String(row["comment"])) as Callers);
  };
  const found = await find();
  if (found !== undefined) return { template, callers: found };

  const database = await createOnOneServer();
  const callers = await create({ ...database, drop: () => database.connection.close() });
  const name = new URL(database.url).pathname.slice(1);
  await onServer(server, `comment on database ${name} is '${JSON.stringify(callers).replaceAll("'", "''")}'`);
  // A pooler keeps its connections open, and a template must have none.
  await onServer(server, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  try {
    await onServer(server, `alter database ${name} rename to ${template}`);
    return { template, callers };
  } catch (error) {
    await onServer(server, `drop database ${name} with (force)`);
    // Another worker was faster.
    const theirs = databaseError(error)?.code === "42P04" ? await find() : undefined;
    if (theirs === undefined) throw error;
    return { template, callers: theirs };
  }
}
