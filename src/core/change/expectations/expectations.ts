import { compilePricing, findAddOn, findPlan, trackedLimits } from "../../pricing/compile.ts";
import type { CompiledPricing } from "../../pricing/compile.ts";
import { emptyRecord } from "../../pricing/model.ts";
import type { FeatureValue, LimitValue, Pricing, PricingProblem } from "../../pricing/model.ts";
import { textItems } from "../../pricing/parse/value.ts";
import { Problems, Section } from "../../pricing/parse/problems.ts";
import { isList, isMap, shown } from "../../pricing/parse/tree.ts";
import type { TreeEntry, TreeMap, TreeValue } from "../../pricing/parse/tree.ts";
import { positions, readYaml } from "../../pricing/parse/yaml.ts";

/** Expected result of one feature. Properties that are absent are not checked. */
export interface ExpectedFeature {
  readonly feature: string;
  readonly line: number;
  readonly eval?: boolean;
  /** The granted value. */
  readonly value?: FeatureValue;
  readonly limit?: Readonly<Record<string, LimitValue>>;
  /** The limit minus its consumption. */
  readonly remaining?: Readonly<Record<string, number>>;
  /** Code of the expected error; null expects none. */
  readonly error?: string | null;
}

/** A subscription with consumption, and the results expected of it. */
export interface Expectation {
  readonly name: string;
  readonly line: number;
  readonly plan?: string;
  readonly addOns: Readonly<Record<string, number>>;
  readonly usage: Readonly<Record<string, number>>;
  /** True evaluates the server-side expressions. */
  readonly server: boolean;
  /** The subscription rule that must reject this configuration, or true for any rule. Nothing else is checked then. */
  readonly refused?: string | true;
  readonly features: readonly ExpectedFeature[];
  readonly limits: Readonly<Record<string, LimitValue>>;
}

type Result =
  | { readonly ok: true; readonly expectations: readonly Expectation[] }
  | { readonly ok: false; readonly problems: readonly PricingProblem[] };

const KEYS = ["name", "plan", "addOns", "usage", "server", "refused", "features", "limits"];
const FEATURE_KEYS = ["eval", "value", "limit", "remaining", "error"];
const RULES = [
  "planOrAddOnsRequired",
  "planUnknown",
  "addOnUnknown",
  "addOnUnavailable",
  "addOnDependency",
  "addOnExclusion",
  "addOnQuantity",
  "addOnRepeated",
];

/** Parses one document of expectations and validates its names against the pricing. */
class Reader {
  readonly problems = new Problems();
  readonly #pricing: CompiledPricing;
  readonly #lineOf: (offset: number) => number;
  readonly #tracked: ReadonlySet<string>;

  constructor(pricing: CompiledPricing, source: string) {
    this.#pricing = pricing;
    const locate = positions(source);
    this.#lineOf = (offset) => locate(offset).line;
    this.#tracked = new Set(trackedLimits(pricing).map((limit) => limit.name));
  }

  read(root: TreeValue): Expectation[] {
    const top: TreeMap = isMap(root) ? root : { kind: "map", at: 0, entries: new Map() };
    const section = new Section(this.problems, top, "", 0, "");
    this.#onlyKeys(section, ["pricing", "expectations"]);
    const list = section.value("expectations");
    if (!isList(list) || list.items.length === 0) {
      section.fail("expectations", "The document must have a list of expectations");
      return [];
    }
    return list.items.map((item, index) => this.#readOne(section, item, `expectations.${index}`));
  }

  #onlyKeys(section: Section, allowed: readonly string[]): void {
    for (const [key, { at }] of section.map.entries)
      if (!allowed.includes(key)) section.failAt(key, at, `${key} is unknown. Allowed: ${allowed.join(", ")}`);
  }

  #readOne(parent: Section, item: TreeEntry, path: string): Expectation {
    const map: TreeMap = isMap(item.value) ? item.value : { kind: "map", at: item.at, entries: new Map() };
    const section = parent.below(map, path, item.at);
    const line = this.#lineOf(item.at);
    if (!isMap(item.value)) {
      section.fail("", "An expectation must be a map with plan, addOns, usage and features");
      return { name: "", line, addOns: {}, usage: {}, server: false, features: [], limits: {} };
    }
    this.#onlyKeys(section, KEYS);
    const refused = this.#refused(section);
    const plan = section.value("plan");
    const name = section.value("name");
    if (plan !== null && typeof plan !== "string")
      section.fail("plan", `plan must be a name. Received: ${shown(plan)}`);
    else if (refused === undefined) this.#checkPlan(section, plan);
    const addOns = this.#numbers(section, "addOns", (addOn) =>
      refused !== undefined || findAddOn(this.#pricing, addOn) !== undefined ? undefined : `Unknown add-on ${addOn}`,
    );
    const usage = this.#numbers(section, "usage", (limit) => {
      if (!this.#pricing.usageLimits.has(limit)) return `Unknown usage limit ${limit}`;
      if (this.#tracked.has(limit)) return undefined;
      return `The usage limit ${limit} is not counted: only RENEWABLE ones and those with trackable: true are`;
    });
    const server = this.#flag(section, "server") ?? false;
    const features = this.#features(section);
    const limits = this.#limitValues(section, "limits");
    if (refused === undefined && features.length === 0 && Object.keys(limits).length === 0)
      section.fail("features", "An expectation must say what is expected: features, limits, or refused");
    return {
      name: name === null ? `line ${line}` : shown(name),
      line,
      ...(typeof plan === "string" ? { plan } : {}),
      addOns,
      usage,
      server,
      ...(refused === undefined ? {} : { refused }),
      features,
      limits,
    };
  }

  #checkPlan(section: Section, plan: string | null): void {
    const { plans } = this.#pricing;
    if (plan !== null && findPlan(this.#pricing, plan) === undefined) section.fail("plan", `Unknown plan ${plan}`);
    if (plan === null && plans.size > 0) section.fail("plan", "Name a plan: the pricing has plans");
  }

  #refused(section: Section): string | true | undefined {
    const value = section.value("refused");
    if (value === null || value === false) return undefined;
    if (value === true) return true;
    if (typeof value === "string" && RULES.includes(value)) return value;
    section.fail("refused", `refused must be true or one of ${RULES.join(", ")}. Received: ${shown(value)}`);
    return true;
  }

  #flag(section: Section, key: string): boolean | undefined {
    const value = section.value(key);
    if (value === null || typeof value === "boolean") return value ?? undefined;
    section.fail(key, `${key} must be true or false. Received: ${shown(value)}`);
    return undefined;
  }

  /** Returns the entries of a map and reports a value that is not a map. */
  #entries(section: Section, key: string): readonly (readonly [string, TreeEntry])[] {
    const value = section.value(key);
    if (isMap(value)) return [...value.entries];
    if (value !== null) section.fail(key, `${key} must be a map. Received: ${shown(value)}`);
    return [];
  }

  #numbers(section: Section, key: string, fault: (name: string) => string | undefined): Record<string, number> {
    const numbers = emptyRecord<number>();
    for (const [name, { value, at }] of this.#entries(section, key)) {
      const complaint =
        typeof value === "number" && value >= 0 && Number.isFinite(value)
          ? fault(name)
          : `${name} must be a non-negative number. Received: ${shown(value)}`;
      if (complaint !== undefined) section.failAt(`${key}.${name}`, at, complaint);
      else if (typeof value === "number") numbers[name] = value;
    }
    return numbers;
  }

  #limitValues(section: Section, key: string): Record<string, LimitValue> {
    const values = emptyRecord<LimitValue>();
    for (const [name, { value, at }] of this.#entries(section, key)) {
      if (!this.#pricing.usageLimits.has(name)) section.failAt(`${key}.${name}`, at, `Unknown usage limit ${name}`);
      else if (typeof value === "boolean" || (typeof value === "number" && !Number.isNaN(value)))
        values[name] = typeof value === "number" ? Math.min(value, 100_000_000) : value;
      else section.failAt(`${key}.${name}`, at, `${name} must be a number, true or false. Received: ${shown(value)}`);
    }
    return values;
  }

  #features(section: Section): ExpectedFeature[] {
    return this.#entries(section, "features").map(([feature, entry]) => {
      const line = this.#lineOf(entry.at);
      const path = `features.${feature}`;
      if (!this.#pricing.features.has(feature)) section.failAt(path, entry.at, `Unknown feature ${feature}`);
      if (typeof entry.value === "boolean") return { feature, line, eval: entry.value };
      if (!isMap(entry.value)) {
        section.failAt(path, entry.at, `${feature} must be true, false, or a map. Received: ${shown(entry.value)}`);
        return { feature, line };
      }
      return { feature, line, ...this.#feature(section.below(entry.value, path, entry.at)) };
    });
  }

  #feature(section: Section): Omit<ExpectedFeature, "feature" | "line"> {
    this.#onlyKeys(section, FEATURE_KEYS);
    const on = this.#flag(section, "eval");
    const value = section.value("value");
    const error = section.value("error");
    const hasError = section.map.entries.has("error");
    if (hasError && error !== null && typeof error !== "string")
      section.fail("error", `error must be an error code or null. Received: ${shown(error)}`);
    const granted = isList(value) ? textItems(value) : isMap(value) ? undefined : value;
    if (value !== null && (granted === undefined || (typeof granted === "object" && !Array.isArray(granted))))
      section.fail("value", `value must be a valid feature value. Received: ${shown(value)}`);
    const given = (key: string): boolean => section.value(key) !== null;
    const remaining = this.#limitValues(section, "remaining");
    for (const [name, left] of Object.entries(remaining))
      if (typeof left !== "number") section.fail(`remaining`, `What remains of ${name} must be a number`);
    return {
      ...(on === undefined ? {} : { eval: on }),
      ...(isFeatureValue(granted) ? { value: granted } : {}),
      ...(given("limit") ? { limit: this.#limitValues(section, "limit") } : {}),
      ...(given("remaining") ? { remaining: remaining as Record<string, number> } : {}),
      ...(hasError ? { error: error === null ? null : shown(error) } : {}),
    };
  }
}

function isFeatureValue(value: unknown): value is FeatureValue {
  return Array.isArray(value) || typeof value === "boolean" || typeof value === "number" || typeof value === "string";
}

/**
 * Parses a document of expectations about `pricing`. Returns all problems with their lines; never throws.
 *
 * The document has a list `expectations`. Each entry has a `plan`, `addOns` with quantities and `usage` by limit;
 * `server: true` evaluates the server-side expressions. `features` maps each feature to `true`, `false`, or a map with
 * `eval`, `value`, `limit`, `remaining`, `error`. `limits` lists the granted limits. `refused` expects that the
 * subscription is invalid. A key `pricing` may name the pricing's file.
 */
export function parseExpectations(text: string, pricing: Pricing): Result {
  const source = text.startsWith("\uFEFF") ? text.slice(1) : text;
  const document = readYaml(source);
  if (!document.ok) return { ok: false, problems: [{ kind: "yaml", path: "", ...document.failure }] };
  const reader = new Reader(compilePricing(pricing), source);
  const expectations = reader.read(document.root);
  if (reader.problems.none) return { ok: true, expectations };
  return { ok: false, problems: reader.problems.list(source) };
}
