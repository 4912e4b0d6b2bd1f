import type { Pricing } from "../pricing/model.ts";
import { versionKey } from "../pricing/names.ts";
import { parsePricing } from "../pricing/parse/pricing.ts";
import { nameFault } from "../pricing/parse/value.ts";
import { type SpaceDocument, textOf } from "./documents.ts";
import { firstDifference, NOT_STORED, parsedAsWire, storedAsWire, writePricingText } from "./stored-pricing.ts";

/** Texts from outside of the database. */
export interface Texts {
  /** Text of a file below SPACE's public folder; undefined without --statics, or without the file. */
  readonly file: (path: string) => string | undefined;
  /** A fetched address; undefined without --fetch. */
  readonly fetched: (url: string) => { text: string } | { error: string } | undefined;
}

interface ReadVersion {
  version: string;
  source: string;
  pricing: Pricing;
}

/**
 * Version in its true spelling. The key of SPACE has `_` for `.`, and after a clash the milliseconds of a moment: only a text
 * tells which `_` are real.
 */
function trueSpelling(key: string, written: string | undefined): string {
  if (written !== undefined) {
    if (versionKey(written) === versionKey(key)) return written;
    const clash = key.slice(written.length);
    if (versionKey(key.slice(0, written.length)) === versionKey(written) && /^[._]\d{13}$/.test(clash)) {
      return written + versionKey(clash);
    }
  }
  return versionKey(key);
}

/** True if the text is of the version that the key names. */
function isOf(key: string, written: string): boolean {
  const clash = key.slice(written.length);
  return versionKey(key.slice(0, written.length)) === versionKey(written) && /^([._]\d{13})?$/.test(clash);
}

/**
 * Chooses the saasName of a rewritten text. SPACE allows renames to one character, but a saasName needs three: then the
 * text keeps the name at creation.
 */
function saasNameOf(document: SpaceDocument, serviceName: string): string {
  if (nameFault("SaaS", serviceName) === undefined) return serviceName;
  return textOf(document["_serviceName"]) ?? serviceName;
}

/** Reads a stored pricing: its text where it says the same, else a text that is written from the object. */
export function readStored(
  document: SpaceDocument,
  given: { key: string; serviceName: string; texts: Texts; now: Date },
): (ReadVersion & { changed?: { code: "text-written" | "text-differs"; detail: string } }) | { problem: string } {
  const { key, serviceName, texts, now } = given;
  const stored = storedAsWire(document);
  const path = textOf(document["yamlPath"]);
  const text = path === undefined ? undefined : texts.file(path);
  const difference = text === undefined ? undefined : differenceOf(text, key, stored, now);
  if (text !== undefined && difference?.pricing !== undefined) {
    return { version: trueSpelling(key, difference.pricing.version), source: text, pricing: difference.pricing };
  }
  const version = trueSpelling(key, undefined);
  const source = writePricingText(stored, { saasName: saasNameOf(document, serviceName), version });
  const read = parsePricing(source, now);
  if (!read.ok) return { problem: read.problems[0]?.message ?? "It cannot be read" };
  const lost = firstDifference(stored, parsedAsWire(read.pricing));
  if (lost !== undefined) return { problem: `${lost} cannot be written as Pricing2Yaml 3.0` };
  const missing = `SPACE has not stored its ${NOT_STORED}`;
  return {
    version,
    source,
    pricing: read.pricing,
    changed:
      difference?.why === undefined
        ? { code: "text-written", detail: `Its text is rewritten: ${missing}` }
        : { code: "text-differs", detail: `Its text is rewritten, because ${difference.why}: ${missing}` },
  };
}

/** Parses a text. Returns the pricing if it says the same as the stored one, else why it does not. */
function differenceOf(
  text: string,
  key: string,
  stored: ReturnType<typeof storedAsWire>,
  now: Date,
): { pricing: Pricing; why?: undefined } | { pricing?: undefined; why: string } {
  const read = parsePricing(text, now);
  if (!read.ok) return { why: `the file cannot be read (${read.problems[0]?.message ?? "no reason"})` };
  if (!isOf(key, read.pricing.version)) return { why: `the file is version ${read.pricing.version}` };
  const difference = firstDifference(stored, parsedAsWire(read.pricing));
  return difference === undefined ? { pricing: read.pricing } : { why: `the file differs in ${difference}` };
}

/** Reads a pricing of which SPACE stores only the address. */
export function readFetched(
  url: string,
  { key, texts, now }: { key: string; texts: Texts; now: Date },
): ReadVersion | { code: "version-not-fetched" | "version-unreadable"; problem: string } {
  const text = textAt(url, texts);
  if ("problem" in text) return { code: "version-not-fetched", problem: text.problem };
  const read = parsePricing(text.text, now);
  if (!read.ok) return { code: "version-unreadable", problem: read.problems[0]?.message ?? "It cannot be read" };
  if (!isOf(key, read.pricing.version)) {
    return { code: "version-unreadable", problem: `${url} is version ${read.pricing.version} now` };
  }
  return { version: trueSpelling(key, read.pricing.version), source: text.text, pricing: read.pricing };
}

/** A relative address is a file of SPACE's public folder. */
export const isLocal = (url: string): boolean => !/^[a-z][a-z0-9+.-]*:/i.test(url);

function textAt(url: string, texts: Texts): { text: string } | { problem: string } {
  if (isLocal(url)) {
    const text = texts.file(url);
    return text === undefined ? { problem: `${url} is not in the folder of --statics` } : { text };
  }
  const fetched = texts.fetched(url);
  if (fetched === undefined) return { problem: `${url} is fetched only with --fetch` };
  return "text" in fetched ? fetched : { problem: `${url}: ${fetched.error}` };
}
