/** The four maps whose keys become parts of ids and addresses. */
export const KEY_MAPS = ["features", "usageLimits", "plans", "addOns"] as const;
export type KeyMap = (typeof KEY_MAPS)[number];

/** Keys that access an object's prototype. Source: pricing2yaml.md §3. */
export const RESERVED_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

const ITEMS: Readonly<Record<KeyMap, string>> = {
  features: "feature",
  usageLimits: "limit",
  plans: "plan",
  addOns: "addOn",
};
const MIN_LENGTH = 3;
const MAX_LENGTH = 255;
const SYMBOLS: Readonly<Record<string, string>> = { "&": "And", "+": "Plus", "%": "Percent", "@": "At" };

/** Returns true for a key that ids and addresses can contain. */
export const isLegalKey = (name: string): boolean => /^[A-Za-z0-9_-]+$/.test(name) && !RESERVED_KEYS.has(name);

/** Returns the sentence about a key that is forbidden in its map. Source: pricing2yaml.md §3. */
export const invalidKey = (map: string, key: string): string =>
  `Invalid key in ${map}: "${key}". Keys must not contain "." or other invalid characters.`;

/** Says what is allowed, with a legal key for an illegal one. */
export const keyAdvice = (map: KeyMap, name: string): string =>
  `Allowed are A-Z, a-z, 0-9, "_" and "-", such as "${legalKey(map, name)}".`;

/**
 * Makes a legal key of any text: `24/7support` becomes `support247`, `99.9UptimeSLA` becomes `uptimeSLA99_9`. The same
 * text always yields the same key; it starts with a letter, so that YAML never reads it as a number.
 */
export function legalKey(map: KeyMap, name: string): string {
  const isTitle = map === "plans" || map === "addOns";
  const words = wordsOf(name.slice(0, MAX_LENGTH * 2));
  const joined = isTitle ? joinTitle(words) : joinCamel(words);
  const item = ITEMS[map];
  let key = withoutLeadingNumber(joined, isTitle);
  if (!/[A-Za-z]/.test(key)) key = item + key;
  else if (key.length < MIN_LENGTH) key = item + capitalized(key);
  if (RESERVED_KEYS.has(key)) key += capitalized(item);
  return key.slice(0, MAX_LENGTH).replace(/[_-]+$/, "");
}

function wordsOf(name: string): string[] {
  return name
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .replaceAll("ß", "ss")
    .replace(/(?<=\d)\/(?=\d)/g, "")
    .replace(/(?<=\d)[.,:](?=\d)/g, "_")
    .replace(/[&+%@]/g, (symbol) => ` ${SYMBOLS[symbol] ?? ""} `)
    .split(/[^A-Za-z0-9_-]+/)
    .map((word) => word.replace(/^[_-]+|[_-]+$/g, ""))
    .filter((word) => word !== "");
}

const capitalized = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** Names of plans and add-ons are read by people, so their words stay apart: `Pay as you go` becomes `Pay_as_you_go`. */
function joinTitle(words: readonly string[]): string {
  const isUpper = words.every((word) => word === word.toUpperCase() || Object.values(SYMBOLS).includes(word));
  return words.map((word) => (isUpper ? word.toUpperCase() : word)).join("_");
}

function joinCamel([first = "", ...others]: readonly string[]): string {
  return others.reduce((key, word) => {
    // Two acronyms need a separator, as two numbers do.
    const isBlurred = (/[A-Z]$/.test(key) && /^[A-Z]{2}/.test(word)) || (/\d$/.test(key) && /^\d/.test(word));
    return key + (isBlurred ? "_" : "") + capitalized(word);
  }, first);
}

/** Moves a number from the start to the end. */
function withoutLeadingNumber(key: string, isTitle: boolean): string {
  const [, number, rest] = /^([\d_-]+)([A-Za-z].*)$/.exec(key) ?? [];
  if (number === undefined || rest === undefined) return key;
  const isWord = !isTitle && /^[A-Z][a-z]/.test(rest);
  const start = isWord ? rest.charAt(0).toLowerCase() + rest.slice(1) : rest;
  return start + (/\d$/.test(start) ? "_" : "") + number.replace(/[_-]+$/, "");
}
