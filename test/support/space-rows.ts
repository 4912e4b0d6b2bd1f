import type { Connection } from "../../src/db/postgres/connect.ts";
import { openApiKey } from "../../src/operations/credentials.ts";
import { testKeyring } from "./event-server.ts";

/** Tables that an import writes, with columns that depend on the run: serial numbers, and moments of the import itself. */
const TABLES: Record<string, readonly string[]> = {
  users: [],
  organizations: [],
  members: ["position"],
  organization_keys: ["position"],
  services: [],
  pricings: ["position", "created_at"],
  contracts: ["updated_at"],
  contract_services: [],
  contract_history: ["id"],
  contract_states: ["id", "since"],
  usage_levels: [],
  usage_ledger: ["id", "created_at"],
  analytics_days: [],
  outbox: [],
  webhook_deliveries: [],
  audit_log: ["id", "at"],
};

/** Rows of all tables that an import writes, in one order, with keys in clear: encryption is random. */
export async function importedRows({ client }: Connection): Promise<Record<string, Record<string, unknown>[]>> {
  const keyring = await testKeyring();
  const result: Record<string, Record<string, unknown>[]> = {};
  for (const [table, omitted] of Object.entries(TABLES)) {
    // The ADMIN that the migration made has entries, too.
    const which = table === "audit_log" ? "where action = 'import.space'" : "";
    const rows = await client.unsafe<Record<string, unknown>[]>(`select * from ${table} ${which}`);
    const kept = rows.map(async (row) => {
      const own = Object.fromEntries(Object.entries(row).filter(([column]) => !omitted.includes(column)));
      for (const column of ["api_key_sealed", "key_sealed"]) {
        if (typeof own[column] === "string") own[column] = await openApiKey(keyring, own[column]);
      }
      return own;
    });
    const texts = (await Promise.all(kept)).map((row) => JSON.stringify(row)).sort();
    result[table] = texts.map((text) => JSON.parse(text) as Record<string, unknown>);
  }
  return result;
}
