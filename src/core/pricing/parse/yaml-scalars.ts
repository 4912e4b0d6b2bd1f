import type { TreeDate } from "./tree.ts";

const INTEGER = /^[-+]?[0-9][0-9_]*$/;
const BASED = /^([-+]?)0(?:x([0-9a-fA-F_]+)|o([0-7_]+)|b([01_]+))$/;
const FLOAT = /^(?:[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?|[-+]?\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$/;
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const TIMESTAMP =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.(\d*))?(?:[ \t]*(?:Z|([-+])(\d\d?)(?::?(\d\d))?))?$/;

const WORDS: ReadonlyMap<string, boolean | number | null> = new Map<string, boolean | number | null>([
  ["", null],
  ["~", null],
  ["null", null],
  ["Null", null],
  ["NULL", null],
  ["true", true],
  ["True", true],
  ["TRUE", true],
  ["false", false],
  ["False", false],
  ["FALSE", false],
  [".inf", Infinity],
  [".Inf", Infinity],
  [".INF", Infinity],
  ["+.inf", Infinity],
  ["+.Inf", Infinity],
  ["+.INF", Infinity],
  ["-.inf", -Infinity],
  ["-.Inf", -Infinity],
  ["-.INF", -Infinity],
  [".nan", NaN],
  [".NaN", NaN],
  [".NAN", NaN],
]);

/**
 * Returns midnight UTC of a calendar day; NaN when the day does not exist. `Date` alone would roll over and accepts a
 * year 0.
 */
export function utcDay(year: number, month: number, day: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return year > 0 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date.getTime() : NaN;
}

function readTimestamp(text: string): TreeDate | undefined {
  const parts = DATE.exec(text) ?? TIMESTAMP.exec(text);
  if (parts === null) return undefined;
  const [hour, minute, second] = [Number(parts[4] ?? 0), Number(parts[5] ?? 0), Number(parts[6] ?? 0)];
  const milliseconds = Number((parts[7] ?? "").slice(0, 3).padEnd(3, "0"));
  const offsetMinutes = Number(parts[9] ?? 0) * 60 + Number(parts[10] ?? 0);
  const day = utcDay(Number(parts[1]), Number(parts[2]), Number(parts[3]));
  const inDay = hour < 24 && minute < 60 && second < 60 ? ((hour * 60 + minute) * 60 + second) * 1000 : NaN;
  const time = day + inDay + milliseconds - (parts[8] === "-" ? -1 : 1) * offsetMinutes * 60_000;
  return { kind: "date", text, time };
}

function readNumber(text: string): number | undefined {
  if (text.endsWith("_")) return undefined;
  if (INTEGER.test(text) || FLOAT.test(text)) return Number(text.includes("_") ? text.replaceAll("_", "") : text);
  const based = BASED.exec(text);
  if (based === null) return undefined;
  const [base, digits] =
    based[2] !== undefined ? [16, based[2]] : based[3] !== undefined ? [8, based[3]] : [2, based[4] ?? ""];
  const plain = digits.replaceAll("_", "");
  if (plain === "") return undefined;
  return (based[1] === "-" ? -1 : 1) * parseInt(plain, base);
}

/**
 * Converts an unquoted scalar by the YAML 1.2 core schema. Also supports digit separators (`10_000`), binary integers
 * and dates. The YAML 1.1 booleans (`yes`, `on`) stay strings. Source: pricing2yaml.md §1.
 */
export function readPlainScalar(text: string): string | number | boolean | null | TreeDate {
  const first = text.charCodeAt(0);
  // Fast path: only digits, signs and dots can start a number or date.
  if ((first >= 48 && first <= 57) || first === 45 || first === 43 || first === 46) {
    const number = readNumber(text) ?? readTimestamp(text);
    if (number !== undefined) return number;
    return WORDS.get(text) ?? text;
  }
  if (text.length > 5) return text;
  const word = WORDS.get(text);
  return word === undefined ? text : word;
}
