import type { Consumption, Decision } from "../../../db/queries/consumption.ts";
import {
  type ContractSnapshot,
  endUserKey,
  type EndUserName,
  type Level,
} from "../../../db/queries/contract-snapshots.ts";
import type { Addressed } from "../../../db/queries/outbox.ts";
import { newId, type Resources } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { decide, explained, involvedLevels, limitsReached } from "../decision.ts";
import { needsRenewal, prepare, type Prepared } from "../prepare.ts";
import type { FeatureAnswer, QueuedEvaluation } from "../request.ts";

/** The requests of one batch for one contract. */
export interface ContractRequests {
  key: string;
  endUser: EndUserName;
  /** In order of arrival. */
  requests: QueuedEvaluation[];
}

export function groupByContract(requests: readonly QueuedEvaluation[]): ContractRequests[] {
  const groups = new Map<string, ContractRequests>();
  for (const request of requests) {
    const key = endUserKey(request);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { key, endUser: request, requests: [request] });
    else group.requests.push(request);
  }
  return [...groups.values()];
}

/** The answers to all requests for one contract, and what to write for them. */
interface OrderedDecision extends Decision {
  answers: Map<QueuedEvaluation, FeatureAnswer | "needsOwnTransaction" | Error>;
  /** The snapshot after this consumption; undefined if it cannot be computed exactly. */
  snapshotAfter(version: string): ContractSnapshot | undefined;
}

/** Collects what the granted requests of one contract write, in order. */
interface Writes {
  consumptions: Consumption[];
  events: Addressed[];
  /** The balance after the last request, by level. */
  balances: Map<Level, number>;
}

/** Decides the requests for one contract in order of arrival. Each sees the balances that earlier ones left. */
export async function decideInOrder(
  resources: Resources,
  contract: ContractSnapshot,
  requests: readonly QueuedEvaluation[],
  now: Date,
): Promise<OrderedDecision> {
  const writes: Writes = { consumptions: [], events: [], balances: new Map() };
  const prepared = await prepareUnlessDue(resources, contract, now);
  const answers: OrderedDecision["answers"] = new Map();
  for (const request of requests) {
    const isPrepared = prepared !== "needsOwnTransaction" && !(prepared instanceof Failure);
    answers.set(request, isPrepared ? decideNext(prepared, request, writes, now) : prepared);
  }
  const { consumptions, events, balances } = writes;
  return {
    contract,
    answers,
    consumptions,
    events,
    snapshotAfter: (version) => {
      // Integer sums match the database's. Fractional sums may differ in double precision.
      if (![...balances.values()].every(Number.isSafeInteger)) return undefined;
      const levels = contract.levels.map((level) => {
        const consumed = balances.get(level);
        return consumed === undefined ? level : { ...level, consumed, version };
      });
      return { ...contract, levels };
    },
  };
}

/** Returns a Failure that applies to each request, such as an expired contract. */
async function prepareUnlessDue(
  resources: Resources,
  contract: ContractSnapshot,
  now: Date,
): Promise<Prepared | "needsOwnTransaction" | Failure> {
  try {
    if (needsRenewal(contract, now)) return "needsOwnTransaction";
    return await prepare({ db: resources.db, resources }, contract, now);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return error;
  }
}

/** Decides one request, and adds its consumption to the balances that the next request sees. */
function decideNext(prepared: Prepared, request: QueuedEvaluation, writes: Writes, now: Date): FeatureAnswer {
  const { result, counts } = decide(prepared, request);
  const { contract, usage } = prepared;
  if (counts) {
    const operationId = newId(now);
    const involved = involvedLevels(prepared, request);
    const { contractId } = contract;
    const { organizationId, featureId, expected } = request;
    const reached = limitsReached(prepared, request, involved, result);
    for (const event of reached) writes.events.push({ organizationId, event });
    for (const { id, level } of involved) {
      const { serviceId, limitName } = level;
      const balance = result.used?.[id] ?? 0;
      writes.consumptions.push({
        contractId,
        serviceId,
        limitName,
        amount: expected[id] ?? 0,
        featureId,
        operationId,
      });
      writes.balances.set(level, balance);
      usage.set(id, balance);
    }
  }
  return explained(prepared, result, request, usage);
}
