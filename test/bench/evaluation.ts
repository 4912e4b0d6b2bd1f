import type { BenchRow } from "./pricing.ts";
import { ALONE_PER_SECOND, type Pair, sideBySide, type Sides } from "./side-by-side.ts";

/** Pairs of evaluation over HTTP through the whole stack, against minimal handlers. */
export function pairs({ bare, ours, contracts }: Sides): Pair[] {
  const selects = bare(
    contracts.map((i) => `/select/${i}`),
    "{}",
  );
  const limited = ours(
    contracts.map((i) => `user-${i}/meter-call`),
    "{}",
  );
  return [
    {
      name: "evaluate one feature without limits / a bare Hono handler with the same answer",
      against: bare(["/one"], "{}"),
      of: ours(
        contracts.map((i) => `plain-${i}/plain-feature7`),
        "{}",
      ),
      connections: 64,
      target: 0.7,
      processorTimeOf: "server and Postgres",
    },
    {
      name: "evaluate 30 features without limits / 30 closures in a bare Hono handler with a Map of keys",
      against: bare(["/thirty"], "{}"),
      of: ours(
        contracts.map((i) => `plain-${i}`),
        "{}",
      ),
      connections: 64,
      target: 0.6,
      processorTimeOf: "server and Postgres",
    },
    {
      name: "evaluate one feature with its limit, 64 connections / one SELECT a request",
      against: selects,
      of: limited,
      connections: 64,
      target: 0.9,
      processorTimeOf: "server and Postgres",
    },
    {
      name: "evaluate one feature with its limit, 1 connection, 300 requests per second / one SELECT a request",
      against: selects,
      of: limited,
      connections: 1,
      perSecond: ALONE_PER_SECOND,
      target: 0.65,
      processorTimeOf: "server and Postgres",
    },
  ];
}

export const run = ({ quick = false } = {}): Promise<BenchRow[]> => sideBySide(pairs, quick);
