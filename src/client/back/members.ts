import { isObject } from "../pricing-token.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import type { Optional } from "./subscription.ts";
import { type CallOptions, segment, type Transport } from "./transport.ts";

/** A person who uses a contract. Moments are ISO 8601 texts in UTC. */
export type Member = Readonly<{
  /** Your own id of the person. */
  id: string;
  name: string | null;
  createdAt: string;
}>;

/** A member with its use in the running periods, by limit id. Contains amounts above 0 only. */
export type MemberUse = Member & { readonly used: Readonly<Record<string, number>> };

/** A member of a new list. */
export interface NewMember {
  /** 1 to 128 characters. */
  readonly id: string;
  /** Up to 255 characters. Default: none. */
  readonly name?: string | null | undefined;
}

/** Selects members to list. */
export type MemberQuery = Optional<{
  /** Text in id or name, in any case. */
  q: string;
  /** 1 to 100. Default: 20. */
  limit: number;
  /** The `next` of the page before. */
  before: string;
}>;

/** One page of members. */
export type MemberPage = Readonly<{
  data: readonly MemberUse[];
  next: string | null;
  /** Number of all matching members. */
  total: number;
}>;

/** Numbers of members that a new list added, removed, and gave another name. */
export type MemberCounts = Readonly<Record<"added" | "removed" | "changed", number>>;

const isMember = (value: unknown): value is Member => isObject(value) && typeof value["createdAt"] === "string";

const isMemberUse = (value: unknown): value is MemberUse => isMember(value) && isObject((value as MemberUse).used);

function isPage(value: unknown): value is MemberPage {
  return isObject(value) && Array.isArray(value["data"]) && value["data"].every(isMemberUse);
}

const isCounts = (value: unknown): value is MemberCounts => isObject(value) && typeof value["added"] === "number";

const pathOf = (userId: string) => `/contracts${segment("userId", userId)}/members`;
const itemOf = (userId: string, memberId: string) => pathOf(userId) + segment("memberId", memberId);

/** People who use contracts, and the seats that they take. Source: contract members. */
export class Members {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /**
   * Adds a member to a contract, or gives a member another name. A repeated call changes nothing.
   * @throws ServiceRequestError with status 409 if no seat is free.
   */
  async put(
    userId: string,
    memberId: string,
    { name }: Omit<NewMember, "id"> = {},
    options?: CallOptions,
  ): Promise<Member> {
    const call = { method: "PUT", path: itemOf(userId, memberId), body: { name: name ?? null }, isRead: true } as const;
    const put = await this.transport.ask(call, isMember, options);
    this.fallbackCache.evict(userId);
    return put;
  }

  /**
   * Makes a list of at most 10,000 the members of a contract, all or none.
   * @throws ServiceRequestError with status 409 if members are added and not all have a seat.
   */
  async replace(userId: string, members: readonly NewMember[], options?: CallOptions): Promise<MemberCounts> {
    const call = { method: "PUT", path: pathOf(userId), body: { data: members } } as const;
    const counts = await this.transport.ask(call, isCounts, options);
    this.fallbackCache.evict(userId);
    return counts;
  }

  /**
   * Returns a member of a contract.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  get(userId: string, memberId: string, options?: CallOptions): Promise<MemberUse> {
    return this.transport.ask({ method: "GET", path: itemOf(userId, memberId) }, isMemberUse, options);
  }

  /** Returns one page of a contract's members, newest first. */
  list(userId: string, query: MemberQuery = {}, options?: CallOptions): Promise<MemberPage> {
    return this.transport.ask({ method: "GET", path: pathOf(userId), query: { ...query } }, isPage, options);
  }

  /**
   * Removes a member of a contract, and frees its seat.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async remove(userId: string, memberId: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: itemOf(userId, memberId) }, options);
    this.fallbackCache.evict(userId);
  }
}
