import { isObject } from "../pricing-token.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import type { Override } from "./overrides.ts";
import { instant, type Optional } from "./subscription.ts";
import { type CallOptions, segment, type Transport } from "./transport.ts";

/** An amount to give beyond the plan. */
export interface NewBlock {
  readonly service: string;
  /** Name of a tracked usage limit. */
  readonly limit: string;
  /** Above 0 and up to 100,000,000. */
  readonly amount: number;
  /** Start. Default, and for a past one: now. */
  readonly from?: Date | string | null | undefined;
  /** End. Default: never. */
  readonly expiresAt?: Date | string | null | undefined;
  /** 1 to 500 characters. */
  readonly reason: string;
  /** Makes a repeated call return the first block. Default: a new key, so that a retry gives one block. */
  readonly key?: string | undefined;
}

export type BlockState = "upcoming" | "open" | "spent" | "expired" | "revoked";

/** An amount of one limit beyond the plan. Moments are ISO 8601 texts in UTC. */
export type Block = Readonly<{
  id: string;
  userId: string;
  /** Name of the service in lower case; null for one that is gone. */
  service: string | null;
  limit: string;
  amount: number;
  /** Sum of its draws. In the running period this follows the usage. */
  used: number;
  remaining: number;
  from: string;
  /** Null: it never ends. */
  expiresAt: string | null;
  state: BlockState;
  /** `rollover`: carried over by a reset. `billing`: bought. */
  origin: "given" | "rollover" | "billing";
  reason: string;
  createdAt: string;
  endedAt: string | null;
  actor: Override["actor"];
}>;

/** Selects blocks to list. */
export type BlockQuery = Optional<{
  /** Default: all states. */
  state: BlockState;
  /** 1 to 100. Default: 20. */
  limit: number;
  /** Id of a block: only older ones. */
  before: string;
}>;

/** Balance of one tracked limit, with what adds to it. */
export type Balance = Readonly<{
  service: string;
  limit: string;
  /** Value from plan, add-ons and overrides; null for a limit that is not granted. */
  granted: number | boolean | null;
  /** Open blocks, in the order in which they are drawn. */
  blocks: readonly Readonly<{ id: string; remaining: number; expiresAt: string | null; origin: Block["origin"] }>[];
  /** The limit with its blocks. */
  limitNow: number | boolean | null;
  consumed: number;
  held: number;
  /** Null for a limit that is no number. */
  remaining: number | null;
  resetAt: string | null;
}>;

function isBlock(value: unknown): value is Block {
  return isObject(value) && typeof value["remaining"] === "number" && typeof value["origin"] === "string";
}

function isBlockPage(value: unknown): value is { data: Block[]; next: string | null } {
  return isObject(value) && Array.isArray(value["data"]) && value["data"].every(isBlock);
}

/** @internal */
export function isBalance(value: unknown): value is Balance {
  return isObject(value) && Array.isArray(value["blocks"]) && typeof value["consumed"] === "number";
}

const pathOf = (userId: string) => `/contracts${segment("userId", userId)}/blocks`;

const moment = (value: Date | string | null | undefined) => (value ? instant(value) : null);

/** Amounts beyond the plan, each with its own end: bought, given, carried over. Source: contract credits. */
export class Blocks {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /**
   * Gives a contract an amount of one limit beyond its plan.
   * @throws ServiceRequestError with status 404 for an unknown contract, service or limit, 409 for the key of another block.
   */
  async give(userId: string, { from, expiresAt, ...block }: NewBlock, options?: CallOptions): Promise<Block> {
    const key = block.key ?? crypto.randomUUID();
    const body = { ...block, key, from: moment(from), expiresAt: moment(expiresAt) };
    // The key makes repeating the call safe, as for a read.
    const call = { method: "POST", path: pathOf(userId), body, isRead: true } as const;
    const given = await this.transport.ask(call, isBlock, options);
    this.fallbackCache.evict(userId);
    return given;
  }

  /** Returns one page of a contract's blocks, newest first. `next` is the `before` of the next page. */
  list(userId: string, query: BlockQuery = {}, options?: CallOptions): Promise<{ data: Block[]; next: string | null }> {
    return this.transport.ask({ method: "GET", path: pathOf(userId), query: { ...query } }, isBlockPage, options);
  }

  /**
   * Takes back what is left of a block. What was used stays.
   * @throws ServiceRequestError with status 409 for a block that has ended.
   */
  async revoke(userId: string, id: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: pathOf(userId) + segment("id", id) }, options);
    this.fallbackCache.evict(userId);
  }
}
