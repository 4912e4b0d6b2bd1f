import type { Connection, Database } from "../../../db/postgres/connect.ts";
import { retrySerializationFailures } from "../../../db/postgres/retry.ts";
import { countUnderLock, EndedMeanwhile } from "../../../db/queries/consumption.ts";
import type { Decision } from "../../../db/queries/decision.ts";
import type { ContractSnapshot } from "../../../db/queries/contract-snapshots.ts";
import type { Resources } from "../../context.ts";
import { LOCK_WAIT_MS } from "../contract-lock.ts";
import type { QueuedRequest } from "../request.ts";
import { decideInOrder, groupByContract } from "./decide-in-order.ts";
import { settlesOneOf, type Verdict, withoutContract } from "./optimistic.ts";

/**
 * Consumes after locking the contracts; waits up to `LOCK_WAIT_MS` for the locks. Verdicts have the order of the
 * requests; an Error fails its request only.
 */
export async function consumeLocked(
  connection: Connection,
  resources: Resources,
  requests: readonly QueuedRequest[],
): Promise<(Verdict | Error)[]> {
  const now = resources.now();
  const groups = groupByContract(requests);
  const decide = async (contracts: ReadonlyMap<string, ContractSnapshot>, db: Database) => {
    const verdicts = new Map<QueuedRequest, Verdict | Error>();
    const decisions: Decision[] = [];
    for (const group of groups) {
      const contract = contracts.get(group.key);
      if (contract === undefined) {
        for (const request of group.requests) verdicts.set(request, withoutContract(request));
        continue;
      }
      const decision = await decideInOrder({ db, resources }, contract, group, now);
      for (const [request, answer] of decision.answers) verdicts.set(request, answer);
      decisions.push(decision);
    }
    return { result: requests.map((request) => verdicts.get(request) ?? "needsOwnTransaction"), decisions };
  };
  const names = groups.map((group) => group.endUser);
  try {
    return await retrySerializationFailures(() =>
      countUnderLock(connection, { names, now, lockWaitMs: LOCK_WAIT_MS }, decide),
    );
  } catch (error) {
    if (!(error instanceof EndedMeanwhile)) throw error;
    return requests.map((request) => (settlesOneOf(request, error.ended) ? "needsOwnTransaction" : "busy"));
  }
}
