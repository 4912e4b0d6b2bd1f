import type { Answers } from "./answers.ts";
import { type Asked, entryKey } from "./entry-key.ts";

/** The cached facts that decide about one end user. Moments are of `performance.now()`. */
export interface Entry extends Asked {
  readonly contractId: string | null;
  readonly version: string | null;
  /** ISO 8601, by the service's clock; null: forever. */
  readonly validUntil: string | null;
  readonly refusal: { readonly status: number; readonly error: string } | null;
  readonly answers: Answers;
  /** When it was requested. */
  askedAt: number;
  /** When it was last known to be true. A stream may prove a later moment. */
  knownAt: number;
  /** Time alone may change it after this. */
  expiresAt: number;
  /** A change of its contract was received: to be requested before it answers. */
  isVoid: boolean;
  /** Set by answers, for eviction. */
  isUsed: boolean;
}

/** Entries by `entryKey`, at most `max`. Evicts those who have not been asked about for the longest time. */
export class Entries {
  private readonly byKey = new Map<string, Entry>();
  /** Several, where members spend. */
  private readonly byContract = new Map<string, Set<Entry>>();
  private readonly max: number;

  constructor(max: number) {
    this.max = max;
  }

  get size(): number {
    return this.byKey.size;
  }

  get(key: string): Entry | undefined {
    return this.byKey.get(key);
  }

  ofContract(contractId: string): Iterable<Entry> {
    return this.byContract.get(contractId) ?? [];
  }

  values(): IterableIterator<Entry> {
    return this.byKey.values();
  }

  put(entry: Entry): void {
    const key = entryKey(entry);
    this.remove(key);
    while (this.byKey.size >= this.max) this.evict();
    this.byKey.set(key, entry);
    if (entry.contractId === null) return;
    const ofContract = this.byContract.get(entry.contractId);
    if (ofContract === undefined) this.byContract.set(entry.contractId, new Set([entry]));
    else ofContract.add(entry);
  }

  clear(): void {
    this.byKey.clear();
    this.byContract.clear();
  }

  private remove(key: string): void {
    const entry = this.byKey.get(key);
    if (entry === undefined) return;
    this.byKey.delete(key);
    const ofContract = entry.contractId === null ? undefined : this.byContract.get(entry.contractId);
    ofContract?.delete(entry);
    if (entry.contractId !== null && ofContract?.size === 0) this.byContract.delete(entry.contractId);
  }

  /** Second chance: one that was used since its last turn goes to the end. */
  private evict(): void {
    for (const [key, entry] of this.byKey) {
      if (!entry.isUsed) return this.remove(key);
      entry.isUsed = false;
      this.byKey.delete(key);
      this.byKey.set(key, entry);
    }
  }
}
