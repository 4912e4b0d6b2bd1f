import { runningAddress, startEmbeddedPostgres } from "../../db/postgres/embedded.ts";
import { type Config, readConfig, requireSecrets, type Secrets } from "../process/config.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import { lockFolder } from "../process/lock.ts";
import { keepSecrets } from "../process/secrets.ts";

/** What a command beside the servers is given. */
export interface Command {
  config: Config;
  databaseUrl: string;
  /** StartupProblem when the environment lacks them, or has weak ones. */
  secrets(): Secrets;
  /** True when the database is the embedded one. */
  isEmbedded: boolean;
}

/** The database given; or the embedded one, as it runs, or started until it is closed. */
export async function openDatabaseOf(config: Config): Promise<{ url: string; close(): Promise<void> }> {
  if (config.DATABASE_URL !== undefined) return { url: config.DATABASE_URL, close: async () => {} };
  const dataDir = config.DATA_DIR;
  const password = keepSecrets(config).databasePassword;
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
 * Runs a command over the database given, or over the embedded one, as it runs or started for the time of the command. Its
 * result is the exit code; what keeps it from working is one sentence on stderr and exit code 2.
 */
export async function runCommand(work: (command: Command) => Promise<number>): Promise<void> {
  try {
    requireRepairedDriver();
    const config = readConfig(process.env);
    const isEmbedded = config.DATABASE_URL === undefined;
    const database = await openDatabaseOf(config);
    const secrets = () => (isEmbedded ? keepSecrets(config) : requireSecrets(config));
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
