import { detectPooler, directly, type Endpoint, type Pooler } from "../../db/postgres/pooler.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import type { Config } from "./config.ts";

/** Where a process sends requests, and where it follows changes. */
export interface DatabaseAccess {
  requests: Endpoint;
  /**
   * Keeps the session of a connection, for LISTEN and locks. Undefined behind a pooler without DATABASE_DIRECT_URL. A
   * promise while the database has not been examined.
   */
  sessions: MaybePromise<Endpoint | undefined>;
}

/** Access to a database that has been examined. */
export interface FoundDatabase extends DatabaseAccess {
  sessions: Endpoint | undefined;
}

type Settings = Pick<Config, "DATABASE_DIRECT_URL" | "DATABASE_POOLER">;

const RETRY_MS = 1000;

/**
 * Examines how the database is reached, unless DATABASE_POOLER says it. Undefined while it is unreachable.
 * @throws StartupProblem if DATABASE_DIRECT_URL does not keep sessions either.
 */
export async function findDatabase(settings: Settings, url: string): Promise<FoundDatabase | undefined> {
  const { DATABASE_DIRECT_URL: directUrl, DATABASE_POOLER: isPooled } = settings;
  try {
    const pooler: Pooler | undefined =
      isPooled === undefined
        ? await detectPooler(url)
        : isPooled
          ? { keepsSessions: false, keepsStatements: false }
          : undefined;
    const requests = { url, pooler };
    const keepsSessions = pooler === undefined || pooler.keepsSessions;
    if (directUrl === undefined) return { requests, sessions: keepsSessions ? requests : undefined };
    return { requests, sessions: await sessionsAt(directUrl, "DATABASE_DIRECT_URL") };
  } catch (error) {
    if (error instanceof StartupProblem) throw error;
    return undefined;
  }
}

/** As {@link findDatabase}. An unreachable database is examined once it answers; until then, nothing needs sessions. */
export async function reachDatabase(settings: Settings, url: string): Promise<DatabaseAccess> {
  const found = await findDatabase(settings, url);
  if (found !== undefined) return found;
  const later = waitForDatabase(settings, url);
  return {
    requests: { url, pooler: later.then(({ requests }) => requests.pooler) },
    sessions: later.then(({ sessions }) => sessions),
  };
}

/** Examines the database, as soon as it answers. */
export async function waitForDatabase(settings: Settings, url: string): Promise<FoundDatabase> {
  for (;;) {
    const found = await findDatabase(settings, url);
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/**
 * Returns the endpoint that keeps sessions, for a start whose next step says why a database is unreachable.
 * @throws StartupProblem if there is none.
 */
export async function sessionsOf(settings: Settings, url: string): Promise<Endpoint> {
  const found = await findDatabase(settings, url);
  return found === undefined ? directly(settings.DATABASE_DIRECT_URL ?? url) : requireSessions(found);
}

/**
 * Returns the endpoint that keeps sessions.
 * @throws StartupProblem if there is none.
 */
export function requireSessions({ sessions }: FoundDatabase): Endpoint {
  if (sessions !== undefined) return sessions;
  throw new StartupProblem(
    "DATABASE_URL leads to a connection pooler that keeps no sessions, and events and locks need one: set DATABASE_DIRECT_URL to an address of the same database without a pooler.",
  );
}

/**
 * Returns the endpoint at an address that has to keep sessions.
 * @throws StartupProblem, which names the variable, if it does not; the driver's error when the database is unreachable.
 */
export async function sessionsAt(url: string, variable: string): Promise<Endpoint> {
  const pooler = await detectPooler(url);
  if (pooler === undefined || pooler.keepsSessions) return { url, pooler };
  throw new StartupProblem(
    `${variable} leads to a connection pooler that keeps no sessions: set it to an address of the same database without a pooler.`,
  );
}
