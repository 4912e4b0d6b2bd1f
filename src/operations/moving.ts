import { eq, sql } from "drizzle-orm";
import { checkLedger } from "../db/invariants.ts";
import { type Database, StartupProblem } from "../db/postgres/connect.ts";
import {
  type CopiedTable,
  deleteRows,
  insertRows,
  listCopiedTables,
  readRows,
} from "../db/queries/organization-copy.ts";
import { organizations, users, webhookEndpoints } from "../db/schema.ts";
import { type Keyring, openApiKey } from "./credentials.ts";

/*
 * An organization moves to another instance. The source freezes it and writes its rows into a folder, the target reads them, and the
 * source answers with the new address from then on. The source checks last that nothing has changed since the export.
 */

/** Number and digest of the rows of a table. */
export interface Written {
  rows: number;
  sha256: string;
}

/** Contents of an exported folder. */
export interface Manifest {
  format: 1;
  organizationId: string;
  name: string;
  exportedAt: string;
  /** Newest migration of the schema, in milliseconds since 1970. */
  schema: number;
  tables: Record<string, Written>;
}

/** Folder of an export: one JSON text per row, in a file per table. */
export interface ExportFolder {
  write(table: string, rows: AsyncIterable<string[]>): Promise<Written>;
  /** Computes what `write` returns, and writes nothing. */
  digest(rows: AsyncIterable<string[]>): Promise<Written>;
  read(table: string): AsyncIterable<string[]>;
}

/** Tables that may change while an organization is frozen: accounts sign in, and refused calls are recorded. */
const UNVERIFIED = new Set(["users", "organization_keys", "audit_log", "denials"]);

const unknown = (organizationId: string) => new StartupProblem(`Organization with ID ${organizationId} not found`);

/** Refuses changes of the organization from now on. Every process applies this within a second. */
export async function freezeOrganization(db: Database, organizationId: string, now: Date): Promise<void> {
  const [frozen] = await db
    .update(organizations)
    .set({ frozenAt: now })
    .where(sql`${organizations.id} = ${organizationId} and ${organizations.movedTo} is null`)
    .returning({ id: organizations.id });
  if (frozen === undefined) throw unknown(organizationId);
}

/**
 * Admits changes again.
 * @throws StartupProblem for an organization that has moved, or never was here.
 */
export async function thawOrganization(db: Database, organizationId: string): Promise<void> {
  const [here] = await db
    .update(organizations)
    .set({ frozenAt: null })
    .where(sql`${organizations.id} = ${organizationId} and ${organizations.movedTo} is null`)
    .returning({ id: organizations.id });
  if (here !== undefined) return;
  const [gone] = await db.select().from(organizations).where(eq(organizations.id, organizationId));
  throw gone === undefined
    ? unknown(organizationId)
    : new StartupProblem(`The organization has moved to ${gone.movedTo} already: move it back from there`);
}

/** Writes all rows of a frozen organization as of one moment. */
export async function exportOrganization(
  db: Database,
  folder: ExportFolder,
  input: { organizationId: string; now: Date; schema: number },
): Promise<Manifest> {
  const { organizationId, now, schema } = input;
  return db.transaction(
    async (tx) => {
      const [organization] = await tx.select().from(organizations).where(eq(organizations.id, organizationId));
      if (organization === undefined) throw unknown(organizationId);
      const all = await listCopiedTables(tx);
      const tables: Record<string, Written> = {};
      for (const table of all)
        tables[table.name] = await folder.write(table.name, readRows(tx, table, all, organizationId));
      return { format: 1, organizationId, name: organization.name, exportedAt: now.toISOString(), schema, tables };
    },
    { isolationLevel: "repeatable read" },
  );
}

/** Result of an import. */
export interface Imported {
  rows: number;
  /** Accounts that existed, and stand for those of the same name. */
  accounts: string[];
}

/**
 * Writes the rows of an export in one transaction, and checks the ledger in it. Platform ADMINs arrive as USERs.
 * @throws StartupProblem for another schema, a file that was changed, an organization that is here, keys under another secret, names that are taken, and a ledger that
 * disagrees.
 */
export async function importOrganization(
  { db, keyring }: { db: Database; keyring: Keyring },
  folder: ExportFolder,
  input: { manifest: Manifest; schema: number; takesAccounts: boolean },
): Promise<Imported> {
  const { manifest, schema } = input;
  const { organizationId } = manifest;
  if (manifest.schema !== schema)
    throw new StartupProblem("The export is of another release: bring both instances to the same release first");
  await requireWhole(folder, manifest);
  return db.transaction(async (tx) => {
    await makeRoom(tx, organizationId);
    const all = await listCopiedTables(tx);
    let rows = 0;
    const taken = new Map<string, { id: string; username: string }>();
    for (const table of all) {
      const known = manifest.tables[table.name];
      if (known === undefined) continue;
      for await (const lines of folder.read(table.name)) {
        rows += lines.length;
        if (table.name === "users") await insertAccounts(tx, table, lines, { taken, takes: input.takesAccounts });
        else {
          if (table.name === "organization_keys") await requireReadable(keyring, lines);
          await insertRows(
            tx,
            table,
            table.accounts.length === 0 ? lines : lines.map((line) => renamed(line, table, taken)),
          );
        }
      }
    }
    await settleIn(tx, organizationId);
    const { violations } = await checkLedger(tx);
    const [violation] = violations;
    if (violation !== undefined)
      throw new StartupProblem(`The imported ledger disagrees: ${violation.rule}, contract ${violation.contractId}`);
    return { rows, accounts: [...taken.values()].map(({ username }) => username) };
  });
}

/** @throws StartupProblem for a file that is not as it was exported. */
async function requireWhole(folder: ExportFolder, { tables }: Manifest): Promise<void> {
  for (const [table, { sha256 }] of Object.entries(tables)) {
    const read = await folder.digest(folder.read(table)).catch(() => undefined);
    if (read?.sha256 !== sha256)
      throw new StartupProblem(`The file of ${table} is not as it was exported: copy the folder again`);
  }
}

/** Removes what an organization that returns has left here. */
async function makeRoom(tx: Database, organizationId: string): Promise<void> {
  const [here] = await tx.select().from(organizations).where(eq(organizations.id, organizationId)).for("update");
  if (here === undefined) return;
  if (here.movedTo === null) throw new StartupProblem(`The organization ${here.name} is on this instance already`);
  await tx.execute(sql`delete from audit_log where organization_id = ${organizationId}`);
  await tx.delete(organizations).where(eq(organizations.id, organizationId));
}

async function insertAccounts(
  tx: Database,
  table: CopiedTable,
  lines: readonly string[],
  { taken, takes }: { taken: Map<string, { id: string; username: string }>; takes: boolean },
): Promise<void> {
  for (const line of lines) {
    const account = JSON.parse(line) as { id: string; username: string };
    const [same] = await tx
      .select({ id: users.id, username: users.username })
      .from(users)
      .where(sql`${users.id} = ${account.id} or lower(${users.username}) = lower(${account.username})`);
    if (same === undefined) await insertRows(tx, table, [JSON.stringify({ ...account, role: "USER" })]);
    else if (same.id === account.id || takes) taken.set(account.id, same);
    else
      throw new StartupProblem(
        `The account ${account.username} exists on this instance: --accounts existing takes it for the same person`,
      );
  }
}

/** Replaces the ids of accounts by those of this instance. */
function renamed(line: string, { accounts }: CopiedTable, taken: ReadonlyMap<string, { id: string }>): string {
  if (taken.size === 0) return line;
  const row = JSON.parse(line) as Record<string, unknown>;
  for (const column of accounts) {
    const id = row[column];
    if (typeof id === "string") row[column] = taken.get(id)?.id ?? id;
  }
  return JSON.stringify(row);
}

async function requireReadable(keyring: Keyring, lines: readonly string[]): Promise<void> {
  for (const line of lines) {
    const { key_sealed: sealed } = JSON.parse(line) as { key_sealed: string };
    await openApiKey(keyring, sealed).catch((cause: unknown) => {
      throw new StartupProblem(
        "The keys are sealed with another API_KEYS_SECRET: set API_KEYS_SECRET_PREVIOUS to that of the other instance, and run reseal afterwards",
        { cause },
      );
    });
  }
}

/** Fits the organization into its new instance. */
async function settleIn(tx: Database, organizationId: string): Promise<void> {
  await tx.execute(sql`
    update organizations o set frozen_at = null, moved_to = null, is_default = o.is_default and not exists (
      select from organizations other where other.owner_id = o.owner_id and other.is_default and other.id <> o.id)
    where o.id = ${organizationId}`);
  // Webhooks begin with the events of this instance.
  await tx
    .update(webhookEndpoints)
    .set({ afterEventId: sql`coalesce((select last_id from outbox_counter), 0)` })
    .where(eq(webhookEndpoints.organizationId, organizationId));
}

/**
 * Answers calls with the new address from now on, and deletes contracts and services. Compares every row with the export first.
 * @throws StartupProblem conflict for a change since the export.
 */
export async function leaveOrganization(
  db: Database,
  folder: ExportFolder,
  { manifest, to }: { manifest: Manifest; to: string },
): Promise<void> {
  const { organizationId } = manifest;
  await db.transaction(
    async (tx) => {
      const [here] = await tx.select().from(organizations).where(eq(organizations.id, organizationId)).for("update");
      if (here === undefined || here.movedTo !== null) throw unknown(organizationId);
      const all = await listCopiedTables(tx);
      for (const table of all) {
        if (UNVERIFIED.has(table.name)) continue;
        const { sha256 } = await folder.digest(readRows(tx, table, all, organizationId));
        if (sha256 !== manifest.tables[table.name]?.sha256)
          throw new StartupProblem(`The organization has changed since the export (${table.name}): export it again`);
      }
      await tx.update(organizations).set({ movedTo: to }).where(eq(organizations.id, organizationId));
      await deleteRows(tx, all, organizationId);
    },
    { isolationLevel: "repeatable read" },
  );
}
