import { commandLine } from "../../core/command-line.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import type { Config } from "./config.ts";

/* The secrets that a process takes from its environment. */

/** Secrets that sign tokens and protect keys. */
export interface Secrets {
  jwtSecret: string;
  jwtSalt: string;
  apiKeysSecret: string;
  previousApiKeysSecret?: string | undefined;
  previousJwtSecret?: string | undefined;
}

/** Published samples, which everybody knows. */
const KNOWN =
  /^(test|secret|change|replace|your|default|example|sample|password|jwt_?se|space|faregate)|(secret|salt|key)$/i;

/**
 * Checks the secrets of a process with its own database. Nobody can generate them, because all processes of a database
 * share them. A salt only has to be present, so that the reference service's keep working.
 * @throws StartupProblem for missing, well-known or short secrets.
 */
export function requireSecrets(config: Config): Secrets {
  const secrets = givenSecrets(config);
  const weak = (["JWT_SECRET", "API_KEYS_SECRET"] as const).filter((name) => {
    const value = config[name] ?? "";
    return value.length < 32 || new Set(value).size < 10 || KNOWN.test(value);
  });
  if (weak.length === 0) return secrets;
  throw new StartupProblem(
    `${listed(weak)} must be at least 32 random characters, and no sample from a document: \`openssl rand -hex 32\` makes one.`,
  );
}

/** Replaced secrets that are still needed. */
export function previousSecrets(config: Config): Pick<Secrets, "previousApiKeysSecret" | "previousJwtSecret"> {
  return {
    previousApiKeysSecret: config.API_KEYS_SECRET_PREVIOUS,
    previousJwtSecret: config.JWT_SECRET_PREVIOUS,
  };
}

function givenSecrets(config: Config): Secrets {
  const { JWT_SECRET: jwtSecret, JWT_SALT: jwtSalt, API_KEYS_SECRET: apiKeysSecret } = config;
  if (jwtSecret !== undefined && jwtSalt !== undefined && apiKeysSecret !== undefined) {
    return { jwtSecret, jwtSalt, apiKeysSecret, ...previousSecrets(config) };
  }
  const missing = (["JWT_SECRET", "JWT_SALT", "API_KEYS_SECRET"] as const).filter((name) => config[name] === undefined);
  throw new StartupProblem(
    `With DATABASE_URL set, ${listed(missing)} must be set too, and be the same for every process on that database: \`openssl rand -hex 32\` makes one.`,
  );
}

/**
 * Database and secrets of a server process.
 * @throws StartupProblem when it was started alone and lacks them.
 */
export function databaseOf(config: Config, checked: boolean): { databaseUrl: string; secrets: Secrets } {
  if (config.DATABASE_URL === undefined) {
    throw new StartupProblem(
      `DATABASE_URL is not set: ${commandLine("start")} brings a database along, a process started by itself has to be given one.`,
    );
  }
  return { databaseUrl: config.DATABASE_URL, secrets: checked ? givenSecrets(config) : requireSecrets(config) };
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
