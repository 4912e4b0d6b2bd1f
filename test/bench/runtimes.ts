import type { BenchRow } from "./pricing.ts";
import { type Pair, sideBySide } from "./side-by-side.ts";

/* Measures Faregate on Bun and Deno against Faregate on Node 20, over one database. */

const OTHERS = ["Bun", "Deno"] as const;
const CONSUME = '{"meter-calls":1}';

export function run({ quick = false } = {}): Promise<BenchRow[]> {
  return sideBySide(async ({ ours, oursOn, contracts }) => {
    const plain = contracts.map((i) => `plain-${i}`);
    const limited = contracts.map((i) => `user-${i}/meter-call`);
    const loads: [name: string, connections: number, paths: readonly string[], body: string][] = [
      ["evaluate one feature without limits", 64, plain.map((path) => `${path}/plain-feature7`), "{}"],
      ["evaluate 30 features without limits", 64, plain, "{}"],
      ["evaluate one feature with its limit, 64 connections", 64, limited, "{}"],
      ["evaluate one feature with its limit, 1 connection", 1, limited, "{}"],
      ["pricing token of 30 features, state unchanged", 64, ["plain-1/pricing-token"], "{}"],
      [
        "pricing token of 30 features, another one each time",
        64,
        ["plain-1/pricing-token", "plain-1/pricing-token?server=true"],
        "{}",
      ],
      ["consume, distinct contracts, 64 connections", 64, limited, CONSUME],
      ["consume, distinct contracts, 1 connection", 1, limited, CONSUME],
      ["consume, one hot contract, 64 connections", 64, ["user-1/meter-call"], CONSUME],
    ];
    const pairs: Pair[] = [];
    for (const runtime of OTHERS) {
      const other = await oursOn(runtime);
      for (const [name, connections, paths, body] of loads) {
        pairs.push({
          name: `${name}: on ${runtime} / on Node`,
          against: ours(paths, body),
          of: other(paths, body),
          connections,
          target: 0.9,
          processorTimeOf: "server and Postgres",
        });
      }
    }
    return pairs;
  }, quick);
}
