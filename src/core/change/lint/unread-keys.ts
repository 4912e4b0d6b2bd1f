import { excerpt } from "../../pricing/excerpt.ts";
import { isMap, shown } from "../../pricing/parse/tree.ts";
import type { TreeMap, TreeValue } from "../../pricing/parse/tree.ts";
import { detectSyntaxVersion } from "../../pricing/parse/upgrade.ts";
import { namedItems } from "../../pricing/parse/value.ts";
import type { Steps } from "../../steps.ts";

/** A key of the text that changes nothing. `at` is its offset; `path` consists of keys. */
export interface UnreadKey {
  readonly path: readonly string[];
  readonly at: number;
  readonly message: string;
}

function words(text: string): readonly string[] {
  return text.split(" ");
}

/** Keys that each kind of map may have. The field `name` is that of items in lists; lint reports it elsewhere by another code. */
const ROOT = words(
  "saasName syntaxVersion version url createdAt currency billing variables tags custom renames features usageLimits plans addOns",
);
const VALUES = words("description valueType defaultValue value type render");
const FEATURE = VALUES.concat(
  words("integrationType pricingUrls automationType docUrl expression serverExpression tag name"),
);
const LIMIT = VALUES.concat(words("unit period trackable linkedFeatures name"));
const PLAN = words("description price unit private features usageLimits name");
const ADD_ON = PLAN.concat(words("availableFor dependsOn excludes usageLimitsExtensions subscriptionConstraints"));
const PERIOD = words("value unit");
const CONSTRAINTS = words("minQuantity maxQuantity quantityStep");
const OVERRIDE = ["value"];

/** Keys that only syntax 1.0 and 1.1 have, in the document and in plans and add-ons. */
const OLD_ROOT = words("day month year hasAnnualPayment");
const OLD_PRICES = ["monthlyPrice", "annualPrice"];

/** Words that are written instead of a key, but look like another one or none. */
const OTHER_WORDS: ReadonlyMap<string, string> = new Map([
  ["hasannualpayment", "billing"],
  ["monthlyprice", "price"],
  ["annualprice", "price"],
]);

/** Longer keys are no slips of the pen, and too slow to compare. */
const MAX_COMPARED = 40;
const MAX_QUOTED = 100;
/** Maximum findings, because a text of 2 MB has room for 200,000 keys. */
const MAX_UNREAD = 100;

/** Counts the slips between two words: letters that are missing, added, replaced or swapped with their neighbour. */
function distance(one: string, other: string): number {
  let [last, row]: [number[], number[]] = [[], [...other, ""].map((_, column) => column)];
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const [above, left, before] = [row[j] ?? 0, next[j - 1] ?? 0, row[j - 1] ?? 0];
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      next[j] = Math.min(
        above + 1,
        left + 1,
        before + Number(one[i - 1] !== other[j - 1]),
        isSwap ? (last[j - 2] ?? 0) + 1 : Infinity,
      );
    }
    [last, row] = [row, next];
  }
  return row[other.length] ?? 0;
}

/** Returns the key that was probably meant by an unknown one; undefined if none is similar. */
function likelyKey(key: string, candidates: readonly string[]): string | undefined {
  if (key.length > MAX_COMPARED) return undefined;
  const word = key.toLowerCase().replace(/[^a-z]/g, "");
  const other = OTHER_WORDS.get(word);
  if (other !== undefined && candidates.includes(other)) return other;
  const near = candidates
    .map((candidate) => ({ candidate, slips: distance(word, candidate.toLowerCase()) }))
    .sort((a, b) => a.slips - b.slips)[0];
  if (near !== undefined && near.slips <= Math.max(1, Math.floor(word.length / 4))) return near.candidate;
  if (word.length < 3) return undefined;
  const byLength = candidates.toSorted((a, b) => a.length - b.length);
  return (
    byLength.find((candidate) => candidate.toLowerCase().includes(word)) ??
    byLength.findLast((candidate) => word.startsWith(candidate.toLowerCase()))
  );
}

class Finder {
  readonly #found: UnreadKey[] = [];
  #more = 0;
  readonly #isOld: boolean;

  constructor(isOld: boolean) {
    this.#isOld = isOld;
  }

  #add(path: readonly string[], at: number, message: () => string): void {
    if (this.#found.length === MAX_UNREAD) this.#more += 1;
    else this.#found.push({ path: path.map((part) => excerpt(part, MAX_QUOTED)), at, message: message() });
  }

  /** Reports the keys of a map that are none of `known`. Keys that begin with x- announce own data. */
  #keys(map: TreeMap, known: readonly string[], path: readonly string[]): void {
    for (const [key, { at }] of map.entries) {
      if (known.includes(key) || key.startsWith("x-")) continue;
      this.#add([...path, key], at, () => {
        const likely = likelyKey(key, known);
        const advice =
          likely === undefined
            ? "Remove it, or move your own data below custom"
            : `${map.entries.has(likely) ? "Merge it into" : "Write"} ${likely}`;
        return `Nothing reads the key ${excerpt(key, MAX_QUOTED)}. ${advice}.`;
      });
    }
  }

  /** Returns what was found. The last one says how many more there are. */
  list(): readonly UnreadKey[] {
    const last = this.#found.at(-1);
    if (last === undefined || this.#more === 0) return this.#found;
    return [...this.#found.slice(0, -1), { ...last, message: `${last.message} ${this.#more} more keys are not read.` }];
  }

  root(root: TreeMap): void {
    this.#keys(root, [...ROOT, ...(this.#isOld ? OLD_ROOT : [])], []);
  }

  feature(path: readonly string[], map: TreeMap): void {
    this.#keys(map, FEATURE, path);
    const word = (key: string): string => shown(map.entries.get(key)?.value ?? null).trim();
    const type = word("type").toUpperCase();
    const docUrl = map.entries.get("docUrl");
    if (docUrl !== undefined && docUrl.value !== null && type !== "GUARANTEE")
      this.#add([...path, "docUrl"], docUrl.at, () => "Only features of type GUARANTEE have a docUrl. Remove it.");
    const urls = map.entries.get("pricingUrls");
    if (
      urls !== undefined &&
      urls.value !== null &&
      (type !== "INTEGRATION" || map.entries.get("integrationType")?.value !== "WEB_SAAS")
    )
      this.#add(
        [...path, "pricingUrls"],
        urls.at,
        () => "Only features of type INTEGRATION and integrationType WEB_SAAS have pricingUrls. Remove them.",
      );
  }

  limit(path: readonly string[], map: TreeMap): void {
    this.#keys(map, LIMIT, path);
    const period = map.entries.get("period")?.value;
    if (isMap(period)) this.#keys(period, PERIOD, [...path, "period"]);
  }

  plan(path: readonly string[], map: TreeMap): void {
    this.#keys(map, [...PLAN, ...(this.#isOld ? OLD_PRICES : [])], path);
    for (const field of ["features", "usageLimits"]) this.#overrides(map.entries.get(field)?.value, [...path, field]);
  }

  addOn(path: readonly string[], map: TreeMap): void {
    this.#keys(map, [...ADD_ON, ...(this.#isOld ? OLD_PRICES : [])], path);
    for (const field of ["features", "usageLimits", "usageLimitsExtensions"])
      this.#overrides(map.entries.get(field)?.value, [...path, field]);
    const constraints = map.entries.get("subscriptionConstraints")?.value;
    if (isMap(constraints)) this.#keys(constraints, CONSTRAINTS, [...path, "subscriptionConstraints"]);
  }

  /** Reports values that do not stand below `value`, which the format ignores, and other keys beside it. */
  #overrides(overrides: TreeValue | undefined, path: readonly string[]): void {
    if (!isMap(overrides)) return;
    for (const [name, { value, at }] of overrides.entries) {
      if (isMap(value)) this.#keys(value, OVERRIDE, [...path, name]);
      else if (value !== null)
        this.#add(
          [...path, name],
          at,
          () =>
            `Nothing reads this value, because it does not stand below the key value. Write ${excerpt(name, MAX_QUOTED)}: { value: ${excerpt(shown(value), MAX_QUOTED)} }.`,
        );
    }
  }
}

/**
 * Finds the keys of a document that nothing reads, in the order of the file within each map: misspelt ones, values of plans
 * and add-ons without `value`, and addresses of features that have none. Returns at most 100, whose last one says how many
 * more there are.
 */
export function* unreadKeys(root: TreeMap): Steps<readonly UnreadKey[]> {
  const detected = detectSyntaxVersion(root);
  const finder = new Finder("version" in detected && (detected.version === "1.0" || detected.version === "1.1"));
  finder.root(root);
  const readers = { features: "feature", usageLimits: "limit", plans: "plan", addOns: "addOn" } as const;
  for (const [field, read] of Object.entries(readers))
    for (const { name, map } of namedItems(root.entries.get(field)?.value ?? null)) {
      if (map !== undefined) finder[read]([field, name], map);
      yield;
    }
  return finder.list();
}
