import { ServiceRequestError } from "../../src/client/service-request-error.ts";
import type { LeaseAnswer } from "../../src/client/back/leases.ts";

/** The limit that the reference counts, and the feature that reads it. */
export const LIMIT_ID = "meter-calls";

interface ReferenceLease {
  readonly id: string;
  readonly holder: number;
  granted: number;
  spent: number;
  until: number;
  state: "open" | "ended" | "expired";
}

type Amounts = Readonly<Record<string, number>>;
export type ReferenceCall =
  | { kind: "open"; holder: number; key: string; amounts: Amounts; forMs: number }
  | { kind: "report"; id: string; spent: Amounts; amounts: Amounts | undefined; forMs: number | undefined };

/** The rules of contract tokens-and-leases §6 for one limit of one contract, one call at a time. */
export class ReferenceService {
  now: number;
  /** Consumed by others than leases. */
  consumedByOthers = 0;
  readonly leases = new Map<string, ReferenceLease>();
  private readonly answers = new Map<string, LeaseAnswer>();
  private readonly limit: number;

  constructor(limit: number, now: number) {
    this.limit = limit;
    this.now = now;
  }

  /** Usage that a lease causes, consumed or held. */
  consumedBy({ state, spent, granted }: ReferenceLease): number {
    return state === "ended" ? spent : granted;
  }

  get usage(): number {
    let usage = this.consumedByOthers;
    for (const lease of this.leases.values()) usage += this.consumedBy(lease);
    return usage;
  }

  /** A strict call of somebody else. */
  consume(amount: number): void {
    if (this.usage + amount <= this.limit) this.consumedByOthers += amount;
  }

  advance(milliseconds: number): void {
    this.now += milliseconds;
    for (const lease of this.leases.values()) {
      if (lease.state === "open" && lease.until <= this.now) lease.state = "expired";
    }
  }

  /** @throws ServiceRequestError with status 404 or 409. */
  call(call: ReferenceCall): LeaseAnswer {
    if (call.kind === "report") return this.report(call);
    const known = this.answers.get(call.key);
    const answer = known ?? this.open(call);
    this.answers.set(call.key, answer);
    return answer;
  }

  private open({ holder, amounts, forMs }: ReferenceCall & { kind: "open" }): LeaseAnswer {
    const available = this.limit - this.usage;
    if (available <= 0) return this.answer(undefined, false);
    const granted = Math.min(amounts[LIMIT_ID] ?? 0, available);
    const id = `lease-${this.leases.size + 1}`;
    const lease: ReferenceLease = { id, holder, granted, spent: 0, until: this.now + forMs, state: "open" };
    this.leases.set(id, lease);
    return this.answer(lease, true);
  }

  private report({ id, spent, amounts, forMs }: ReferenceCall & { kind: "report" }): LeaseAnswer {
    const lease = this.leases.get(id);
    if (lease === undefined) throw failure(404, `Lease ${id} not found`);
    const total = spent[LIMIT_ID] ?? 0;
    const wanted = amounts?.[LIMIT_ID] ?? lease.granted - total;
    if (lease.state !== "open" && wanted > 0) throw failure(409, `CONFLICT: Lease ${id} ended`);
    if (total > lease.granted) throw failure(409, `CONFLICT: Lease ${id} was granted ${lease.granted}`);
    if (total < lease.spent) throw failure(409, `CONFLICT: Lease ${id} has ${lease.spent} reported already`);
    if (lease.state === "ended") return this.answer(lease, true);
    lease.spent = total;
    if (wanted === 0) {
      lease.state = "ended";
      lease.until = Math.min(lease.until, this.now);
      lease.granted = total;
      return this.answer(lease, true);
    }
    const isOn = this.usage - (lease.granted - lease.spent) < this.limit;
    if (isOn) {
      const missing = Math.max(0, wanted - (lease.granted - lease.spent));
      lease.granted += Math.min(missing, Math.max(0, this.limit - this.usage));
      if (forMs !== undefined) lease.until = this.now + forMs;
    }
    return this.answer(lease, isOn);
  }

  private answer(lease: ReferenceLease | undefined, isOn: boolean): LeaseAnswer {
    const { usage } = this;
    const used = usage - (lease === undefined ? 0 : this.consumedBy(lease));
    return {
      eval: isOn,
      limit: { [LIMIT_ID]: this.limit },
      used: { [LIMIT_ID]: used },
      error: null,
      remaining: { [LIMIT_ID]: this.limit - usage },
      resetAt: { [LIMIT_ID]: null },
      now: new Date(this.now).toISOString(),
      lease:
        lease === undefined
          ? null
          : {
              id: lease.id,
              userId: "ada",
              featureId: "meter-call",
              server: false,
              state: lease.state === "open" ? "open" : "ended",
              granted: { [LIMIT_ID]: lease.granted },
              spent: { [LIMIT_ID]: lease.spent },
              until: new Date(lease.until).toISOString(),
            },
    };
  }
}

const failure = (status: number, error: string) => new ServiceRequestError("HTTP", error, { status, body: { error } });
