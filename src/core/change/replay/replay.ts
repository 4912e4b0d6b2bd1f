import type { CompiledPricing } from "../../pricing/compile.ts";
import type { Steps } from "../../steps.ts";
import { ContractReplay } from "./contract.ts";
import { SharedTerms } from "./entitled.ts";
import type { ContractRecord, Placement } from "./record.ts";
import { type ReplayPart, Tally } from "./tally.ts";

/** A replay of some contracts under one pricing. */
export interface ReplayInput {
  readonly serviceId: string;
  readonly target: CompiledPricing;
  /** Compiled pricings of other services, by hash. */
  readonly pricings: ReadonlyMap<string, CompiledPricing>;
  readonly placements: ReadonlyMap<string, Placement>;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** Number of most affected users to list. */
  readonly top: number;
  readonly records: Iterable<ContractRecord>;
}

/**
 * Replays what contracts counted in a range of time, as if the service had had the target pricing. Contracts come one by
 * one, so that memory holds one. Source: contract replay §2.
 */
export function* replaySteps(input: ReplayInput): Steps<ReplayPart> {
  const tally = new Tally(input);
  const shared = new SharedTerms();
  for (const record of input.records) {
    const { findings, close } = tally.open(record);
    yield* new ContractReplay(input, record, findings, shared).run();
    close();
    yield;
  }
  return tally.part;
}
