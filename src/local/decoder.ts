import { leastRecentlyUsed } from "../core/least-recently-used.ts";
import { type CompiledPricing, compileSteps } from "../core/pricing/compile.ts";
import { grantOf, pricingOf } from "../core/pricing/evaluated.ts";
import { type Evaluation, prepareEvaluation } from "../core/pricing/evaluate.ts";
import type { Grant } from "../core/pricing/subscription.ts";
import type { SnapshotAnswer, SnapshotEntry } from "../core/snapshot.ts";
import { Answers } from "./answers.ts";

/** Most hashes of one request. */
const MAX_KNOWN = 1_000;
/** Distinct subscriptions that are kept beside those that entries hold. */
const MAX_EVALUATIONS = 10_000;
/** Longest time that compiling blocks other work. */
const SLICE_MS = 10;

/** Parts that a request names as known. They stay in memory until its answer has been read. */
export interface KnownParts {
  readonly pricings: ReadonlyMap<string, CompiledPricing>;
  readonly grants: ReadonlyMap<string, Grant>;
}

/** Compiles what snapshots name, once per content. */
export class Decoder {
  /** In order of use: the first ones are dropped. */
  private readonly pricings = new Map<string, CompiledPricing>();
  private readonly grants = new Map<string, Grant>();
  private readonly answers = leastRecentlyUsed<Answers>(MAX_EVALUATIONS);

  known(): KnownParts {
    return { pricings: new Map(this.pricings), grants: new Map(this.grants) };
  }

  /** Reads the pricings and grants of an answer. Returns a function that prepares the evaluation of an entry. */
  async read(
    answer: SnapshotAnswer,
    known: KnownParts,
  ): Promise<(services: SnapshotEntry["services"]) => Answers | undefined> {
    const pricings = new Map(known.pricings);
    const grants = new Map(known.grants);
    for (const [hash, pricing] of Object.entries(answer.pricings)) {
      pricings.set(hash, this.pricings.get(hash) ?? (await compileInSlices(pricing)));
    }
    for (const [hash, grant] of Object.entries(answer.grants)) {
      grants.set(hash, this.grants.get(hash) ?? grantOf(grant));
    }
    return (services) => {
      const key = JSON.stringify(services.map(({ service, pricing, grant }) => [service, pricing, grant]));
      for (const { pricing, grant } of services) {
        use(this.pricings, pricing, pricings.get(pricing));
        use(this.grants, grant, grants.get(grant));
      }
      const cached = this.answers.get(key);
      if (cached !== undefined) return cached;
      const evaluation = prepared(services, { pricings, grants });
      return evaluation === undefined ? undefined : this.answers.put(key, new Answers(evaluation));
    };
  }

  clear(): void {
    this.pricings.clear();
    this.grants.clear();
    this.answers.clear();
  }
}

function prepared(services: SnapshotEntry["services"], { pricings, grants }: KnownParts): Evaluation | undefined {
  const contracted = [];
  for (const { service, pricing: pricingHash, grant: grantHash } of services) {
    const pricing = pricings.get(pricingHash);
    const grant = grants.get(grantHash);
    if (pricing === undefined || grant === undefined) return undefined;
    contracted.push({ serviceName: service, pricing, grant });
  }
  return prepareEvaluation(contracted);
}

/** Moves a part to the end of the order, and drops the first one of too many. */
function use<Part>(parts: Map<string, Part>, hash: string, part: Part | undefined): void {
  if (part === undefined) return;
  parts.delete(hash);
  parts.set(hash, part);
  if (parts.size <= MAX_KNOWN) return;
  for (const first of parts.keys()) {
    parts.delete(first);
    return;
  }
}

async function compileInSlices(pricing: SnapshotAnswer["pricings"][string]): Promise<CompiledPricing> {
  const steps = compileSteps(pricingOf(pricing));
  let until = performance.now() + SLICE_MS;
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    if (performance.now() < until) continue;
    await new Promise((resolve) => setTimeout(resolve, 0));
    until = performance.now() + SLICE_MS;
  }
}
