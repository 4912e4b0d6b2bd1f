import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { LeaseAnswer } from "../../src/client/back/leases.ts";
import { ServiceRequestError } from "../../src/client/service-request-error.ts";
import type { LeaseTerms } from "../../src/local/lease.ts";
import type { LeaseCalls } from "../../src/local/lease-holder.ts";
import { HeldLeases } from "../../src/local/leases.ts";
import { LIMIT_ID, type ReferenceCall, ReferenceService } from "./reference-service.ts";
import "../support/property-seed.ts";

/*
 * Leases of several processes run against a reference of contract tokens-and-leases §6. Calls are delayed, lost and repeated
 * in any order, and processes stop and die. Source: §8, "Never more than the limit", "Nothing lost".
 */

const LIMIT = 50;
const LEASE_MS = 5_000;
const PROCESSES = 3;

const isOn = (usage: ReadonlyMap<string, number>) => (usage.get(LIMIT_ID) ?? NaN) < LIMIT;
const termsOf = (version: number): LeaseTerms => ({
  version: `v${version}`,
  feature: { limitIds: [LIMIT_ID], limit: { [LIMIT_ID]: LIMIT }, isOn },
});

/** A call on its way: to the service, or back. */
interface Message {
  readonly process: Process;
  readonly call: ReferenceCall;
  answer?: { value: LeaseAnswer } | { error: unknown };
  settle(outcome: { value: LeaseAnswer } | { error: unknown }): void;
}

class Process {
  readonly number: number;
  readonly leases: HeldLeases;
  state: "running" | "frozen" | "killed" = "running";
  spent = 0;
  version = 1;
  private readonly world: World;

  constructor(number: number, world: World) {
    this.number = number;
    this.world = world;
    // Clocks of processes have nothing to do with each other, or with that of the service.
    const offset = number * 1_234_567 - 3_000_000;
    this.leases = new HeldLeases({
      calls: this.calls(),
      leaseMs: LEASE_MS,
      now: () => world.service.now + offset,
      onRefused: () => {},
    });
  }

  /** Spends once, at once or when the service has answered. Spends that are not for a lease are dropped. */
  spend(amount: number): void {
    if (this.state !== "running") return;
    const consumption = { [LIMIT_ID]: amount };
    const terms = termsOf(this.version);
    const holder = this.leases.findOrCreate("ada", "meter-call", false);
    const now = this.clock();
    const lease = holder.spend(consumption, terms.version, now);
    if (lease !== undefined) {
      const known = this.world.service.leases.get(lease.id);
      expect(this.world.service.now, "a spend is in time by the clock of the service").toBeLessThan(known?.until ?? 0);
      this.spent += amount;
      return;
    }
    holder.isHot(now);
    const { version } = this;
    const waited = holder.wait({ consumption, terms, isCurrent: () => version === this.version });
    void waited.then((outcome) => {
      if (this.state === "killed" || typeof outcome === "string" || !outcome.eval) return;
      const { service } = this.world;
      const leases = [...service.leases.values()].filter(({ holder }) => holder === this.number);
      expect(Math.max(...leases.map(({ until }) => until)), "a spend that waited is in time").toBeGreaterThan(
        service.now,
      );
      this.spent += amount;
    });
  }

  private clock(): number {
    return this.world.service.now + this.number * 1_234_567 - 3_000_000;
  }

  private calls(): LeaseCalls {
    const duration = (text: string | undefined) => text && Number(/^PT([\d.]+)S$/.exec(text)?.[1]) * 1000;
    return {
      open: (_user, _feature, input, { idempotencyKey: key = "" } = {}) =>
        this.world.send(this, {
          kind: "open",
          holder: this.number,
          key,
          amounts: input.amounts,
          forMs: duration(input.for) || 0,
        }),
      report: (id, { spent, amounts, for: text }) =>
        this.world.send(this, { kind: "report", id, spent, amounts, forMs: duration(text) || undefined }),
    };
  }
}

/** Several processes, the reference, and the messages between them. */
class World {
  readonly service = new ReferenceService(LIMIT, Date.parse("2026-03-10T09:00:00Z"));
  readonly processes = Array.from({ length: PROCESSES }, (_, number) => new Process(number, this));
  readonly messages: Message[] = [];
  /** Copies of calls that arrive whenever. Nobody reads their answers. */
  readonly copies: ReferenceCall[] = [];

  send(process: Process, call: ReferenceCall): Promise<LeaseAnswer> {
    return new Promise((resolve, reject) => {
      const settle: Message["settle"] = (outcome) =>
        "value" in outcome ? resolve(outcome.value) : reject(outcome.error);
      this.messages.push({ process, call, settle });
    });
  }

  call(call: ReferenceCall): { value: LeaseAnswer } | { error: unknown } {
    try {
      return { value: this.service.call(call) };
    } catch (error) {
      return { error };
    }
  }

  /** Moves a message to the service, or back to its process. */
  deliver(message: Message): void {
    if (message.answer === undefined) {
      message.answer = this.call(message.call);
      return;
    }
    if (message.process.state === "frozen") return;
    this.drop(message);
    if (message.process.state === "running") message.settle(message.answer);
  }

  /** The connection breaks. The process never learns whether the call arrived. */
  lose(message: Message, arrivesLater: boolean): void {
    if (message.answer === undefined && arrivesLater) this.copies.push(message.call);
    message.answer = { error: new ServiceRequestError("NETWORK", "The connection broke") };
    this.deliver(message);
  }

  advance(milliseconds: number): void {
    this.service.advance(milliseconds);
    for (const { state, leases } of this.processes) if (state === "running") leases.maintain();
  }

  checkLimit(): void {
    expect(this.service.usage, "consumed and held").toBeLessThanOrEqual(LIMIT);
    for (const process of this.processes) {
      expect(process.spent, "spent of what was granted").toBeLessThanOrEqual(this.grantedTo(process));
    }
  }

  /** Lets everything be answered, and every lease end. */
  async finish(): Promise<void> {
    for (const copy of this.copies.splice(0)) this.call(copy);
    for (const process of this.processes) if (process.state === "frozen") process.state = "running";
    for (const { state, leases } of this.processes) if (state === "running") leases.clear();
    for (let round = 0; round < 20; round += 1) {
      while (this.messages.length > 0) {
        for (const message of this.messages.slice()) this.deliver(message);
        await settled();
        this.checkLimit();
      }
      this.advance(LEASE_MS);
      await settled();
    }
  }

  consumedBy(process: Process): number {
    return this.sum(process, (lease) => this.service.consumedBy(lease));
  }

  private grantedTo(process: Process): number {
    return this.sum(process, (lease) => lease.granted);
  }

  private sum(process: Process, of: (lease: Parameters<ReferenceService["consumedBy"]>[0]) => number): number {
    const leases = [...this.service.leases.values()].filter(({ holder }) => holder === process.number);
    return leases.reduce((all, lease) => all + of(lease), 0);
  }

  private drop(message: Message): void {
    this.messages.splice(this.messages.indexOf(message), 1);
  }
}

/** Everything that promises cause has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

const number = fc.nat({ max: PROCESSES - 1 });
const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ kind: fc.constant("spend"), number, amount: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 12, arbitrary: fc.record({ kind: fc.constant("deliver"), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("lose"), which: fc.nat(), arrivesLater: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("repeat"), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("arrive"), which: fc.nat() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("advance"), by: fc.constantFrom(1, 50, 400, 2_500, 6_000) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("freeze"), number }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("thaw"), number }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("kill"), number }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("change"), number }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("others"), amount: fc.integer({ min: 1, max: 20 }) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function take(world: World, step: Step): void {
  const of = <T>(list: readonly T[], which: number): T | undefined => list[which % list.length];
  const process = "number" in step ? world.processes[step.number] : undefined;
  const message = "which" in step ? of(world.messages, step.which) : undefined;
  if (process?.state === "killed") return;
  if ("by" in step) world.advance(step.by);
  else if (step.kind === "others") world.service.consume("amount" in step ? step.amount : 0);
  else if (step.kind === "arrive" && "which" in step) {
    const copy = of(world.copies, step.which);
    if (copy !== undefined) world.call(world.copies.splice(world.copies.indexOf(copy), 1)[0] ?? copy);
  } else if (message !== undefined && step.kind === "deliver") world.deliver(message);
  else if (message !== undefined && "arrivesLater" in step) world.lose(message, step.arrivesLater);
  else if (message !== undefined && step.kind === "repeat") world.copies.push(message.call);
  else if (process === undefined) return;
  else if (step.kind === "spend" && "amount" in step) process.spend(step.amount);
  else if (step.kind === "freeze") process.state = "frozen";
  else if (step.kind === "thaw") process.state = "running";
  else if (step.kind === "kill") process.state = "killed";
  else if (step.kind === "change") process.version += 1;
}

test("no limit is passed, and afterwards everything is accounted for, whatever is lost, repeated, stopped or killed", async () => {
  const seen = { fromMemory: 0, expired: 0, killedWithRest: 0, full: 0 };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 160 }), async (steps) => {
      const world = new World();
      for (const each of steps) {
        const before = world.processes.reduce((all, { spent }) => all + spent, 0);
        take(world, each);
        if (world.processes.reduce((all, { spent }) => all + spent, 0) > before) seen.fromMemory += 1;
        await settled();
        world.checkLimit();
      }
      if (world.service.usage === LIMIT) seen.full += 1;
      await world.finish();
      let consumed = world.service.consumedByOthers;
      for (const process of world.processes) {
        const counted = world.consumedBy(process);
        if (process.state === "running") expect(counted, "what a process spent is counted").toBe(process.spent);
        else expect(counted).toBeGreaterThanOrEqual(process.spent);
        if (process.state === "killed" && counted > process.spent) seen.killedWithRest += 1;
        consumed += counted;
      }
      expect(world.service.usage).toBe(consumed);
      for (const { state } of world.service.leases.values()) {
        expect(state).not.toBe("open");
        if (state === "expired") seen.expired += 1;
      }
    }),
    { numRuns: Number(process.env["LEASE_RUNS"] ?? 200) },
  );
  for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(0);
});
