import type { SQL } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type { Connection } from "../postgres/connect.ts";
import { endStatement, type HoldEnd, type NewHold, takeStatement } from "./holds.ts";
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

/** Granted consumption of one limit. */
export interface Consumption {
  contractId: string;
  serviceId: string;
  limitName: string;
  /** Zero or more. */
  amount: number;
  featureId: string;
  operationId: string;
  /** Moment of use, of a batch item only. Default: now. */
  usedAt?: Date | undefined;
}

/** Consumption granted for one contract, with the events to record; usually there are none. */
export interface Decision {
  /** The snapshot that the decision is based on. */
  contract: ContractSnapshot;
  consumptions: readonly Consumption[];
  /** Holds taken and ended. */
  takes: readonly NewHold[];
  ends: readonly HoldEnd[];
  events: readonly Addressed[];
}

/**
 * Result of a decision. `counted`: the snapshot was current and the consumption is written; `version` is the new row
 * version of the changed levels. `changed`: the snapshot was stale. `busy`: another transaction holds the contract's row
 * lock. The last two wrote nothing.
 */
export type Outcome = { kind: "counted"; version: string } | { kind: "changed" } | { kind: "busy" };

/**
 * Writes the consumption of many contracts optimistically in one round trip: each only if its snapshot is current. Takes the
 * row locks with SKIP LOCKED, so that a contract under novation does not block the others.
 */
export async function countIfUnchanged(
  { client }: Connection,
  decisions: readonly Decision[],
  now: Date,
): Promise<Outcome[]> {
  const isPlain = decisions.every(({ events, takes, ends }) => events.length + takes.length + ends.length === 0);
  if (isPlain) return count(client, decisions, now);
  return client.begin(async (tx) => {
    const outcomes = await count(tx, decisions, now);
    await writeRest(
      tx,
      decisions.filter((_, i) => outcomes[i]?.kind === "counted"),
    );
    return outcomes;
  });
}

/** Thrown, and everything rolled back, when holds to end have ended since they were read. */
export class EndedMeanwhile extends Error {
  /** Ids of the holds. */
  readonly ended: ReadonlySet<string>;

  constructor(ended: ReadonlySet<string>) {
    super("holds have ended meanwhile");
    this.ended = ended;
  }
}

/** Writes holds and events of decisions whose consumption is counted. */
async function writeRest(tx: TransactionSql, decisions: readonly Decision[]): Promise<void> {
  const ends = decisions.flatMap((decision) => decision.ends);
  const takes = decisions.flatMap((decision) => decision.takes);
  const events = decisions.flatMap((decision) => decision.events);
  if (ends.length > 0) {
    const ended = new Set((await run<{ id: string }>(tx, endStatement(ends))).map(({ id }) => id));
    const missed = ends.flatMap(({ hold: { id } }) => (ended.has(id) ? [] : [id]));
    if (missed.length > 0) throw new EndedMeanwhile(new Set(missed));
  }
  if (takes.length > 0) await run(tx, takeStatement(takes));
  // Last statement: event ids come from one counter whose row lock all transactions share.
  if (events.length > 0) await recordPrivately(tx, events);
}

const dialect = new PgDialect();

function run<Row extends Record<string, unknown>>(tx: TransactionSql, statement: SQL) {
  const { sql, params } = dialect.sqlToQuery(statement);
  return tx.unsafe<Row[]>(sql, params as string[], { prepare: true });
}

const OUTCOMES: Readonly<Record<string, Outcome["kind"]>> = { b: "busy", c: "changed", u: "counted" };

const isMoving = ({ consumptions, takes, ends }: Decision) => consumptions.length + takes.length + ends.length > 0;

async function count(client: ISql, decisions: readonly Decision[], now: Date): Promise<Outcome[]> {
  const consumptions = decisions.flatMap((decision) => decision.consumptions);
  const [row] = await client<{ outcomes: string | null; transaction: string | null }[]>`
    select outcomes, transaction from faregate_consume(
      ${decisions.map(({ contract }) => contract.contractId)}::text[],
      ${decisions.map(({ contract }) => versionTag(contract))}::text[],
      ${decisions.flatMap((one) => (isMoving(one) ? [one.contract.contractId] : []))}::text[],
      ${consumptions.length === 0 ? null : JSON.stringify(consumptions)}::text::json,
      ${now.toISOString()}::text::timestamptz
    )`;
  return decisions.map((_, i) => {
    const kind = OUTCOMES[row?.outcomes?.[i] ?? "c"] ?? "changed";
    return kind === "counted" ? { kind, version: row?.transaction ?? "" } : { kind };
  });
}

/**
 * Locks the contracts' rows, runs `decide`, and writes the consumption that it returns in the same transaction. Missing
 * contracts are missing from the map.
 * @throws SQLSTATE 55P03 for all of them when a lock is not free within `lockWaitMs`.
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
    await writeRest(tx, decisions);
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
  // Pipelined in this order: `execute` queues a statement now, whereas awaiting a query queues it later. The snapshots are
  // therefore read after the locks are acquired, and include everything committed before.
  const limited = tx.unsafe(`set local lock_timeout = ${lockWaitMs}`).execute();
  const locking = tx<EndUserName[]>`
    select organization_id as "organizationId", user_id as "userId" from contracts
    where (organization_id, user_id) in (select * from unnest(${organizationIds}::text[], ${userIds}::text[]))
    order by id for no key update`.execute();
  const [locked, contracts] = await Promise.all([locking, readSnapshots(tx, names), limited]);
  // Drop contracts created after the locks were acquired: their rows are not locked.
  const mine = new Set(locked.map(endUserKey));
  return new Map([...contracts].filter(([key]) => mine.has(key)));
}
