import { finish } from "../../steps.ts";
import type { Steps } from "../../steps.ts";
import { emptyRecord } from "../model.ts";
import type { AddOn, Feature, JsonValue, Plan, Pricing, PricingProblem, UsageLimit } from "../model.ts";
import { readAddOn } from "./add-on.ts";
import type { PendingName } from "./add-on.ts";
import { readFeature } from "./feature.ts";
import { readHeader } from "./header.ts";
import { invalidKey, isLegalKey, keyAdvice, RESERVED_KEYS } from "./legal-key.ts";
import type { KeyMap } from "./legal-key.ts";
import { readPlan } from "./plan.ts";
import { readUsageLimit } from "./usage-limit.ts";
import { namedItems, textItems } from "./value.ts";
import type { NamedItem } from "./value.ts";
import { Problems, Section } from "./problems.ts";
import { jsonBytes, MAX_MODEL_BYTES, textLength, textWeight } from "./size.ts";
import { isList, isMap } from "./tree.ts";
import type { TreeMap } from "./tree.ts";
import { detectSyntaxVersion, upgrade } from "./upgrade.ts";
import type { SyntaxVersion } from "./upgrade.ts";
import { readYamlSteps } from "./yaml.ts";

/** A pricing, or all its problems. */
export type ParsedPricing =
  | { ok: true; pricing: Pricing }
  /** `pricing` is what could be read. It is complete if the first problem is of kind `key`. */
  | { ok: false; problems: readonly PricingProblem[]; pricing?: Pricing };

/** Words for messages: the item of each map, and the error for a value that is not a map. */
const WORDS: Readonly<Record<KeyMap, { item: string; shape: string; notAMap: string }>> = {
  features: {
    item: "feature",
    shape: "The feature must be an object of type Feature",
    notAMap: "The features field must be a map of Feature objects",
  },
  usageLimits: {
    item: "usage limit",
    shape: "The usage limit must be an object of type UsageLimit",
    notAMap: "The usageLimits field must be a map of UsageLimit objects or undefined",
  },
  plans: {
    item: "plan",
    shape: "The plan must be an object of type Plan",
    notAMap: "The plans field must be a map of Plan objects",
  },
  addOns: {
    item: "addon",
    shape: "The addon must be an object of type AddOn",
    notAMap: "The addOns field must be a map of AddOn objects",
  },
};

/**
 * Maximum values over all plans, and maximum plan names over all add-ons. Each plan lists every feature and limit, so
 * the model can grow with the square of the text's length. The largest real file has 2,400.
 */
const MAX_CELLS = 200_000;

/** Reads the items of the four maps and checks that their names are unique and valid. */
class MapReader {
  private readonly root: Section;
  private readonly problems: Problems;

  constructor(root: Section, problems: Problems) {
    this.root = root;
    this.problems = problems;
  }

  /** Returns the items of `map`. Reports any value other than a map or list. */
  items(map: KeyMap): readonly NamedItem[] {
    const value = this.root.value(map);
    if (isMap(value) || isList(value)) return namedItems(value);
    if (value !== null || map === "features") this.root.fail(map, WORDS[map].notAMap);
    return [];
  }

  /** Reads each item with `read` and omits unreadable ones. */
  *read<Item>(
    map: KeyMap,
    items: readonly NamedItem[],
    read: (section: Section, item: NamedItem) => Item | undefined,
  ): Steps<Item[]> {
    const { item: word, shape } = WORDS[map];
    const results: Item[] = [];
    const seen = new Set<string>();
    for (const named of items) {
      const { name, entry, map: fields, key } = named;
      const prefix = `Error parsing ${word} ${name}. Error: `;
      const section = this.root.below(fields ?? this.root.map, `${map}.${key}`, entry.at, prefix);
      if (fields === undefined) section.fail("", shape);
      else if (seen.has(name)) section.fail("", `The name ${name} is used twice`);
      else {
        const result = read(section, named);
        if (result !== undefined) results.push(result);
      }
      seen.add(name);
      if (!isLegalKey(name))
        this.problems.add("key", invalidKey(map, name), `${map}.${key}`, entry.at, 1, keyAdvice(map, name));
      yield;
    }
    return results;
  }
}

function byName<Item extends { readonly name: string }>(items: readonly Item[]): Map<string, Item> {
  return new Map(items.map((item) => [item.name, item]));
}

function namesOf(items: readonly NamedItem[]): Set<string> {
  return new Set(items.map((item) => item.name));
}

/**
 * Converts data as a JSON round trip would: Infinity and NaN become null. Does not build the JSON, which could exceed
 * the maximum string length.
 */
function asStored(data: JsonValue): JsonValue {
  // Adding 0 turns -0 into 0, because JSON has no negative zero.
  if (typeof data === "number") return Number.isFinite(data) ? data + 0 : null;
  if (typeof data !== "object" || data === null) return data;
  return Array.isArray(data) ? data.map(asStored) : recordAsStored(data as Readonly<Record<string, JsonValue>>);
}

function recordAsStored(data: Readonly<Record<string, JsonValue>>): Record<string, JsonValue> {
  const record = emptyRecord<JsonValue>();
  for (const [key, value] of Object.entries(data)) record[key] = asStored(value);
  return record;
}

/** Rejects long text values of features, which every plan repeats. Returns true if the plans may be read. */
function repeatsAreShort(
  section: Section,
  features: readonly Feature[],
  items: readonly NamedItem[],
  { limits, plans }: { limits: number; plans: number },
): boolean {
  let weight = limits * plans;
  for (const { name, value, defaultValue } of features) {
    const length = textLength(value ?? defaultValue);
    weight += textWeight(length) * plans;
    if (weight <= MAX_CELLS) continue;
    const item = items.find((each) => each.name === name);
    section.failAt(
      `features.${item?.key ?? name}`,
      item?.entry.at ?? section.at,
      `The values of the features are too long for ${plans} plans, which repeat each of them: up to the feature ${name}, whose value has ${length} characters, they count as ${weight} values, at most ${MAX_CELLS} are accepted`,
    );
    return false;
  }
  return true;
}

const USAGE_READ = /subscriptionContext|userContext/g;
/** Estimated bytes of a result per limit read: consumption, limit and figures, without the service name. */
const BYTES_OF_LIMIT = 48;

/** Rejects expressions if one evaluation of all features would exceed the maximum model size. */
function checkAnswers(section: Section, { saasName, features }: Pricing): void {
  const reads = (text = "") => text.match(USAGE_READ)?.length ?? 0;
  const each = features.map(({ expression, serverExpression }) => Math.max(reads(expression), reads(serverExpression)));
  const bytes = each.reduce((sum, count) => sum + count, 0) * 2 * (saasName.length + BYTES_OF_LIMIT);
  if (bytes <= MAX_MODEL_BYTES) return;
  section.fail(
    "features",
    `The expressions of the features read usage too often: an answer about all of them would take more than ${MAX_MODEL_BYTES / 1024 / 1024} MB`,
  );
}

/** Rejects a pricing that is too large to store, and names its largest part. */
function* checkSize(section: Section, pricing: Pricing): Steps<void> {
  const sizes: { part: string; bytes: number }[] = [];
  for (const [part, data] of Object.entries(pricing)) {
    let bytes = part.length;
    for (const item of Array.isArray(data) ? (data as JsonValue[]) : [data as JsonValue]) {
      yield;
      bytes += jsonBytes(item, MAX_MODEL_BYTES - bytes) + 1;
      if (bytes > MAX_MODEL_BYTES) break;
    }
    sizes.push({ part, bytes });
  }
  if (sizes.reduce((sum, { bytes }) => sum + bytes, 0) <= MAX_MODEL_BYTES) return;
  const largest = sizes.reduce((one, other) => (other.bytes > one.bytes ? other : one));
  section.fail(
    largest.part,
    `The pricing is too large: with the values of every plan it takes more than ${MAX_MODEL_BYTES / 1024 / 1024} MB, most of them in ${largest.part}`,
  );
}

function* readPricing(root: TreeMap, version: SyntaxVersion, now: Date, problems: Problems): Steps<Pricing> {
  const section = new Section(problems, root, "", 0, "");
  const { variables, ...rest } = readHeader(section, now, version === "3.1");
  const header = { ...rest, variables: recordAsStored(variables), custom: recordAsStored(rest.custom) };
  const maps = new MapReader(section, problems);

  const tagItems = section.value("tags") === null ? [] : textItems(section.value("tags"));
  const tags = tagItems === undefined ? undefined : new Set(tagItems);
  const featureItems = maps.items("features");
  const features: Feature[] = yield* maps.read("features", featureItems, (at, item) => readFeature(at, item, tags));
  const featureNames = namesOf(featureItems);
  const limitItems = maps.items("usageLimits");
  const usageLimits: UsageLimit[] = yield* maps.read("usageLimits", limitItems, (at, item) =>
    readUsageLimit(at, item, featureNames),
  );

  const planItems = maps.items("plans");
  const addOnItems = maps.items("addOns");
  const cells = planItems.length * Math.max(featureItems.length + limitItems.length, addOnItems.length);
  if (cells > MAX_CELLS) {
    section.fail("plans", `The pricing has too many plan values: ${cells}, at most ${MAX_CELLS} are accepted`);
    return { ...header, syntaxVersion: version, features, usageLimits, plans: [], addOns: [] };
  }
  if (!repeatsAreShort(section, features, featureItems, { limits: limitItems.length, plans: planItems.length }))
    return { ...header, syntaxVersion: version, features, usageLimits, plans: [], addOns: [] };
  const catalogue = {
    features: byName(features),
    usageLimits: byName(usageLimits),
    featureNames,
    limitNames: namesOf(limitItems),
    variables,
  };
  const plans: Plan[] = yield* maps.read("plans", planItems, (at, item) => readPlan(at, item, catalogue));
  const planNames = { names: namesOf(planItems), inOrder: planItems.map((item) => item.name) };
  const pending: PendingName[] = [];
  const addOns: AddOn[] = yield* maps.read("addOns", addOnItems, (at, item) =>
    readAddOn(at, item, catalogue, planNames, pending),
  );
  checkAddOnNames(pending, namesOf(addOnItems), problems);
  const pricing = { ...header, ...readRenames(root), syntaxVersion: version, features, usageLimits, plans, addOns };
  yield;
  if (problems.none) yield* checkSize(section, pricing);
  if (problems.none) checkAnswers(section, pricing);
  return pricing;
}

/** Reads `renames`, which is no part of Pricing2Yaml: anything but a map of texts is ignored, as unknown keys are. */
function readRenames(root: TreeMap): Pick<Pricing, "renames"> {
  const map = root.entries.get("renames")?.value;
  const renames = emptyRecord<string>();
  for (const [from, { value }] of isMap(map) ? map.entries : [])
    if (typeof value === "string" && !RESERVED_KEYS.has(from)) renames[from] = value;
  return Object.keys(renames).length === 0 ? {} : { renames };
}

/**
 * Checks references between add-ons last, because their order is free. Reports all dependencies, then all exclusions.
 */
function checkAddOnNames(pending: readonly PendingName[], addOns: ReadonlySet<string>, problems: Problems): void {
  for (const field of ["dependsOn", "excludes"] as const)
    for (const { section, name, isNested, index, at } of pending.filter((each) => each.field === field))
      if (!addOns.has(name) || isNested)
        problems.add(
          "pricing",
          `The addon ${name} is not defined in the pricing.`,
          section.pathOf(`${field}.${index}`),
          at,
        );
}

/**
 * Parses one Pricing2Yaml document of any supported syntax version. Returns the pricing, or all its problems.
 *
 * Never throws. The text is limited to 2 MB and the pricing to 8 MB of JSON, which bounds time and memory. The first
 * problem is the one that the reference service reports. The others follow in its order: at most 1,000, one per path.
 * Dates after `now` are future dates. Problems of kind `key` are complete messages; all others are details of a parsing
 * error. Source: pricing2yaml.md.
 */
export function parsePricing(text: string, now: Date, maxDepth?: number): ParsedPricing {
  return finish(parsePricingSteps(text, now, maxDepth));
}

/** Runs {@link parsePricing} in steps. Tokenizing the YAML is one step: about 100 ms per MB. */
export function* parsePricingSteps(text: string, now: Date, maxDepth?: number): Steps<ParsedPricing> {
  const source = text.startsWith("\uFEFF") ? text.slice(1) : text;
  const problems = new Problems();
  const document = yield* readYamlSteps(source, maxDepth);
  if (!document.ok) return { ok: false, problems: [{ kind: "yaml", path: "", ...document.failure }] };
  const { root } = document;
  if (root === null) {
    problems.add("yaml", "The file does not contain valid YAML content.", "", 0);
    return { ok: false, problems: problems.list(source) };
  }
  const empty: TreeMap = { kind: "map", at: 0, entries: new Map() };
  const map = isMap(root) ? root : empty;
  const detected = detectSyntaxVersion(map);
  if ("message" in detected) {
    problems.add("pricing", detected.message, detected.path, map.entries.get(detected.path)?.at ?? map.at);
    return { ok: false, problems: problems.list(source) };
  }
  upgrade(map, detected.version, (message, path, at) => problems.add("pricing", message, path, at));
  yield;
  const pricing = yield* readPricing(map, detected.version, now, problems);
  return problems.none ? { ok: true, pricing } : { ok: false, problems: problems.list(source), pricing };
}
