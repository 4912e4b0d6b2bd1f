import type { BenchRow } from "./pricing.ts";
import { type Pair, sideBySide } from "./side-by-side.ts";

const BLOCKS = 5;
/** Contracts with blocks; the others have none. */
const WITH_BLOCKS = 100;

/** Measures evaluation and consumption of contracts with five open blocks, against contracts without. */
export function run({ quick = false } = {}): Promise<BenchRow[]> {
  return sideBySide(async ({ ours, contracts }) => {
    const { url, headers } = ours([], "");
    const must = async (method: string, path: string, body: object) => {
      const answer = await fetch(`${url}/api/v1/contracts/${path}`, { method, headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    };
    for (const i of contracts) {
      // Blocks of an unlimited limit are never drawn.
      const limit = { mode: "set", value: 90_000_000, reason: "Agreed with support" };
      await must("PUT", `user-${i}/overrides/meter/usageLimits/calls`, limit);
    }
    for (let i = 0; i < WITH_BLOCKS; i += 1) {
      for (let each = 1; each <= BLOCKS; each += 1) {
        const expiresAt = new Date(Date.now() + each * 86_400_000).toISOString();
        const block = { service: "meter", limit: "calls", amount: 100, expiresAt, reason: "Bought" };
        await must("POST", `user-${i}/blocks`, block);
      }
    }
    const hasBlocks = (i: number) => i < WITH_BLOCKS;
    const pair = (name: string, body: string, target: number): Pair => ({
      name: `${name}, with ${BLOCKS} open blocks / without`,
      of: ours(
        contracts.filter(hasBlocks).map((i) => `user-${i}/meter-call`),
        body,
      ),
      against: ours(
        contracts
          .filter((i) => !hasBlocks(i))
          .slice(0, WITH_BLOCKS)
          .map((i) => `user-${i}/meter-call`),
        body,
      ),
      connections: 64,
      target,
      processorTimeOf: "server",
    });
    return [pair("evaluate one feature with its limit", "{}", 0.9), pair("consume", '{"meter-calls":1}', 0.9)];
  }, quick);
}
