import { alias } from "drizzle-orm/pg-core";
import { sql } from "drizzle-orm";
import type { BillingCause, ContractFacts, PrivateEvent } from "../../core/event-messages.ts";
import type { Database } from "../postgres/connect.ts";
import { viewOf } from "./contract-view.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { type Addressed, recordSerialized, serialized, type SerializedEvent } from "./outbox.ts";
import { contracts } from "../schema.ts";
import { SERVICES_JSON } from "./contract-snapshots.ts";
import type { SnapshotService } from "../schema.ts";

/*
 * The facts of contracts in events. Each change of facts raises one event with the facts before and after it, so that
 * replaying the events gives the facts. Source: contract usage-records §6.
 */

/** Contracts read per statement. */
const PAGE = 1000;

/** SERVICES_JSON refers to the contract's row by this alias. */
const c = alias(contracts, "c");

/**
 * Facts of contracts by id, as JSON text with what names them. Parsed, the facts of a large organization take several
 * times as much memory.
 */
export type FactsById = ReadonlyMap<string, { organizationId: string; userId: string; text: string }>;

/** Reads the facts of contracts by id. Call it with the contracts locked, before changing them. */
export async function readFacts(db: Database, ids: readonly string[]): Promise<FactsById> {
  const facts = new Map<string, { organizationId: string; userId: string; text: string }>();
  for (let at = 0; at < ids.length; at += PAGE) {
    const rows = await db
      .select({ row: c, contracted: sql<SnapshotService[] | null>`${SERVICES_JSON}` })
      .from(c)
      .where(isAnyOf(c.id, ids.slice(at, at + PAGE)))
      .orderBy(c.id);
    for (const { row, contracted } of rows) {
      const view = viewOf(row, { contracted: contracted ?? [], levels: [], past: [] });
      const { usageLevels: _, history: __, ...shown } = view;
      facts.set(row.id, { organizationId: row.organizationId, userId: row.userId, text: JSON.stringify(shown) });
    }
  }
  return facts;
}

/** A change that has a name of its own, with the fields of its event that come before the facts. */
export interface NamedChange {
  code: "CONTRACT_CREATED" | "CONTRACT_NOVATED" | "CONTRACT_RENEWED" | "CONTRACT_EXPIRED";
  contractId: string;
  /** Further fields, which follow `contractId` and `userId`. */
  fields?: { scheduledId: string } | { endDate: string } | { billing: BillingCause };
}

/**
 * Returns the events of named changes, with the facts before and after them. Changes of contracts that are in neither
 * raise none.
 */
export function namedEvents(changes: readonly NamedChange[], before: FactsById, after: FactsById): Addressed[] {
  return changes.flatMap((change) => {
    const [event] = serializedChange(change.contractId, before, after, change);
    return event === undefined ? [] : [addressed(event)];
  });
}

/**
 * Returns an event for each contract of `before` that differs in `after`: CONTRACT_DELETED if deleted, CONTRACT_UPDATED if
 * changed, and after a move CONTRACT_DELETED for the old and CONTRACT_CREATED for the new organization. CONTRACT_UPDATED has
 * `fields` too.
 */
export function changeEvents(before: FactsById, after: FactsById, fields?: { billing: BillingCause }): Addressed[] {
  return [...before.keys()].flatMap((id) => serializedChange(id, before, after, undefined, fields).map(addressed));
}

/**
 * Records the events of changed contracts: of each one CONTRACT_NOVATED if `novated`, else those of changeEvents. Events in
 * `first` get lower ids, those in `last` higher ones. Must be the transaction's last statement, like recordEvents: it reads
 * everything before it writes the first event, because that write takes the lock shared by all events.
 */
export async function recordChanges(
  tx: Database,
  before: FactsById,
  input: {
    novated?: boolean;
    first?: readonly Addressed[];
    last?: readonly Addressed[];
    /** Facts after the change. Default: reads them. */
    after?: FactsById;
  } = {},
): Promise<void> {
  const { novated = false, first = [], last = [] } = input;
  const after = input.after ?? (await readFacts(tx, [...before.keys()]));
  await recordSerialized(tx, inOrder());

  function* inOrder() {
    yield* first.map(serialized);
    for (const contractId of before.keys()) {
      const named = novated ? ({ code: "CONTRACT_NOVATED", contractId } as const) : undefined;
      yield* serializedChange(contractId, before, after, named);
    }
    yield* last.map(serialized);
  }
}

/** serializedChange wrote these details. */
const addressed = ({ organizationId, code, details }: SerializedEvent): Addressed => ({
  organizationId,
  event: { code, details: JSON.parse(details) } as PrivateEvent,
});

const FACTS = [
  "userContact",
  "billingPeriod",
  "contractedServices",
  "subscriptionPlans",
  "subscriptionAddOns",
] as const satisfies readonly (keyof ContractFacts)[];

/** readFacts wrote this text. */
const factsIn = (text: string): ContractFacts => JSON.parse(text) as ContractFacts;

/** Returns the events of one contract, as text: no fact is parsed unless contracts differ. */
function serializedChange(
  contractId: string,
  facts: FactsById,
  factsAfter: FactsById,
  named?: NamedChange,
  updateFields: object = {},
): SerializedEvent[] {
  const before = facts.get(contractId);
  const after = factsAfter.get(contractId);
  const holder = after ?? before;
  if (holder === undefined) return [];
  const event = (
    { organizationId, userId }: typeof holder,
    code: SerializedEvent["code"],
    [from, to]: [string | undefined, string | undefined],
    fields: object = {},
  ): SerializedEvent => {
    const head = JSON.stringify({ contractId, userId, ...fields }).slice(0, -1);
    return { organizationId, code, details: `${head},"before":${from ?? "null"},"after":${to ?? "null"}}` };
  };
  if (named !== undefined) return [event(holder, named.code, [before?.text, after?.text], named.fields)];
  if (before === undefined || before.text === after?.text) return [];
  const deleted = event(before, "CONTRACT_DELETED", [before.text, undefined]);
  if (after === undefined) return [deleted];
  if (after.organizationId !== before.organizationId) {
    return [deleted, event(after, "CONTRACT_CREATED", [undefined, after.text])];
  }
  const [old, now] = [factsIn(before.text), factsIn(after.text)];
  const changed = FACTS.filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]));
  return changed.length === 0
    ? []
    : [event(after, "CONTRACT_UPDATED", [before.text, after.text], { changed, ...updateFields })];
}
