import type { BenchRow } from "./pricing.ts";
import { type Pair, sideBySide, type Sides } from "./side-by-side.ts";

/** Both kinds of token of one contract in turn, so that no request repeats the previous one. */
const inTurn = (query: string) => [`plain-1/pricing-token?${query}`, `plain-1/pricing-token?server=true&${query}`];
const unchanged = (query: string) => [`plain-1/pricing-token?${query}`];
const HS256 = "signature=HS256";
const EDDSA = "signature=EdDSA";

/** Pairs of pricing tokens over HTTP: against minimal handlers, and both signatures against each other. */
export function pairs({ bare, ours }: Sides): Pair[] {
  const eachSignature = (name: string, paths: (query: string) => string[], target: number): Pair => ({
    name,
    against: ours(paths(HS256), "{}"),
    of: ours(paths(EDDSA), "{}"),
    connections: 64,
    target,
    processorTimeOf: "server",
  });
  return [
    {
      name: "pricing token of 30 features, state unchanged / a bare Hono handler with one answer",
      against: bare(["/one"], "{}"),
      of: ours(unchanged(HS256), "{}"),
      connections: 64,
      target: 0.65,
      processorTimeOf: "server and Postgres",
    },
    {
      name: "pricing token of 30 features, another one each time / Hono and jose signing each time",
      against: bare(["/token"], "{}"),
      of: ours(inTurn(HS256), "{}"),
      connections: 64,
      target: 0.8,
      processorTimeOf: "server and Postgres",
    },
    eachSignature("EdDSA pricing token, state unchanged / the same with HS256, by processor time", unchanged, 0.9),
    eachSignature("EdDSA pricing token, another one each time / the same with HS256, by processor time", inTurn, 0.5),
  ];
}

export const run = ({ quick = false } = {}): Promise<BenchRow[]> => sideBySide(pairs, quick);
