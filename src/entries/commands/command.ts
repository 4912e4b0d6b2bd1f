import { parseArgs, type ParseArgsConfig } from "node:util";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { runningAddress, startEmbeddedPostgres } from "../../db/postgres/embedded.ts";
import { directly, type Endpoint } from "../../db/postgres/pooler.ts";
import { type Config, readConfig } from "../process/config.ts";
import { requireSecrets, type Secrets } from "../process/given-secrets.ts";
import { sessionsOf } from "../process/database-access.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { outliveReaders } from "../platform/output.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import { lockFolder } from "../process/lock.ts";
import { loadOrCreateSecrets } from "../process/secrets.ts";

/** Context of a maintenance command. */
export interface Command {
  config: Config;
  /** Keeps sessions. */
  database: Endpoint;
  /**
   * Reads the secrets on demand.
   * @throws StartupProblem when the environment lacks secrets, or has weak ones.
   */
  secrets(): Secrets;
  isEmbedded: boolean;
}

/** A database of a command, and how to close it. */
interface OpenDatabase {
  endpoint: Endpoint;
  close(): Promise<void>;
}

/**
 * Opens the configured database, or else the embedded one: connects if it runs, starts it until `close` otherwise.
 * @throws StartupProblem behind a pooler without DATABASE_DIRECT_URL.
 */
export async function openDatabaseOf(config: Config): Promise<OpenDatabase> {
  if (config.DATABASE_URL !== undefined) {
    return { endpoint: await sessionsOf(config, config.DATABASE_URL), close: async () => {} };
  }
  const dataDir = config.DATA_DIR;
  const password = loadOrCreateSecrets(config).databasePassword;
  const running = runningAddress(dataDir, password);
  if (running !== undefined) return { endpoint: directly(running), close: async () => {} };
  const unlock = lockFolder(dataDir);
  try {
    const server = await startEmbeddedPostgres({ dataDir, password });
    return {
      endpoint: directly(server.localUrl),
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
 * Reads the options and up to `operands` operands of the command line. A value follows its option after a space or `=`.
 * @throws StartupProblem for an unknown option, a missing value and further operands.
 */
export function readArguments<const Options extends NonNullable<ParseArgsConfig["options"]>>(
  options: Options,
  operands = 0,
) {
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length > operands) throw new Error(`Unexpected argument '${positionals[operands]}'.`);
    return { values, operands: positionals };
  } catch (error) {
    throw new StartupProblem(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/**
 * Runs a command with a database and sets its result as the exit code. An embedded database that is not running is
 * started for the command. Errors print one sentence to stderr and exit with 2.
 */
export async function runCommand(work: (command: Command) => Promise<number>): Promise<void> {
  outliveReaders();
  try {
    requireRepairedDriver();
    const config = readConfig(process.env);
    const isEmbedded = config.DATABASE_URL === undefined;
    const database = await openDatabaseOf(config);
    const secrets = () => (isEmbedded ? loadOrCreateSecrets(config) : requireSecrets(config));
    try {
      process.exitCode = await work({ config, database: database.endpoint, secrets, isEmbedded });
    } finally {
      await database.close();
    }
  } catch (error) {
    process.stderr.write(`${sentenceOf(error, "The command failed")}\n`);
    process.exitCode = 2;
  }
}
