import type { Answers } from "./answers.ts";

/** The cached facts that decide about one end user. Moments are of `performance.now()`. */
export interface Entry {
  readonly userId: string;
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

/** Entries by user, of at most `max` users. Evicts users who have not been asked about for the longest time. */
export class Entries {
  private readonly byUser = new Map<string, Entry>();
  private readonly byContract = new Map<string, Entry>();
  private readonly max: number;

  constructor(max: number) {
    this.max = max;
  }

  get size(): number {
    return this.byUser.size;
  }

  get(userId: string): Entry | undefined {
    return this.byUser.get(userId);
  }

  ofContract(contractId: string): Entry | undefined {
    return this.byContract.get(contractId);
  }

  values(): IterableIterator<Entry> {
    return this.byUser.values();
  }

  put(entry: Entry): void {
    this.remove(entry.userId);
    while (this.byUser.size >= this.max) this.evict();
    this.byUser.set(entry.userId, entry);
    if (entry.contractId !== null) this.byContract.set(entry.contractId, entry);
  }

  clear(): void {
    this.byUser.clear();
    this.byContract.clear();
  }

  private remove(userId: string): void {
    const entry = this.byUser.get(userId);
    if (entry === undefined) return;
    this.byUser.delete(userId);
    if (entry.contractId !== null) this.byContract.delete(entry.contractId);
  }

  /** Second chance: one that was used since its last turn goes to the end. */
  private evict(): void {
    for (const entry of this.byUser.values()) {
      if (!entry.isUsed) return this.remove(entry.userId);
      entry.isUsed = false;
      this.byUser.delete(entry.userId);
      this.byUser.set(entry.userId, entry);
    }
  }
}
