import type { Connection } from "../postgres/connect.ts";
import { type Addressed, recordPrivately } from "./outbox.ts";
import {
  columnsOf,
  endUserKey,
  readSnapshots,
  versionTag,
  type ContractSnapshot,
  type EndUserName,
} from "./contract-snapshots.ts";
import type { ISql, TransactionSql } from "postgres";

/** One granted use of one limit. */
export interface Consumption {
  contractId: string;
  serviceId: string;
  limitName: string;
  /** Not negative. */
  amount: number;
  featureId: string;
  operationId: string;
}

/** What was decided about one contract: with what it is to count, and what to record with that; hardly ever anything. */
export interface Decision {
  /** As it was seen when this was decided. */
  contract: ContractSnapshot;
  consumptions: readonly Consumption[];
  events: readonly Addressed[];
}

/**
 * What became of a decision. `counted`: the contract and its balances were still as they were seen, and it is counted;
 * with the row version of the levels that changed. `changed`: they were not. `busy`: somebody else holds the contract.
 * Neither of those has left a trace.
 */
export type Outcome = { kind: "counted"; version: string } | { kind: "changed" } | { kind: "busy" };

/**
 * Counts what was decided about many contracts, each if it is still as it was seen, in one round trip however many. Checks
 * under the contracts' locks, which are not waited for: one that is being novated must not hold up the others.
 */
export async function countIfUnchanged(
  { client }: Connection,
  decisions: readonly Decision[],
  now: Date,
): Promise<Outcome[]> {
  const events = decisions.some((decision) => decision.events.length > 0);
  if (!events) return count(client, decisions, now);
  return client.begin(async (tx) => {
    const outcomes = await count(tx, decisions, now);
    const due = decisions.flatMap((one, i) => (outcomes[i]?.kind === "counted" ? one.events : []));
    // Last, because the ids are given under a lock that all share.
    if (due.length > 0) await recordPrivately(tx, due);
    return outcomes;
  });
}

const OUTCOMES: Readonly<Record<string, Outcome["kind"]>> = { b: "busy", c: "changed", u: "counted" };

async function count(client: ISql, decisions: readonly Decision[], now: Date): Promise<Outcome[]> {
  const consumptions = decisions.flatMap((decision) => decision.consumptions);
  const [row] = await client<{ outcomes: string | null; transaction: string | null }[]>`
    select outcomes, transaction from faregate_consume(
      ${decisions.map(({ contract }) => contract.contractId)}::text[],
      ${decisions.map(({ contract }) => versionTag(contract))}::text[],
      ${decisions.flatMap((one) => (one.consumptions.length > 0 ? [one.contract.contractId] : []))}::text[],
      ${consumptions.length === 0 ? null : JSON.stringify(consumptions)}::text::json,
      ${now.toISOString()}::text::timestamptz
    )`;
  return decisions.map((_, i) => {
    const kind = OUTCOMES[row?.outcomes?.[i] ?? "c"] ?? "changed";
    return kind === "counted" ? { kind, version: row?.transaction ?? "" } : { kind };
  });
}

/**
 * Runs `decide` over contracts with their rows locked, and counts what it returns in the same transaction. Locks that
 * somebody else has are waited for at most `lockWaitMs`, which then fails for all of them (SQLSTATE 55P03). Contracts that
 * do not exist are missing from the map.
 */
export async function countUnderLock<T>(
  { client }: Connection,
  { names, now, lockWaitMs }: { names: readonly EndUserName[]; now: Date; lockWaitMs: number },
  decide: (contracts: ReadonlyMap<string, ContractSnapshot>) => Promise<{ result: T; decisions: readonly Decision[] }>,
): Promise<T> {
  const done = await client.begin(async (tx) => {
    const contracts = await lockContracts(tx, names, lockWaitMs);
    const { result, decisions } = await decide(contracts);
    const outcomes = await count(tx, decisions, now);
    if (outcomes.some(({ kind }) => kind !== "counted")) throw new Error("a locked contract changed");
    const events = decisions.flatMap((decision) => decision.events);
    if (events.length > 0) await recordPrivately(tx, events);
    return { result };
  });
  return done.result;
}

async function lockContracts(
  tx: TransactionSql,
  names: readonly EndUserName[],
  lockWaitMs: number,
): Promise<Map<string, ContractSnapshot>> {
  const [organizationIds, userIds] = columnsOf(names);
  // Sent together, in this order: `execute` queues a statement, a query that is only awaited is queued later. So the
  // reading begins when the locks are held, and sees what was committed by then.
  const limited = tx.unsafe(`set local lock_timeout = ${lockWaitMs}`).execute();
  const locking = tx<EndUserName[]>`
    select organization_id as "organizationId", user_id as "userId" from contracts
    where (organization_id, user_id) in (select * from unnest(${organizationIds}::text[], ${userIds}::text[]))
    order by id for no key update`.execute();
  const [locked, contracts] = await Promise.all([locking, readSnapshots(tx, names), limited]);
  // One that came to be after the locks were taken is not among them.
  const mine = new Set(locked.map(endUserKey));
  return new Map([...contracts].filter(([key]) => mine.has(key)));
}
