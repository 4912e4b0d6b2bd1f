import { versionKey } from "../pricing/names.ts";
import { isRecord, itemsOf, type SpaceDocument } from "./documents.ts";
import {
  at,
  type Compared,
  type ComparedCall,
  type ComparedFacts,
  explain,
  explainStatus,
  type Explanation,
  type Found,
  reportedOf,
} from "./explanations.ts";

/* Compares answers of SPACE with those of this server. Source: contract files-and-migration §6. */

export interface Difference {
  /** User of the call; empty for calls without one. */
  user: string;
  call: ComparedCall;
  path: string;
  old: unknown;
  new: unknown;
  explanation: Explanation | null;
}

const isMoment = (text: string): boolean => /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(text);

function isEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== "string" || typeof other !== "string") return Object.is(one, other);
  return one === other || (isMoment(one) && isMoment(other) && Date.parse(one) === Date.parse(other));
}

/** Lists the differences by key and value. Keys that differ in `_` and `.` only are the same version. */
function* differences(old: unknown, now: unknown, path: readonly string[]): Generator<Found> {
  if (Array.isArray(old) && Array.isArray(now)) {
    for (let index = 0; index < Math.max(old.length, now.length); index += 1) {
      yield* differences(old[index], now[index], [...path, String(index)]);
    }
  } else if (isRecord(old) && isRecord(now)) {
    const others = new Map(Object.keys(now).map((key) => [versionKey(key), key]));
    for (const [key, value] of Object.entries(old)) {
      const same = Object.hasOwn(now, key) ? key : (others.get(versionKey(key)) ?? key);
      if (same !== key) yield { path: [...path, key], old: key, new: same };
      others.delete(versionKey(same));
      yield* differences(value, now[same], [...path, same]);
    }
    for (const key of others.values()) {
      if (!Object.hasOwn(old, key)) yield* differences(undefined, now[key], [...path, key]);
    }
  } else if (!isEqual(old, now)) yield { path, old, new: now };
}

/** Compares two answers to one call. */
export function compareAnswers(call: ComparedCall, old: Compared, now: Compared, facts: ComparedFacts): Difference[] {
  const { user } = facts;
  if (old.status !== now.status) {
    const found = { path: ["status"], old: old.status, new: now.status };
    const explanation = explainStatus(call, old, now, facts) ?? reportedOf(call, found, facts);
    return [{ user, call, path: "status", old: old.status, new: now.status, explanation }];
  }
  if (call === "token" && isCached(old.body, facts)) {
    return [{ user, call, path: "", old: at(old.body, "iat"), new: at(now.body, "iat"), explanation: "token-cached" }];
  }
  return [...differences(old.body, now.body, [])]
    .filter(({ path: [first = ""], old: value }) => call !== "token" || !isOwnClaim(first, value))
    .map((found) => ({
      user,
      call,
      path: found.path.join("."),
      old: found.old,
      new: found.new,
      explanation: explain(call, found, facts),
    }));
}

/** Moments differ between any two tokens; issuer and audience are claims that SPACE lacks. */
const isOwnClaim = (claim: string, old: unknown): boolean =>
  claim === "iat" || claim === "exp" || (old === undefined && (claim === "iss" || claim === "aud"));

const CACHED_SECONDS = 5;

function isCached(body: unknown, { now }: ComparedFacts): boolean {
  const issued = at(body, "iat");
  return typeof issued === "number" && issued < now.getTime() / 1000 - CACHED_SECONDS;
}

/** Turns a list into a map by one of its fields, because the order of lists differs. */
export function byName(list: unknown, name: (item: SpaceDocument) => string): Record<string, unknown> {
  return Object.fromEntries(itemsOf(list).map((item) => [isRecord(item) ? name(item) : "", item]));
}
