import { commandLine } from "../../core/command-line.ts";
import { requireUndistributed } from "../../db/distribution.ts";
import { newestMigration } from "../../db/migrate.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { MIGRATIONS } from "../platform/migrations.ts";
import { importOrganization } from "../../operations/moving.ts";
import { exportFolder, readManifest } from "../platform/organization-folder.ts";
import { withResources } from "../process/bare-resources.ts";
import { prepareDatabase } from "../process/prepare-database.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `faregate-server import-organization <folder>` writes an exported organization into this instance, and checks the ledger, in one
 * transaction. Exit code 0, or 2 with one sentence and nothing written.
 */
await runCommand(async ({ config, database, secrets }) => {
  const { operands, values } = readArguments({ accounts: { type: "string" } }, 1);
  const [folder] = operands;
  const { accounts: which } = values;
  if (folder === undefined)
    throw new StartupProblem(`From where? ${commandLine("import-organization <folder> [--accounts existing]")}`);
  if (which !== undefined && which !== "existing")
    throw new StartupProblem(`--accounts must be existing, and not ${which}.`);
  const manifest = readManifest(folder);
  await prepareDatabase(config, secrets(), database);
  const options = { database, applicationName: "faregate-import-organization" };
  return withResources(config, secrets(), options, async ({ db, keyring }) => {
    await requireUndistributed(
      db,
      "Citus distributes this database, and its ledger cannot be checked before the import is committed: import the organization into an instance on one Postgres.",
    );
    const given = { manifest, schema: newestMigration(MIGRATIONS), takesAccounts: which === "existing" };
    const { rows, accounts } = await importOrganization({ db, keyring }, exportFolder(folder), given);
    const same = accounts.length === 0 ? "" : ` Accounts that existed: ${accounts.join(", ")}.`;
    process.stdout.write(`${manifest.name} is here: ${rows} rows, and all balances agree with the ledger.${same}\n`);
    return 0;
  });
});
