import { addPeriod, lastBoundary, nextBoundary } from "../period.ts";
import { isStorable } from "../storable.ts";
import type { Period } from "./model.ts";
import { isDotSegment } from "./names.ts";

/*
 * Budgets: how much of one limit a spender may take within a window. Decides which budgets fit a spender, and in which window a
 * moment lies. Source: contract budgets §1, §2.
 */

/** Ids of a spender, from the outermost, such as team, person, agent and run. */
export type Spender = readonly string[];

export const SPENDER_RULE = "spender must be a path of 1 to 4 ids";
const MAX_DEPTH = 4;
const MAX_ID_LENGTH = 128;

/** Ids of a pattern. Null matches each id. Empty: the whole contract. */
export type SpenderPattern = readonly (string | null)[];

/** Ids that need no decoding, as most are. */
const PLAIN_ID = /^[\w.@:-]{1,128}$/;

function decodeId(text: string): string | undefined {
  if (PLAIN_ID.test(text)) return isDotSegment(text) ? undefined : text;
  try {
    const id = decodeURIComponent(text);
    const isId = id.length > 0 && !isDotSegment(id) && isStorable(id);
    return isId && [...id].length <= MAX_ID_LENGTH ? id : undefined;
  } catch {
    return undefined;
  }
}

/** Parses a path whose ids are percent-encoded where they contain `/` or `%`. `*` is any id. Undefined for other text. */
export function parsePattern(text: string): SpenderPattern | undefined {
  const ids = text.split("/").map((part) => (part === "*" ? null : decodeId(part)));
  return ids.length <= MAX_DEPTH && ids.every((id) => id !== undefined) ? ids : undefined;
}

/** Parsed paths by their text. Lists are immutable. */
const cachedSpenders = new Map<string, Spender>();
/** Maximum cached paths, and their length. */
const MAX_SPENDERS = 1000;
const MAX_CACHED_LENGTH = 200;

/**
 * Parses the path of a spender. Undefined for text that is not a path of 1 to 4 ids. Returns the identical list for the text of a
 * recent one.
 */
export function parseSpender(text: string): Spender | undefined {
  let spender = cachedSpenders.get(text);
  if (spender !== undefined) return spender;
  spender = parsePattern(text)?.map((id) => id ?? "*");
  if (spender === undefined || text.length > MAX_CACHED_LENGTH) return spender;
  if (cachedSpenders.size >= MAX_SPENDERS) cachedSpenders.clear();
  cachedSpenders.set(text, spender);
  return spender;
}

const SPECIAL = /[%/*]/;

const encodeId = (id: string) =>
  !SPECIAL.test(id) ? id : id === "*" ? "%2A" : id.replaceAll("%", "%25").replaceAll("/", "%2F");

/** Returns the text of a path, which parsePattern reads. */
export const patternText = (pattern: SpenderPattern): string =>
  pattern.map((id) => (id === null ? "*" : encodeId(id))).join("/");

const cachedTexts = new WeakMap<Spender, string>();

/** Returns the text of a spender's path. */
export function spenderText(spender: Spender): string {
  let text = cachedTexts.get(spender);
  if (text === undefined) cachedTexts.set(spender, (text = patternText(spender)));
  return text;
}

export const BUDGET_UNITS = ["HOUR", "DAY", "WEEK", "MONTH"] as const;
export const BUDGET_ANCHORS = ["contract", "utc", "first"] as const;
export const BUDGET_MODES = ["stop", "warn"] as const;
export type BudgetMode = (typeof BUDGET_MODES)[number];

/** `period`: the period of the limit. `life`: without end. A window from `first` begins with the first use after the last one. */
export type BudgetWindow =
  | "period"
  | "life"
  | {
      readonly value: number;
      readonly unit: (typeof BUDGET_UNITS)[number];
      readonly anchor: (typeof BUDGET_ANCHORS)[number];
    };

export interface Budget {
  /** Identifies the balances. Another limit, spender, unit or window has others. */
  readonly id: string;
  readonly name: string;
  /** A pricing's own budgets hold beside those of the contract. */
  readonly origin: "contract" | "pricing";
  readonly serviceId: string;
  readonly limitName: string;
  readonly spender: SpenderPattern;
  /** Beginning of the units that count. Null: the whole amount. */
  readonly unit: string | null;
  /** Amount, or the name of the limit whose value it is. */
  readonly amount: number | string;
  readonly window: BudgetWindow;
  readonly mode: BudgetMode;
  /** End, in milliseconds since 1970. Null: none. */
  readonly until: number | null;
  /** In percent of the amount. */
  readonly thresholds: readonly number[];
}

/** Key of a balance within its contract. Ids of budgets contain no space. */
export const balanceKey = (budget: string, spender: string): string => `${budget} ${spender}`;

/** A budget with the path of the spender whose balance counts; empty for the whole contract. */
export interface Fit {
  readonly budget: Budget;
  readonly spender: string;
  /** Key of the balance. */
  readonly key: string;
}

export const fitOf = (budget: Budget, spender: string): Fit => ({
  budget,
  spender,
  key: balanceKey(budget.id, spender),
});

const matches = (pattern: SpenderPattern, spender: Spender): boolean =>
  pattern.length <= spender.length && pattern.every((id, i) => id === null || id === spender[i]);

/** Compares patterns of one length: the one with an id where the other has `*` first is above 0. */
function comparePatterns(a: SpenderPattern, b: SpenderPattern): number {
  const at = a.findIndex((id, i) => (id === null) !== (b[i] === null));
  return at < 0 ? 0 : a[at] === null ? -1 : 1;
}

const NO_FITS: readonly Fit[] = [];
/** Fits by spender, of lists of budgets without an end. Lists are immutable. */
const cachedFits = new WeakMap<readonly Budget[], Map<string, readonly Fit[]>>();
/** Maximum cached spenders per list. */
const MAX_FITS = 1000;

/**
 * Returns the budgets that count what a spender takes, from the contract down. Of one origin, limit and depth, those with the
 * most specific pattern count.
 */
export function fittingBudgets(budgets: readonly Budget[], spender: Spender, at: Date): readonly Fit[] {
  if (budgets.length === 0) return NO_FITS;
  let cached = cachedFits.get(budgets);
  if (cached === undefined) {
    if (budgets.some(({ until }) => until !== null)) return findFits(budgets, spender, at);
    cachedFits.set(budgets, (cached = new Map()));
  }
  const key = spenderText(spender);
  let fits = cached.get(key);
  if (fits === undefined) {
    if (cached.size >= MAX_FITS) cached.clear();
    cached.set(key, (fits = findFits(budgets, spender, at)));
  }
  return fits;
}

function findFits(budgets: readonly Budget[], spender: Spender, at: Date): readonly Fit[] {
  const groups = new Map<string, Budget[]>();
  for (const budget of budgets) {
    if (budget.until !== null && budget.until <= at.getTime()) continue;
    if (!matches(budget.spender, spender)) continue;
    const group = `${budget.origin} ${budget.spender.length} ${budget.serviceId} ${budget.limitName}`;
    const rivals = groups.get(group) ?? [];
    const order = rivals[0] === undefined ? 0 : comparePatterns(budget.spender, rivals[0].spender);
    if (order >= 0) groups.set(group, order > 0 ? [budget] : [...rivals, budget]);
  }
  const depth = ({ budget }: Fit) => budget.spender.length;
  return [...groups.values()]
    .flat()
    .map((budget) => fitOf(budget, patternText(spender.slice(0, budget.spender.length))))
    .toSorted(
      (a, b) =>
        depth(a) - depth(b) ||
        Number(a.budget.origin === "contract") - Number(b.budget.origin === "contract") ||
        (a.budget.name < b.budget.name ? -1 : 1),
    );
}

/** Window around a moment, in milliseconds since 1970. */
export interface Span {
  readonly since: number;
  /** First moment after it. Null: never. */
  readonly ends: number | null;
}

/** Facts that windows follow from. */
export interface WindowFacts {
  readonly contractStart: Date;
  /** Start of the running period of the limit; null if nothing has begun it. */
  readonly periodSince: Date | null;
  readonly periodEnds: Date | null;
  /** Start of the last window in which the balance was used, in milliseconds. */
  readonly lastSince: number | undefined;
}

const periodOf = ({ value, unit }: Exclude<BudgetWindow, string>): Period =>
  unit === "WEEK" ? { value: 7 * value, unit: "DAY" } : { value, unit };

/** A Monday, and the start of a month. */
const UTC_WEEKS = new Date(Date.UTC(1970, 0, 5));
const UTC_DAYS = new Date(0);

const LIFE: Span = { since: 0, ends: null };

/** Returns the window that a moment lies in. One from the first use begins now if none is running. */
export function windowAt(window: BudgetWindow, at: Date, facts: WindowFacts): Span {
  if (window === "life") return LIFE;
  if (window === "period") {
    return { since: facts.periodSince?.getTime() ?? 0, ends: facts.periodEnds?.getTime() ?? null };
  }
  const period = periodOf(window);
  if (window.anchor === "first") {
    const { lastSince } = facts;
    const ends = lastSince === undefined ? 0 : addPeriod(new Date(lastSince), period).getTime();
    if (lastSince !== undefined && at.getTime() < ends) return { since: lastSince, ends };
    return { since: at.getTime(), ends: addPeriod(at, period).getTime() };
  }
  const utc = window.unit === "WEEK" ? UTC_WEEKS : UTC_DAYS;
  const anchor = window.anchor === "utc" ? utc : facts.contractStart;
  return {
    since: lastBoundary(anchor, period, new Date(at.getTime() + 1)).getTime(),
    ends: nextBoundary(anchor, period, at).getTime(),
  };
}

/** Change of one balance by a movement: budget, spender, amount, and the start of the window in milliseconds since 1970. */
export type BudgetMovement = readonly [budget: string, spender: string, amount: number, since: number];

/** Balance of one spender in the last window in which it was used. */
export interface BudgetBalance {
  readonly used: number;
  readonly held: number;
  /** Start of that window, in milliseconds since 1970. */
  readonly since: number;
  /** Highest threshold raised in it, and the amount then. */
  readonly alertedThreshold: number | null;
  readonly alertedLimit: number | null;
}

export const NO_BALANCE: BudgetBalance = {
  used: 0,
  held: 0,
  since: -1,
  alertedThreshold: null,
  alertedLimit: null,
};

/** Returns the balance in a window: nothing is used yet in one that has just begun. What is held stays. */
export function balanceIn(balance: BudgetBalance | undefined, { since }: Span): BudgetBalance {
  if (balance === undefined) return { ...NO_BALANCE, since };
  return balance.since === since ? balance : { ...NO_BALANCE, held: balance.held, since };
}
