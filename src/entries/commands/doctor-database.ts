import { commandLine } from "../../core/command-line.ts";
import { MIGRATIONS } from "../platform/migrations.ts";
import { connect, type Connection } from "../../db/postgres/connect.ts";
import type { Endpoint } from "../../db/postgres/pooler.ts";
import { distributionProblem, findDistributedTables, isArchive } from "../../db/distribution.ts";
import { newestMigration, schemaVersion } from "../../db/migrate.ts";
import { createKeyring, readApiKey } from "../../operations/credentials.ts";
import { type Config, workerCount } from "../process/config.ts";
import type { Secrets } from "../process/given-secrets.ts";
import type { FoundDatabase } from "../process/database-access.ts";
import type { Finding } from "./doctor-finding.ts";
import { examineMail } from "./doctor-mail.ts";
import { sentenceOf } from "../process/lifecycle.ts";

type Sql = Connection["client"];
type Judged = Omit<Finding, "what">;

const SLOW_MS = 20;
/** Stored keys that are decrypted. */
const KEYS_TRIED = 20;
const ok = (sentence: string): Judged => ({ state: "ok", sentence });
const warn = (sentence: string): Judged => ({ state: "warn", sentence });
const fail = (sentence: string): Judged => ({ state: "FAIL", sentence });

/** Checks version, settings, latency, clock, schema, privileges, and delivery of notifications to sessions. */
export async function examineDatabase(
  { requests, sessions }: FoundDatabase,
  { config, secrets, isEmbedded }: { config: Config; secrets: Secrets | undefined; isEmbedded: boolean },
  tell: (finding: Finding) => void,
): Promise<void> {
  const connection = connect(requests, { maxConnections: 2, applicationName: "faregate-doctor" });
  const { client } = connection;
  const isPooled = requests.pooler !== undefined;
  const looks: (readonly [what: string, look: () => Promise<Judged | Judged[]>])[] = [
    ["database", () => version(client)],
    ["latency", () => latency(client)],
    ["clock", () => clock(client)],
    ["settings", () => settings(client, config, isPooled)],
    ["schema", () => schema(client)],
    ["tables", () => placement(client)],
    ["keys", () => keys(client, secrets)],
    ["mail", () => examineMail(client, config)],
    ["role", () => role(client, isEmbedded)],
    ...(sessions === undefined ? [] : [["notify", () => notifications(sessions)] as const]),
  ];
  try {
    for (const [what, look] of looks) {
      const found = await look().catch((error: unknown) => fail(sentenceOf(error, "The check failed")));
      for (const judged of [found].flat()) tell({ what, ...judged });
      // The other checks cannot succeed without a connection.
      if (what === "database" && [found].flat().some(({ state }) => state === "FAIL")) return;
    }
  } finally {
    await connection.close(1);
  }
}

async function version(client: Sql): Promise<Judged> {
  const [row] = await client<{ number: number; name: string }[]>`
    select current_setting('server_version_num')::int as number, current_setting('server_version') as name`;
  const name = `PostgreSQL ${row?.name}`;
  return (row?.number ?? 0) >= 150_000 ? ok(`${name} answers.`) : fail(`${name}: 15 or newer is needed.`);
}

async function latency(client: Sql): Promise<Judged> {
  const times: number[] = [];
  for (let i = 0; i < 9; i += 1) {
    const started = performance.now();
    await client`select 1`;
    times.push(performance.now() - started);
  }
  const median = times.toSorted((a, b) => a - b)[4] ?? 0;
  const sentence = `A round trip takes ${median.toFixed(1)} ms.`;
  return median > SLOW_MS
    ? warn(`${sentence} Every call waits for some: run the server beside its database.`)
    : ok(sentence);
}

async function clock(client: Sql): Promise<Judged> {
  const before = Date.now();
  const [row] = await client<{ at: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`;
  const skew = Math.abs((row?.at ?? 0) - (before + Date.now()) / 2) / 1000;
  const sentence = `The clocks of this machine and the database are ${skew.toFixed(1)} s apart.`;
  if (skew > 60) return fail(`${sentence} Periods and tokens would end at the wrong time: set them.`);
  return skew > 2 ? warn(sentence) : ok(sentence);
}

async function settings(client: Sql, config: Config, isPooled: boolean): Promise<Judged[]> {
  const rows = await client<{ name: string; setting: string }[]>`
    select name, setting from pg_settings
    where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'max_connections', 'transaction_read_only')`;
  const of = (name: string) => rows.find((row) => row.name === name)?.setting ?? "";
  const found: Judged[] = [];
  for (const name of ["fsync", "full_page_writes"]) {
    if (of(name) === "off") found.push(fail(`${name} is off: a crash of the machine destroys the database.`));
  }
  if (of("synchronous_commit") === "off") {
    found.push(fail("synchronous_commit is off: what was acknowledged can be lost in a crash."));
  }
  if (of("transaction_read_only") === "on") found.push(fail("The database can only be read: is it a standby?"));
  // Each process has a pool, which a pooler shares, and 3 more connections (LISTEN among them). The operator gets 3.
  const workers = workerCount(config);
  const needed = (workers + 1) * ((isPooled ? 0 : config.DATABASE_POOL_SIZE) + 3) + 3;
  const most = Number(of("max_connections"));
  if (most < needed) {
    found.push(
      warn(
        `max_connections is ${most}; ${workers === 1 ? "one REST process" : `${workers} REST processes`} and one event server may open ${needed}.`,
      ),
    );
  }
  return found.length > 0 ? found : [ok(`Commits are durable, ${most} connections.`)];
}

async function schema(client: Sql): Promise<Judged> {
  const [has, known] = [await schemaVersion(client), newestMigration(MIGRATIONS)];
  if (has === 0) return warn(`There is no schema yet: ${commandLine("start")} or ${commandLine("migrate")} makes it.`);
  if (has < known)
    return fail(`The schema is older than this release: ${commandLine("migrate")} brings it up to date.`);
  return ok(
    has > known ? "The schema is newer than this release, which is fine." : "The schema is that of this release.",
  );
}

/** Checks that tables are distributed as `distribute` does it, or not at all. Silent without Citus. */
async function placement(client: Sql): Promise<Judged | Judged[]> {
  const tables = await findDistributedTables(client);
  if (tables === undefined) return [];
  if (isArchive(tables)) return archive(client);
  const problem = distributionProblem(tables);
  return problem === undefined ? ok("Citus is installed and distributes no table.") : fail(problem);
}

/** Checks that old movements can be read from the workers, as the server reads them. */
async function archive(client: Sql): Promise<Judged> {
  try {
    const [row] = await client<{ workers: number }[]>`
      select count(distinct nodename || nodeport)::int as workers from pg_dist_shard_placement`;
    // A contract that does not exist is looked up on one worker.
    await client`select 1 from usage_ledger where contract_id = ''`;
    await client`select 1 from usage_days where contract_id = ''`;
    return ok(`Citus distributes old movements and the sums of usage over ${row?.workers ?? 0} workers.`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail(
      `Old movements cannot be read (${reason}): check the workers, and the user mapping of faregate_archive.`,
    );
  }
}

/** Checks that API_KEYS_SECRET decrypts the newest stored keys. After a restore with another one, every key is refused. */
async function keys(client: Sql, secrets: Secrets | undefined): Promise<Judged | Judged[]> {
  if (secrets === undefined || (await schemaVersion(client)) === 0) return [];
  const rows = await client<{ sealed: string }[]>`
    select key_sealed as sealed from organization_keys order by created_at desc limit ${KEYS_TRIED}`;
  if (rows.length === 0) return [];
  const keyring = await createKeyring(secrets);
  const opened = await Promise.all(rows.map(({ sealed }) => readApiKey(keyring, sealed)));
  const count = opened.filter((key) => key !== undefined).length;
  if (count === rows.length) return ok(`API_KEYS_SECRET opens the stored keys (${count} tried).`);
  return fail(
    `API_KEYS_SECRET opens ${count} of ${rows.length} stored keys: all others are refused with 401. Set the secret with which this database was used, or set it as API_KEYS_SECRET_PREVIOUS.`,
  );
}

/** Checks that the server's role has the required privileges and no excessive ones; see db/roles.sql. */
async function role(client: Sql, isEmbedded: boolean): Promise<Judged[]> {
  const [who] = await client<{ name: string; isSuper: boolean; mayCreate: boolean; exists: boolean }[]>`
    select current_user as name, rolsuper as "isSuper", has_schema_privilege('public', 'create') as "mayCreate",
      to_regclass('public.audit_log') is not null as exists
    from pg_roles where rolname = current_user`;
  const name = who?.name ?? "";
  if (who?.exists === true) {
    const lacking = await client<{ table: string }[]>`
      select c.relname as table from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and not c.relispartition and c.relname not in ('usage_archive', 'usage_archive_changes', 'usage_ledger_next')
        and not (has_table_privilege(c.oid, 'select') and (c.relname = 'instances' or has_table_privilege(c.oid, 'insert')))
      order by 1`;
    if (lacking.length > 0) {
      const tables = lacking.map(({ table }) => table).join(", ");
      return [fail(`${name} may not read and write ${tables}: run src/db/roles.sql.`)];
    }
  }
  if (isEmbedded) return [ok("The embedded database is the server's own.")];
  const advice = " src/db/roles.sql makes roles that may do what they need.";
  if (who?.isSuper === true) return [warn(`${name} is a superuser.${advice}`)];
  if (who?.mayCreate === true) return [warn(`${name} may change the schema, and so the audit log.${advice}`)];
  return [ok(`${name} may read and write rows and change no table.`)];
}

/** Checks that NOTIFY reaches a listener on another connection. */
async function notifications(sessions: Endpoint): Promise<Judged> {
  const connection = connect(sessions, { maxConnections: 1, applicationName: "faregate-doctor" });
  try {
    return await deliver(connection.client);
  } finally {
    await connection.close(1);
  }
}

async function deliver(client: Sql): Promise<Judged> {
  const channel = `faregate_doctor_${process.pid}`;
  let arrived = () => {};
  const heard = new Promise<boolean>((resolve) => (arrived = () => resolve(true)));
  const { unlisten } = await client.listen(channel, () => arrived());
  const started = performance.now();
  await client`select pg_notify(${channel}, '')`;
  const withTimeout = await Promise.race([
    heard,
    new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 2000)),
  ]);
  await unlisten();
  if (withTimeout) return ok(`A notification arrives after ${(performance.now() - started).toFixed(1)} ms.`);
  return fail("Notifications do not arrive: set DATABASE_DIRECT_URL to an address past every proxy.");
}
