import { and, eq, sql } from "drizzle-orm";
import type { SpaceReport } from "../../core/space/report.ts";
import { type Database, StartupProblem } from "../../db/postgres/connect.ts";
import { analyticsDays, contracts, organizations, services, spaceImports, users } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import type { Context } from "../context.ts";

/*
 * Imports a dump of SPACE into an empty database, in batches that are planned elsewhere. The plan is the same in each run,
 * so a repeated run skips the batches that are committed. Source: contract files-and-migration §5.
 */

/** Advisory lock of the session that imports. */
const IMPORT_LOCK = 5403_0007;
/** A killed import's session may take a moment to end. */
const LOCK_ATTEMPTS = 25;
const LOCK_PAUSE_MS = 200;

export type Fetched = typeof spaceImports.$inferSelect.fetched;

/** An import that may write: a new one, or one that a run has begun. */
export interface OpenImport {
  dumpHash: string;
  startedAt: Date;
  /** Batches that are committed. */
  batches: number;
  /** Null for a new import, whose first batch inserts the row. */
  fetched: Fetched | null;
  /** Result of a finished import that no run has reported. */
  report: SpaceReport | null;
}

/**
 * Locks the import until the session ends. Call it on the only connection of its pool.
 * @throws StartupProblem while another import runs.
 */
export async function lockImport(db: Database): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const [row] = await db.execute<{ locked: boolean }>(sql`select pg_try_advisory_lock(${IMPORT_LOCK}) as locked`);
    if (row?.locked === true) return;
    if (attempt === LOCK_ATTEMPTS) throw new StartupProblem("Another import is running");
    await new Promise((resolve) => setTimeout(resolve, LOCK_PAUSE_MS));
  }
}

/**
 * Finds the unfinished import of this dump, or checks that the database is empty. Writes nothing.
 * @throws StartupProblem
 */
export async function openImport({ db, resources }: Context, dumpHash: string): Promise<OpenImport> {
  const [existing] = await db.select().from(spaceImports);
  if (existing !== undefined && existing.report === null) {
    if (existing.dumpHash !== dumpHash) throw new StartupProblem("An import of another dump is unfinished");
    return existing;
  }
  if (existing?.dumpHash === dumpHash && !existing.reported) return existing;
  await requireEmpty(db, existing !== undefined);
  return { dumpHash, startedAt: resources.now(), batches: 0, fetched: null, report: null };
}

/** Accepts the ADMIN that the migration made, with its organization. */
async function requireEmpty(db: Database, isImported: boolean): Promise<void> {
  const found = {
    users: await db.$count(users),
    services: await db.$count(services),
    contracts: await db.$count(contracts),
  };
  const others = await db.$count(users, eq(users.role, "USER"));
  const isSeeded = found.users <= 1 && others === 0 && (await db.$count(organizations)) <= found.users;
  if (!isImported && isSeeded && found.services === 0 && found.contracts === 0) return;
  throw new StartupProblem(
    `The database is not empty: it has ${found.users} users, ${found.services} services and ${found.contracts} contracts`,
  );
}

/** Finishes the import: stores its report, and audits it. Safe to repeat. */
export async function finishImport(ctx: Context, { dumpHash }: OpenImport, report: SpaceReport): Promise<void> {
  await ctx.db.transaction(async (tx) => {
    const [row] = await tx
      .update(spaceImports)
      .set({ report })
      .where(and(eq(spaceImports.dumpHash, dumpHash), sql`${spaceImports.report} is null`))
      .returning({ singleton: spaceImports.singleton });
    if (row === undefined) return;
    const { carried, changed, left } = report;
    const after = { ...carried, changed: changed.length, left: left.length };
    await audit({ ...ctx, db: tx }, { action: "import.space", organizationId: null, target: "SPACE", after });
  });
}

/** Records that the report is printed: another run then finds a database that is not empty. */
export async function markReported({ db }: Context): Promise<void> {
  await db.update(spaceImports).set({ reported: true });
}

/** The ADMIN who made room, once the first batch is committed. */
export async function seededAdminOf({ db }: Context): Promise<{ id: string; username: string } | null> {
  const [row] = await db.select({ seededAdmin: spaceImports.seededAdmin }).from(spaceImports);
  return row?.seededAdmin ?? null;
}

/**
 * Removes all that an unfinished import has written. The database was empty before it, but for the ADMIN who made room and
 * whom the next start makes again.
 * @throws StartupProblem without an unfinished import.
 */
export function abandonImport({ db }: Context): Promise<{ users: number; services: number; contracts: number }> {
  return db.transaction(async (tx) => {
    const [unfinished] = await tx.select().from(spaceImports).for("update");
    if (unfinished === undefined || unfinished.report !== null) {
      throw new StartupProblem("There is no unfinished import: nothing is removed");
    }
    const removed = {
      users: await tx.$count(users),
      services: await tx.$count(services),
      contracts: await tx.$count(contracts),
    };
    await tx.delete(contracts);
    await tx.delete(services);
    await tx.delete(organizations);
    await tx.delete(users);
    await tx.delete(analyticsDays);
    await tx.delete(spaceImports);
    return removed;
  });
}
