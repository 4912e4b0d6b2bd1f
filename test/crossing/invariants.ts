import { decodeJwt } from "jose";
import { expect } from "vitest";
import { createLocalEvaluator } from "../../src/local/local.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { inProcess, ORIGIN } from "../support/in-process.ts";
import type { World } from "./world.ts";

/* Invariants that hold after each step of a history, for each contract. */

interface Detailed {
  eval: boolean;
  limit: Record<string, number> | null;
  used: Record<string, number> | null;
  error: { code: string } | null;
}
type ByFeature<T> = Record<string, T>;

/** An answer that a later question about its moment must repeat. */
export interface Remembered {
  userId: string;
  at: Date;
  answer: ByFeature<Detailed>;
}

/** Longest time in which the second application learns of a change through the first. */
const AGREE_MS = 10_000;

/** Returns the detailed answer about a user, once both applications give the same one. */
async function agreed(world: World, userId: string): Promise<{ status: number; body: ByFeature<Detailed> }> {
  const ask = (which: number) => world.read<ByFeature<Detailed>>(which, "POST", `/features/${userId}?details=true`);
  const deadline = performance.now() + AGREE_MS;
  for (;;) {
    const [one, other] = [await ask(0), await ask(1)];
    if (JSON.stringify(one) === JSON.stringify(other)) return one;
    if (performance.now() > deadline) expect(one, `the applications answer ${userId} alike`).toEqual(other);
  }
}

/** Every way of asking gives the same answer. */
export async function expectAgreement(world: World, userId: string): Promise<ByFeature<Detailed> | undefined> {
  const { status, body: detailed } = await agreed(world, userId);
  if (status !== 200) {
    const one = await world.read(0, "POST", `/features/${userId}/${world.featureIds[0]}`);
    expect(one.status, "one feature is refused as all are").toBe(status);
    return undefined;
  }
  const on = Object.fromEntries(Object.entries(detailed).map(([id, answer]) => [id, answer.eval]));
  expect((await world.read(0, "POST", `/features/${userId}`)).body, "all").toEqual(on);
  for (const [id, answer] of Object.entries(detailed)) {
    expect((await world.read(1, "POST", `/features/${userId}/${id}`)).body, `one: ${id}`).toEqual(answer);
  }
  const token = await world.read<{ pricingToken: string }>(0, "POST", `/features/${userId}/pricing-token`);
  const { features } = decodeJwt<{ features: ByFeature<Detailed> }>(token.body.pricingToken);
  expect(verdicts(features), "token").toEqual(on);
  const flags = await world.read<{ flags: { key: string; value?: unknown; errorCode?: string }[] }>(
    1,
    "POST",
    "/ofrep/v1/evaluate/flags",
    { context: { targetingKey: userId } },
  );
  const values = Object.fromEntries(
    flags.body.flags.filter(({ errorCode }) => errorCode === undefined).map(({ key, value }) => [key, value]),
  );
  const withoutErrors = Object.entries(detailed).filter(([, { error }]) => error === null);
  expect(values, "OFREP").toEqual(Object.fromEntries(withoutErrors.map(([id, answer]) => [id, answer.eval])));
  await expectLocalAgreement(world, userId, detailed);
  return detailed;
}

const verdicts = (features: ByFeature<Detailed>) =>
  Object.fromEntries(Object.entries(features).map(([id, { eval: value }]) => [id, value]));

/** `faregate/local` evaluates the snapshot of the contract to the same answers. */
async function expectLocalAgreement(world: World, userId: string, detailed: ByFeature<Detailed>): Promise<void> {
  const local = createLocalEvaluator({ url: ORIGIN, apiKey: world.key, fetch: inProcess(world.servers.api).fetch });
  try {
    for (const [id, { eval: value, used }] of Object.entries(detailed)) {
      const answer = await local.evaluate(userId, id);
      expect({ eval: answer.eval, used: answer.used }, `local: ${id}`).toEqual({ eval: value, used });
    }
  } finally {
    await local.close();
  }
}

interface SpenderRow {
  userId?: string;
  counted: number;
}

/** The usage of an organization by spender has the rows of each contract. */
export async function expectSameSpenders(world: World, userId: string): Promise<void> {
  const rowsOf = async (which: number, path: string) => {
    const { status, body } = await world.read<{ data?: SpenderRow[] }>(which, "GET", `${path}?by=spender`);
    return status === 200 ? (body.data ?? []) : undefined;
  };
  const own = await rowsOf(0, `/contracts/${userId}/usage`);
  if (own === undefined) return;
  const all = (await rowsOf(1, "/usage")) ?? [];
  const ofUser = all.filter((row) => row.userId === userId).map(({ userId: _user, ...row }) => row);
  expect(ofUser, `spenders of ${userId}`).toEqual(own);
}

/** A question about an earlier moment is answered as it was then. */
export async function expectRemembered(world: World, remembered: readonly Remembered[]): Promise<void> {
  for (const { userId, at, answer } of remembered) {
    const asked = await world.read<{ features?: ByFeature<Detailed> }>(
      0,
      "POST",
      `/features/${userId}?details=true&at=${at.toISOString()}`,
    );
    expect([asked.status, asked.body.features], `${userId} at ${at.toISOString()}`).toEqual([200, answer]);
  }
}

/** Balances are the sums of their movements, and everything else that `npm run check:ledger` checks. */
export const expectCleanLedger = (world: World): Promise<void> => expectBalancesMatchLedger(world.servers.api.database);
