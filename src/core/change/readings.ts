import type { FeatureValue, LimitValue } from "../pricing/model.ts";
import type { Entitlements, Side } from "./entitlements.ts";

/*
 * Caches comparisons of features. The contracts of one change have thousands of configurations, but each feature reads
 * only a few granted values, so most comparisons repeat.
 */

/** Values that decide about one feature on one side. */
interface ReadValues {
  readonly features: readonly string[];
  readonly limits: readonly string[];
  /** Number of each combination of values. */
  readonly numbers: Map<string, number>;
}

/** Maximum cached entries per side and per pair of sides, at about 200 bytes each. */
const MAX_CACHED = 50_000;

/** Cache of one side. Numbers are never reused, so clearing it costs only repeated comparisons. */
class SideReadings {
  readonly #side: Side;
  readonly #byFeature = new Map<string, ReadValues>();
  readonly #holdings = new WeakMap<Entitlements, Map<string, number>>();
  #cached = 0;
  #last = 0;

  constructor(side: Side) {
    this.#side = side;
  }

  numberOf(holding: Entitlements, feature: string): number {
    let numbers = this.#holdings.get(holding);
    if (numbers === undefined) this.#holdings.set(holding, (numbers = new Map()));
    let number = numbers.get(feature);
    if (number === undefined) numbers.set(feature, (number = this.#intern(holding, feature)));
    return number;
  }

  #intern({ grant }: Entitlements, feature: string): number {
    const read = this.#readBy(feature);
    let key = "";
    for (const name of read.features) key += `${textOf(grant.features.get(name))}\n`;
    for (const name of read.limits) key += `${textOf(grant.usageLimits.get(name))}\n`;
    const known = read.numbers.get(key);
    if (known !== undefined) return known;
    if (++this.#cached > MAX_CACHED) {
      for (const { numbers } of this.#byFeature.values()) numbers.clear();
      this.#cached = 1;
    }
    read.numbers.set(key, ++this.#last);
    return this.#last;
  }

  #readBy(feature: string): ReadValues {
    const known = this.#byFeature.get(feature);
    if (known !== undefined) return known;
    const { client, server } = this.#side.expressions.get(feature) ?? {};
    const facts = [client, server].filter((each) => each !== undefined);
    const read: ReadValues = {
      features: [...new Set([feature, ...facts.flatMap((each) => each.features)])],
      limits: [...new Set(facts.flatMap((each) => [...each.limits, ...each.usage]))],
      numbers: new Map(),
    };
    this.#byFeature.set(feature, read);
    return read;
  }
}

/** Formats a granted value. Different values have different texts, none of which contains a line break. */
function textOf(value: FeatureValue | LimitValue | undefined): string {
  return typeof value === "object" || typeof value === "string" ? JSON.stringify(value) : String(value);
}

const readings = new WeakMap<Side, SideReadings>();

function readingsOf(side: Side): SideReadings {
  let ofSide = readings.get(side);
  if (ofSide === undefined) readings.set(side, (ofSide = new SideReadings(side)));
  return ofSide;
}

/** Factor that puts two numbers of readings into one integer. */
const SHIFT = 2 ** 26;

/** Cached results for one pair of sides. */
class PairCache<Result> {
  readonly #before: SideReadings;
  readonly #after: SideReadings;
  readonly #results = new Map<string, Map<number, Result>>();
  #cached = 0;

  constructor(before: Side, after: Side) {
    this.#before = readingsOf(before);
    this.#after = readingsOf(after);
  }

  #keyOf(before: Entitlements, after: Entitlements, feature: string): number {
    return this.#before.numberOf(before, feature) * SHIFT + this.#after.numberOf(after, feature);
  }

  get(before: Entitlements, after: Entitlements, feature: string): Result | undefined {
    return this.#results.get(feature)?.get(this.#keyOf(before, after, feature));
  }

  add(before: Entitlements, after: Entitlements, feature: string, result: Result): Result {
    if (++this.#cached > MAX_CACHED) {
      this.#results.clear();
      this.#cached = 1;
    }
    let results = this.#results.get(feature);
    if (results === undefined) this.#results.set(feature, (results = new Map()));
    results.set(this.#keyOf(before, after, feature), result);
    return result;
  }
}

/** Caches results per feature and per values that both holdings grant to it. */
export class ReadingCache<Result> {
  readonly #pairs = new WeakMap<Side, WeakMap<Side, PairCache<Result>>>();

  #pairOf({ side: before }: Entitlements, { side: after }: Entitlements): PairCache<Result> {
    let ofBefore = this.#pairs.get(before);
    if (ofBefore === undefined) this.#pairs.set(before, (ofBefore = new WeakMap()));
    let pair = ofBefore.get(after);
    if (pair === undefined) ofBefore.set(after, (pair = new PairCache(before, after)));
    return pair;
  }

  get(before: Entitlements, after: Entitlements, feature: string): Result | undefined {
    return this.#pairOf(before, after).get(before, after, feature);
  }

  add(before: Entitlements, after: Entitlements, feature: string, result: Result): Result {
    return this.#pairOf(before, after).add(before, after, feature, result);
  }
}
