import type { FallbackCache } from "./fallback-cache.ts";
import { isObject } from "../pricing-token.ts";
import { type CallOptions, type CountedOptions, expected, listOf, segment, type Transport } from "./transport.ts";

/** Contracted versions, plans and add-ons by service. Responses have service names in lower case. Source: contract contracts §2. */
export interface Subscription {
  /** The version of the pricing. */
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly subscriptionPlans: Readonly<Record<string, string>>;
  /** How many of each add-on. */
  readonly subscriptionAddOns: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** The end user. */
export interface UserContact {
  readonly userId: string;
  readonly username: string;
  readonly firstName?: string | undefined;
  readonly lastName?: string | undefined;
  readonly email?: string | undefined;
  readonly phone?: string | undefined;
}

/** One end user's contract. Moments are ISO 8601 texts in UTC. */
export interface Contract extends Subscription {
  readonly id: string;
  readonly userContact: UserContact;
  readonly billingPeriod: {
    readonly startDate: string;
    readonly endDate: string;
    readonly autoRenew: boolean;
    readonly renewalDays: number;
  };
  /** By service and limit; `resetTimeStamp` where the limit renews. */
  readonly usageLevels: Readonly<
    Record<string, Readonly<Record<string, { readonly consumed: number; readonly resetTimeStamp?: string }>>>
  >;
  readonly organizationId: string;
  readonly groupId?: string;
  /** Former subscriptions, oldest first. */
  readonly history: readonly (Subscription & { readonly startDate: string; readonly endDate: string })[];
}

/** From what an answer about a past moment was made. Moments are ISO 8601 texts in UTC. */
export interface AsOf {
  readonly at: string;
  /** From when on the contract was in this state, what brought it there, and when it was over: null while it lasts. */
  readonly since: string;
  readonly cause: string;
  readonly until: string | null;
}

/** A contract to be made. */
export interface NewContract extends Subscription {
  readonly userContact: UserContact;
  /** `renewalDays` is required where `autoRenew` is true; it is 30 by default. */
  readonly billingPeriod?: { readonly autoRenew?: boolean; readonly renewalDays?: number } | undefined;
  /** A label under which contracts can be changed together. */
  readonly groupId?: string | undefined;
}

/** New subscription of a contract: complete, not a difference. */
export interface Novation extends Subscription {
  readonly billingPeriod?: { readonly autoRenew?: boolean } | undefined;
}

/** Changes of a billing period. An absent field stays. */
export interface BillingChanges {
  /** ISO 8601. */
  readonly endDate?: string | undefined;
  readonly autoRenew?: boolean | undefined;
  readonly renewalDays?: number | undefined;
}

/** Which contracts to list; all conditions must hold. */
export interface ContractQuery {
  /** Part of it, whatever the case; the same for the three below. */
  readonly username?: string | undefined;
  readonly firstName?: string | undefined;
  readonly lastName?: string | undefined;
  readonly email?: string | undefined;
  readonly groupId?: string | undefined;
  readonly sort?: "username" | "firstName" | "lastName" | "email" | undefined;
  readonly order?: "asc" | "desc" | undefined;
  /** By what is contracted: any of the services, or of their versions, plans or add-ons. */
  readonly filters?:
    | {
        readonly services?: readonly string[] | Readonly<Record<string, readonly string[]>>;
        readonly plans?: Readonly<Record<string, readonly string[]>>;
        readonly addOns?: Readonly<Record<string, readonly string[]>>;
      }
    | undefined;
  /** Where they are in their billing periods: `renewing` by themselves, `ending` within a week. */
  readonly state?: "active" | "renewing" | "ending" | "expired" | undefined;
  /** Those who have used this share of a limit or more, above 0 and up to 1. */
  readonly near?: number | undefined;
}

/** One page of a list: `page` from 1, `limit` up to 100 and 20 by default. */
export interface Paging {
  readonly page?: number | undefined;
  readonly limit?: number | undefined;
}

/** `limit`: that limit in every service that has it. Else all that renew, and with `all` the others too. */
export type UsageReset = { readonly limit: string } | { readonly all?: boolean };

const LARGEST_PAGE = 100;

/** The end users' contracts. Needs a key of scope MANAGEMENT, or ALL to delete. Source: contract contracts. */
export class Contracts {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /** @throws ServiceRequestError, of status 409 when the user has one already. */
  async create(contract: NewContract, options?: CallOptions): Promise<Contract> {
    const call = { method: "POST", path: "/contracts", body: contract } as const;
    const created = await this.transport.ask(call, isContract, options);
    this.fallbackCache.evict(contract.userContact.userId);
    return created;
  }

  /** @throws ServiceRequestError, of status 404 when the user has none. */
  async get(userId: string, options?: CallOptions): Promise<Contract> {
    return this.transport.ask({ method: "GET", path: pathOf(userId) }, isContract, options);
  }

  /**
   * The contract as it was at that moment, but for its contact and group, which are today's.
   * @throws ServiceRequestError, of status 404 when it was not there yet and 400 for a moment that the record does not reach.
   */
  async getAt(userId: string, at: Date | string, options?: CallOptions): Promise<Contract & { readonly asOf: AsOf }> {
    return this.transport.ask({ method: "GET", path: pathOf(userId), query: { at: instant(at) } }, isPast, options);
  }

  /** One page, and how many match in all. */
  async list(
    query: ContractQuery & Paging = {},
    options?: CallOptions,
  ): Promise<{ contracts: Contract[]; total: number }> {
    const { filters, ...rest } = query;
    const answer = await this.transport.send(
      { method: "GET", path: "/contracts", query: { ...rest, filters: filters && JSON.stringify(filters) } },
      options,
    );
    return { contracts: expected(answer, listOf(isContract)), total: Number(answer.headers.get("x-total-count")) };
  }

  /** Each contract that matches, page by page as they are asked for; what is made or deleted meanwhile may shift them. */
  async *all(query: ContractQuery = {}, options?: CallOptions): AsyncGenerator<Contract, void, undefined> {
    for (let page = 1; ; page += 1) {
      const { contracts } = await this.list({ ...query, page, limit: LARGEST_PAGE }, options);
      yield* contracts;
      if (contracts.length < LARGEST_PAGE) return;
    }
  }

  /** Replaces what is contracted and begins a new billing period; usage stays where its limit does. */
  novate(userId: string, novation: Novation, options?: CallOptions): Promise<Contract> {
    return this.change(userId, "", novation, options);
  }

  /** An absent field stays. */
  updateContact(
    userId: string,
    contact: Partial<Omit<UserContact, "userId">>,
    options?: CallOptions,
  ): Promise<Contract> {
    return this.change(userId, "/userContact", contact, options);
  }

  updateBillingPeriod(userId: string, changes: BillingChanges, options?: CallOptions): Promise<Contract> {
    return this.change(userId, "/billingPeriod", changes, options);
  }

  /** Adds amounts by service and limit; negative ones give back, down to 0. Counted once, however often it has to be sent. */
  incrementUsage(
    userId: string,
    amounts: Readonly<Record<string, Readonly<Record<string, number>>>>,
    options?: CountedOptions,
  ): Promise<Contract> {
    return this.changeUsage(userId, amounts, {}, options);
  }

  /** Sets usage to 0, and the moment of the next reset one period on. */
  resetUsage(userId: string, reset: UsageReset = {}, options?: CountedOptions): Promise<Contract> {
    const query: Record<string, string | boolean> =
      "limit" in reset
        ? { usageLimit: reset.limit }
        : { reset: true, renewableOnly: reset.all === true ? "false" : "true" };
    return this.changeUsage(userId, {}, query, options);
  }

  /** For good, with history and usage. @throws ServiceRequestError, of status 404 when the user has none. */
  async delete(userId: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: pathOf(userId) }, options);
    this.fallbackCache.evict(userId);
  }

  /** Applies one novation to every contract of a group, all or none. @returns them, by user name. */
  async novateGroup(groupId: string, novation: Novation, options?: CallOptions): Promise<Contract[]> {
    return this.changeGroup("/contracts", groupId, novation, options);
  }

  /** Updates the billing period of every contract of a group, all or none. @returns them, by user name. */
  async updateGroupBillingPeriod(groupId: string, changes: BillingChanges, options?: CallOptions): Promise<Contract[]> {
    return this.changeGroup("/contracts/billingPeriod", groupId, changes, options);
  }

  private async change(userId: string, below: string, body: object, options?: CallOptions): Promise<Contract> {
    const changed = await this.transport.ask(
      { method: "PUT", path: pathOf(userId) + below, body },
      isContract,
      options,
    );
    this.fallbackCache.evict(userId);
    return changed;
  }

  private async changeUsage(
    userId: string,
    body: object,
    query: Record<string, string | boolean>,
    options: CountedOptions = {},
  ): Promise<Contract> {
    const { idempotencyKey = crypto.randomUUID() } = options;
    const path = `${pathOf(userId)}/usageLevels`;
    const call = { method: "PUT", path, query, body, idempotencyKey } as const;
    const changed = await this.transport.ask(call, isContract, options);
    this.fallbackCache.evict(userId);
    return changed;
  }

  private async changeGroup(path: string, groupId: string, body: object, options?: CallOptions): Promise<Contract[]> {
    // Without a group the second path would mean every contract there is.
    if (groupId === "") throw new Error("groupId must be a non-empty string");
    const call = { method: "PUT", path, query: { groupId }, body } as const;
    const changed = await this.transport.ask(call, listOf(isContract), options);
    for (const { userContact } of changed) this.fallbackCache.evict(userContact.userId);
    return changed;
  }
}

const pathOf = (userId: string) => `/contracts${segment("userId", userId)}`;

/** The past moment as the service reads it. */
export function instant(at: Date | string): string {
  return typeof at === "string" ? at : at.toISOString();
}

/** Returns true for an answer about a past moment. An older service answers about the present. */
export function hasAsOf(value: unknown): value is { asOf: AsOf } {
  return isObject(value) && isObject(value["asOf"]);
}

function isContract(value: unknown): value is Contract {
  return isObject(value) && isObject(value["userContact"]);
}

function isPast(value: unknown): value is Contract & { asOf: AsOf } {
  return isContract(value) && hasAsOf(value);
}
