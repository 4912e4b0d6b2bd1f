import { alias } from "drizzle-orm/pg-core";
import { sql } from "drizzle-orm";
import type { ContractFacts, PrivateEvent } from "../../core/event-messages.ts";
import type { Database } from "../postgres/connect.ts";
import { viewOf } from "./contracts.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { type Addressed, recordEvents } from "./outbox.ts";
import { contracts } from "../schema.ts";
import { SERVICES_JSON, type SnapshotService } from "./contract-snapshots.ts";

/** Contracts read, or events written, per statement. */
const PAGE = 1000;

/** SERVICES_JSON refers to the contract's row by this alias. */
const c = alias(contracts, "c");

/**
 * Reads the facts of contracts by id, as JSON text: parsed, the facts of a large organization take several times as much
 * memory. Call it with the contracts locked, before changing them.
 */
export async function readFacts(db: Database, ids: readonly string[]): Promise<Map<string, string>> {
  const facts = new Map<string, string>();
  for (let at = 0; at < ids.length; at += PAGE) {
    const rows = await db
      .select({ row: c, contracted: sql<SnapshotService[] | null>`${SERVICES_JSON}` })
      .from(c)
      .where(isAnyOf(c.id, ids.slice(at, at + PAGE)))
      .orderBy(c.id);
    for (const { row, contracted } of rows) {
      const view = viewOf(row, { contracted: contracted ?? [], levels: [], past: [] });
      const { usageLevels: _, history: __, ...shown } = view;
      facts.set(row.id, JSON.stringify(shown));
    }
  }
  return facts;
}

/**
 * Records an event for each contract that differs from `before`: CONTRACT_DELETED if deleted, CONTRACT_UPDATED if changed,
 * and after a move CONTRACT_DELETED for the old and CONTRACT_CREATED for the new organization. Events in `first` get lower
 * ids. Must be the transaction's last statement, like recordEvents: it reads everything before it writes the first event,
 * because that write takes the lock shared by all events.
 * Source: contract usage-records §6.
 */
export async function recordChanges(
  tx: Database,
  before: ReadonlyMap<string, string>,
  first: readonly Addressed[] = [],
): Promise<void> {
  const ids = [...before.keys()];
  const texts: string[] = [];
  for (let at = 0; at < ids.length; at += PAGE) {
    const page = ids.slice(at, at + PAGE);
    const after = await readFacts(tx, page);
    for (const id of page) {
      for (const event of eventsOf(before.get(id), after.get(id))) texts.push(JSON.stringify(event));
    }
  }
  await recordEvents(tx, first);
  for (let at = 0; at < texts.length; at += PAGE) {
    await recordEvents(tx, texts.slice(at, at + PAGE).map(addressedIn));
  }
}

/** recordChanges wrote this text. */
const addressedIn = (text: string): Addressed => JSON.parse(text) as Addressed;

/** readFacts wrote this text. */
const factsIn = (text: string): ContractFacts => JSON.parse(text) as ContractFacts;

const FACTS = [
  "userContact",
  "billingPeriod",
  "contractedServices",
  "subscriptionPlans",
  "subscriptionAddOns",
] as const satisfies readonly (keyof ContractFacts)[];

function eventsOf(beforeText: string | undefined, afterText: string | undefined): Addressed[] {
  if (beforeText === undefined || beforeText === afterText) return [];
  const before = factsIn(beforeText);
  const named = { contractId: before.id, userId: before.userContact.userId };
  const deleted: PrivateEvent = { code: "CONTRACT_DELETED", details: { ...named, before, after: null } };
  if (afterText === undefined) return [{ organizationId: before.organizationId, event: deleted }];
  const after = factsIn(afterText);
  const { organizationId } = after;
  if (organizationId !== before.organizationId) {
    return [
      { organizationId: before.organizationId, event: deleted },
      { organizationId, event: { code: "CONTRACT_CREATED", details: named } },
    ];
  }
  const changed = FACTS.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  if (changed.length === 0) return [];
  return [{ organizationId, event: { code: "CONTRACT_UPDATED", details: { ...named, changed, before, after } } }];
}
