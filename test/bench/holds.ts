import type { BenchRow } from "./pricing.ts";
import { sideBySide } from "./side-by-side.ts";

/** Measures holds that are taken and settled, each call counted, against strict consumption of the same contracts. */
export function run({ quick = false } = {}): Promise<BenchRow[]> {
  return sideBySide(({ ours, contracts }) => {
    const body = '{"meter-calls":1}';
    // On both sides, so that wrk reads the body of each answer on both.
    const calls = (paths: readonly string[]) => ({ ...ours(paths, body), settlement: body });
    const pair = (name: string, users: readonly number[], target: number) => ({
      name: `take and settle holds, ${name}, 64 connections / strict consumption`,
      against: calls(users.map((i) => `user-${i}/meter-call?strict=true`)),
      of: calls(users.map((i) => `user-${i}/meter-call?hold=PT1H`)),
      connections: 64,
      target,
    });
    return [pair("one hot contract", [1], 0.5), pair("distinct contracts", contracts, 0.8)];
  }, quick);
}
