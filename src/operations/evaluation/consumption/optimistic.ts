import { chain } from "../../../core/maybe-promise.ts";
import type { Connection } from "../../../db/postgres/connect.ts";
import { retrySerializationFailures } from "../../../db/postgres/retry.ts";
import { countIfUnchanged, EndedMeanwhile, type Outcome } from "../../../db/queries/consumption.ts";
import type { SnapshotCache } from "../../../db/queries/snapshot-cache.ts";
import { contractNotFound } from "../../contract-address.ts";
import type { Resources } from "../../context.ts";
import type { FeatureAnswer, QueuedRequest, SettlementAnswer } from "../request.ts";
import { type ContractRequests, decideInOrder, groupByContract } from "./decide-in-order.ts";

/** Optimistic attempts per contract before the call blocks on the row lock. */
const ROUNDS = 2;
/**
 * Share of stale snapshots beyond which contracts are read first. One stale snapshot costs its whole batch two statements more,
 * and reading first costs one.
 */
const STALE_SHARE = 0.25;
/** Weight of one contract in the moving average of this share. */
const WEIGHT = 0.02;

/** Estimates the share of cached snapshots that are stale, because other processes count consumption of the same contracts. */
class Staleness {
  #share = 0;

  get isCommon(): boolean {
    return this.#share > STALE_SHARE;
  }

  record(isStale: boolean): void {
    this.#share += ((isStale ? 1 : 0) - this.#share) * WEIGHT;
  }
}

/**
 * An answer, or why there is none: the contract is locked or keeps changing, or is due for renewal, which takes a
 * transaction per request.
 */
export type Verdict = FeatureAnswer | SettlementAnswer | "busy" | "needsOwnTransaction";

/** True for a settlement of one of these holds. */
export const settlesOneOf = (request: QueuedRequest, holdIds: ReadonlySet<string>): boolean =>
  "amounts" in request && holdIds.has(request.hold.id);

/** Verdict of a request whose contract is not there. A hold is still there if its contract has moved to another organization. */
export const withoutContract = (request: QueuedRequest): Verdict | Error =>
  "amounts" in request ? "needsOwnTransaction" : contractNotFound(request.userId);

/**
 * Creates a function that decides on cached snapshots, and writes only where the contract is unchanged. The second round
 * rereads changed contracts. Where snapshots are often stale, the first round reads contracts too. Verdicts have the order
 * of the requests; an Error fails its request only.
 */
export function createConsumeOptimistically(
  connection: Connection,
  resources: Resources,
): (requests: readonly QueuedRequest[]) => Promise<(Verdict | Error)[]> {
  const staleness = new Staleness();
  const { cachedSnapshot, snapshot } = resources.snapshots;
  const readCurrent: SnapshotCache["snapshot"] = (name) => {
    const cached = cachedSnapshot(name);
    if (cached instanceof Promise) return cached;
    return chain(snapshot(name), (current) => {
      staleness.record(current !== cached);
      return current;
    });
  };
  return async (requests) => {
    const verdicts = new Map<QueuedRequest, Verdict | Error>();
    const attempt = { connection, resources, verdicts, now: resources.now() };
    let open = groupByContract(requests);
    for (let round = 0; round < ROUNDS && open.length > 0; round += 1) {
      const decidesOnCached = round === 0 && !staleness.isCommon;
      try {
        const changed = await consumeRound(open, decidesOnCached ? cachedSnapshot : readCurrent, attempt);
        // The next round reads the changed ones, and records them.
        if (decidesOnCached) for (let i = changed.length; i < open.length; i += 1) staleness.record(false);
        open = changed;
      } catch (error) {
        // The earlier round has committed: only calls still in flight receive this error.
        if (round === 0 || !(error instanceof Error)) throw error;
        for (const request of open.flatMap((group) => group.requests)) verdicts.set(request, error);
        open = [];
      }
    }
    return requests.map((request) => verdicts.get(request) ?? "busy");
  };
}

/** Adds the verdicts of unchanged contracts, and returns the requests whose contracts have changed since the read. */
async function consumeRound(
  groups: readonly ContractRequests[],
  read: SnapshotCache["cachedSnapshot"],
  attempt: {
    connection: Connection;
    resources: Resources;
    verdicts: Map<QueuedRequest, Verdict | Error>;
    now: Date;
  },
): Promise<ContractRequests[]> {
  const { connection, resources, verdicts, now } = attempt;
  const decisions = await Promise.all(
    groups.map(async (group) => {
      const contract = await read(group.endUser);
      if (contract !== null) return decideInOrder({ db: resources.db, resources }, contract, group, now);
      for (const request of group.requests) verdicts.set(request, withoutContract(request));
      return undefined;
    }),
  );
  const decided = decisions.filter((decision) => decision !== undefined);
  let outcomes: Outcome[];
  try {
    outcomes = await retrySerializationFailures(() => countIfUnchanged(connection, decided, now));
  } catch (error) {
    if (!(error instanceof EndedMeanwhile)) throw error;
    return groups.map((group) => ({ ...group, requests: withoutEnded(group.requests, error.ended, verdicts) }));
  }
  const changed: ContractRequests[] = [];
  for (const [i, { group, contract, answers, takes, snapshotAfter }] of decided.entries()) {
    const outcome = outcomes[i];
    const isCounted = outcome?.kind === "counted";
    const after = isCounted ? snapshotAfter(outcome.version) : undefined;
    // A changed contract is read again next, which reads only its balances if the rest of it is cached.
    if (outcome?.kind !== "changed") resources.snapshots.replaceCached(group.endUser, contract, after);
    if (isCounted) {
      for (const [request, answer] of answers) verdicts.set(request, answer);
      for (const taken of takes) resources.snapshots.keepHold(taken, group.endUser.userId, contract);
    }
    if (outcome?.kind === "changed") changed.push(group);
  }
  return changed;
}

/** Returns the requests but settlements of holds that have ended, which a transaction of their own answers. */
function withoutEnded(
  requests: readonly QueuedRequest[],
  ended: ReadonlySet<string>,
  verdicts: Map<QueuedRequest, Verdict | Error>,
): QueuedRequest[] {
  return requests.filter((request) => {
    if (!settlesOneOf(request, ended)) return true;
    verdicts.set(request, "needsOwnTransaction");
    return false;
  });
}
