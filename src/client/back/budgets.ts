import { isObject } from "../pricing-token.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import { instant } from "./subscription.ts";
import { type CallOptions, listOf, segment, type Transport } from "./transport.ts";

/**
 * The one who spends: up to four ids, such as team, person, agent and run. A text is a path, whose ids are percent-encoded where
 * they contain `/` or `%`.
 */
export type Spender = string | readonly string[];

/** `period`: the period of the limit; `life`: without end. `first` begins with the first use after the last window. */
export type BudgetWindow =
  | "period"
  | "life"
  | {
      readonly value: number;
      readonly unit: "HOUR" | "DAY" | "WEEK" | "MONTH";
      readonly anchor: "contract" | "utc" | "first";
    };

/** A budget that an answer is about, with the balance that counts. */
export type BudgetReached = Readonly<{
  name: string;
  /** Path whose balance it is; null for the whole contract. */
  spender: string | null;
  limit: string;
  window: BudgetWindow;
  /** Null without bound. */
  amount: number | null;
  /** Consumed and held. */
  used: number;
  remaining: number | null;
  resetAt: string | null;
}>;

/** How much of a limit a spender may take within a window. */
export interface NewBudget {
  /** `{service}-{limit}`. */
  readonly limit: string;
  /** Path of 1 to 4 ids, where `*` stands for each one. Default: the whole contract. */
  readonly spender?: string | null | undefined;
  /** Only units with this beginning. Default: the whole amount. */
  readonly unit?: string | null | undefined;
  /** Amount, or the name of the limit whose value it is. */
  readonly amount: number | string;
  /** Default: period. */
  readonly window?: BudgetWindow | undefined;
  /** `warn` counts and announces, and denies nothing. Default: stop. */
  readonly mode?: "stop" | "warn" | undefined;
  /** Default: never. */
  readonly until?: Date | string | null | undefined;
  /** In percent of the amount. Default: 80 and 100. */
  readonly thresholds?: readonly number[] | undefined;
}

/** A budget with the balances of those who used most of it. Moments are ISO 8601 texts in UTC. */
export type Budget = Readonly<{
  name: string;
  /** Null for one that the contract no longer has. */
  limit: string | null;
  spender: string | null;
  unit: string | null;
  amount: number | string;
  /** The amount, or the value of the limit that it names; null without bound. */
  amountNow: number | null;
  window: BudgetWindow;
  mode: "stop" | "warn";
  until: string | null;
  thresholds: readonly number[];
  createdAt: string;
  balances: readonly Readonly<{
    spender: string | null;
    used: number;
    held: number;
    remaining: number | null;
    resetAt: string | null;
  }>[];
  /** The last call that it denied; null for none. */
  denied: Readonly<{ spender: string | null; amount: number; at: string }> | null;
}>;

const areTexts = listOf((value): value is string => typeof value === "string");

/**
 * Returns the path of a spender, for a query.
 * @throws Error for a spender that is no path.
 */
export function spenderPath(spender: Spender | undefined): string | undefined {
  if (spender === undefined || typeof spender === "string") return spender;
  if (!areTexts(spender)) throw new Error("spender must be a string, or a list of strings");
  return spender.map((id) => id.replaceAll("%", "%25").replaceAll("/", "%2F").replace(/^\*$/, "%2A")).join("/");
}

const isBudget = (value: unknown): value is Budget => isObject(value) && Array.isArray(value["balances"]);

const isList = (value: unknown): value is { data: Budget[] } =>
  isObject(value) && Array.isArray(value["data"]) && value["data"].every(isBudget);

const pathOf = (userId: string) => `/contracts${segment("userId", userId)}/budgets`;
const itemOf = (userId: string, name: string) => pathOf(userId) + segment("name", name);

/** Budgets of contracts. Source: contract budgets §2. */
export class Budgets {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /** Creates a budget of a contract, or replaces it. Balances stay, unless limit, spender, unit or window change. */
  async put(userId: string, name: string, { until, ...budget }: NewBudget, options?: CallOptions): Promise<Budget> {
    const body = { ...budget, until: until === undefined || until === null ? null : instant(until) };
    const call = { method: "PUT", path: itemOf(userId, name), body, isRead: true } as const;
    const put = await this.transport.ask(call, isBudget, options);
    this.fallbackCache.evict(userId);
    return put;
  }

  /**
   * Returns a budget of a contract.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  get(userId: string, name: string, options?: CallOptions): Promise<Budget> {
    return this.transport.ask({ method: "GET", path: itemOf(userId, name) }, isBudget, options);
  }

  /** Lists the budgets of a contract by name. */
  async list(userId: string, options?: CallOptions): Promise<readonly Budget[]> {
    return (await this.transport.ask({ method: "GET", path: pathOf(userId) }, isList, options)).data;
  }

  /**
   * Deletes a budget of a contract with its balances.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async remove(userId: string, name: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: itemOf(userId, name) }, options);
    this.fallbackCache.evict(userId);
  }
}
