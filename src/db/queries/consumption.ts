import { PgDialect } from "drizzle-orm/pg-core";
import { type Connection, type Database, databaseError, driverOf } from "../postgres/connect.ts";
import { recordPrivately } from "./outbox.ts";
import {
  columnsOf,
  endUserKey,
  readSnapshots,
  versionTag,
  type ContractSnapshot,
  type EndUserName,
} from "./contract-snapshots.ts";
import type { ISql, TransactionSql } from "postgres";
import { changesOf, type Consumption, type Decision, endOf, takeOf } from "./decision.ts";
import { rememberStatement } from "./usage-alerts.ts";

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
  const events = decisions.some((decision) => decision.events.length > 0);
  if (!events) return count(client, decisions, now);
  return client.begin(async (tx) => {
    const outcomes = await count(tx, decisions, now);
    await recordRaised(
      tx,
      decisions.filter((_, i) => outcomes[i]?.kind === "counted"),
    );
    return outcomes;
  });
}

/** Thrown, and everything rolled back, when holds to end have ended or were extended since they were read. */
export class EndedMeanwhile extends Error {
  /** Ids of the holds. */
  readonly ended: ReadonlySet<string>;

  constructor(ended: ReadonlySet<string>) {
    super("holds have ended meanwhile");
    this.ended = ended;
  }
}

/** Remembers raised thresholds and records events of decisions whose consumption is counted. */
async function recordRaised(tx: TransactionSql, decisions: readonly Decision[]): Promise<void> {
  const raised = decisions.flatMap((decision) => decision.raised);
  if (raised.length > 0) {
    const { sql, params } = dialect.sqlToQuery(rememberStatement(raised));
    await tx.unsafe(sql, params as string[], { prepare: true });
  }
  const events = decisions.flatMap((decision) => decision.events);
  // Last statement: event ids come from one counter whose row lock all transactions share.
  if (events.length > 0) await recordPrivately(tx, events);
}

const dialect = new PgDialect();

const OUTCOMES: Readonly<Record<string, Outcome["kind"]>> = { b: "busy", c: "changed", u: "counted" };

const changesHolds = ({ takes, ends }: Decision) => takes.length + ends.length > 0;
/** True if a movement or hold names its spender or its units, or a budget counts it. */
const isDetailed = ({ consumptions, takes, ends, budgets }: Decision) =>
  budgets.length > 0 ||
  consumptions.some(({ spender, units }) => spender || units) ||
  takes.some(({ spender, budgets }) => spender || budgets) ||
  ends.some(({ units, hold }) => units || hold.spender);
/** True if the balances of budgets change by what the movements name, and by nothing else. They need not be sent then. */
const isSumOfMovements = (decision: Decision) =>
  !changesHolds(decision) && decision.events.every(({ event }) => event.code !== "BUDGET_THRESHOLD_REACHED");
const isMoving = (decision: Decision) => decision.consumptions.length > 0 || changesHolds(decision);

/** Movements of one contract that faregate_consume_one counts for less than faregate_consume. */
const MAX_ALONE = 4;

async function count(client: ISql, decisions: readonly Decision[], now: Date): Promise<Outcome[]> {
  const [decision] = decisions;
  if (decision !== undefined && decisions.length === 1 && !changesHolds(decision) && !isDetailed(decision)) {
    const [first, ...others] = decision.consumptions;
    if (first !== undefined && others.length < MAX_ALONE) return [await countOne(client, decision, first, others, now)];
  }
  const contractIds = decisions.map(({ contract }) => contract.contractId);
  const tags = decisions.map(({ contract }) => versionTag(contract));
  const moving = decisions.flatMap((one) => (isMoving(one) ? [one.contract.contractId] : []));
  const moment = now.toISOString();
  const json = (values: readonly object[]) => (values.length === 0 ? null : JSON.stringify(values));
  const counting = decisions.some(isDetailed)
    ? client<CountedRow[]>`select outcomes, transaction from faregate_spend(${contractIds}::text[],
        ${tags}::text[], ${moving}::text[], ${json(decisions.flatMap(changesOf))}::text::json,
        ${json(decisions.flatMap(({ ends }) => ends.map(endOf)))}::text::json,
        ${json(decisions.flatMap(({ takes }) => takes.map(takeOf)))}::text::json,
        ${decisions.every(isSumOfMovements) ? null : json(decisions.flatMap(({ budgets }) => budgets))}::text::json,
        ${moment}::text::timestamptz)`
    : decisions.some(changesHolds)
      ? client<CountedRow[]>`select outcomes, transaction from faregate_consume_or_hold(${contractIds}::text[],
        ${tags}::text[], ${moving}::text[], ${json(decisions.flatMap(changesOf))}::text::json,
        ${json(decisions.flatMap(({ ends }) => ends.map(endOf)))}::text::json,
        ${json(decisions.flatMap(({ takes }) => takes.map(takeOf)))}::text::json, ${moment}::text::timestamptz)`
      : client<CountedRow[]>`select outcomes, transaction from faregate_consume(${contractIds}::text[], ${tags}::text[],
        ${moving}::text[], ${json(decisions.flatMap(({ consumptions }) => consumptions))}::text::json,
        ${moment}::text::timestamptz)`;
  const [row] = await counting.catch((error: unknown) => {
    throw endedMeanwhile(error) ?? error;
  });
  return decisions.map((_, i) => outcomeOf(row?.outcomes?.[i], row?.transaction));
}

function outcomeOf(letter = "c", version?: string | null): Outcome {
  const kind = OUTCOMES[letter] ?? "changed";
  return kind === "counted" ? { kind, version: version ?? "" } : { kind };
}

/** Counts consumption of one contract that moves balances of limits and nothing else. */
async function countOne(
  client: ISql,
  { contract }: Decision,
  first: Consumption,
  others: readonly Consumption[],
  now: Date,
): Promise<Outcome> {
  const [row] = await client<{ outcome: string }[]>`
    select faregate_consume_one(${contract.contractId}::text, ${versionTag(contract)}::text, ${first.serviceId}::text,
      ${first.limitName}::text, ${String(first.amount)}::text::numeric, ${first.featureId}::text, ${first.operationId}::text,
      ${others.length === 0 ? null : JSON.stringify(others)}::text::json, ${now.toISOString()}::text::timestamptz) as outcome`;
  return outcomeOf(row?.outcome.charAt(0), row?.outcome.slice(1));
}

interface CountedRow {
  outcomes: string | null;
  transaction: string | null;
}

/** SQLSTATE of faregate_consume_or_hold for holds that have ended; the message has their ids. */
const HOLDS_ENDED = "FH001";

function endedMeanwhile(error: unknown): EndedMeanwhile | undefined {
  const isSo = error instanceof Error && databaseError(error)?.code === HOLDS_ENDED;
  return isSo ? new EndedMeanwhile(new Set(error.message.split(","))) : undefined;
}

/**
 * Locks the contracts' rows, runs `decide`, and writes the consumption that it returns, in one transaction. `decide` gets its
 * handle. Missing contracts are missing from the map.
 * @throws SQLSTATE 55P03 for all of them when a lock is not free within `lockWaitMs`.
 */
export async function countUnderLock<T>(
  { db }: Connection,
  { names, now, lockWaitMs }: { names: readonly EndUserName[]; now: Date; lockWaitMs: number },
  decide: (
    contracts: ReadonlyMap<string, ContractSnapshot>,
    db: Database,
  ) => Promise<{ result: T; decisions: readonly Decision[] }>,
): Promise<T> {
  return db.transaction(async (tx) => {
    const client = driverOf(tx);
    const contracts = await lockContracts(client, names, lockWaitMs);
    const { result, decisions } = await decide(contracts, tx);
    const outcomes = await count(client, decisions, now);
    if (outcomes.some(({ kind }) => kind !== "counted")) throw new Error("a locked contract changed");
    await recordRaised(client, decisions);
    return result;
  });
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
