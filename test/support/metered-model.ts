import * as fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { type Answer, createTestApi, type Method, type TestApi } from "./api.ts";
import { contract, show, upload } from "./contracting.ts";
import { expectBalancesMatchLedger } from "./invariants.ts";
import { meterPricing } from "./pricings.ts";
import "./property-seed.ts";

/*
 * Calls in random order about one contract are compared with a reference that knows no database. The limit is 10 a day, so that
 * limits, ends and boundaries meet.
 */

export const DAY = 86_400_000;
export const START = Date.UTC(2025, 5, 15, 10);
export const LIMIT = 10;
const PRICING = meterPricing(
  `{ valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: RENEWABLE, period: { value: 1, unit: DAY } }`,
);

/** A reference in which usage is what is consumed and what is held. */
export interface MeteredReference {
  readonly now: number;
  readonly consumed: number;
  readonly held: number;
  readonly usage: number;
  pass(milliseconds: number): void;
  /** As a reset of the contract's usage does. */
  reset(): void;
}

/** The system under test: one contract, and ids of what was made, in the order of the reference. */
export interface Real {
  userId: string;
  ids: string[];
}

type Command<R extends object> = fc.AsyncCommand<R, Real>;
type Run<R> = (reference: R, real: Real) => Promise<void>;

export interface MeteredModel<R extends MeteredReference> {
  call<T>(method: Method, path: string, body?: object): Promise<Answer<T>>;
  /** A command, after which everything is compared. */
  command(name: string, run: Run<R>): Command<R>;
  /** Commands that set the clock forward. */
  passing(milliseconds: readonly number[]): fc.Arbitrary<Command<R>>;
  /** The command that resets usage. */
  resetting: fc.Arbitrary<Command<R>>;
  /** Runs commands in 80 random orders, each about a contract of its own. */
  expectAgreement(options: {
    reference: () => R;
    commands: fc.Arbitrary<Command<R>>[];
    maxCommands: number;
    renewalDays: number;
  }): Promise<void>;
}

/** Amounts of the only limit. */
export const calls = (amount: number) => ({ "meter-calls": amount });

/** Gives the tests of a file an application. `compareFirst` compares what reads of usage may change. */
export function useMeteredModel<R extends MeteredReference>(compareFirst: Run<R>): MeteredModel<R> {
  let api: TestApi;
  let runs = 0;
  beforeAll(async () => {
    api = await createTestApi();
    await upload(api, api.callers.all.key, PRICING);
  });
  afterAll(() => api.close());

  const call: MeteredModel<R>["call"] = (method, path, body) =>
    api.call(method, path, { key: api.callers.all.key, body });
  const compare: Run<R> = async (reference, real) => {
    await compareFirst(reference, real);
    const { userId } = real;
    const evaluated = await call("POST", `/features/${userId}/meter-call`);
    expect(evaluated.body).toMatchObject({ eval: reference.usage < LIMIT, used: calls(reference.usage) });
    const level = (await show(api, api.callers.all.key, userId)).usageLevels["meter"]?.["calls"];
    expect({ held: 0, ...level }).toMatchObject({ consumed: reference.consumed, held: reference.held });
  };
  const command = (name: string, run: Run<R>): Command<R> => ({
    check: () => true,
    toString: () => name,
    run: async (reference, real) => {
      await run(reference, real);
      await compare(reference, real);
    },
  });
  return {
    call,
    command,
    passing: (milliseconds) =>
      fc.constantFrom(...milliseconds).map((milliseconds) =>
        command(`pass ${milliseconds} ms`, async (reference) => {
          reference.pass(milliseconds);
          api.setNow(new Date(reference.now));
        }),
      ),
    resetting: fc.constant(
      command("reset", async (reference, { userId }) => {
        expect((await call("PUT", `/contracts/${userId}/usageLevels?reset=true`, {})).status).toBe(200);
        reference.reset();
      }),
    ),
    expectAgreement: ({ reference, commands, maxCommands, renewalDays }) =>
      fc.assert(
        fc.asyncProperty(fc.commands(commands, { maxCommands, size: "max" }), async (sequence) => {
          const userId = `user-${(runs += 1)}`;
          api.setNow(new Date(START));
          await contract(api, api.callers.all.key, userId, {
            contractedServices: { meter: "1.0.0" },
            subscriptionPlans: { meter: "ALL" },
            billingPeriod: { autoRenew: true, renewalDays },
          });
          const setup = () => ({ model: reference(), real: { userId, ids: [] } as Real });
          await fc.asyncModelRun(setup, sequence);
          await expectBalancesMatchLedger(api.database);
        }),
        { numRuns: 80 },
      ),
  };
}
