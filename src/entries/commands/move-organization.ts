import { commandLine } from "../../core/command-line.ts";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";
import { leaveOrganization, thawOrganization } from "../../operations/moving.ts";
import { exportFolder, readManifest } from "../platform/organization-folder.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `faregate-server move-organization <folder> --to <url>` ends a move where it began: calls are answered with the new address.
 * `--cancel` admits changes again instead. Exit code 0, or 2 with one sentence and the organization as it was.
 */
await runCommand(async ({ database }) => {
  const { operands, values } = readArguments({ to: { type: "string" }, cancel: { type: "boolean" } }, 1);
  const [folder] = operands;
  const { to, cancel = false } = values;
  if (folder === undefined || (to !== undefined) === cancel)
    throw new StartupProblem(`Where to? ${commandLine("move-organization <folder> --to <url>")}, or --cancel`);
  if (to !== undefined && !(URL.canParse(to) && /^https?:$/.test(new URL(to).protocol)))
    throw new StartupProblem(`--to must be an http(s) URL, such as https://two.example.com, and not ${to}.`);
  const manifest = readManifest(folder);
  const connection = connect(database, { maxConnections: 1, applicationName: "faregate-move-organization" });
  try {
    if (to === undefined) await thawOrganization(connection.db, manifest.organizationId);
    else await leaveOrganization(connection.db, exportFolder(folder), { manifest, to });
    process.stdout.write(
      to === undefined
        ? `${manifest.name} stays here, and can be changed again.\n`
        : `${manifest.name} has left: its keys are answered with ${to}, and its contracts and services are deleted here.\n`,
    );
    return 0;
  } finally {
    await connection.close();
  }
});
