import { parseDatabaseUrl } from "../../db/postgres/address.ts";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";
import { directly, type Endpoint } from "../../db/postgres/pooler.ts";
import type { Config } from "../process/config.ts";
import { findDatabase, type FoundDatabase } from "../process/database-access.ts";
import { timeoutsOf } from "../process/settings.ts";
import type { Finding } from "./doctor-finding.ts";

/*
 * Says how the database is reached: directly or through a connection pooler, what follows, and what to set.
 */

/** Examines the addresses of a database. Without an answer it returns them unexamined, for checks that say why. */
export async function examinePooler(
  config: Config,
  url: string,
  tell: (finding: Finding) => void,
): Promise<FoundDatabase> {
  const what = "pooler";
  const unexamined = { requests: directly(url), sessions: directly(config.DATABASE_DIRECT_URL ?? url) };
  try {
    const found = await findDatabase(config, url);
    if (found === undefined) return unexamined;
    const { pooler } = found.requests;
    if (pooler === undefined || pooler instanceof Promise) {
      tell({ state: "ok", what, sentence: "No connection pooler is between this machine and Postgres." });
      return found;
    }
    if (found.sessions === undefined) tell({ state: "FAIL", what, sentence: withoutDirectUrl(url) });
    else if (pooler.keepsSessions) {
      tell({ state: "ok", what, sentence: "DATABASE_URL leads to a connection pooler that keeps sessions." });
    } else {
      const names = pooler.keepsStatements ? "keeps prepared statements" : "keeps no prepared statements";
      const sentence = `DATABASE_URL leads to a transaction pooler that ${names}; DATABASE_DIRECT_URL keeps sessions.`;
      tell({ state: "ok", what, sentence });
    }
    tell({ what, ...(await settingsOfRole(config, found.requests)) });
    return found;
  } catch (error) {
    if (!(error instanceof StartupProblem)) throw error;
    tell({ state: "FAIL", what, sentence: error.message });
    return { ...unexamined, sessions: undefined };
  }
}

/** Behind a pooler, statements outside of transactions have the settings of their role. */
async function settingsOfRole(config: Config, requests: Endpoint): Promise<Omit<Finding, "what">> {
  const connection = connect(requests, { maxConnections: 1, applicationName: "faregate-doctor" });
  try {
    const [row] = await connection.client<{ role: string; statement: string; lock: string; jit: string }[]>`
      select quote_ident(current_user) as role, current_setting('statement_timeout') as statement,
        current_setting('lock_timeout') as lock, current_setting('jit') as jit`;
    const wanted = timeoutsOf(config);
    const lacking = [
      ...(wanted.statement && row?.statement === "0" ? [`statement_timeout = '${wanted.statement / 1000}s'`] : []),
      ...(wanted.lock && row?.lock === "0" ? [`lock_timeout = '${wanted.lock / 1000}s'`] : []),
      ...(row?.jit === "on" ? ["jit = off"] : []),
    ];
    if (lacking.length === 0)
      return { state: "ok", sentence: "Statements outside of transactions have time-outs, and are not compiled." };
    const commands = lacking.map((setting) => `alter role ${row?.role} set ${setting};`);
    return {
      state: "warn",
      sentence: `Statements outside of transactions lack settings behind a pooler: ${commands.join(" ")}`,
    };
  } finally {
    await connection.close(1);
  }
}

function withoutDirectUrl(url: string): string {
  return [
    "DATABASE_URL leads to a transaction pooler: event servers and commands refuse it, and REST reads keys and contracts on every request. Set both:",
    "      DATABASE_URL (as it is)",
    `      DATABASE_DIRECT_URL=${directUrlOf(url)}`,
  ].join("\n");
}

/** Here the address names a pool instead of a database. */
const DIGITAL_OCEAN = /:25061$/;

/** Addresses of hosted poolers, and of the databases behind them. */
const HOSTED: readonly [pooler: RegExp, direct: (host: string) => string][] = [
  // Neon
  [/-pooler\.[^:]*:\d+$/, (host) => host.replace("-pooler.", ".")],
  // Supabase: the same pooler, in session mode
  [/\.pooler\.supabase\.com:6543$/, (host) => host.replace(":6543", ":5432")],
  // Azure, and PgBouncer beside its Postgres
  [/:6432$/, (host) => host.replace(":6432", ":5432")],
  [DIGITAL_OCEAN, (host) => host.replace(":25061", ":25060")],
  // Crunchy Bridge
  [/:5431$/, (host) => host.replace(":5431", ":5432")],
];

/** Returns the probable address of the database behind a pooler, without a password. */
export function directUrlOf(url: string): string {
  const { names = [], ports = [], username = "", database = "" } = parseDatabaseUrl(url) ?? {};
  const host = `${names[0]}:${ports[0]}`;
  const direct = HOSTED.find(([pooler]) => pooler.test(host))?.[1](host);
  const name = DIGITAL_OCEAN.test(host) ? "<name of the database>" : database;
  return `postgres://${encodeURIComponent(username)}:…@${direct ?? "<host of the database>:5432"}/${name}`;
}
