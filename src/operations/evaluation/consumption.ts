import type { Caller } from "../../core/access/caller.ts";
import { createBatch } from "../../db/postgres/batch.ts";
import { type Connection, databaseError } from "../../db/postgres/connect.ts";
import { type Consumption, countIfUnchanged, countUnderLock, type Decision } from "../../db/queries/consumption.ts";
import type { SnapshotCache } from "../../db/queries/snapshot-cache.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { retrySerializationFailures } from "../../db/postgres/retry.ts";
import {
  endUserKey,
  type Level,
  type ContractSnapshot,
  type EndUserName,
} from "../../db/queries/contract-snapshots.ts";
import { moveLevels } from "../../db/queries/usage.ts";
import { type Context, contextOf, newId, type Resources } from "../context.ts";
import { contractNotFound } from "../contract-address.ts";
import {
  type EvaluationRequest,
  decide,
  explained,
  type FeatureAnswer,
  involvedLevels,
  limitsReached,
  mapValues,
} from "./decision.ts";
import { Failure } from "../errors.ts";
import { evaluatedOrganization, needsRenewal, prepare, type Prepared, withLockedContract } from "./prepare.ts";

/** One consumption, with the organization of its end user. */
export type QueuedEvaluation = EvaluationRequest & { organizationId: string };

/** How long a call waits for a contract that another transaction has locked. Then it fails as retryable. */
const LOCK_WAIT_MS = 3000;
/** Calls that may wait in one process. Further calls are rejected immediately. */
const MAX_QUEUED = 5000;
/** Two concurrent batches keep both the process and the database busy. A contract always maps to the same lane. */
const SHARDS = 2;
/** Maximum contracts blocking on a row lock at once (each pins a pool connection); the rest are retried. */
const MAX_LOCK_WAITERS = 3;
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Batches consumption: calls that arrive during a transaction share the next one. Each call gets its own verdict in
 * order of arrival, over the balances that earlier calls left. One call's error does not affect another's. Contracts
 * due for renewal get their own transaction.
 */
export function createConsume(
  connection: Connection,
  resources: Resources,
): (ask: QueuedEvaluation) => Promise<FeatureAnswer> {
  const createShard = (run: typeof consumeOptimistically): Shard =>
    createBatch((asks) => run(connection, resources, asks), { maxBatchSize: 200, concurrency: 1 });
  const shards = Array.from({ length: SHARDS }, () => createShard(consumeOptimistically));
  /**
   * Contracts that another transaction has locked. Each has its own lane that blocks on the lock while it has callers.
   */
  const lockWaiters = new Map<string, { lane: Shard; callers: number }>();
  const waitForLock = async (key: string, ask: QueuedEvaluation): Promise<Verdict> => {
    const held = lockWaiters.get(key) ?? { lane: createShard(consumeLocked), callers: 0 };
    lockWaiters.set(key, held);
    held.callers += 1;
    try {
      return await held.lane(ask);
    } catch (error) {
      throw databaseError(error)?.code === LOCK_NOT_AVAILABLE ? tooBusy() : error;
    } finally {
      held.callers -= 1;
      if (held.callers === 0) lockWaiters.delete(key);
    }
  };
  let waiting = 0;
  return async (ask) => {
    if (waiting >= MAX_QUEUED) throw tooBusy();
    waiting += 1;
    try {
      const key = endUserKey(ask);
      const usual = shards[shardOf(key)];
      if (usual === undefined) throw new Error("no shard with this number");
      const deadline = Date.now() + LOCK_WAIT_MS;
      for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
        // Joins the existing lock waiters of this contract, to preserve the order of arrival.
        let verdict: Verdict = lockWaiters.has(key) ? await waitForLock(key, ask) : await usual(ask);
        if (verdict === "busy" && (lockWaiters.has(key) || lockWaiters.size < MAX_LOCK_WAITERS))
          verdict = await waitForLock(key, ask);
        if (verdict === "alone") return await consumeSerially(contextOf(resources, callerOf(ask)), ask);
        if (verdict !== "busy") return verdict;
        if (Date.now() > deadline) throw tooBusy();
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    } finally {
      waiting -= 1;
    }
  };
}

type Shard = (ask: QueuedEvaluation) => Promise<Verdict>;

type Verdict = FeatureAnswer | "busy" | "alone";

function tooBusy(): Failure {
  return new Failure("unavailable", "The contract is locked by other requests. Please try again", {
    retryAfterSeconds: 1,
  });
}

function shardOf(key: string): number {
  let hash = 0;
  for (let i = 0; i < key.length; i += 1) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
  return Math.abs(hash) % SHARDS;
}

/** Optimistic attempts per contract before the call blocks on the row lock. */
const ROUNDS = 2;

/**
 * Decides on cached snapshots, and writes only where the contract is unchanged. The second round rereads changed
 * contracts.
 */
async function consumeOptimistically(
  connection: Connection,
  resources: Resources,
  asks: readonly QueuedEvaluation[],
): Promise<(Verdict | Error)[]> {
  const now = resources.now();
  const verdicts = new Map<QueuedEvaluation, Verdict | Error>();
  let open = groupByContract(asks);
  for (let round = 0; round < ROUNDS && open.length > 0; round += 1) {
    try {
      open = await countRound(open, round === 0 ? resources.snapshots.cachedSnapshot : resources.snapshots.snapshot);
    } catch (error) {
      // The earlier round has committed: only calls still in flight receive this error.
      if (round === 0 || !(error instanceof Error)) throw error;
      for (const ask of open.flatMap((group) => group.asks)) verdicts.set(ask, error);
      open = [];
    }
  }
  return asks.map((ask) => verdicts.get(ask) ?? "busy");

  /** Returns the groups whose contracts have changed since the snapshot. */
  async function countRound(groups: readonly Group[], read: SnapshotCache["cachedSnapshot"]): Promise<Group[]> {
    const cases = await Promise.all(
      groups.map(async (group) => {
        const contract = await read(group.name);
        return contract === null ? undefined : { group, ...(await decideAll(resources, contract, group.asks, now)) };
      }),
    );
    for (const [i, group] of groups.entries()) {
      if (cases[i] === undefined) for (const ask of group.asks) verdicts.set(ask, contractNotFound(ask.userId));
    }
    const decided = cases.filter((one) => one !== undefined);
    const outcomes = await retrySerializationFailures(() => countIfUnchanged(connection, decided, now));
    const changed: Group[] = [];
    for (const [i, { group, contract, answers, after }] of decided.entries()) {
      const outcome = outcomes[i];
      if (outcome?.kind === "counted") {
        for (const [ask, answer] of answers) verdicts.set(ask, answer);
        resources.snapshots.replaceCached(group.name, contract, after(outcome.version));
      } else {
        resources.snapshots.replaceCached(group.name, contract, undefined);
        if (outcome?.kind === "changed") changed.push(group);
      }
    }
    return changed;
  }
}

/** Consumes after locking the contracts; waits up to `PATIENCE_MS` for the locks. */
async function consumeLocked(
  connection: Connection,
  resources: Resources,
  asks: readonly QueuedEvaluation[],
): Promise<(Verdict | Error)[]> {
  const now = resources.now();
  const groups = groupByContract(asks);
  const names = groups.map((group) => group.name);
  const decideUnder = async (contracts: ReadonlyMap<string, ContractSnapshot>) => {
    const verdicts = new Map<QueuedEvaluation, Verdict | Error>();
    const decisions: Decision[] = [];
    for (const group of groups) {
      const contract = contracts.get(group.key);
      if (contract === undefined) {
        for (const ask of group.asks) verdicts.set(ask, contractNotFound(ask.userId));
        continue;
      }
      const decision = await decideAll(resources, contract, group.asks, now);
      for (const [ask, answer] of decision.answers) verdicts.set(ask, answer);
      decisions.push(decision);
    }
    return { result: asks.map((ask) => verdicts.get(ask) ?? "alone"), decisions };
  };
  return retrySerializationFailures(() =>
    countUnderLock(connection, { names, now, lockWaitMs: LOCK_WAIT_MS }, decideUnder),
  );
}

interface Group {
  key: string;
  name: EndUserName;
  /** In order of arrival. */
  asks: QueuedEvaluation[];
}

function groupByContract(asks: readonly QueuedEvaluation[]): Group[] {
  const groups = new Map<string, Group>();
  for (const ask of asks) {
    const key = endUserKey(ask);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { key, name: ask, asks: [ask] });
    else group.asks.push(ask);
  }
  return [...groups.values()];
}

/** All verdicts and writes for one contract. */
interface DecidedAll extends Decision {
  answers: Map<QueuedEvaluation, Verdict | Error>;
  /** The snapshot after this consumption; undefined if it cannot be computed exactly. */
  after(version: string): ContractSnapshot | undefined;
}

/** Decides calls for one contract in order. Each call sees the balances that earlier ones left. */
async function decideAll(
  resources: Resources,
  contract: ContractSnapshot,
  asks: readonly QueuedEvaluation[],
  now: Date,
): Promise<DecidedAll> {
  const answers = new Map<QueuedEvaluation, Verdict | Error>();
  const consumptions: Consumption[] = [];
  const events: Addressed[] = [];
  const moved = new Map<Level, number>();
  let failure: Failure | undefined;
  let prepared: Prepared | undefined;
  let due = false;
  try {
    due = needsRenewal(contract, now);
    if (!due) prepared = await prepare({ db: resources.db, resources }, contract);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    failure = error;
  }
  for (const ask of asks) {
    if (prepared === undefined) answers.set(ask, failure ?? "alone");
    else answers.set(ask, decideOne(prepared, ask, { consumptions, events, moved }, now));
  }
  return {
    contract,
    answers,
    consumptions,
    events,
    after: (version) => {
      // Integer sums match the database's. Fractional sums may differ in double precision.
      if (![...moved.values()].every(Number.isSafeInteger)) return undefined;
      const levels = contract.levels.map((level) => {
        const consumed = moved.get(level);
        return consumed === undefined ? level : { ...level, consumed, version };
      });
      return { ...contract, levels };
    },
  };
}

/** Decides one call, and adds its consumption to the balances for the next call of the contract. */
function decideOne(
  prepared: Prepared,
  ask: QueuedEvaluation,
  { consumptions, events, moved }: { consumptions: Consumption[]; events: Addressed[]; moved: Map<Level, number> },
  now: Date,
): FeatureAnswer {
  const { result, counts } = decide(prepared, ask);
  const balances = prepared.usage;
  if (counts) {
    const operationId = newId(now);
    const involved = involvedLevels(prepared, ask);
    const { contractId } = prepared.contract;
    const { organizationId, featureId } = ask;
    const reached = limitsReached(prepared, ask, involved, result.limit, balances, (id) => result.used?.[id] ?? 0);
    for (const event of reached) events.push({ organizationId, event });
    for (const { id, level } of involved) {
      const { serviceId, limitName } = level;
      const used = result.used?.[id] ?? 0;
      consumptions.push({ contractId, serviceId, limitName, amount: ask.expected[id] ?? 0, featureId, operationId });
      moved.set(level, used);
      balances.set(id, used);
    }
  }
  return explained(prepared, result, ask, balances);
}

/**
 * Consumes in its own transaction, or in the caller's. Blocks on the contract's lock, and renews due balances first.
 */
export async function consumeSerially(ctx: Context, ask: EvaluationRequest): Promise<FeatureAnswer> {
  return withLockedContract(ctx, ask.userId, async (ctx, prepared) => {
    const { result, counts } = decide(prepared, ask);
    if (!counts) return explained(prepared, result, ask, prepared.usage);
    const now = ctx.resources.now();
    const involved = involvedLevels(prepared, ask);
    const moved = await moveLevels(
      ctx.db,
      prepared.contract.contractId,
      involved.map(({ id, level }) => ({ level, delta: ask.expected[id] ?? 0 })),
      { kind: "consume", operationId: newId(now), now, featureId: ask.featureId },
    );
    const used = new Map(involved.map(({ id }, i) => [id, moved[i]?.consumed ?? 0]));
    const counted = { ...result, used: mapValues(result.used ?? {}, (id, sum) => used.get(id) ?? sum) };
    const reached = limitsReached(prepared, ask, involved, result.limit, prepared.usage, (id) => used.get(id) ?? 0);
    const organizationId = evaluatedOrganization(ctx);
    await recordEvents(
      ctx.db,
      reached.map((event) => ({ organizationId, event })),
    );
    return explained(prepared, counted, ask, used);
  });
}

/** The caller for a batched request that is evaluated in its own transaction. */
function callerOf({ organizationId }: QueuedEvaluation): Caller {
  return { kind: "key", keyId: "", organizationId, scope: "EVALUATION" };
}
