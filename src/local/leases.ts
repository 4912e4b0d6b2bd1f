import type { LeaseAnswer } from "../client/back/leases.ts";
import { type HolderContext, type LeaseCalls, LeaseHolder } from "./lease-holder.ts";

/** Calls at once, over all leases. */
const MAX_CALLS = 32;
/** Time that `close` waits for the service to take back what is left. */
const CLOSING_MS = 5_000;
const CLOSING_CHECK_MS = 20;

/** Key of a holder among those of one user. */
const keyOf = (featureId: string, spender: string | undefined): string =>
  spender === undefined ? featureId : `${featureId}\0${spender}`;

/** The leases of this process, by user, feature and spender. */
export class HeldLeases {
  private readonly client = new Map<string, Map<string, LeaseHolder>>();
  private readonly server = new Map<string, Map<string, LeaseHolder>>();
  /** No longer spent from, but not settled. */
  private readonly leaving = new Set<LeaseHolder>();
  private readonly context: HolderContext;
  private callsInFlight = 0;
  private readonly turns: (() => void)[] = [];

  constructor(options: { calls: LeaseCalls; leaseMs: number; now(): number; onRefused(): void }) {
    this.context = { ...options, inTurn: (call) => this.inTurn(call) };
  }

  /** Number of leases that are spent from. */
  get size(): number {
    let size = 0;
    for (const holder of this.holders()) if (holder.isHolding) size += 1;
    return size;
  }

  /** Finds the lease of a user, or of one who spends. */
  find(userId: string, featureId: string, server: boolean, spender?: string): LeaseHolder | undefined {
    return (server ? this.server : this.client).get(userId)?.get(keyOf(featureId, spender));
  }

  findOrCreate(userId: string, featureId: string, server: boolean, spender?: string): LeaseHolder {
    const byUser = server ? this.server : this.client;
    let byFeature = byUser.get(userId);
    if (byFeature === undefined) byUser.set(userId, (byFeature = new Map()));
    const key = keyOf(featureId, spender);
    let holder = byFeature.get(key);
    if (holder === undefined) {
      byFeature.set(key, (holder = new LeaseHolder({ userId, featureId, server, spender }, this.context)));
    }
    return holder;
  }

  /** Does what time causes. To be called a few times per second. */
  maintain(): void {
    const now = this.context.now();
    for (const byUser of [this.client, this.server]) {
      for (const [userId, byFeature] of byUser) {
        for (const [key, holder] of byFeature) {
          holder.maintain();
          if (holder.isIdle(now)) byFeature.delete(key);
        }
        if (byFeature.size === 0) byUser.delete(userId);
      }
    }
    for (const holder of this.leaving) {
      holder.maintain();
      if (holder.isSettled) this.leaving.delete(holder);
    }
  }

  /** Stops spending from all leases, and ends them. */
  clear(): void {
    for (const holder of this.holders()) {
      this.leaving.add(holder);
      holder.stop();
    }
    this.client.clear();
    this.server.clear();
  }

  /** Ends all leases. Resolves when the service has answered, after 5 s at the latest. */
  async close(): Promise<void> {
    const closing = this.context.now() + CLOSING_MS;
    this.clear();
    for (;;) {
      this.maintain();
      if (this.leaving.size === 0 || this.context.now() >= closing) return;
      await new Promise((resolve) => setTimeout(resolve, CLOSING_CHECK_MS));
    }
  }

  private *holders(): Generator<LeaseHolder> {
    for (const byUser of [this.client, this.server]) {
      for (const byFeature of byUser.values()) yield* byFeature.values();
    }
  }

  private async inTurn(call: () => Promise<LeaseAnswer>): Promise<LeaseAnswer> {
    if (this.callsInFlight >= MAX_CALLS) await new Promise<void>((resolve) => this.turns.push(resolve));
    else this.callsInFlight += 1;
    try {
      return await call();
    } finally {
      const next = this.turns.shift();
      if (next === undefined) this.callsInFlight -= 1;
      else next();
    }
  }
}
