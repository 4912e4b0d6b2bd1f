import type { Caller } from "../../core/access/caller.ts";
import { createBatch } from "../../db/postgres/batch.ts";
import { type Connection, databaseError } from "../../db/postgres/connect.ts";
import { type Consumption, countIfUnchanged, countUnderLock, type Decision } from "../../db/queries/consumption.ts";
import type { Lookups } from "../../db/queries/lookups.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import { repeatLost } from "../../db/postgres/repeat.ts";
import { keyOf, type Level, type Subject, type SubjectName } from "../../db/queries/subjects.ts";
import { moveLevels } from "../../db/queries/usage.ts";
import { type Context, contextOf, newId, type Resources } from "../context.ts";
import { contractNotFound } from "../contract-address.ts";
import {
  type Ask,
  decide,
  explained,
  type FeatureAnswer,
  involvedLevels,
  limitsReached,
  mapValues,
} from "./decision.ts";
import { Failure } from "../errors.ts";
import { evaluatedOrganization, needsRenewal, prepare, type Prepared, withLockedSubject } from "./subject.ts";

/** One consumption, with the organization of its end user. */
export type GroupedAsk = Ask & { organizationId: string };

/** How long a call waits for a contract that another transaction has locked. Then it fails as retryable. */
const PATIENCE_MS = 3000;
/** Calls that may wait in one process. Further calls are rejected immediately. */
const MAX_WAITING = 5000;
/** Two concurrent batches keep both the process and the database busy. A contract always maps to the same lane. */
const LANES = 2;
/** Maximum contracts blocking on a row lock at once (each pins a pool connection); the rest are retried. */
const MAX_PATIENT = 3;
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Batches consumption: calls that arrive during a transaction share the next one. Each call gets its own verdict in
 * order of arrival, over the balances that earlier calls left. One call's error does not affect another's. Contracts
 * due for renewal get their own transaction.
 */
export function createConsume(
  connection: Connection,
  resources: Omit<Resources, "consume">,
): (ask: GroupedAsk) => Promise<FeatureAnswer> {
  const lane = (run: typeof countAtOnce): Lane =>
    createBatch((asks) => run(connection, resources, asks), { maxAsks: 200, lanes: 1 });
  const lanes = Array.from({ length: LANES }, () => lane(countAtOnce));
  /**
   * Contracts that another transaction has locked. Each has its own lane that blocks on the lock while it has callers.
   */
  const patient = new Map<string, { lane: Lane; callers: number }>();
  const inPatience = async (key: string, ask: GroupedAsk): Promise<Verdict> => {
    const held = patient.get(key) ?? { lane: lane(countUnderLocks), callers: 0 };
    patient.set(key, held);
    held.callers += 1;
    try {
      return await held.lane(ask);
    } catch (error) {
      throw databaseError(error)?.code === LOCK_NOT_AVAILABLE ? tooBusy() : error;
    } finally {
      held.callers -= 1;
      if (held.callers === 0) patient.delete(key);
    }
  };
  let waiting = 0;
  return async (ask) => {
    if (waiting >= MAX_WAITING) throw tooBusy();
    waiting += 1;
    try {
      const key = keyOf(ask);
      const usual = lanes[laneOf(key)];
      if (usual === undefined) throw new Error("there is no such lane");
      const deadline = Date.now() + PATIENCE_MS;
      for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
        // Joins the existing lock waiters of this contract, to preserve the order of arrival.
        let verdict: Verdict = patient.has(key) ? await inPatience(key, ask) : await usual(ask);
        if (verdict === "busy" && (patient.has(key) || patient.size < MAX_PATIENT))
          verdict = await inPatience(key, ask);
        if (verdict === "alone") return await evaluateAlone(contextOf(resources, callerOf(ask)), ask);
        if (verdict !== "busy") return verdict;
        if (Date.now() > deadline) throw tooBusy();
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    } finally {
      waiting -= 1;
    }
  };
}

type Lane = (ask: GroupedAsk) => Promise<Verdict>;

type Verdict = FeatureAnswer | "busy" | "alone";

function tooBusy(): Failure {
  return new Failure("unavailable", "The contract is being changed by others. Please try again", {
    retryAfterSeconds: 1,
  });
}

function laneOf(key: string): number {
  let hash = 0;
  for (let i = 0; i < key.length; i += 1) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
  return Math.abs(hash) % LANES;
}

/** Optimistic attempts per contract before the call blocks on the row lock. */
const ROUNDS = 2;

/**
 * Decides on cached snapshots, and writes only where the contract is unchanged. The second round rereads changed
 * contracts.
 */
async function countAtOnce(
  connection: Connection,
  resources: Omit<Resources, "consume">,
  asks: readonly GroupedAsk[],
): Promise<(Verdict | Error)[]> {
  const now = resources.now();
  const verdicts = new Map<GroupedAsk, Verdict | Error>();
  let open = groupByContract(asks);
  for (let round = 0; round < ROUNDS && open.length > 0; round += 1) {
    try {
      open = await countRound(open, round === 0 ? resources.lookups.lastSeen : resources.lookups.subject);
    } catch (error) {
      // The earlier round has committed: only calls still in flight receive this error.
      if (round === 0 || !(error instanceof Error)) throw error;
      for (const ask of open.flatMap((group) => group.asks)) verdicts.set(ask, error);
      open = [];
    }
  }
  return asks.map((ask) => verdicts.get(ask) ?? "busy");

  /** Returns the groups whose contracts have changed since the snapshot. */
  async function countRound(groups: readonly Group[], read: Lookups["lastSeen"]): Promise<Group[]> {
    const cases = await Promise.all(
      groups.map(async (group) => {
        const subject = await read(group.name);
        return subject === null ? undefined : { group, ...(await decideAll(resources, subject, group.asks, now)) };
      }),
    );
    for (const [i, group] of groups.entries()) {
      if (cases[i] === undefined) for (const ask of group.asks) verdicts.set(ask, contractNotFound(ask.userId));
    }
    const decided = cases.filter((one) => one !== undefined);
    const outcomes = await repeatLost(() => countIfUnchanged(connection, decided, now));
    const changed: Group[] = [];
    for (const [i, { group, subject, answers, after }] of decided.entries()) {
      const outcome = outcomes[i];
      if (outcome?.kind === "counted") {
        for (const [ask, answer] of answers) verdicts.set(ask, answer);
        resources.lookups.saw(group.name, subject, after(outcome.version));
      } else {
        resources.lookups.saw(group.name, subject, undefined);
        if (outcome?.kind === "changed") changed.push(group);
      }
    }
    return changed;
  }
}

/** Consumes after locking the contracts; waits up to `PATIENCE_MS` for the locks. */
async function countUnderLocks(
  connection: Connection,
  resources: Omit<Resources, "consume">,
  asks: readonly GroupedAsk[],
): Promise<(Verdict | Error)[]> {
  const now = resources.now();
  const groups = groupByContract(asks);
  const names = groups.map((group) => group.name);
  const decideUnder = async (subjects: ReadonlyMap<string, Subject>) => {
    const verdicts = new Map<GroupedAsk, Verdict | Error>();
    const decisions: Decision[] = [];
    for (const group of groups) {
      const subject = subjects.get(group.key);
      if (subject === undefined) {
        for (const ask of group.asks) verdicts.set(ask, contractNotFound(ask.userId));
        continue;
      }
      const decision = await decideAll(resources, subject, group.asks, now);
      for (const [ask, answer] of decision.answers) verdicts.set(ask, answer);
      decisions.push(decision);
    }
    return { result: asks.map((ask) => verdicts.get(ask) ?? "alone"), decisions };
  };
  return repeatLost(() => countUnderLock(connection, { names, now, lockWaitMs: PATIENCE_MS }, decideUnder));
}

interface Group {
  key: string;
  name: SubjectName;
  /** In order of arrival. */
  asks: GroupedAsk[];
}

function groupByContract(asks: readonly GroupedAsk[]): Group[] {
  const groups = new Map<string, Group>();
  for (const ask of asks) {
    const key = keyOf(ask);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { key, name: ask, asks: [ask] });
    else group.asks.push(ask);
  }
  return [...groups.values()];
}

/** All verdicts and writes for one contract. */
interface DecidedAll extends Decision {
  answers: Map<GroupedAsk, Verdict | Error>;
  /** The snapshot after this consumption; undefined if it cannot be computed exactly. */
  after(version: string): Subject | undefined;
}

/** Decides calls for one contract in order. Each call sees the balances that earlier ones left. */
async function decideAll(
  resources: Omit<Resources, "consume">,
  subject: Subject,
  asks: readonly GroupedAsk[],
  now: Date,
): Promise<DecidedAll> {
  const answers = new Map<GroupedAsk, Verdict | Error>();
  const consumptions: Consumption[] = [];
  const events: Addressed[] = [];
  const moved = new Map<Level, number>();
  let failure: Failure | undefined;
  let prepared: Prepared | undefined;
  let due = false;
  try {
    due = needsRenewal(subject, now);
    if (!due) prepared = await prepare(resources, subject);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    failure = error;
  }
  for (const ask of asks) {
    if (prepared === undefined) answers.set(ask, failure ?? "alone");
    else answers.set(ask, decideOne(prepared, ask, { consumptions, events, moved }, now));
  }
  return {
    subject,
    answers,
    consumptions,
    events,
    after: (version) => {
      // Integer sums match the database's. Fractional sums may differ in double precision.
      if (![...moved.values()].every(Number.isSafeInteger)) return undefined;
      const levels = subject.levels.map((level) => {
        const consumed = moved.get(level);
        return consumed === undefined ? level : { ...level, consumed, version };
      });
      return { ...subject, levels };
    },
  };
}

/** Decides one call, and adds its consumption to the balances for the next call of the contract. */
function decideOne(
  prepared: Prepared,
  ask: GroupedAsk,
  { consumptions, events, moved }: { consumptions: Consumption[]; events: Addressed[]; moved: Map<Level, number> },
  now: Date,
): FeatureAnswer {
  const { result, counts } = decide(prepared, ask);
  const balances = prepared.usage;
  if (counts) {
    const operationId = newId(now);
    const involved = involvedLevels(prepared, ask);
    const { contractId } = prepared.subject;
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
export async function evaluateAlone(ctx: Context, ask: Ask): Promise<FeatureAnswer> {
  return withLockedSubject(ctx, ask.userId, async (ctx, prepared) => {
    const { result, counts } = decide(prepared, ask);
    if (!counts) return explained(prepared, result, ask, prepared.usage);
    const now = ctx.now();
    const involved = involvedLevels(prepared, ask);
    const moved = await moveLevels(
      ctx.db,
      prepared.subject.contractId,
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
function callerOf({ organizationId }: GroupedAsk): Caller {
  return { kind: "key", keyId: "", organizationId, scope: "EVALUATION" };
}
