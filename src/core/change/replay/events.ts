import type { ReplayedBlock } from "./balances.ts";
import type { ContractRecord, RecordedBlock, RecordedHold, RecordedTerms } from "./record.ts";

/** A change of a contract at a moment, other than a call. */
export interface ContractEvent {
  readonly at: number;
  readonly run: () => void;
}

/** Applies changes of a contract. */
interface EventHandlers {
  enter(terms: RecordedTerms, since: number): void;
  addBlock(block: ReplayedBlock): void;
  revokeBlock(id: string, at: Date): void;
  /** `isEarlier`: the hold was taken before the range. */
  takeHold(hold: RecordedHold, isEarlier: boolean): void;
  releaseHold(id: string): void;
}

function blockOf(recorded: RecordedBlock): ReplayedBlock {
  const { kept = 0, revokedAt: _, ...block } = recorded;
  return {
    ...block,
    kept,
    from: new Date(block.from),
    createdAt: new Date(block.createdAt),
    expiresAt: block.expiresAt === null ? null : new Date(block.expiresAt),
    resetsLeft: null,
  };
}

/** Lists events other than calls, in order; of one moment, terms come first. */
export function eventsOf(
  { terms, blocks, holds }: ContractRecord,
  { from, to }: { from: number; to: number },
  handlers: EventHandlers,
): ContractEvent[] {
  const events: ContractEvent[] = [];
  for (const [index, each] of terms.entries()) {
    const isFirst = index === 0 && each.since <= from;
    const since = isFirst ? from : each.since;
    events.push({ at: isFirst ? -Infinity : each.since, run: () => handlers.enter(each, since) });
  }
  for (const block of blocks) {
    const { id, createdAt, revokedAt } = block;
    events.push({ at: Math.max(createdAt, from), run: () => handlers.addBlock(blockOf(block)) });
    if (revokedAt !== null && revokedAt < to)
      events.push({ at: revokedAt, run: () => handlers.revokeBlock(id, new Date(revokedAt)) });
  }
  for (const hold of holds) {
    const { id, createdAt, endedAt } = hold;
    events.push({ at: Math.max(createdAt, from), run: () => handlers.takeHold(hold, createdAt < from) });
    if (endedAt < to) events.push({ at: endedAt, run: () => handlers.releaseHold(id) });
  }
  return events.toSorted((one, other) => one.at - other.at);
}
