import { commandLine } from "../../core/command-line.ts";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";
import type { Endpoint } from "../../db/postgres/pooler.ts";
import { checkLedger } from "../../db/invariants.ts";
import { restoreCluster } from "./backup-cluster.ts";
import { restoreDump } from "./backup-dump.ts";
import { openDatabaseOf, readArguments } from "./command.ts";
import { type Config, readConfig } from "../process/config.ts";
import { sessionsOf } from "../process/database-access.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { sentenceOf } from "../process/lifecycle.ts";

/*
 * `npm run restore -- <folder>` restores a backup into a new DATA_DIR, or into an empty database at DATABASE_URL.
 * Afterwards it compares every balance with its movements. Exit code 0; 1 when a balance disagrees; 2 with one sentence
 * when the restore failed.
 */
try {
  requireRepairedDriver();
  const config = readConfig(process.env);
  const [given] = readArguments({}, 1).operands;
  if (given === undefined)
    throw new StartupProblem(`From where? ${commandLine("restore <folder>")} takes a backup's folder.`);
  const folder = resolve(given);
  const kind = config.DATABASE_URL === undefined ? "postgres" : "database.dump";
  if (!existsSync(join(folder, kind))) {
    throw new StartupProblem(
      `${folder} has no ${kind}: it is no backup of ${kind === "postgres" ? "an embedded" : "a"} database.`,
    );
  }
  const started = performance.now();
  const verdict =
    config.DATABASE_URL === undefined
      ? await embedded(config, folder)
      : await external(await sessionsOf(config, config.DATABASE_URL), folder);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(
    `Restored ${verdict.balances} balances with ${verdict.movements} movements in ${seconds} s: ${
      verdict.violations.length === 0 ? "all agree" : `${verdict.violations.length} disagree`
    }.\n`,
  );
  process.exitCode = verdict.violations.length === 0 ? 0 : 1;
} catch (error) {
  process.stderr.write(`${sentenceOf(error, "The restore failed")}\n`);
  process.exitCode = 2;
}

async function check(database: Endpoint) {
  const connection = connect(database, { maxConnections: 1, applicationName: "faregate-restore" });
  try {
    return await checkLedger(connection.db);
  } finally {
    await connection.close();
  }
}

async function external(database: Endpoint, folder: string) {
  await restoreDump(database.url, folder);
  return check(database);
}

async function embedded(config: Config, folder: string) {
  await restoreCluster(folder, config.DATA_DIR);
  const database = await openDatabaseOf(config);
  try {
    return await check(database.endpoint);
  } finally {
    await database.close();
  }
}
