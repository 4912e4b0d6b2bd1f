import * as evaluation from "./evaluation.ts";
import type { BenchRow } from "./pricing.ts";
import { type Pair, sideBySide } from "./side-by-side.ts";
import * as tokens from "./tokens.ts";
import * as usage from "./usage.ts";

/** Measures what the other suites ask of Faregate, on Bun and Deno against Node, over one database. */
export const run = ({ quick = false } = {}): Promise<BenchRow[]> =>
  sideBySide(async (sides) => {
    const onNode = [evaluation, tokens, usage].flatMap((suite) => suite.pairs(sides));
    const rows: Pair[] = [];
    for (const runtime of ["Bun", "Deno"] as const) {
      const moved = await sides.oursOn(runtime);
      for (const { name, of: load, connections, perSecond } of onNode) {
        rows.push({
          name: `${name.split(" / ")[0]}: on ${runtime} / on Node`,
          against: load,
          of: moved(load),
          connections,
          ...(perSecond === undefined ? {} : { perSecond }),
          target: 0.9,
          processorTimeOf: "server and Postgres",
        });
      }
    }
    return rows;
  }, quick);
