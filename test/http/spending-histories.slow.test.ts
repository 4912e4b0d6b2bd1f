import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { Reference as Budgets, type ReferenceBudget } from "../core/pricing/budgets.reference.ts";
import { HeldReference as Blocks } from "../core/pricing/held-blocks.reference.ts";
import { openServers, type Servers } from "../crossing/world.ts";
import type { Method } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import "../support/property-seed.ts";

/*
 * Histories of blocks, rates, budgets, holds and batches of one contract over two processes. They are held against the references
 * of blocks and budgets. All amounts of the reference are whole tenths. Source: contract credits §6, budgets §4.
 */

const START = Date.parse("2025-06-15T10:00:00.000Z");
const SECOND = 1000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const TASKS = "tool-tasks";
const RATES = { "gpt.in": 1, "gpt.out": 3, image: 10 };
const GRANTED = 120;
/** Most that is carried over, and the resets after which it ends. */
const ROLLOVER = { max: 50, periods: 2 };

const pricing = (version: string, terms: object) => `saasName: Tool
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-01-01"
currency: EUR
custom: ${JSON.stringify({ faregate: { rates: { tasks: { "gpt.in": 0.1, "gpt.out": 0.3, image: 1 } }, ...terms } })}
features:
  board: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['tasks'] < pricingContext['usageLimits']['tasks']" }
usageLimits:
  tasks: { valueType: NUMERIC, defaultValue: ${GRANTED / 10}, unit: task, type: RENEWABLE, period: { value: 1, unit: MONTH } }
plans:
  FREE: { price: 0, unit: month, features: null, usageLimits: null }
addOns: null
`;
const VENDORS = {
  own: { limit: "tasks", spender: "*/*", amount: 4, window: { value: 1, unit: "DAY", anchor: "utc" } },
};

let servers: Servers;
beforeAll(async () => {
  servers = await openServers();
  const { key } = servers.api.callers.all;
  await upload(servers.api, key, pricing("1.0.0", { budgets: VENDORS }));
  await upload(
    servers.api,
    key,
    pricing("2.0.0", { rollover: { tasks: { max: ROLLOVER.max / 10, periods: ROLLOVER.periods } } }),
  );
});
afterAll(async () => {
  expect((await checkLedger(servers.api.resources.db)).violations).toEqual([]);
  await servers.close();
});

const amount = fc.integer({ min: 1, max: 45 });
const spender = fc.constantFrom([], ["a"], ["b"], ["a", "x"], ["a", "y"]);
const units = fc.record({ "gpt.in": fc.nat(12), "gpt.out": fc.nat(4), image: fc.nat(1) });
const taken = fc.record({ amount: fc.oneof(amount, units), spender, blocks: fc.boolean() });
const kind = <K extends string, A>(name: K, args: fc.Arbitrary<A>) => args.map((drawn) => ({ kind: name, ...drawn }));
const step = fc.oneof(
  { weight: 5, arbitrary: kind("consume", taken) },
  { weight: 2, arbitrary: kind("take back", taken) },
  {
    weight: 3,
    arbitrary: kind("hold", fc.record({ taken, seconds: fc.constantFrom(60, 7000), consumes: fc.boolean() })),
  },
  { weight: 3, arbitrary: kind("settle", fc.record({ which: fc.nat(9), amount: fc.oneof(fc.nat(45), units) })) },
  { weight: 1, arbitrary: kind("release", fc.record({ which: fc.nat(9) })) },
  { weight: 2, arbitrary: kind("record", fc.record({ taken, hoursAgo: fc.constantFrom(0, 2, 30) })) },
  {
    weight: 3,
    arbitrary: kind(
      "give",
      fc.record({ amount, from: fc.constantFrom(0, 3), hours: fc.constantFrom(null, 4, 50, 800) }),
    ),
  },
  { weight: 1, arbitrary: kind("revoke", fc.record({ which: fc.nat(9) })) },
  { weight: 1, arbitrary: kind("grant", fc.record({ amount: fc.nat(200) })) },
  { weight: 1, arbitrary: kind("reset", fc.record({})) },
  {
    weight: 2,
    arbitrary: kind(
      "budget",
      fc.record({
        name: fc.constantFrom("all", "each", "vip", "runs", "models"),
        amount: fc.integer({ min: 0, max: 120 }),
        window: fc.constantFrom("period" as const, "life" as const, "day" as const, "week" as const, "first" as const),
        warns: fc.boolean(),
      }),
    ),
  },
  {
    weight: 1,
    arbitrary: kind("no budget", fc.record({ name: fc.constantFrom("all", "each", "vip", "runs", "models") })),
  },
  {
    weight: 4,
    arbitrary: kind(
      "wait",
      fc.record({ ms: fc.constantFrom(30 * SECOND, 119 * SECOND, 3 * HOUR, 26 * HOUR, 20 * DAY) }),
    ),
  },
);
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
type Units = Readonly<Record<string, number>>;
const SPENDERS: Record<string, string[]> = { all: [], each: ["*"], vip: ["a"], runs: ["a", "*"], models: [] };

interface OwnBudget extends ReferenceBudget {
  unit: string | null;
  window: keyof typeof WINDOWS;
}
/** Amount that a movement or hold takes of one balance of a budget. */
interface Part {
  budget: OwnBudget;
  spender: string;
  amount: number;
}
interface Hold {
  id: string;
  amount: number;
  until: number;
  consumes: boolean;
  parts: Part[];
}
interface BalanceBody {
  granted: number;
  limitNow: number;
  consumed: number;
  held: number;
  remaining: number;
  resetAt: string;
  blocks: { id: string; remaining: number; origin: string; expiresAt: string | null }[];
}
interface BudgetBody {
  name: string;
  balances: { spender: string | null; used: number; held: number }[];
}
/** Windows as calls name them. */
const WINDOWS = {
  period: "period",
  life: "life",
  day: { value: 1, unit: "DAY", anchor: "utc" },
  week: { value: 1, unit: "WEEK", anchor: "contract" },
  first: { value: 3, unit: "HOUR", anchor: "first" },
};
const tenths = (value: number) => Math.round(value * 1e6) / 1e5;

/** State of a moment as an evaluation shows it. */
interface Past {
  limit: number;
  used: number;
  budgets: string[];
}
const WATCHED = ["a", "x"];

class History {
  readonly userId: string;
  readonly rolls: boolean;
  now: number;
  blocks = new Blocks();
  budgets = new Budgets();
  holds: Hold[] = [];
  counted: (Part & { window: string })[] = [];
  period = 0;
  periodSince: number;
  readonly start: number;
  resetAt = 0;
  resetsLeft = new Map<string, number>();
  names = 0;
  /** State after the last step of each moment, of the spender a/x. */
  past = new Map<number, Past>();

  constructor(userId: string, rolls: boolean, now: number) {
    Object.assign(this.blocks, { granted: GRANTED });
    this.userId = userId;
    this.rolls = rolls;
    this.now = now;
    this.periodSince = now;
    this.start = now;
    const own: OwnBudget = {
      name: "own",
      spender: ["*", "*"],
      amount: 40,
      length: DAY,
      window: "day",
      isVendors: true,
      warns: false,
      unit: null,
    };
    if (!rolls) this.budgets.budgets.push(own);
  }

  async call<T>(method: Method, path: string, body?: unknown): Promise<{ status: number; body: T }> {
    const { key } = servers.api.callers.all;
    this.names += 1;
    if (this.names % 2 === 0) return servers.api.call<T>(method, path, { key, body });
    const init = {
      method,
      headers: { "x-api-key": key, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    const answer = await servers.second.app.request(`/api/v1${path}`, init);
    const text = await answer.text();
    return { status: answer.status, body: (text === "" ? undefined : JSON.parse(text)) as T };
  }

  get held() {
    return this.holds.reduce((sum, { amount }) => sum + amount, 0);
  }
  /** Start of the last window from the first use, by budget and spender. */
  begun = new Map<OwnBudget, Map<string, number>>();
  begunAt({ budget, spender }: Pick<Part, "budget" | "spender">, at: number): number {
    const since = this.begun.get(budget)?.get(spender);
    return since === undefined || since + 3 * HOUR <= at ? at : since;
  }
  /** Names the window that a moment lies in. */
  windowOf(part: Pick<Part, "budget" | "spender">, at: number): string {
    const { window } = part.budget;
    if (window === "day") return String(Math.floor(at / DAY));
    if (window === "week") return String(Math.floor((at - this.start) / (7 * DAY)));
    if (window === "first") return String(this.begunAt(part, at));
    return window === "life" ? "" : `p${this.period}`;
  }
  usedOf(budget: OwnBudget, spender: string): { used: number; held: number } {
    const own = (part: Part) => part.budget === budget && part.spender === spender;
    const sum = (parts: Part[]) => parts.filter(own).reduce((total, part) => total + part.amount, 0);
    const now = this.windowOf({ budget, spender }, this.now);
    const running = this.counted.filter(({ window }) => window === now);
    return { used: sum(running), held: sum(this.holds.flatMap(({ parts }) => parts)) };
  }
  /** Returns what a call at that moment takes of each budget whose running window it lies in. */
  parts(who: readonly string[], amount: number, units: Units | undefined, at = this.now): Part[] {
    const isRunning = (part: Part) => {
      const { window } = part.budget;
      if (at === this.now || window === "life" || window === "period") return true;
      if (window !== "first") return this.windowOf(part, at) === this.windowOf(part, this.now);
      const since = this.begunAt(part, at);
      return since <= at && this.now < since + 3 * HOUR;
    };
    const parts = (this.budgets.fitting(who) as OwnBudget[]).map((budget) => ({
      budget,
      spender: who.slice(0, budget.spender.length).join("/"),
      amount: budget.unit === null ? amount : costOf(units ?? {}, budget.unit),
    }));
    return parts.filter(isRunning);
  }
  /** Begins windows with a use at that moment. */
  begin(parts: readonly Part[], at = this.now): void {
    for (const part of parts) {
      if (part.budget.window !== "first" || part.amount === 0) continue;
      const begun = this.begun.get(part.budget) ?? new Map<string, number>();
      this.begun.set(part.budget, begun.set(part.spender, this.begunAt(part, at)));
    }
  }
  denies({ budget, spender, amount }: Part, freed = 0): boolean {
    const { used, held } = this.usedOf(budget, spender);
    const isFull = budget.unit === null && used + held >= budget.amount && freed === 0;
    return !budget.warns && (isFull || (amount > 0 && used + held - freed + amount > budget.amount));
  }
  allows(parts: Part[], amount: number, withBlocks: boolean): boolean {
    const limit = withBlocks ? this.blocks.limit(this.now) : this.blocks.granted;
    const usage = this.blocks.consumed + this.held;
    return usage < limit && usage + amount <= limit && !parts.some((part) => this.denies(part));
  }
  count(parts: Part[], amount: number, at = this.now): void {
    this.blocks.consumed += amount;
    this.begin(parts, at);
    for (const part of parts) this.counted.push({ ...part, window: this.windowOf(part, at) });
  }

  /** Goes to a moment through what is due until then. */
  pass(to: number): void {
    for (;;) {
      const hold = this.holds.toSorted((a, b) => a.until - b.until)[0]?.until ?? Infinity;
      const ends = this.blocks.blocks
        .filter(({ fixed, isGone }) => fixed === null && !isGone)
        .map(({ expiresAt }) => expiresAt);
      const block = Math.min(Infinity, ...ends);
      const next = Math.min(hold, block, this.resetAt + 1);
      if (next > to) break;
      this.now = next;
      if (next === hold) {
        const [due] = this.holds.filter(({ until }) => until === hold);
        this.holds = this.holds.filter((one) => one !== due);
        if (due?.consumes === true)
          this.count(
            due.parts.filter(({ budget }) => this.budgets.budgets.includes(budget)),
            due.amount,
          );
      } else if (next === this.resetAt + 1) {
        this.reset(this.resetAt);
        this.resetAt = boundaryAfter(this.resetAt);
      } else {
        const due = this.blocks.blocks.find((one) => one.fixed === null && !one.isGone && one.expiresAt === block);
        this.follow(next - 1);
        this.blocks.end(due?.id ?? "", next - 1);
      }
      this.follow(next === hold ? next - 1 : next);
    }
    this.now = to;
    this.follow(to);
  }
  /** Makes what ended blocks keep follow the balance. */
  follow(at: number): void {
    this.blocks.held = this.held;
    this.blocks.follow(at);
  }
  reset(at: number): void {
    const unused = this.blocks.granted - this.blocks.consumed;
    this.blocks.held = this.held;
    this.blocks.reset(at);
    const over: [string, number][] = [];
    this.period += 1;
    this.periodSince = at + 1;
    for (const block of this.blocks.blocks) {
      const left = this.resetsLeft.get(block.id);
      if (left === undefined) continue;
      this.resetsLeft.set(block.id, left - 1);
      if (left !== 1) continue;
      if (!block.isGone) over.push([block.id, block.amount - block.before]);
      block.isGone = true;
    }
    this.blocks.keepOver(over);
    this.carryOver(at, unused);
  }
  carryOver(at: number, unused: number): void {
    if (!this.rolls) return;
    const open = this.blocks.blocks.filter(({ id, isGone }) => !isGone && this.resetsLeft.has(id));
    const carried = Math.min(unused, ROLLOVER.max - open.reduce((sum, { amount, before }) => sum + amount - before, 0));
    if (carried <= 0) return;
    const id = `9${this.period}`;
    this.resetsLeft.set(id, ROLLOVER.periods);
    const expiresAt = boundaryAfter(boundaryAfter(at)) + 1;
    this.blocks.blocks.push({
      id,
      amount: carried,
      from: at + 1,
      expiresAt,
      createdAt: at + 1,
      before: 0,
      fixed: null,
      isGone: false,
    });
  }
}

const costOf = (units: Units, beginning = "") =>
  Object.entries(units).reduce(
    (sum, [name, n]) => sum + (name.startsWith(beginning) ? n * ((RATES as Units)[name] ?? 0) : 0),
    0,
  );
const boundaryAfter = (at: number) => {
  const date = new Date(at);
  date.setUTCMonth(date.getUTCMonth() + 1);
  return date.getTime();
};
const bodyOf = (value: number | Units) => ({ [TASKS]: typeof value === "number" ? value / 10 : value });
const priced = (value: number | Units) =>
  typeof value === "number" ? { amount: value, units: undefined } : { amount: costOf(value), units: value };
const setNow = (now: number) => {
  servers.now = new Date(now);
  servers.api.setNow(servers.now);
};
const advance = (history: History, ms: number) => {
  history.pass(history.now + ms);
  setNow(history.now);
};

interface Answer {
  eval: boolean;
  used: Record<string, number>;
  limit: Record<string, number>;
  hold?: { id: string } | null;
  counts?: Record<string, number>;
}

async function run(history: History, step: Step, index: number): Promise<void> {
  const { userId, blocks } = history;
  const path = (who: readonly string[], query: string) =>
    `/features/${userId}/board?strict=true${query}${who.length === 0 ? "" : `&spender=${encodeURIComponent(who.join("/"))}`}`.replace(
      "/board",
      "/tool-board",
    );
  switch (step.kind) {
    case "wait":
      advance(history, step.ms + index);
      return;
    case "consume":
    case "take back": {
      const { amount, units } = priced(step.amount);
      const parts = history.parts(step.spender, amount, units);
      const granted = amount === 0 ? undefined : history.allows(parts, amount, !step.blocks);
      const answer = await history.call<Answer>(
        "POST",
        path(step.spender, step.blocks ? "&blocks=false" : ""),
        bodyOf(step.amount),
      );
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      if (granted === undefined) return;
      expect(answer.body.eval, JSON.stringify(answer.body)).toBe(granted);
      if (!granted) return;
      history.begin(parts);
      if (step.kind === "consume") return history.count(parts, amount);
      await history.call("POST", path(step.spender, "&revert=true&latest=true"));
      return;
    }
    case "hold": {
      const { amount, units } = priced(step.taken.amount);
      const { spender, blocks: none } = step.taken;
      const parts = history.parts(spender, amount, units);
      if (amount === 0) return;
      const query = `&hold=PT${step.seconds}S&onExpiry=${step.consumes ? "consume" : "release"}${none ? "&blocks=false" : ""}`;
      const answer = await history.call<Answer>("POST", path(spender, query), bodyOf(step.taken.amount));
      expect(answer.body.eval, JSON.stringify(answer.body)).toBe(history.allows(parts, amount, !none));
      const until = history.now + step.seconds * SECOND;
      if (answer.body.hold) history.begin(parts);
      if (answer.body.hold)
        history.holds.push({ id: answer.body.hold.id, amount, until, consumes: step.consumes, parts });
      return;
    }
    case "settle": {
      const hold = history.holds[step.which % Math.max(1, history.holds.length)];
      if (hold === undefined) return;
      const { amount, units } = priced(step.amount);
      const parts = hold.parts
        .filter(({ budget }) => history.budgets.budgets.includes(budget))
        .map((part) => {
          const { unit } = part.budget;
          return {
            ...part,
            amount: unit === null ? amount : units === undefined ? Math.min(part.amount, amount) : costOf(units, unit),
          };
        });
      const fits =
        amount <= hold.amount || blocks.consumed + history.held - hold.amount + amount <= blocks.limit(history.now);
      const isDenied = hold.parts.some((was) => {
        const part = parts.find(({ budget }) => budget === was.budget);
        return part !== undefined && part.amount > was.amount && !part.budget.warns && history.denies(part, was.amount);
      });
      const answer = await history.call<Answer>("POST", `/holds/${hold.id}`, bodyOf(step.amount));
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      expect(answer.body.eval, JSON.stringify(answer.body)).toBe(fits && !isDenied);
      if (!answer.body.eval) return;
      history.holds = history.holds.filter((one) => one !== hold);
      history.count(parts, amount);
      return;
    }
    case "release": {
      const hold = history.holds[step.which % Math.max(1, history.holds.length)];
      if (hold === undefined) return;
      await history.call("DELETE", `/holds/${hold.id}`);
      history.holds = history.holds.filter((one) => one !== hold);
      return;
    }
    case "record": {
      const { amount, units } = priced(step.taken.amount);
      const { spender, blocks: none } = step.taken;
      const at = history.now - step.hoursAgo * HOUR;
      if (at < history.start || amount === 0) return;
      const isLate = at < history.periodSince;
      const parts = history.parts(spender, amount, units, at);
      const granted = history.allows(parts, amount, !none);
      const item = {
        userId,
        featureId: "tool-board",
        amounts: bodyOf(step.taken.amount),
        key: `${userId}-${index}`,
        at: new Date(at).toISOString(),
        ...(spender.length === 0 ? {} : { spender: spender.join("/") }),
        ...(none ? { blocks: false } : {}),
      };
      const answer = await history.call<Answer>("POST", "/usage?strict=true", [item]);
      expect(answer.body.counts, JSON.stringify(answer.body)).toMatchObject({
        [isLate ? "late" : granted ? "counted" : "refused"]: 1,
      });
      if (!isLate && granted) history.count(parts, amount, at);
      return;
    }
    case "give": {
      const from = step.from === 0 ? history.now : history.now + step.from * HOUR + index;
      const expiresAt = step.hours === null ? Infinity : from + step.hours * HOUR + index + 1;
      const body = {
        service: "tool",
        limit: "tasks",
        amount: step.amount / 10,
        reason: "Top-up",
        from: new Date(from).toISOString(),
        expiresAt: expiresAt === Infinity ? null : new Date(expiresAt).toISOString(),
      };
      const answer = await history.call<{ id: string }>("POST", `/contracts/${userId}/blocks`, body);
      expect(answer.status, JSON.stringify(answer.body)).toBe(201);
      blocks.blocks.push({
        id: String(1000 + index),
        amount: step.amount,
        from,
        expiresAt,
        createdAt: history.now,
        before: 0,
        fixed: null,
        isGone: false,
        real: answer.body.id,
      } as (typeof blocks.blocks)[number]);
      return;
    }
    case "revoke": {
      const block = blocks.blocks[step.which % Math.max(1, blocks.blocks.length)] as
        | { id: string; real?: string; amount: number; before: number; isGone: boolean; fixed: number | null }
        | undefined;
      if (block?.real === undefined) return;
      const drawn = blocks.drawn(history.now).get(block.id) ?? 0;
      const isOver = block.isGone || block.fixed !== null || block.before + drawn === block.amount;
      const answer = await history.call("DELETE", `/contracts/${userId}/blocks/${block.real}`);
      expect(answer.status).toBe(isOver ? 409 : 204);
      blocks.held = history.held;
      if (!isOver) blocks.end(block.id, history.now);
      return;
    }
    case "grant":
      blocks.granted = step.amount;
      await history.call("PUT", `/contracts/${userId}/overrides/tool/usageLimits/tasks`, {
        mode: "set",
        value: step.amount / 10,
        reason: "Agreed",
      });
      return;
    case "reset": {
      if (history.rolls) return;
      // Periods are told apart by the millisecond in which they begin.
      advance(history, 1);
      await history.call("PUT", `/contracts/${userId}/usageLevels?reset=true&renewableOnly=false`, {});
      history.reset(history.now - 1);
      const { body } = await history.call<BalanceBody[]>("GET", `/contracts/${userId}/balances`);
      history.resetAt = Date.parse(body[0]?.resetAt ?? "");
      advance(history, 1);
      return;
    }
    case "budget": {
      const unit = step.name === "models" ? "gpt." : null;
      const window = WINDOWS[step.window];
      const spender = SPENDERS[step.name] ?? [];
      const body = {
        limit: TASKS,
        spender: spender.length === 0 ? null : spender.join("/"),
        unit,
        amount: step.amount / 10,
        window,
        mode: step.warns ? "warn" : "stop",
      };
      const answer = await history.call("PUT", `/contracts/${userId}/budgets/${step.name}`, body);
      const { budgets } = history.budgets;
      const before = budgets.find(({ name }) => name === step.name) as OwnBudget | undefined;
      expect(answer.status, JSON.stringify(answer.body)).toBe(before === undefined ? 201 : 200);
      const terms = {
        name: step.name,
        spender,
        amount: step.amount,
        length: 0,
        isVendors: false,
        warns: step.warns,
        unit,
        window: step.window,
      };
      if (before?.window === step.window) Object.assign(before, terms);
      else history.budgets.budgets = [...budgets.filter((one) => one !== before), terms];
      return;
    }
    case "no budget":
      await history.call("DELETE", `/contracts/${userId}/budgets/${step.name}`);
      history.budgets.budgets = history.budgets.budgets.filter(({ name }) => name !== step.name);
      return;
  }
}

/** Compares past moments, asked now, with what they were. */
async function checkPast(history: History): Promise<void> {
  for (const [moment, expected] of history.past) {
    const at = encodeURIComponent(new Date(moment).toISOString());
    const path = `/features/${history.userId}/tool-board?explain=true&spender=a%2Fx&at=${at}`;
    const { body } = await history.call<Answer & { budgets?: { name: string; used: number }[] }>("POST", path, {});
    const shown: Past = {
      limit: tenths(body.limit[TASKS] ?? 0),
      used: tenths(body.used[TASKS] ?? 0),
      budgets: (body.budgets ?? []).map(({ name, used }) => `${name} ${tenths(used)}`).toSorted(),
    };
    expect(shown, `at ${new Date(moment).toISOString()}`).toEqual(expected);
  }
}

async function check(history: History): Promise<void> {
  const { userId, blocks, now } = history;
  const { body } = await history.call<BalanceBody[]>("GET", `/contracts/${userId}/balances`);
  const [balance] = body;
  if (balance === undefined) throw new Error(`${userId} has no balance`);
  history.follow(now);
  const limit = blocks.limit(now);
  const drawn = blocks.drawn(now);
  const open = blocks.blocks
    .filter((one) => !one.isGone && one.fixed === null && one.from <= now && now < one.expiresAt)
    .map((one) => ({
      remaining: one.amount - one.before - (drawn.get(one.id) ?? 0),
      expiresAt: one.expiresAt,
      createdAt: one.createdAt,
      id: one.id,
    }))
    .filter(({ remaining }) => remaining > 0)
    .toSorted((a, b) =>
      a.expiresAt === b.expiresAt
        ? a.createdAt - b.createdAt || Number(a.id) - Number(b.id)
        : a.expiresAt < b.expiresAt
          ? -1
          : 1,
    );
  expect({
    granted: tenths(balance.granted),
    limit: tenths(balance.limitNow),
    consumed: tenths(balance.consumed),
    held: tenths(balance.held),
    remaining: tenths(balance.remaining),
    resetAt: balance.resetAt,
    blocks: balance.blocks
      .filter(({ remaining }) => remaining > 0)
      .map(({ remaining, expiresAt }) => [tenths(remaining), expiresAt === null ? Infinity : Date.parse(expiresAt)]),
  }).toEqual({
    granted: blocks.granted,
    limit,
    consumed: blocks.consumed,
    held: history.held,
    remaining: Math.max(0, limit - blocks.consumed - history.held),
    resetAt: new Date(history.resetAt).toISOString(),
    blocks: open.map(({ remaining, expiresAt }) => [remaining, expiresAt]),
  });
  const fitting = history.parts(WATCHED, 0, undefined).map((part) => {
    const { used, held } = history.usedOf(part.budget, part.spender);
    return `${part.budget.name} ${used + held}`;
  });
  history.past.set(now, { limit, used: blocks.consumed + history.held, budgets: fitting.toSorted() });
  const listed = await history.call<{ data: BudgetBody[] }>("GET", `/contracts/${userId}/budgets`);
  const shown = listed.body.data.flatMap(({ name, balances }) =>
    balances.map(({ spender, used, held }) => [name, spender ?? "", tenths(used), tenths(held)]),
  );
  const own = history.budgets.budgets.filter(({ isVendors }) => !isVendors) as OwnBudget[];
  const expected = own.flatMap((budget) => {
    const spenders = new Set(
      [...history.counted, ...history.holds.flatMap(({ parts }) => parts)]
        .filter((part) => part.budget === budget)
        .map(({ spender }) => spender),
    );
    return [...spenders]
      .map((spender) => ({ spender, ...history.usedOf(budget, spender) }))
      .filter(({ used, held }) => used > 0 || held > 0)
      .map(({ spender, used, held }) => [budget.name, spender, used, held]);
  });
  const sorted = (rows: unknown[]) => rows.map((row) => JSON.stringify(row)).toSorted();
  expect(sorted(shown)).toEqual(sorted(expected));
}

test("histories of spending give the balances of the references", async () => {
  let histories = 0;
  let now = START;
  await fc.assert(
    fc.asyncProperty(
      fc.boolean(),
      fc.array(step, { minLength: 8, maxLength: 40, size: "max" }),
      async (rolls, steps) => {
        const userId = `user-${(histories += 1)}`;
        now = Math.max(now, servers.now.getTime());
        setNow(now);
        await contract(servers.api, servers.api.callers.all.key, userId, {
          contractedServices: { tool: rolls ? "2.0.0" : "1.0.0" },
          subscriptionPlans: { tool: "FREE" },
          billingPeriod: { renewalDays: 3650 },
        });
        const history = new History(userId, rolls, now);
        const { body } = await history.call<BalanceBody[]>("GET", `/contracts/${userId}/balances`);
        history.resetAt = Date.parse(body[0]?.resetAt ?? "");
        const done: Step[] = [];
        for (const [index, one] of steps.entries()) {
          done.push(one);
          try {
            await run(history, one, index + 1);
            await check(history);
          } catch (error) {
            (error as Error).message +=
              `\nAfter ${JSON.stringify(done.slice(-6))} at ${new Date(history.now).toISOString()}`;
            throw error;
          }
        }
        now = history.now;
        try {
          await checkPast(history);
        } catch (error) {
          (error as Error).message += `\nAfter ${steps.map((one) => JSON.stringify(one)).join("\n")}`;
          throw error;
        }
      },
    ),
    { numRuns: Number(process.env["RUNS"] ?? 8), timeout: 600_000, endOnFailure: process.env["SHRINK"] === undefined },
  );
}, 600_000);
