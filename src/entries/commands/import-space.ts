import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { EXIT, type ImportSpaceOptions, type Io } from "../../cli/command.ts";
import { externalTexts, planSpace } from "../../core/space/plan.ts";
import { Findings, reportInWords, type SpaceReport } from "../../core/space/report.ts";
import type { Texts } from "../../core/space/version-text.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { fillUsernameSkeletons } from "../../operations/accounts/username-skeletons.ts";
import { type Context, contextOf } from "../../operations/context.ts";
import {
  abandonImport,
  finishImport,
  lockImport,
  markReported,
  openImport,
  seededAdminOf,
} from "../../operations/imports/space.ts";
import { writeBatch } from "../../operations/imports/space-batches.ts";
import { createDownload } from "../platform/download.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { openSpaceDump, type SpaceDump } from "../platform/space-dump.ts";
import { fetchAll, type Fetched, readStatics } from "../platform/space-texts.ts";
import { withResources } from "../process/bare-resources.ts";
import { type Config, readConfig } from "../process/config.ts";
import { requireSecrets } from "../process/given-secrets.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import { prepareDatabase } from "../process/prepare-database.ts";
import { loadOrCreateSecrets } from "../process/secrets.ts";
import { openDatabaseOf } from "./command.ts";

/*
 * `faregate import-space`: reads a dump, plans each row from values only, and writes the rows in batches.
 * Source: contract files-and-migration §5.
 */

/** Contracts after which the progress is shown. */
const SHOWN_CONTRACTS = 10_000;

/** Set by the build of the npm package `faregate`, which brings no Postgres along. */
declare const IS_COMMAND_LINE: true | undefined;

type Host = Pick<Io, "env" | "out" | "err">;

/** Runs the import, and prints its report. Returns the exit code; 2 with one sentence if nothing was done. */
export async function importSpace(options: ImportSpaceOptions, host: Host): Promise<number> {
  try {
    if (options.abandon === true) return await abandon(host);
    const dump = openSpaceDump(options.folder ?? "");
    const files = readStatics(options.statics);
    if (options.dryRun !== true) return await importInto(dump, files, options, host);
    const fetched = options.fetch === true ? await fetchFor(dump, readConfig(host.env)) : {};
    const findings = new Findings();
    for await (const _ of plan(dump, { findings, files, fetched, now: new Date() }));
    return await print(findings.report(), options, host);
  } catch (error) {
    host.err(`${sentenceOf(error, "The import failed")}\n`);
    return EXIT.failed;
  }
}

/** Removes what an unfinished import has written, so that a mended dump can be imported. */
async function abandon(host: Host): Promise<number> {
  return withTarget(host, async (ctx) => {
    await lockImport(ctx.db);
    const removed = await abandonImport(ctx);
    host.out(
      `The unfinished import is abandoned: ${removed.users} users, ${removed.services} services and ${removed.contracts} contracts are removed.\n`,
    );
    return EXIT.done;
  });
}

function plan(dump: SpaceDump, given: { findings: Findings; files: Texts["file"]; fetched: Fetched; now: Date }) {
  const { findings, files, fetched, now } = given;
  const texts: Texts = { file: files, fetched: (url) => (Object.hasOwn(fetched, url) ? fetched[url] : undefined) };
  const deriveId = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 24);
  return planSpace(dump.read, { findings, texts, now, deriveId });
}

async function fetchFor(dump: SpaceDump, config: Config): Promise<Fetched> {
  const { urls } = await externalTexts(dump.read);
  return fetchAll(urls, createDownload({ allowedHosts: config.PRICING_URL_ALLOWED_HOSTS }));
}

async function importInto(
  dump: SpaceDump,
  files: Texts["file"],
  given: ImportSpaceOptions,
  host: Host,
): Promise<number> {
  return withTarget(host, async (ctx, config) => {
    const report = await write(ctx, dump, { config, files, fetches: given.fetch === true, host });
    const code = await print(report, given, host);
    await markReported(ctx);
    return code;
  });
}

/** Opens the database of the servers, with a schema. */
async function withTarget(host: Host, work: (ctx: Context, config: Config) => Promise<number>): Promise<number> {
  requireRepairedDriver();
  const config = readConfig(host.env);
  const isEmbedded = config.DATABASE_URL === undefined;
  if (isEmbedded && typeof IS_COMMAND_LINE !== "undefined") throw new StartupProblem("DATABASE_URL is not set");
  const secrets = isEmbedded ? loadOrCreateSecrets(config) : requireSecrets(config);
  const database = await openDatabaseOf(config);
  try {
    await prepareDatabase(config, secrets, database.endpoint);
    // One connection: the session that holds the lock writes every batch.
    const options = { database: database.endpoint, applicationName: "faregate-import-space" };
    return await withResources(config, secrets, options, (resources) =>
      work(contextOf(resources, { kind: "anonymous" }), config),
    );
  } finally {
    await database.close();
  }
}

async function write(
  ctx: Context,
  dump: SpaceDump,
  { config, files, fetches, host }: { config: Config; files: Texts["file"]; fetches: boolean; host: Host },
): Promise<SpaceReport> {
  const dumpHash = await dump.hash();
  await lockImport(ctx.db);
  const opened = await openImport(ctx, dumpHash);
  if (opened.report !== null) return opened.report;
  if (opened.batches === 0) await dump.check();
  const fetched = opened.fetched ?? (fetches ? await fetchFor(dump, config) : {});
  const findings = new Findings();
  let index = 0;
  let contracts = 0;
  for await (const batch of plan(dump, { findings, files, fetched, now: opened.startedAt })) {
    if (index >= opened.batches) await writeBatch(ctx, batch, { index, opened, fetched });
    index += 1;
    if (batch.kind !== "contracts") continue;
    contracts += batch.rows.length;
    if (contracts % SHOWN_CONTRACTS === 0) host.err(`${contracts} contracts\n`);
  }
  await fillUsernameSkeletons({ db: ctx.db });
  const report = withSeededAdmin(findings.report(), await seededAdminOf(ctx));
  await finishImport(ctx, opened, report);
  return report;
}

function withSeededAdmin(report: SpaceReport, seeded: { id: string; username: string } | null): SpaceReport {
  if (seeded === null) return report;
  const { id, username: name } = seeded;
  const detail = "The ADMIN of the empty database made room for those of SPACE";
  return { ...report, changed: [{ code: "seeded-admin-removed", kind: "user", id, name, detail }, ...report.changed] };
}

async function print(report: SpaceReport, { report: file }: ImportSpaceOptions, host: Host): Promise<number> {
  if (file !== undefined) {
    try {
      await writeFile(file, `${JSON.stringify(report, null, 2)}\n`);
    } catch (error) {
      throw new StartupProblem(`${file} cannot be written: ${String(error)}`, { cause: error });
    }
  }
  host.out(reportInWords(report));
  return report.complete ? EXIT.done : EXIT.no;
}
