import { versionKey } from "../pricing/names.ts";
import { entriesOf, isRecord, type SpaceDocument } from "./documents.ts";
import type { Item } from "./report.ts";
import { hasOtherAddress, isServiceLeft, isUnknownField, isVersionLeft, ReportedContract } from "./reported.ts";

/*
 * Explains the differences between answers of SPACE and of this server that have a known reason.
 * Source: contract files-and-migration §6.
 */

/** Reasons of differences. Each difference has at most one. */
export const EXPLANATIONS = [
  "internal-fields",
  "version-spelling",
  "token-numbers",
  "token-cached",
  "level-renewed",
  "all-periods",
  "level-missing",
  "extension-order",
  "extension-base",
  "limit-null",
  "server-only",
  "status",
  "dash-service",
  "gone-service",
  "reported",
] as const;

export type Explanation = (typeof EXPLANATIONS)[number];

/** Calls whose answers are compared. */
export type ComparedCall = "services" | "pricings" | "contract" | "features" | "details" | "server" | "token";

/** An answer: its status, and its body as JSON. A token's body is its claims. */
export interface Compared {
  status: number;
  body: unknown;
}

/** Facts about the subject of a call, from which differences are explained. */
export interface ComparedFacts {
  user: string;
  /** Service whose pricings are compared; empty for other calls. */
  service: string;
  /** When the calls were made. */
  now: Date;
  /** The user's contract; empty for calls without one. */
  old: SpaceDocument;
  new: SpaceDocument;
  /** Pricings of the new server by lower-case service and version. */
  pricing: (service: string, version: string) => SpaceDocument | undefined;
  /** True for a version that the new server was given as an address. */
  isFromUrl: (version: string) => boolean;
  /** True for a service that the new server lists. */
  hasService: (name: string) => boolean;
  /** Answers with details, by which results are traced to the levels and limits that they read. */
  details: { old: unknown; new: unknown };
  /** Items of the import's report. */
  reported: readonly Item[];
}

/** A difference before it is explained. `path` has a name per step. */
export interface Found {
  path: readonly string[];
  old: unknown;
  new: unknown;
}

export const at = (value: unknown, ...path: readonly string[]): unknown =>
  path.reduce<unknown>((from, key) => (isRecord(from) && Object.hasOwn(from, key) ? from[key] : undefined), value);

function messageOf({ body }: Compared): string {
  const message = at(body, "error");
  return typeof message === "string" ? message : "";
}

export function explainStatus(
  call: ComparedCall,
  old: Compared,
  now: Compared,
  facts: ComparedFacts,
): Explanation | null {
  const services = Object.keys(contracted(facts.old));
  const [before, after] = [messageOf(old), messageOf(now)];
  if (old.status === 500 && (now.status === 400 || now.status === 404)) {
    if (before !== "" && (before.endsWith(after) || after.endsWith(before)) && after !== "") return "status";
  }
  if ((old.status === 404 || old.status === 500) && now.status === 200 && goneServices(facts).length > 0) {
    return "gone-service";
  }
  if (old.status !== 500 || now.status !== 200) return null;
  if (services.some((service) => service.includes("-"))) return "dash-service";
  return call !== "contract" && hasServerOnly(facts) ? "server-only" : null;
}

const contracted = (contract: SpaceDocument): SpaceDocument => {
  const services = contract["contractedServices"];
  return isRecord(services) ? services : {};
};

/** Services of the old contract that the new one lacks, because they are disabled or gone. */
const goneServices = (facts: ComparedFacts): string[] =>
  Object.keys(contracted(facts.old)).filter(
    (service) => !Object.hasOwn(contracted(facts.new), service) && !facts.hasService(service),
  );

const pricingsOf = (facts: ComparedFacts): [string, SpaceDocument][] =>
  entriesOf(contracted(facts.new)).flatMap(([service, version]) => {
    const pricing = facts.pricing(service, String(version));
    return pricing === undefined ? [] : [[service, pricing] as [string, SpaceDocument]];
  });

const hasServerOnly = (facts: ComparedFacts): boolean =>
  pricingsOf(facts).some(([, { features }]) =>
    entriesOf(features).some(
      ([, feature]) => isRecord(feature) && "serverExpression" in feature && !("expression" in feature),
    ),
  );

export function explain(call: ComparedCall, found: Found, facts: ComparedFacts): Explanation | null {
  const rules: readonly ((call: ComparedCall, found: Found, facts: ComparedFacts) => Explanation | null)[] = [
    internalFields,
    versionSpelling,
    inContract,
    tokenNumbers,
    limitNull,
    inFeatures,
    reportedOf,
  ];
  for (const rule of rules) {
    const explanation = rule(call, found, facts);
    if (explanation !== null) return explanation;
  }
  return null;
}

const INTERNAL = new Set(["_id", "__v", "contractedServicesArray"]);

function internalFields(call: ComparedCall, { path, old, new: now }: Found, facts: ComparedFacts): Explanation | null {
  const key = path.at(-1) ?? "";
  if (now === undefined && INTERNAL.has(key)) return "internal-fields";
  if (old === undefined && key === "id") return "internal-fields";
  // A pricing given by URL is the parser's object, which has more fields.
  return call === "pricings" && now === undefined && facts.isFromUrl(path[0] ?? "") ? "internal-fields" : null;
}

function versionSpelling(_: ComparedCall, { old, new: now }: Found): Explanation | null {
  if (typeof old !== "string" || typeof now !== "string") return null;
  return versionKey(old) === versionKey(now) ? "version-spelling" : null;
}

const DAY_MS = 86_400_000;

function inContract(call: ComparedCall, { path, old, new: now }: Found, facts: ComparedFacts): Explanation | null {
  if (call !== "contract") return null;
  const [part = "", service = "", limit = "", field = ""] = path;
  if (part === "billingPeriod" && service === "endDate") {
    const days = (Date.parse(String(now)) - Date.parse(String(old))) / DAY_MS;
    const period = at(facts.new, "billingPeriod", "renewalDays");
    const renews = at(facts.new, "billingPeriod", "autoRenew") === true && typeof period === "number";
    return renews && days > 0 && days % period === 0 ? "all-periods" : null;
  }
  if (now === undefined && goneServices(facts).includes(service) && part !== "history") return "gone-service";
  const isLevel = part === "usageLevels" && (field === "consumed" || field === "resetTimeStamp");
  return isLevel && isDue(facts, `${service}-${limit}`) ? "level-renewed" : null;
}

/** True for a level that the old server has not renewed yet. `key` is `<service>-<limit>`. */
function isDue(facts: ComparedFacts, key: string): boolean {
  return entriesOf(facts.old["usageLevels"]).some(([service, limits]) =>
    entriesOf(limits).some(([limit, level]) => {
      const reset = at(level, "resetTimeStamp");
      return key === `${service}-${limit}` && typeof reset === "string" && Date.parse(reset) < facts.now.getTime();
    }),
  );
}

function tokenNumbers(call: ComparedCall, { path, old, new: now }: Found): Explanation | null {
  const field = path.at(-1);
  if (call !== "token" || path[0] !== "features" || (field !== "limit" && field !== "used")) return null;
  const isOne = typeof now === "number" && entriesOf(old).some(([, value]) => value === now);
  return isOne || (isRecord(old) && now === null) ? "token-numbers" : null;
}

function limitNull(_: ComparedCall, { path, old, new: now }: Found): Explanation | null {
  return path.at(-2) === "limit" && old === undefined && now === null ? "limit-null" : null;
}

/** Explains differences in results by the levels and limits that the feature reads. */
function inFeatures(call: ComparedCall, { path, old, new: now }: Found, facts: ComparedFacts): Explanation | null {
  const inToken = call === "token";
  if (!inToken && call !== "features" && call !== "details" && call !== "server") return null;
  const [part = "", key = "", third = ""] = path;
  if (inToken && part === "subscriptionContext") return isDue(facts, key) ? "level-renewed" : null;
  if (inToken && part === "pricingContext") return key === "usageLimits" ? extension(facts, third, old) : null;
  const feature = inToken ? key : part;
  const before = at(facts.details.old, feature);
  const message = at(before, "error", "message");
  const isParseError = at(before, "error", "code") === "PARSE_ERROR" && typeof message === "string";
  const hasNew =
    at(facts.details.new, feature, "error") === null || at(facts.details.new, feature, "error") === undefined;
  if (isParseError && message.includes("not found in subscriptionContext") && hasNew) return "level-missing";
  if (goneServices(facts).some((service) => feature.startsWith(`${service}-`)) && now === undefined)
    return "gone-service";
  const reads = readBy(facts, feature);
  if (reads.some((each) => isDue(facts, each))) return "level-renewed";
  for (const each of reads) {
    const explanation = extension(facts, each, at(before, "limit", each));
    if (explanation !== null) return explanation;
  }
  return null;
}

/** Levels that a feature's result reads, as `<service>-<limit>`. */
const readBy = ({ details }: ComparedFacts, feature: string): string[] => {
  const keys = [details.old, details.new].flatMap((answer) => entriesOf(at(answer, feature, "used")));
  return [...new Set(keys.map(([key]) => key))];
};

/** Explains a limit that add-ons extend in another order than SPACE's, or without a base. */
function extension(facts: ComparedFacts, key: string, old: unknown): Explanation | null {
  for (const [service, pricing] of pricingsOf(facts)) {
    if (!key.startsWith(`${service}-`)) continue;
    const limit = key.slice(service.length + 1);
    const chosen = entriesOf(at(facts.new, "subscriptionAddOns", service)).map(([name]) => at(pricing, "addOns", name));
    const [replaces, extends_] = ["usageLimits", "usageLimitsExtensions"].map((field) =>
      chosen.some((addOn) => at(addOn, field, limit) !== undefined),
    );
    if (extends_ !== true) return null;
    if (replaces === true) return "extension-order";
    return old === null || old === undefined ? "extension-base" : null;
  }
  return null;
}

/** Matches the import's report, whose items explain only the fields that they are about. */
export function reportedOf(
  call: ComparedCall,
  { path, old, new: now }: Found,
  facts: ComparedFacts,
): Explanation | null {
  return isReported(call, path, { old, now }, facts) ? "reported" : null;
}

function isReported(
  call: ComparedCall,
  path: readonly string[],
  { old, now }: { old: unknown; now: unknown },
  facts: ComparedFacts,
): boolean {
  const { reported } = facts;
  const [part = "", key = "", version = ""] = path;
  if (call === "services") {
    if (path.length === 1) return isServiceLeft(reported, part);
    const left = path.length > 2 ? [version] : entriesOf(old).map(([each]) => each);
    const isLeft = left.length > 0 && left.every((each) => isVersionLeft(reported, part, each));
    return isLeft || (now === undefined && isUnknownField(reported, "services", path.slice(1)));
  }
  if (call === "pricings") {
    if (path.length === 1) return isVersionLeft(reported, facts.service, part);
    if (key === "yamlPath") return hasOtherAddress(reported, facts.service, part);
    return now === undefined && isUnknownField(reported, "pricings", path.slice(1));
  }
  const id = facts.old["id"] ?? facts.old["_id"] ?? facts.new["id"];
  const contract = new ReportedContract(reported, { id, user: facts.user, old: facts.old });
  if (part === "status" && path.length === 1) return contract.hasStatus(call);
  if (call === "contract") {
    return contract.hasField(path, old) || (now === undefined && isUnknownField(reported, "contracts", path));
  }
  if (call === "token" && part === "subscriptionContext")
    return contract.hasBalance(key) || contract.hasResult(key, []);
  if (call === "token" && part === "pricingContext") return contract.hasResult(version, []);
  const feature = call === "token" ? key : part;
  return contract.hasResult(feature, readBy(facts, feature));
}
