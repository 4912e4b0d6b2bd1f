import { reencryptKeys } from "../../operations/accounts/reseal.ts";
import { readArguments, runCommand } from "./command.ts";
import { openResources } from "../process/resources.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";

/*
 * `npm run reseal`: the last step of replacing API_KEYS_SECRET. Before it, every process runs with the new secret and with
 * the old one in API_KEYS_SECRET_PREVIOUS; after it, that variable may go. Exit code 0, or 1 when something was sealed with
 * neither.
 */
await runCommand(async ({ config, database, secrets }) => {
  readArguments({});
  if (config.API_KEYS_SECRET_PREVIOUS === undefined) {
    throw new StartupProblem("API_KEYS_SECRET_PREVIOUS is not set: there is nothing to carry over.");
  }
  const opened = await openResources(config, secrets(), {
    database: { requests: database, sessions: database },
    applicationName: "faregate-reseal",
  });
  try {
    const { reencrypted, unreadable } = await reencryptKeys(opened.resources);
    process.stdout.write(
      `${reencrypted} keys and secrets are under API_KEYS_SECRET now, ${unreadable} cannot be read.\n`,
    );
    return unreadable === 0 ? 0 : 1;
  } finally {
    await opened.close();
  }
});
