import type { Caller } from "../../../core/access/caller.ts";
import { createBatch } from "../../../db/postgres/batch.ts";
import { type Connection, shareOfPool } from "../../../db/postgres/connect.ts";
import { endUserKey } from "../../../db/queries/contract-snapshots.ts";
import { contextOf, type Resources } from "../../context.ts";
import { isLockTimeout, LOCK_WAIT_MS, tooBusy } from "../contract-lock.ts";
import type { AnswerTo, QueuedRequest } from "../request.ts";
import { consumeLocked } from "./locked.ts";
import { createConsumeOptimistically, type Verdict } from "./optimistic.ts";
import { consumeSerially, settleSerially } from "./serial.ts";

/*
 * The states of a request that consumes, takes a hold or settles one:
 *
 *   state       | when                                              | next state
 *   ------------+---------------------------------------------------+------------------------------------------
 *   queued      | the contract has lock waiters                     | waiting
 *               | otherwise                                         | optimistic
 *   optimistic  | the contract was unchanged                        | answered
 *               | the contract, a balance or a hold is due          | serial
 *               | too many holds are open, or the hold has changed  | serial
 *               | the contract was locked, or changed in each round | waiting; paused if no waiter slot is free
 *   waiting     | the lock was acquired                             | answered
 *               | a balance or the contract is due for renewal      | serial
 *               | the lock was not acquired within LOCK_WAIT_MS     | failed: unavailable
 *   paused      | after 1 ms, doubling up to 50 ms                  | queued
 *               | after LOCK_WAIT_MS in total                       | failed: unavailable
 *   serial      | the request's own transaction has committed       | answered
 *
 * optimistic.ts, locked.ts (waiting) and serial.ts each implement one state.
 */

/** Calls that may wait in one process. Further calls are rejected immediately. */
const MAX_QUEUED = 5000;
/** Share of the pool for contracts that block on a row lock, of which each pins a connection. The rest are retried. */
const LOCK_WAITERS_SHARE = 1 / 3;
const MAX_PAUSE_MS = 50;

type Queue = (request: QueuedRequest) => Promise<Verdict>;

/**
 * Batches consumption: calls that arrive during a transaction share the next one. Each call gets its own verdict in
 * order of arrival, over the balances that earlier calls left. One call's error does not affect another's. Contracts
 * due for renewal get their own transaction.
 */
export function createConsume(connection: Connection, resources: Resources): Resources["consume"] {
  // One batch at a time: of two halves, each costs nearly as much as the whole, and a contract could be in both.
  const createQueue = (consume: ReturnType<typeof createConsumeOptimistically>): Queue =>
    createBatch(consume, { maxBatchSize: 200, concurrency: 1 });
  const optimistic = createQueue(createConsumeOptimistically(connection, resources));
  const maxLockWaiters = shareOfPool(connection.client.options.max, LOCK_WAITERS_SHARE);
  /** By contract: a queue of its own, which exists while requests wait for the contract's lock. */
  const lockWaiters = new Map<string, { queue: Queue; requests: number }>();

  const waitForLock = async (key: string, request: QueuedRequest): Promise<Verdict> => {
    const waiter = lockWaiters.get(key) ?? {
      queue: createQueue((requests) => consumeLocked(connection, resources, requests)),
      requests: 0,
    };
    lockWaiters.set(key, waiter);
    waiter.requests += 1;
    try {
      return await waiter.queue(request);
    } catch (error) {
      throw isLockTimeout(error) ? tooBusy() : error;
    } finally {
      waiter.requests -= 1;
      if (waiter.requests === 0) lockWaiters.delete(key);
    }
  };

  const attempt = async (key: string, request: QueuedRequest): Promise<Verdict> => {
    // Joins the existing lock waiters of this contract, to preserve the order of arrival.
    if (lockWaiters.has(key)) return waitForLock(key, request);
    const verdict = await optimistic(request);
    const mayWait = lockWaiters.has(key) || lockWaiters.size < maxLockWaiters;
    return verdict === "busy" && mayWait ? waitForLock(key, request) : verdict;
  };

  let queued = 0;
  const consume = async (request: QueuedRequest): Promise<AnswerTo<QueuedRequest>> => {
    if (queued >= MAX_QUEUED) throw tooBusy();
    queued += 1;
    try {
      const key = endUserKey(request);
      const deadline = Date.now() + LOCK_WAIT_MS;
      for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
        const verdict = await attempt(key, request);
        if (verdict === "needsOwnTransaction") {
          const ctx = contextOf(resources, callerOf(request));
          return await ("amounts" in request ? settleSerially(ctx, request) : consumeSerially(ctx, request));
        }
        if (verdict !== "busy") return verdict;
        if (Date.now() > deadline) throw tooBusy();
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    } finally {
      queued -= 1;
    }
  };
  // The answer is the one to this request.
  return consume as Resources["consume"];
}

/** The caller for a batched request that is evaluated in its own transaction. */
function callerOf({ organizationId }: QueuedRequest): Caller {
  return { kind: "key", keyId: "", organizationId, scope: "EVALUATION" };
}
