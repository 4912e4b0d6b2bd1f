import * as fc from "fast-check";
import { expect, test } from "vitest";
import { calls, DAY, LIMIT, type MeteredReference, START, useMeteredModel } from "../support/metered-model.ts";

/*
 * Calls in random order open, report and end leases. They come in time, late and again, beside holds, strict consumption,
 * reverts and resets.
 */

const SECOND = 1000;
const REVERTIBLE = 120 * SECOND;
const iso = (moment: number) => new Date(moment).toISOString();

interface Report {
  spent: number;
  amount: number | undefined;
  duration: Duration | undefined;
}
interface Lease {
  granted: number;
  spent: number;
  until: number;
  state: "open" | "ended" | "expired";
  /** Consumption that its expiry counted. */
  expiry: Movement | undefined;
  reports: Report[];
}
interface Hold {
  amount: number;
  until: number;
  isOpen: boolean;
}
/** Consumption that can be reverted. */
interface Movement {
  amount: number;
  at: number;
}
type Expected = [status: number, answer?: object];

/** The reference: usage is what is consumed, and what open holds and leases hold. */
class Reference implements MeteredReference {
  now = START;
  consumed = 0;
  resetAt = START + DAY;
  leases: Lease[] = [];
  holds: Hold[] = [];
  /** By operation, the newest last. */
  movements: Movement[] = [];

  get held(): number {
    const holds = this.holds.reduce((sum, hold) => sum + (hold.isOpen ? hold.amount : 0), 0);
    return this.leases.reduce(
      (sum, { state, granted, spent }) => sum + (state === "open" ? granted - spent : 0),
      holds,
    );
  }
  get usage(): number {
    return this.consumed + this.held;
  }
  get available(): number {
    return LIMIT - this.usage;
  }
  count(amount: number, at = this.now): Movement {
    const movement = { amount, at };
    this.movements.push(movement);
    this.consumed += amount;
    return movement;
  }
  clear(): void {
    this.consumed = 0;
    this.movements = [];
  }
  renew(at: number): void {
    if (this.resetAt >= at) return;
    this.clear();
    while (this.resetAt <= at) this.resetAt += DAY;
  }
  reset(): void {
    this.clear();
    this.resetAt += DAY;
  }
  pass(milliseconds: number): void {
    this.now += milliseconds;
    const due = [
      ...this.holds.filter(({ isOpen, until }) => isOpen && until <= this.now),
      ...this.leases.filter(({ state, until }) => state === "open" && until <= this.now),
    ];
    for (const one of due.toSorted((a, b) => a.until - b.until)) {
      this.renew(one.until);
      if ("isOpen" in one) {
        one.isOpen = false;
      } else {
        one.state = "expired";
        const left = one.granted - one.spent;
        one.expiry = left > 0 ? this.count(left, one.until) : undefined;
      }
    }
    this.renew(this.now);
  }
  take(amount: number, duration: number): boolean {
    if (this.usage >= LIMIT || (amount > 0 && amount > this.available)) return false;
    this.holds.push({ amount, until: this.now + duration, isOpen: true });
    return true;
  }
  consume(amount: number): boolean {
    if (this.usage >= LIMIT || (amount > 0 && amount > this.available)) return false;
    this.count(amount);
    return true;
  }
  /** Reverts the consumption of two minutes, or its last operation. */
  revert(latest: boolean): void {
    const found = this.movements.filter(({ at }) => at > this.now - REVERTIBLE).slice(latest ? -1 : 0);
    for (const { amount } of found) this.consumed -= amount;
    this.movements = this.movements.filter((movement) => !found.includes(movement));
  }
  /** Returns the answer, and the lease that it opened. */
  open(amount: number, duration: number): { expected: Expected; opened?: Lease } {
    const until = Math.min(this.now + duration, this.resetAt);
    if (this.usage >= LIMIT) return { expected: [200, this.#answer(false, null)] };
    if (until <= this.now) return { expected: [200, this.#answer(true, null)] };
    const granted = Math.min(amount, this.available);
    const opened: Lease = { granted, spent: 0, until, state: "open", expiry: undefined, reports: [] };
    this.leases.push(opened);
    return { expected: [201, this.#answer(true, opened)], opened };
  }
  isGone({ state, until }: Lease): boolean {
    return state !== "open" && this.now - until >= DAY;
  }
  report(lease: Lease, id: string, { spent, amount, duration }: Report): Expected {
    if (this.isGone(lease)) return [404, { error: `Lease ${id} not found` }];
    const conflict = (how: string): Expected => [409, { error: `CONFLICT: Lease ${id} ${how}` }];
    if (lease.state !== "open" && amount !== 0) return conflict(`ended at ${iso(lease.until)}`);
    if (spent > lease.granted) {
      return conflict(`was granted ${lease.granted} of meter-calls, and ${spent} are reported`);
    }
    if (spent < lease.spent) {
      return conflict(`has ${lease.spent} of meter-calls reported already, and ${spent} are reported`);
    }
    if (lease.state !== "open") {
      this.#giveBack(lease, lease.granted - spent);
      Object.assign(lease, { spent, granted: spent, state: "ended" });
      return [200, this.#answer(this.usage < LIMIT, lease)];
    }
    if (spent > lease.spent) this.count(spent - lease.spent);
    lease.spent = spent;
    const isOn = this.usage - (lease.granted - lease.spent) < LIMIT;
    if (amount === 0) {
      Object.assign(lease, { granted: spent, state: "ended", until: this.now });
    } else if (isOn) {
      const lacking = Math.max(0, (amount ?? 0) - (lease.granted - lease.spent));
      lease.granted += Math.min(lacking, this.available);
      if (duration !== undefined) lease.until = Math.min(this.now + DURATIONS[duration], this.resetAt);
    }
    return [200, this.#answer(isOn, lease)];
  }
  #giveBack({ expiry }: Lease, amount: number): void {
    if (expiry === undefined || !this.movements.includes(expiry)) return;
    expiry.amount -= amount;
    this.consumed -= amount;
  }
  #answer(isOn: boolean, lease: Lease | null): object {
    const { granted = 0, spent = 0, until = 0, state } = lease ?? {};
    const left = state === "open" ? granted - spent : 0;
    return {
      eval: isOn,
      limit: calls(LIMIT),
      used: calls(Math.max(0, this.usage - left - spent)),
      error: null,
      remaining: calls(this.available),
      resetAt: { "meter-calls": iso(this.resetAt) },
      now: iso(this.now),
      lease:
        lease === null
          ? null
          : expect.objectContaining({
              state: state === "open" ? "open" : "ended",
              granted: calls(granted),
              spent: calls(spent),
              until: iso(until),
            }),
    };
  }
}

interface Answer {
  eval: boolean;
  used: Record<string, number>;
  lease: { id: string } | null;
}

type Command = ReturnType<typeof command>;

const {
  call: callFor,
  command,
  expectAgreement,
  passing,
  resetting,
} = useMeteredModel<Reference>(async (reference) => {
  expect(reference.usage).toBeLessThanOrEqual(LIMIT);
});
const call = (method: "POST" | "DELETE", path: string, body?: object) => callFor<Answer>(method, path, body);

/** A command about one of the leases so far. */
function about(
  place: number,
  name: string,
  run: (lease: Lease, id: string, reference: Reference) => Promise<void>,
): Command {
  const of = ({ leases }: Reference) => leases.length - 1 - (place % leases.length);
  return {
    ...command(`${name} lease ${place}`, async (reference, { ids }) => {
      const lease = reference.leases[of(reference)];
      if (lease !== undefined) await run(lease, ids[of(reference)] ?? "", reference);
    }),
    check: ({ leases }) => leases.length > 0,
  };
}

async function send(lease: Lease, id: string, reference: Reference, report: Report): Promise<void> {
  const { status, body } = await call("POST", `/leases/${id}`, {
    spent: calls(report.spent),
    ...(report.amount === undefined ? {} : { amounts: calls(report.amount) }),
    for: report.duration ?? null,
  });
  expect([status, body]).toEqual(reference.report(lease, id, report));
}

const DURATIONS = { PT1S: SECOND, PT30S: 30 * SECOND, PT10M: 600 * SECOND } as const;
type Duration = keyof typeof DURATIONS;
const duration = fc.constantFrom(...(Object.keys(DURATIONS) as Duration[]));
const amount = fc.integer({ min: 0, max: 7 });
const place = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(50) });

const opening = fc.tuple(fc.integer({ min: 1, max: 7 }), duration).map(([amount, text]) =>
  command(`open ${amount} for ${text}`, async (reference, { userId, ids }) => {
    const body = { for: text, amounts: calls(amount) };
    const answer = await call("POST", `/features/${userId}/meter-call/leases`, body);
    const { expected, opened } = reference.open(amount, DURATIONS[text]);
    expect([answer.status, answer.body]).toEqual(expected);
    if (opened !== undefined) ids.push(answer.body.lease?.id ?? "");
  }),
);
const reporting = fc
  .tuple(
    place,
    fc.constantFrom(-1, 0, 0, 1, 1, 2, 3, 8),
    fc.option(amount, { nil: undefined }),
    fc.option(duration, { nil: undefined }),
  )
  .map(([place, more, amount, duration]) =>
    about(place, `report ${more} more, ${amount}, ${duration} of`, async (lease, id, reference) => {
      const report = { spent: Math.max(0, lease.spent + more), amount, duration };
      lease.reports.push(report);
      await send(lease, id, reference, report);
    }),
  );

const commands: fc.Arbitrary<Command>[] = [
  opening,
  opening,
  reporting,
  reporting,
  fc.tuple(place, fc.nat(20)).map(([place, which]) =>
    about(place, `repeat report ${which} of`, async (lease, id, reference) => {
      const report = lease.reports[which % Math.max(1, lease.reports.length)];
      if (report !== undefined) await send(lease, id, reference, report);
    }),
  ),
  place.map((place) =>
    about(place, "end", async (lease, id, reference) => {
      const { status } = await call("DELETE", `/leases/${id}`);
      const [expected] = reference.report(lease, id, { spent: lease.spent, amount: 0, duration: undefined });
      expect(status).toBe(expected === 200 ? 204 : expected);
    }),
  ),
  fc.tuple(amount, duration).map(([amount, text]) =>
    command(`hold ${amount} for ${text}`, async (reference, { userId }) => {
      const { body } = await call("POST", `/features/${userId}/meter-call?hold=${text}`, calls(amount));
      expect(body.eval).toBe(reference.take(amount, DURATIONS[text]));
    }),
  ),
  amount.map((amount) =>
    command(`consume ${amount}`, async (reference, { userId }) => {
      const { body } = await call("POST", `/features/${userId}/meter-call?strict=true`, calls(amount));
      expect(body.eval).toBe(reference.consume(amount));
    }),
  ),
  fc.boolean().map((latest) =>
    command(`revert${latest ? " the latest" : ""}`, async (reference, { userId }) => {
      const { status } = await call("POST", `/features/${userId}/meter-call?revert=true&latest=${latest}`);
      expect(status).toBe(204);
      reference.revert(latest);
    }),
  ),
  passing([1, 999, SECOND, 29 * SECOND, 60 * SECOND]),
  passing([600 * SECOND, DAY - 1, DAY - 60 * SECOND, DAY, DAY + 1]),
  resetting,
];

test("leases agree with the reference in every order of calls and ends", async () => {
  await expectAgreement({ reference: () => new Reference(), commands, maxCommands: 60, renewalDays: 365 });
}, 600_000);
