import { connect } from "../db/connect.ts";
import { runningAddress, startEmbeddedPostgres } from "../db/embedded.ts";
import { checkLedger } from "../db/invariants.ts";
import { type Config, readConfig } from "./config.ts";
import { sentenceOf } from "./lifecycle.ts";
import { lockFolder } from "./lock.ts";
import { keepSecrets } from "./secrets.ts";

/*
 * `npm run check:ledger`: does every balance equal the sum of its movements? Reads only, at any time, also beside a running
 * system. Exit code 0 when all agree, 1 when one does not, 2 when it could not be found out.
 */
try {
  const database = await openDatabase(readConfig(process.env));
  const connection = connect(database.url, { maxConnections: 1, applicationName: "faregate-check-ledger" });
  try {
    const { balances, movements, violations } = await checkLedger(connection.db);
    for (const { rule, contractId, serviceId, limitName, consumed, moved } of violations) {
      process.stderr.write(
        `Violated: ${rule}. Contract ${contractId}, service ${serviceId}, limit ${limitName}: balance ${consumed}, movements ${moved}.\n`,
      );
    }
    process.exitCode = violations.length === 0 ? 0 : 1;
    const verdict = violations.length === 0 ? "all agree" : `${violations.length} disagree`;
    process.stdout.write(`${balances} balances, ${movements} movements: ${verdict}.\n`);
  } finally {
    await connection.close();
    await database.close();
  }
} catch (error) {
  process.stderr.write(`${sentenceOf(error)}\n`);
  process.exitCode = 2;
}

/** The database given; or the embedded one, as it runs, or started for the time of the check. */
async function openDatabase(config: Config): Promise<{ url: string; close(): Promise<void> }> {
  if (config.DATABASE_URL !== undefined) return { url: config.DATABASE_URL, close: async () => {} };
  const dataDir = config.DATA_DIR;
  const password = keepSecrets(config).databasePassword;
  const running = runningAddress(dataDir, password);
  if (running !== undefined) return { url: running, close: async () => {} };
  const unlock = lockFolder(dataDir);
  const server = await startEmbeddedPostgres({ dataDir, password });
  return {
    url: server.url,
    close: async () => {
      await server.stop();
      unlock();
    },
  };
}
