import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  calls,
  DAY,
  LIMIT,
  type MeteredReference,
  type Real,
  START,
  useMeteredModel,
} from "../support/metered-model.ts";

/*
 * Calls in random order take, settle, extend and release holds or let them expire, beside consumption and resets.
 */

const HOUR = 3_600_000;

interface Hold {
  amount: number;
  createdAt: number;
  until: number;
  counts: boolean;
  state: "open" | "settled" | "released" | "expired";
}

/** The reference: usage is what is consumed and what open holds hold. */
class Reference implements MeteredReference {
  now = START;
  consumed = 0;
  resetAt = START + DAY;
  holds: Hold[] = [];

  get held(): number {
    return this.holds.reduce((sum, hold) => sum + (hold.state === "open" ? hold.amount : 0), 0);
  }
  get usage(): number {
    return this.consumed + this.held;
  }
  renew(at: number): void {
    if (this.resetAt >= at) return;
    this.consumed = 0;
    while (this.resetAt <= at) this.resetAt += DAY;
  }
  pass(milliseconds: number): void {
    this.now += milliseconds;
    const due = this.holds.filter(({ state, until }) => state === "open" && until <= this.now);
    for (const hold of due.toSorted((one, other) => one.until - other.until)) {
      this.renew(hold.until);
      hold.state = "expired";
      if (hold.counts) this.consumed += hold.amount;
    }
    this.renew(this.now);
  }
  reset(): void {
    this.consumed = 0;
    this.resetAt += DAY;
  }
  take(amount: number, duration: number, counts: boolean): boolean {
    if (this.usage >= LIMIT || (amount > 0 && this.usage + amount > LIMIT)) return false;
    this.holds.push({ amount, createdAt: this.now, until: this.now + duration, counts, state: "open" });
    return true;
  }
  /** Status, and whether it was granted. */
  settle(hold: Hold, amount: number): [number, boolean] {
    if (hold.state !== "open") return [409, false];
    if (amount > hold.amount && this.usage - hold.amount + amount > LIMIT) return [200, false];
    hold.state = amount > 0 ? "settled" : "released";
    this.consumed += amount;
    return [200, true];
  }
  extend(hold: Hold, duration: number): number {
    if (hold.state !== "open") return 409;
    hold.until = Math.max(hold.until, Math.min(this.now + duration, hold.createdAt + DAY));
    return 200;
  }
  release(hold: Hold): number {
    if (hold.state === "settled" || (hold.state === "expired" && hold.counts)) return 409;
    if (hold.state === "open") hold.state = "released";
    return 204;
  }
  consume(amount: number, strict: boolean): boolean {
    if (this.usage >= LIMIT || (strict && amount > 0 && this.usage + amount > LIMIT)) return false;
    this.consumed += amount;
    return true;
  }
}

interface Answer {
  eval: boolean;
  used: Record<string, number>;
  hold: { id: string; state: string } | null;
}

type Command = ReturnType<typeof command>;

const { call: callFor, command, expectAgreement, passing, resetting } = useMeteredModel<Reference>(compareStates);
const call = (method: "POST" | "DELETE", path: string, body?: object) => callFor<Answer>(method, path, body);

/** Without letting a read write an expiry first. */
async function compareStates(reference: Reference, { userId, ids }: Real): Promise<void> {
  const listed = await callFor<{ data: { id: string; state: string }[] }>(
    "GET",
    `/contracts/${userId}/holds?state=all&limit=100`,
  );
  const states = new Map(listed.body.data.map(({ id, state }) => [id, state]));
  expect(ids.map((id) => states.get(id))).toEqual(reference.holds.map(({ state }) => state));
}

/** A command about one of the holds so far. */
function about(
  place: number,
  name: string,
  run: (hold: Hold, id: string, reference: Reference) => Promise<void>,
): Command {
  const of = ({ holds }: Reference) => place % holds.length;
  return {
    ...command(`${name} hold ${place}`, async (reference, { ids }) => {
      const hold = reference.holds[of(reference)];
      if (hold !== undefined) await run(hold, ids[of(reference)] ?? "", reference);
    }),
    check: ({ holds }) => holds.length > 0,
  };
}

const amount = fc.integer({ min: 0, max: 7 });
const place = fc.nat(50);
const DURATIONS = { PT1S: 1000, PT1H: HOUR, PT23H59M59S: DAY - 1000, P1D: DAY } as const;
const duration = fc.constantFrom(...(Object.keys(DURATIONS) as (keyof typeof DURATIONS)[]));

const commands: fc.Arbitrary<Command>[] = [
  fc.tuple(amount, duration, fc.boolean()).map(([amount, text, counts]) =>
    command(`take ${amount} for ${text}, ${counts}`, async (reference, { userId, ids }) => {
      const query = `?hold=${text}&onExpiry=${counts ? "consume" : "release"}`;
      const { status, body } = await call("POST", `/features/${userId}/meter-call${query}`, calls(amount));
      const granted = reference.take(amount, DURATIONS[text], counts);
      expect({ status, granted: body.eval, isHeld: body.hold !== null }).toEqual({
        status: 200,
        granted,
        isHeld: granted,
      });
      if (body.hold !== null) ids.push(body.hold.id);
    }),
  ),
  fc.tuple(place, amount).map(([place, amount]) =>
    about(place, `settle ${amount} of`, async (hold, id, reference) => {
      const { status, body } = await call("POST", `/holds/${id}`, calls(amount));
      expect([status, body.eval ?? false]).toEqual(reference.settle(hold, amount));
    }),
  ),
  fc.tuple(place, duration).map(([place, text]) =>
    about(place, `extend by ${text}`, async (hold, id, reference) => {
      const { status } = await call("POST", `/holds/${id}?extend=${text}`);
      expect(status).toBe(reference.extend(hold, DURATIONS[text]));
    }),
  ),
  place.map((place) =>
    about(place, "release", async (hold, id, reference) => {
      expect((await call("DELETE", `/holds/${id}`)).status).toBe(reference.release(hold));
    }),
  ),
  fc.tuple(amount, fc.boolean()).map(([amount, strict]) =>
    command(`consume ${amount}, ${strict}`, async (reference, { userId }) => {
      const { body } = await call("POST", `/features/${userId}/meter-call?strict=${strict}`, calls(amount));
      // Without an amount above 0 there is nothing to count, but the verdict is the same.
      expect(body.eval).toBe(reference.consume(amount, strict));
    }),
  ),
  passing([1, 999, 1000, HOUR, DAY - 1, DAY, 2 * DAY]),
  resetting,
];

test("holds agree with the reference in every order of calls and ends", async () => {
  await expectAgreement({ reference: () => new Reference(), commands, maxCommands: 40, renewalDays: 30 });
}, 600_000);
