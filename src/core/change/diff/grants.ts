import { canonical } from "../change.ts";
import type { Change, Subject } from "../change.ts";
import { presence } from "./definitions.ts";
import { namesOfBoth } from "../compare.ts";
import { configurationOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { memoizeEntitlements } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { Space } from "../space.ts";
import { NEVER_OVER } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";
import { addOnsOfFeature, addOnsOfLimit } from "../add-on-index.ts";
import { type Finding, limitFindings, featureFindings } from "./grant-findings.ts";
import { OneSidedGrants } from "./one-sided-grants.ts";

/*
 * Compares the grants of every configuration that both pricings offer. A feature or limit depends only on the plan and
 * on the few add-ons that touch it. Comparing under these alone gives the result of all combinations of add-ons, which
 * are too many to enumerate.
 */

/**
 * Maximum cached selections, for reuse by subjects that the same add-ons touch. Bounds memory: a selection of 20
 * add-ons takes about 1 kB.
 */
const MAX_KEPT_SELECTIONS = 16_384;
/** Maximum distinct configurations compared. Subjects that need more are reported as capped. */
const MAX_CONFIGURATIONS = 250_000;

/** Extent of the comparison. `capped` lists subjects that needed too many selections or ran out of time. */
export interface SpaceReport {
  readonly plans: number;
  readonly configurations: number;
  readonly complete: boolean;
  readonly capped: readonly string[];
}

/**
 * A cached selection. Subjects share the same `configuration` object, so that cached holdings are found by identity.
 */
interface Prepared {
  readonly configuration: Configuration;
  readonly addOns: Readonly<Record<string, number>>;
}

/** Compares holdings over all configurations that both sides offer. */
class GrantComparison {
  readonly changes: Change[] = [];
  readonly #sides: readonly [Side, Side];
  readonly #space: Space;
  readonly #isOver: IsOver;
  readonly #holdings: readonly [
    (configuration: Configuration) => Entitlements,
    (configuration: Configuration) => Entitlements,
  ];
  readonly #seen = new Set<string>();
  readonly #capped = new Set<string>();
  readonly #prepared = new Map<string, { readonly list: readonly Prepared[]; readonly complete: boolean }>();
  #kept = 0;

  constructor(before: Side, after: Side, isOver: IsOver) {
    this.#sides = [before, after];
    this.#isOver = isOver;
    this.#space = new Space([before, after]);
    this.#holdings = [memoizeEntitlements(before), memoizeEntitlements(after)];
  }

  get report(): SpaceReport {
    const capped = [...this.#capped].sort();
    return {
      plans: this.#space.plans.length,
      configurations: this.#seen.size,
      complete: capped.length === 0,
      capped,
    };
  }

  /** Returns true when time or configurations are used up, and then records the subject as capped. */
  isOver(subject: Subject, name: string): boolean {
    if (!this.#isOver() && this.#seen.size <= MAX_CONFIGURATIONS) return false;
    this.#capped.add(`${subject} ${name}`);
    return true;
  }

  /**
   * Compares one subject under every selection of the add-ons that touch it. Adds the condensed findings to `changes`.
   */
  *compare(
    subject: Subject,
    name: string,
    addOnsOf: (side: Side, name: string) => string[],
    find: (before: Entitlements, after: Entitlements) => readonly Finding[],
  ): Steps<void> {
    if (this.isOver(subject, name)) return;
    const keys = [...new Set(this.#sides.flatMap((side) => addOnsOf(side, name)))].sort();
    const rows = new Map<string, Change & { plans: string[] }>();
    for (const plan of this.#space.plans) {
      const { list, complete } = this.#prepare(plan, keys);
      yield;
      if (!complete) this.#capped.add(`${subject} ${name}`);
      const found: Found[] = [];
      for (const { configuration, addOns } of list) {
        if (this.isOver(subject, name)) break;
        const [before, after] = this.#holdings;
        for (const finding of find(before(configuration), after(configuration))) found.push({ finding, addOns });
        yield;
      }
      for (const row of condense(found)) {
        const { finding, addOns, configurations } = row;
        const key = canonical({ ...finding, addOns });
        const known = rows.get(key);
        const selected = Object.keys(addOns).length > 0 ? { addOns } : {};
        const plans = plan === undefined ? [] : [plan];
        rows.set(key, {
          ...finding,
          subject,
          name,
          ...selected,
          plans: [...(known?.plans ?? []), ...plans].sort(),
          configurations: (known?.configurations ?? 0) + configurations,
        });
      }
    }
    for (const { plans, ...row } of rows.values()) this.changes.push(plans.length === 0 ? row : { ...row, plans });
  }

  /** Returns the cached selections of these add-ons, so subjects with the same add-ons share objects. */
  #prepare(plan: string | undefined, keys: readonly string[]) {
    const id = JSON.stringify([plan, keys]);
    const known = this.#prepared.get(id);
    if (known !== undefined) return known;
    const { list, complete } = this.#space.selections(plan, keys);
    const prepared = {
      complete,
      list: list.map(({ whole }) => ({ configuration: configurationOf(plan, whole), addOns: whole })),
    };
    for (const { configuration } of prepared.list) this.#seen.add(canonical(configuration));
    this.#kept += list.length;
    if (this.#kept > MAX_KEPT_SELECTIONS) {
      this.#prepared.clear();
      this.#kept = list.length;
    }
    this.#prepared.set(id, prepared);
    return prepared;
  }
}

interface Found {
  readonly finding: Finding;
  readonly addOns: Readonly<Record<string, number>>;
}

/**
 * Groups the findings of one plan by kind. Keeps the first of each kind, which has the fewest add-ons, and counts the
 * others.
 */
function condense(findings: readonly Found[]): readonly (Found & { configurations: number })[] {
  const kinds = new Map<string, Found & { configurations: number }>();
  for (const found of findings) {
    const { aspect, class: kind, mode, unknown } = found.finding;
    const key = `${aspect} ${kind} ${mode ?? ""} ${unknown === true}`;
    const known = kinds.get(key);
    kinds.set(key, { ...(known ?? found), configurations: (known?.configurations ?? 0) + 1 });
  }
  return [...kinds.values()];
}

/** Reports expressions whose text differs although no difference in their results was found. */
function compareTexts(before: Side, after: Side, feature: string, found: readonly Change[]): Change[] {
  const [old, now] = [before, after].map((side) => side.pricing.features.get(feature)?.feature);
  const changes: Change[] = [];
  for (const aspect of ["expression", "serverExpression"] as const) {
    const [text, newText] = [old?.[aspect], now?.[aspect]];
    if (text === newText || found.some((change) => change.aspect === "access")) continue;
    changes.push({
      class: "neutral",
      subject: "feature",
      name: feature,
      aspect,
      before: text ?? null,
      after: newText ?? null,
    });
  }
  return changes;
}

/**
 * Compares the grants of all configurations that both pricings offer. Stops when `isOver` returns true; `space` then
 * lists the subjects that were not, or not fully, compared.
 */
export function* compareGrants(
  before: Side,
  after: Side,
  isOver: IsOver = NEVER_OVER,
): Steps<{ changes: Change[]; space: SpaceReport }> {
  const comparison = new GrantComparison(before, after, isOver);
  const [old, now] = [before.pricing, after.pricing];
  const [onlyBefore, onlyAfter] = [new OneSidedGrants(before, after), new OneSidedGrants(after, before)];
  const changes: Change[] = [];
  for (const name of namesOfBoth(old.pricing.features, now.pricing.features)) {
    if (old.features.has(name) && now.features.has(name)) {
      const start = comparison.changes.length;
      yield* comparison.compare("feature", name, addOnsOfFeature, featureFindings(name));
      changes.push(...compareTexts(before, after, name, comparison.changes.slice(start)));
    } else {
      const [side, present] = old.features.has(name)
        ? ([onlyBefore, "before"] as const)
        : ([onlyAfter, "after"] as const);
      const isWorth = yield* side.isWorth("feature", name, () => comparison.isOver("feature", name));
      const effect = isWorth ? (present === "after" ? "more" : "less") : "same";
      changes.push(presence("feature", name, present, effect));
    }
  }
  for (const name of namesOfBoth(old.pricing.usageLimits, now.pricing.usageLimits)) {
    if (old.usageLimits.has(name) && now.usageLimits.has(name))
      yield* comparison.compare("usageLimit", name, addOnsOfLimit, limitFindings(name));
    else {
      const [side, present] = old.usageLimits.has(name)
        ? ([onlyBefore, "before"] as const)
        : ([onlyAfter, "after"] as const);
      const isWorth = yield* side.isWorth("usageLimit", name, () => comparison.isOver("usageLimit", name));
      const effect = isWorth ? (present === "after" ? "less" : "more") : "same";
      changes.push(presence("usageLimit", name, present, effect));
    }
  }
  return { changes: [...changes, ...comparison.changes], space: comparison.report };
}
