import { readArguments, runCommand } from "./command.ts";
import { prepareDatabase } from "../process/prepare-database.ts";

/*
 * `npm run migrate`: what `npm start` does before it serves, for deployments whose servers start by themselves. Any number of
 * these may run at once: an advisory lock lets one work and the others find it done.
 */
await runCommand(async ({ config, database, secrets }) => {
  readArguments({});
  const signIn = await prepareDatabase({ ...config, MIGRATE: true }, secrets(), database);
  process.stdout.write(`The schema is up to date. Sign in ${signIn}.\n`);
  return 0;
});
