import { MIGRATIONS } from "../platform/migrations.ts";
import { randomBytes } from "node:crypto";
import { migrate, requireMigrated } from "../../db/migrate.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import type { Endpoint } from "../../db/postgres/pooler.ts";
import { contextOf } from "../../operations/context.ts";
import { createFirstTokenKey } from "../../operations/token-keys.ts";
import { Failure } from "../../operations/errors.ts";
import { fillUsernameSkeletons } from "../../operations/accounts/username-skeletons.ts";
import { fillLimitValues } from "../../operations/numeric-limits.ts";
import { seedFirstAdmin } from "../../operations/accounts/sign-up.ts";
import type { Config } from "./config.ts";
import type { Secrets } from "./given-secrets.ts";
import { withResources } from "./bare-resources.ts";
import { sessionsAt } from "./database-access.ts";

/**
 * Migrates the schema and ensures that an ADMIN exists. Returns how to sign in.
 * @throws StartupProblem with MIGRATE=false and a missing migration.
 */
export async function prepareDatabase(config: Config, secrets: Secrets, database: Endpoint): Promise<string> {
  if (!config.MIGRATE) {
    await requireMigrated(database, MIGRATIONS);
    return "with the users there are";
  }
  await migrate(await ownersEndpoint(config, database), MIGRATIONS);
  return seed(config, secrets, database);
}

/** Returns the endpoint for migrations. An unreachable one is returned as it is: `migrate` says why it is. */
export async function ownersEndpoint(config: Config, database: Endpoint): Promise<string | Endpoint> {
  const url = config.DATABASE_OWNER_URL;
  if (url === undefined || config.DATABASE_POOLER === false) return url ?? database;
  return sessionsAt(url, "DATABASE_OWNER_URL").catch((error: unknown) => {
    if (error instanceof StartupProblem) throw error;
    return url;
  });
}

function seed(config: Config, secrets: Secrets, database: Endpoint): Promise<string> {
  const password = config.ADMIN_PASSWORD ?? randomBytes(12).toString("hex");
  const options = { database, applicationName: "faregate-start" };
  return withResources(config, secrets, options, async (resources) => {
    await fillUsernameSkeletons(resources);
    await fillLimitValues(resources);
    await createFirstTokenKey(contextOf(resources, { kind: "anonymous" }));
    const created = await seedFirstAdmin(resources, {
      username: config.ADMIN_USER,
      password,
      organizationName: config.ADMIN_ORG_NAME,
    }).catch((error: unknown) => {
      if (!(error instanceof Failure)) throw error;
      throw new StartupProblem(
        `The first ADMIN cannot have the name ${JSON.stringify(config.ADMIN_USER)} (${error.message}): set ADMIN_USER to another one.`,
        { cause: error },
      );
    });
    if (!created) return "with the users there are";
    if (config.ADMIN_PASSWORD !== undefined) return `as ${config.ADMIN_USER} with the password given in ADMIN_PASSWORD`;
    return `as ${config.ADMIN_USER} with the password ${password}\n                (shown this once; change it with PUT /api/v1/users/${config.ADMIN_USER})`;
  });
}
