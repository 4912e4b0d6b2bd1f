import { setTimeout } from "node:timers/promises";
import { commandLine } from "../../core/command-line.ts";
import { schemaVersion } from "../../db/migrate.ts";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";
import { exportOrganization, freezeOrganization, thawOrganization } from "../../operations/moving.ts";
import { createExportFolder, exportFolder, writeManifest } from "../platform/organization-folder.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `faregate-server export-organization <id> <folder>` freezes an organization and writes its rows. It stays frozen, until
 * `move-organization` ends the move or cancels it. Exit code 0, or 2 with one sentence and the organization as it was.
 */

/** Time in which every process learns of the freeze, and ends calls that it has admitted before. */
const SETTLE_MS = 5_000;

await runCommand(async ({ database }) => {
  const [organizationId, given] = readArguments({}, 2).operands;
  if (organizationId === undefined || given === undefined)
    throw new StartupProblem(`Which one, and where to? ${commandLine("export-organization <id> <folder>")}`);
  const folder = createExportFolder(given);
  const connection = connect(database, { maxConnections: 1, applicationName: "faregate-export-organization" });
  const { db, client } = connection;
  try {
    await freezeOrganization(db, organizationId, new Date());
    await setTimeout(SETTLE_MS);
    const schema = await schemaVersion(client);
    const manifest = await exportOrganization(db, exportFolder(folder), { organizationId, now: new Date(), schema });
    writeManifest(folder, manifest);
    const rows = Object.values(manifest.tables).reduce((sum, table) => sum + table.rows, 0);
    process.stdout.write(
      `${manifest.name} is frozen, and its ${rows} rows are in ${folder}: keep it as secret as the database.\n`,
    );
    return 0;
  } catch (error) {
    await thawOrganization(db, organizationId).catch(() => {});
    throw error;
  } finally {
    await connection.close();
  }
});
