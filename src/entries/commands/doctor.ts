import { commandLine } from "../../core/command-line.ts";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openDatabaseOf, readArguments } from "./command.ts";
import { type Config, readConfig, warningsOf } from "../process/config.ts";
import { requireSecrets, type Secrets } from "../process/given-secrets.ts";
import type { Finding } from "./doctor-finding.ts";
import { examineDatabase } from "./doctor-database.ts";
import { driverProblem } from "../platform/driver.ts";
import { outliveReaders } from "../platform/output.ts";
import { examinePooler } from "./doctor-pooler.ts";
import { examineSignOn } from "./doctor-sign-on.ts";
import { examineMachine } from "./doctor-machine.ts";
import { DRIVER_BUILDS } from "../build/patch-driver.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import { loadOrCreateSecrets } from "../process/secrets.ts";

/*
 * `npm run doctor` checks everything that startup and production depend on, and suggests fixes. Changes nothing; safe
 * beside a running system. Exit code 0, 1 when a check fails, or 2 for an unexpected argument.
 */
outliveReaders();
try {
  readArguments({});
} catch (error) {
  process.stderr.write(`${sentenceOf(error)}\n`);
  process.exit(2);
}
const findings: Finding[] = [];
const tell = (finding: Finding) => {
  findings.push(finding);
  process.stdout.write(`${finding.state.padEnd(4)}  ${finding.what.padEnd(12)}  ${finding.sentence}\n`);
};

let config: Config | undefined;
try {
  config = readConfig(process.env);
  tell({ state: "ok", what: "environment", sentence: "Every variable can be read." });
} catch (error) {
  for (const sentence of sentenceOf(error).split("\n")) tell({ state: "FAIL", what: "environment", sentence });
}
if (config !== undefined) {
  for (const finding of examineSettings(config)) tell(finding);
  await examineMachine(config, tell);
  await examineSignOn(config, tell);
  const problem = driverProblem(DRIVER_BUILDS);
  const sentence = problem ?? "The database driver has its repairs.";
  tell({ state: problem === undefined ? "ok" : "FAIL", what: "driver", sentence });
  try {
    if (config.DATABASE_URL !== undefined) {
      const database = await examinePooler(config, config.DATABASE_URL, tell);
      await examineDatabase(database, { config, secrets: secretsOf(config), isEmbedded: false }, tell);
    } else if (existsSync(join(config.DATA_DIR, "postgres"))) await examineEmbedded(config);
    else {
      const sentence = `There is no embedded database in ${config.DATA_DIR} yet: ${commandLine("start")} makes it.`;
      tell({ state: "ok", what: "database", sentence });
    }
  } catch (error) {
    tell({ state: "FAIL", what: "database", sentence: sentenceOf(error, "The database cannot be examined") });
  }
}
const failed = findings.filter(({ state }) => state === "FAIL").length;
const warned = findings.filter(({ state }) => state === "warn").length;
process.stdout.write(`${findings.length} looked at: ${failed} do not work, ${warned} could be better.\n`);
process.exitCode = failed === 0 ? 0 : 1;

async function examineEmbedded(given: Config): Promise<void> {
  const { endpoint, close } = await openDatabaseOf(given);
  try {
    const about = { config: given, secrets: secretsOf(given), isEmbedded: true };
    await examineDatabase({ requests: endpoint, sessions: endpoint }, about, tell);
  } finally {
    await close();
  }
}

/** Returns the secrets that the servers use; undefined where they are missing or weak, which is found separately. */
function secretsOf(given: Config): Secrets | undefined {
  try {
    return given.DATABASE_URL === undefined ? loadOrCreateSecrets(given) : requireSecrets(given);
  } catch {
    return undefined;
  }
}

function examineSettings(given: Config): Finding[] {
  const found: Finding[] = [];
  const isOwn = given.DATABASE_URL !== undefined;
  try {
    if (isOwn) requireSecrets(given);
    found.push({ state: "ok", what: "secrets", sentence: isOwn ? "All there and strong." : "Kept in DATA_DIR." });
  } catch (error) {
    found.push({ state: "FAIL", what: "secrets", sentence: sentenceOf(error) });
  }
  for (const name of ["JWT_SECRET_PREVIOUS", "API_KEYS_SECRET_PREVIOUS"] as const) {
    if (given[name] === undefined) continue;
    found.push({ state: "warn", what: "secrets", sentence: `${name} is set: unset it when its time is over.` });
  }
  if (!isOwn) return found;
  const advice: [boolean, string][] = [
    [given.PUBLIC_URL === undefined, "PUBLIC_URL is not set: addresses in answers are made of each request's host."],
    [given.METRICS_TOKEN === undefined, "METRICS_TOKEN is not set: there are no metrics."],
    [given.ALLOW_PUBLIC_SIGNUP, "ALLOW_PUBLIC_SIGNUP is true: everybody can make an account and an organization."],
  ];
  const advised = advice.flatMap(([applies, sentence]) => (applies ? [sentence] : []));
  for (const sentence of [...warningsOf(given), ...advised]) found.push({ state: "warn", what: "settings", sentence });
  return found;
}
