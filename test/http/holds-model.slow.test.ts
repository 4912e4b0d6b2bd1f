import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { meterPricing } from "../support/pricings.ts";
import "../support/property-seed.ts";

/*
 * Calls in random order are compared with a reference that knows no database. They take, settle, extend and release holds or
 * let them expire, beside consumption and resets. The limit is 10 a day, so that limits, ends and boundaries meet.
 */

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = Date.UTC(2025, 5, 15, 10);
const LIMIT = 10;
const PRICING = meterPricing(
  `{ valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: RENEWABLE, period: { value: 1, unit: DAY } }`,
);

interface Hold {
  amount: number;
  createdAt: number;
  until: number;
  counts: boolean;
  state: "open" | "settled" | "released" | "expired";
}

/** The reference: usage is what is consumed and what open holds hold. */
class Reference {
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

/** The system under test: one contract, with the ids of the holds in the order of the reference. */
interface Real {
  userId: string;
  ids: string[];
}
type Command = fc.AsyncCommand<Reference, Real>;

let api: TestApi;
let key: string;
let runs = 0;

const calls = (amount: number) => ({ "meter-calls": amount });
interface Answer {
  eval: boolean;
  used: Record<string, number>;
  hold: { id: string; state: string } | null;
}
const call = (method: "POST" | "PUT" | "DELETE", path: string, body?: object) =>
  api.call<Answer>(method, path, { key, body });

/** Compares all that can be read, without letting a read write an expiry first. */
async function compare(reference: Reference, { userId, ids }: Real): Promise<void> {
  const listed = await api.call<{ data: { id: string; state: string }[] }>(
    "GET",
    `/contracts/${userId}/holds?state=all&limit=100`,
    { key },
  );
  const states = new Map(listed.body.data.map(({ id, state }) => [id, state]));
  expect(ids.map((id) => states.get(id))).toEqual(reference.holds.map(({ state }) => state));
  const evaluated = await call("POST", `/features/${userId}/meter-call`);
  expect(evaluated.body).toMatchObject({ eval: reference.usage < LIMIT, used: calls(reference.usage) });
  const level = (await show(api, key, userId)).usageLevels["meter"]?.["calls"];
  expect({ held: 0, ...level }).toMatchObject({ consumed: reference.consumed, held: reference.held });
}

function command(name: string, run: (reference: Reference, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    toString: () => name,
    run: async (reference, real) => {
      await run(reference, real);
      await compare(reference, real);
    },
  };
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
  fc.constantFrom(1, 999, 1000, HOUR, DAY - 1, DAY, 2 * DAY).map((milliseconds) =>
    command(`pass ${milliseconds} ms`, async (reference) => {
      reference.pass(milliseconds);
      api.setNow(new Date(reference.now));
    }),
  ),
  fc.constant(
    command("reset", async (reference, { userId }) => {
      expect((await call("PUT", `/contracts/${userId}/usageLevels?reset=true`, {})).status).toBe(200);
      reference.consumed = 0;
      reference.resetAt += DAY;
    }),
  ),
];

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, PRICING);
});
afterAll(() => api.close());

test("holds agree with the reference in every order of calls and ends", async () => {
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { maxCommands: 40, size: "max" }), async (sequence) => {
      const userId = `user-${(runs += 1)}`;
      api.setNow(new Date(START));
      await contract(api, key, userId, {
        contractedServices: { meter: "1.0.0" },
        subscriptionPlans: { meter: "ALL" },
        billingPeriod: { autoRenew: true, renewalDays: 30 },
      });
      const setup = () => ({ model: new Reference(), real: { userId, ids: [] } as Real });
      await fc.asyncModelRun(setup, sequence);
      await expectBalancesMatchLedger(api.database);
    }),
    { numRuns: 80 },
  );
}, 600_000);
