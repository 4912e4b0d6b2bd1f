import type { KeyScope, PlatformRole } from "../core/access/caller.ts";
import { createBatch } from "./batch.ts";
import type { Connection } from "./connect.ts";
import { keyOf, readSubjects, type Subject, type SubjectName } from "./subjects.ts";

export interface OrganizationKeyRow {
  keyId: string;
  organizationId: string;
  scope: KeyScope;
}

export interface UserRow {
  id: string;
  username: string;
  role: PlatformRole;
}

/**
 * What every request asks the database first, by prepared statements that concurrent requests share. Nothing is kept: each
 * answer was read after it was asked for.
 */
export interface Lookups {
  organizationKey(keyHash: string): Promise<OrganizationKeyRow | null>;
  userByKey(keyHash: string): Promise<UserRow | null>;
  /** The end user's contract with its balances, all of one moment. */
  subject(name: SubjectName): Promise<Subject | null>;
}

const GROUPING = { maxAsks: 500, lanes: 2 };

export function createLookups({ client }: Connection): Lookups {
  /** One statement for all the keys asked for, each once. */
  const byHash = <Row extends { hash: string }, Found>(
    read: (hashes: string[]) => Promise<readonly Row[]>,
    found: (row: Row) => Found,
  ) =>
    createBatch<string, Found | null>(async (hashes) => {
      const rows = new Map((await read([...new Set(hashes)])).map((row) => [row.hash, found(row)]));
      return hashes.map((hash) => rows.get(hash) ?? null);
    }, GROUPING);
  return {
    organizationKey: byHash(
      (hashes) => client<({ hash: string } & OrganizationKeyRow)[]>`
        select key_hash as hash, id as "keyId", organization_id as "organizationId", scope
        from organization_keys where key_hash = any(${hashes})`,
      ({ keyId, organizationId, scope }) => ({ keyId, organizationId, scope }),
    ),
    userByKey: byHash(
      (hashes) => client<({ hash: string } & UserRow)[]>`
        select api_key_hash as hash, id, username, role from users where api_key_hash = any(${hashes})`,
      ({ id, username, role }) => ({ id, username, role }),
    ),
    subject: createBatch<SubjectName, Subject | null>(async (names) => {
      const found = await readSubjects(client, names);
      return names.map((name) => found.get(keyOf(name)) ?? null);
    }, GROUPING),
  };
}
