import { makeArchive, planArchive, type Plan } from "../../db/archive.ts";
import { distributionProblem, findDistributedTables, isArchive } from "../../db/distribution.ts";
import { newestMigration, schemaVersion } from "../../db/migrate.ts";
import { parseDatabaseUrl } from "../../db/postgres/address.ts";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";
import { MIGRATIONS } from "../platform/migrations.ts";
import { commandLine } from "../../core/command-line.ts";
import { ownersEndpoint } from "../process/prepare-database.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `faregate-server distribute [--dry-run]`, once, on a Citus coordinator: movements that are two weeks old, and the sums of usage, go to
 * the workers from now on. Exit codes: 0 done, or nothing to do; 2 not done.
 */

const megabytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MB`;

const planned = ({ workers, sums, ledger }: Plan) =>
  `usage_hours and usage_days (${megabytes(sums)}) go to ${workers === 1 ? "the worker" : `${workers} workers`} at once, and histories wait meanwhile. ` +
  `Partitions of the ledger (${megabytes(ledger)}) follow, one per minute, two weeks after their end.\n`;

await runCommand(async ({ config, database }) => {
  const isDry = readArguments({ "dry-run": { type: "boolean" } }).values["dry-run"] ?? false;
  const connection = connect(await ownersEndpoint(config, database), {
    maxConnections: 1,
    applicationName: "faregate-distribute",
  });
  const { client } = connection;
  try {
    const tables = await findDistributedTables(client);
    if (tables === undefined) {
      throw new StartupProblem(
        "This database has no Citus: run `create extension citus` on all nodes, and add the workers.",
      );
    }
    if (isArchive(tables)) {
      process.stdout.write("The database is distributed already.\n");
      return 0;
    }
    const problem = distributionProblem(tables);
    if (problem !== undefined) throw new StartupProblem(problem);
    if ((await schemaVersion(client)) !== newestMigration(MIGRATIONS)) {
      throw new StartupProblem(`The schema is not that of this release: ${commandLine("migrate")} comes first.`);
    }
    const plan = await planArchive(client);
    if (plan.workers === 0) {
      throw new StartupProblem("This database has no worker: citus_add_node('<host>', <port>) adds one.");
    }
    if (isDry) {
      process.stdout.write(planned(plan));
      return 0;
    }
    const readers = new Map<string, string>();
    for (const url of [config.DATABASE_OWNER_URL, config.DATABASE_URL]) {
      const { username, password } = (url === undefined ? undefined : parseDatabaseUrl(url)) ?? {};
      if (username) readers.set(username, password ?? "");
    }
    await makeArchive(
      client,
      [...readers].map(([name, password]) => ({ name, password })),
    );
    process.stdout.write(planned(plan));
    process.stdout.write("Restart all processes now.\n");
    return 0;
  } finally {
    await connection.close();
  }
});
