import { createBatch } from "../db/batch.ts";
import { type Connection, databaseError } from "../db/connect.ts";
import { type Consumption, consumeTogether } from "../db/consumption.ts";
import { type Addressed, recordEvents } from "../db/outbox.ts";
import { keyOf, type Subject } from "../db/subjects.ts";
import { moveLevels } from "../db/usage.ts";
import { type Context, newId, type Resources } from "./context.ts";
import { contractNotFound } from "./contract-address.ts";
import {
  type Ask,
  decide,
  explained,
  type FeatureAnswer,
  involvedLevels,
  limitsReached,
  mapValues,
} from "./decision.ts";
import { Failure } from "./errors.ts";
import { evaluatedOrganization, needsRenewal, prepare, type Prepared, withLockedSubject } from "./subject.ts";

/** One consumption, with the organization whose end user it is about. */
export type GroupedAsk = Ask & { organizationId: string };

/** How long a caller waits for a contract that somebody else holds before it is told to come back. */
const PATIENCE_MS = 3000;
/** Callers that may wait at once in one process; beyond, they are told to come back at once. */
const MAX_WAITING = 5000;
/** Two groups at a time keep both the process and the database busy; a contract always goes to the same one. */
const LANES = 2;
/** Contracts that may be waited for at once, each with a connection of the pool: the others are asked for again. */
const MAX_PATIENT = 3;
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Counts use for many callers at once: those that arrive while a transaction is under way share the next one. Each gets
 * its own verdict, in the order of arrival, over the balances that the ones before it left; one caller's error is not
 * another's. What is due for renewal is answered alone.
 */
export function createConsume(
  connection: Connection,
  resources: Omit<Resources, "consume">,
): (ask: GroupedAsk) => Promise<FeatureAnswer> {
  const lane = (lockWaitMs: number): Lane =>
    createBatch((asks) => countTogether(connection, resources, asks, lockWaitMs), { maxAsks: 200, lanes: 1 });
  const lanes = Array.from({ length: LANES }, () => lane(0));
  /** Contracts that somebody else holds: each with a lane of its own that waits for the lock, while it has callers. */
  const patient = new Map<string, { lane: Lane; callers: number }>();
  const inPatience = async (key: string, ask: GroupedAsk): Promise<Verdict> => {
    const held = patient.get(key) ?? { lane: lane(PATIENCE_MS), callers: 0 };
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
        // Who comes while others wait for the same contract waits with them, in the order of arrival.
        let verdict: Verdict = patient.has(key) ? await inPatience(key, ask) : await usual(ask);
        if (verdict === "busy" && (patient.has(key) || patient.size < MAX_PATIENT))
          verdict = await inPatience(key, ask);
        if (verdict === "alone") return await evaluateAlone(contextOf(resources, ask), ask);
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

async function countTogether(
  connection: Connection,
  resources: Omit<Resources, "consume">,
  asks: readonly GroupedAsk[],
  lockWaitMs: number,
): Promise<(Verdict | Error)[]> {
  const now = resources.now();
  return consumeTogether(connection, { names: asks, now, lockWaitMs }, async (held) => {
    const prepared = new Map<string, Prepared | Failure>();
    const consumptions: Consumption[] = [];
    const events: Addressed[] = [];
    const result: (Verdict | Error)[] = [];
    for (const ask of asks) {
      const subject = held(ask);
      if (subject === "absent") result.push(contractNotFound(ask.userId));
      else if (subject === "busy") result.push("busy");
      else result.push(await decideOne(resources, ask, subject, prepared, { consumptions, events }, now));
    }
    return { result, consumptions, events };
  });
}

/** The verdict over one ask; its use is added to the balances that the next ask of the same contract finds. */
async function decideOne(
  resources: Omit<Resources, "consume">,
  ask: GroupedAsk,
  subject: Subject,
  prepared: Map<string, Prepared | Failure>,
  { consumptions, events }: { consumptions: Consumption[]; events: Addressed[] },
  now: Date,
): Promise<Verdict | Error> {
  try {
    if (needsRenewal(subject, now)) return "alone";
    let one = prepared.get(subject.contractId);
    if (one === undefined) {
      one = await prepare(resources, subject).catch((error: unknown) => {
        if (error instanceof Failure) return error;
        throw error;
      });
      prepared.set(subject.contractId, one);
    }
    if (one instanceof Failure) return one;
    const { result, counts } = decide(one, ask);
    const balances = one.usage;
    if (counts) {
      const operationId = newId(now);
      const involved = involvedLevels(one, ask);
      for (const { id, level } of involved) {
        consumptions.push({
          contractId: subject.contractId,
          serviceId: level.serviceId,
          limitName: level.limitName,
          amount: ask.expected[id] ?? 0,
          featureId: ask.featureId,
          operationId,
        });
      }
      const { organizationId } = ask;
      const reached = limitsReached(one, ask, result.limit, balances, (id) => result.used?.[id] ?? 0);
      for (const event of reached) events.push({ organizationId, event });
      for (const { id } of involved) balances.set(id, result.used?.[id] ?? 0);
    }
    return explained(one, result, ask, balances);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

/** The same in a transaction of its own, or in the caller's: renews what is due, waits for the contract's lock. */
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
    const reached = limitsReached(prepared, ask, result.limit, prepared.usage, (id) => used.get(id) ?? 0);
    const organizationId = evaluatedOrganization(ctx);
    await recordEvents(
      ctx.db,
      reached.map((event) => ({ organizationId, event })),
    );
    return explained(prepared, counted, ask, used);
  });
}

/** The context in which a grouped ask is answered alone. */
function contextOf(resources: Omit<Resources, "consume">, ask: GroupedAsk): Context {
  return {
    ...resources,
    caller: { kind: "key", keyId: "", organizationId: ask.organizationId, scope: "EVALUATION" },
  };
}
