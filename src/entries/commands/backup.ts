import { commandLine } from "../../core/command-line.ts";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { backUpCluster } from "./backup-cluster.ts";
import { dumpDatabase } from "./backup-dump.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `npm run backup -- <folder>` writes a consistent backup while the system runs. An embedded database is copied with
 * its secrets. An external database is dumped by pg_dump, without the secrets. `npm run restore` restores it. Exit code
 * 0, or 2 with one sentence.
 */
await runCommand(async ({ config, database: { url }, isEmbedded }) => {
  const folder = folderOf(readArguments({}, 1).operands[0]);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const bytes = isEmbedded
    ? await backUpCluster(url, { dataDir: config.DATA_DIR, folder })
    : await dumpDatabase(url, folder);
  const size = `${(bytes / 1024 / 1024).toFixed(1)} MB`;
  process.stdout.write(
    isEmbedded
      ? `Backed up database and secrets to ${folder} (${size}): keep it as secret as they are.\n`
      : `Dumped the database to ${folder} (${size}); JWT_SECRET, JWT_SALT and API_KEYS_SECRET are not in it.\n`,
  );
  return 0;
});

/** Returns the absolute path of a new or empty folder. */
function folderOf(given: string | undefined): string {
  if (given === undefined)
    throw new StartupProblem(`Where to? ${commandLine("backup <folder>")} takes a new or an empty folder.`);
  const folder = resolve(given);
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new StartupProblem(`The folder ${folder} is not empty: a backup goes into a new one.`);
  }
  return folder;
}
