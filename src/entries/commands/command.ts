import { runningAddress, startEmbeddedPostgres } from "../../db/postgres/embedded.ts";
import { type Config, readConfig, requireSecrets, type Secrets } from "../process/config.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import { lockFolder } from "../process/lock.ts";
import { loadOrCreateSecrets } from "../process/secrets.ts";

/** Context of a maintenance command. */
export interface Command {
  config: Config;
  databaseUrl: string;
  /**
   * Reads the secrets on demand.
   * @throws StartupProblem when the environment lacks secrets, or has weak ones.
   */
  secrets(): Secrets;
  isEmbedded: boolean;
}

/** Opens the configured database, or else the embedded one: connects if it runs, starts it until `close` otherwise. */
export async function openDatabaseOf(config: Config): Promise<{ url: string; close(): Promise<void> }> {
  if (config.DATABASE_URL !== undefined) return { url: config.DATABASE_URL, close: async () => {} };
  const dataDir = config.DATA_DIR;
  const password = loadOrCreateSecrets(config).databasePassword;
  const running = runningAddress(dataDir, password);
  if (running !== undefined) return { url: running, close: async () => {} };
  const unlock = lockFolder(dataDir);
  try {
    const server = await startEmbeddedPostgres({ dataDir, password });
    return {
      url: server.url,
      close: async () => {
        await server.stop();
        unlock();
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

/**
 * Runs a command with a database and sets its result as the exit code. An embedded database that is not running is
 * started for the command. Errors print one sentence to stderr and exit with 2.
 */
export async function runCommand(work: (command: Command) => Promise<number>): Promise<void> {
  try {
    requireRepairedDriver();
    const config = readConfig(process.env);
    const isEmbedded = config.DATABASE_URL === undefined;
    const database = await openDatabaseOf(config);
    const secrets = () => (isEmbedded ? loadOrCreateSecrets(config) : requireSecrets(config));
    try {
      process.exitCode = await work({ config, databaseUrl: database.url, secrets, isEmbedded });
    } finally {
      await database.close();
    }
  } catch (error) {
    process.stderr.write(`${sentenceOf(error)}\n`);
    process.exitCode = 2;
  }
}
