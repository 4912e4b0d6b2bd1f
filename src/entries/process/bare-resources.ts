import { connect } from "../../db/postgres/connect.ts";
import type { Endpoint } from "../../db/postgres/pooler.ts";
import type { Resources } from "../../operations/context.ts";
import { createKeyring } from "../../operations/credentials.ts";
import { createResources } from "../../operations/resources.ts";
import type { Config } from "./config.ts";
import type { Secrets } from "./given-secrets.ts";
import { settingsOf } from "./settings.ts";

/**
 * Opens one connection, with keys and settings, for work that serves nobody: without threads, listeners and timers, and
 * without a bound on its statements.
 */
export async function withResources<T>(
  config: Config,
  secrets: Secrets,
  { database, applicationName }: { database: Endpoint; applicationName: string },
  work: (resources: Resources) => Promise<T>,
): Promise<T> {
  const connection = connect(database, { maxConnections: 1, applicationName });
  try {
    const keyring = await createKeyring(secrets);
    return await work(createResources(connection, { keyring, settings: settingsOf(config) }));
  } finally {
    await connection.close();
  }
}
