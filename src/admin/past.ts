import type { Contract } from "./answers.ts";

/** A contract as it was at a past moment, or the server's reason for not knowing it. */
export type PastAnswer = { contract: Contract } | { refusal: string };
/** Requests the contract with `at=<moment>`. */
export type ReadAt = (at: string) => Promise<PastAnswer>;

/** One state of a contract: its subscription, and when and why it began. */
export type RecordedState = Contract & { asOf: NonNullable<Contract["asOf"]> };

/** Some recorded states, newest first. */
export interface StatePage {
  states: RecordedState[];
  /** Moment from which the next page goes on; undefined when the record ends here. */
  earlier: string | undefined;
  /** The server's reason for knowing nothing earlier; undefined when the first state was reached. */
  refusal: string | undefined;
}

/** Limits the requests of one page, because each state costs one. */
export const STATES_PER_PAGE = 5;
/** Resolution of the Date header. */
export const SECOND_MS = 1000;
const FIRST_CAUSES: ReadonlySet<string> = new Set(["creation", "record"]);

async function readState(read: ReadAt, at: string): Promise<RecordedState | { refusal: string }> {
  const answer = await read(at);
  if ("refusal" in answer) return answer;
  const { contract } = answer;
  if (contract.asOf === undefined) throw new Error(`the answer about ${at} has no asOf`);
  return { ...contract, asOf: contract.asOf };
}

/**
 * Reads up to {@link STATES_PER_PAGE} recorded states from `from` backwards. With `isLatest`, `from` is only close to
 * the present, so states that began after it are read too.
 */
export async function readStates(read: ReadAt, from: string, isLatest: boolean): Promise<StatePage> {
  let state = await readState(read, from);
  for (let newer = isLatest ? STATES_PER_PAGE : 0; newer > 0; newer--) {
    if (!("asOf" in state) || state.asOf.until === null) break;
    state = await readState(read, state.asOf.until);
  }
  const states: RecordedState[] = [];
  while ("asOf" in state) {
    states.push(state);
    const { since, cause } = state.asOf;
    if (FIRST_CAUSES.has(cause)) return { states, earlier: undefined, refusal: undefined };
    const earlier = new Date(Date.parse(since) - 1).toISOString();
    if (states.length === STATES_PER_PAGE) return { states, earlier, refusal: undefined };
    state = await readState(read, earlier);
  }
  return { states, earlier: undefined, refusal: state.refusal };
}

/**
 * Returns a recent moment that is not in the server's future. The Date header has no fractions of a second; a billing
 * period that began within that second is closer to the present.
 */
export function recentMoment(dateHeader: string | null, contract: Contract): number {
  const second = Date.parse(dateHeader ?? "") || Date.now();
  const start = Date.parse(contract.billingPeriod.startDate);
  return start > second && start < second + SECOND_MS ? start : second;
}
