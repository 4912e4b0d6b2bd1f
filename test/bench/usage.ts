import type { BenchRow } from "./pricing.ts";
import { ALONE_PER_SECOND, type Pair, sideBySide, type Sides } from "./side-by-side.ts";

/** Pairs of exact consumption with its ledger over HTTP, against a handler with one UPDATE … RETURNING per request. */
export function pairs({ bare, ours, contracts }: Sides): Pair[] {
  const updates = bare(
    contracts.map((i) => `/update/${i}`),
    '{"amount":1}',
  );
  const consume = '{"meter-calls":1}';
  const consumptions = ours(
    contracts.map((i) => `user-${i}/meter-call`),
    consume,
  );
  return [
    {
      name: "consume, distinct contracts, 64 connections / one UPDATE a request",
      against: updates,
      of: consumptions,
      connections: 64,
      target: 1.15,
      processorTimeOf: "server and Postgres",
    },
    {
      name: "consume, distinct contracts, 1 connection, 300 requests per second / one UPDATE a request",
      against: updates,
      of: consumptions,
      connections: 1,
      perSecond: ALONE_PER_SECOND,
      target: 0.65,
      processorTimeOf: "server and Postgres",
    },
    {
      name: "consume, one hot contract, 64 connections / one UPDATE of a hot row a request",
      against: bare(["/update/1"], '{"amount":1}'),
      of: ours(["user-1/meter-call"], consume),
      connections: 64,
      target: 5.5,
      processorTimeOf: "server and Postgres",
    },
  ];
}

export const run = ({ quick = false } = {}): Promise<BenchRow[]> => sideBySide(pairs, quick);
