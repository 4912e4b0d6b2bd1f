import type { ContractBilling, RenewalPeriod } from "./billing.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import type { Configuration } from "../offer.ts";
import { type Hold, type HoldQuery, isHoldPage } from "./holds.ts";
import {
  elementPath,
  isOverride,
  type Override,
  type OverrideChange,
  type OverrideElement,
  type OverrideQuery,
} from "./overrides.ts";
import {
  isScheduledChange,
  isScheduledNovation,
  type NewScheduledChange,
  type NewTrial,
  type ScheduledChange,
  type ScheduledNovation,
  type ScheduledQuery,
  type Trial,
} from "./scheduled.ts";
import { isObject } from "../pricing-token.ts";
import {
  type Call,
  type CallOptions,
  type CountedOptions,
  expected,
  listOf,
  segment,
  type Transport,
} from "./transport.ts";

/** Every field may be absent or undefined. */
export type Optional<Fields> = { readonly [Name in keyof Fields]?: Fields[Name] | undefined };

/** Contracted versions, plans and add-ons by service. Responses have service names in lower case. Source: contract contracts §2. */
export interface Subscription {
  /** Pricing version per service. */
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly subscriptionPlans: Readonly<Record<string, string>>;
  /** Quantity per add-on and service. */
  readonly subscriptionAddOns: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Contact data of an end user. */
export type UserContact = Readonly<{ userId: string; username: string }> &
  Optional<{ firstName: string; lastName: string; email: string; phone: string }>;

/** One end user's contract. Moments are ISO 8601 texts in UTC. */
export type Contract = Subscription &
  Readonly<{
    id: string;
    userContact: UserContact;
    billingPeriod: {
      readonly startDate: string;
      readonly endDate: string;
      readonly autoRenew: boolean;
      /** With `renewalPeriod`: length of the running period. */
      readonly renewalDays: number;
      /** Period on the calendar, where one is set. */
      readonly renewalPeriod?: RenewalPeriod;
    };
    /** Per service and limit. `resetTimeStamp` only for limits that renew, `held` where open holds hold something. */
    usageLevels: Readonly<
      Record<
        string,
        Readonly<
          Record<string, { readonly consumed: number; readonly resetTimeStamp?: string; readonly held?: number }>
        >
      >
    >;
    organizationId: string;
    groupId?: string;
    /** Former subscriptions, oldest first. */
    history: readonly (Subscription & { readonly startDate: string; readonly endDate: string })[];
    /** Overrides that have not ended, if there are any. */
    overrides?: readonly Override[];
    /** The pending change of the subscription, if there is one. */
    scheduled?: ScheduledNovation;
    /** The trial, while it lasts. */
    trial?: Trial;
    /** The payment provider's subscription that the contract follows, if any. */
    billing?: ContractBilling;
  }>;

/** State of the contract from which a past answer was computed. Moments are ISO 8601 texts in UTC. */
export type AsOf = Readonly<{
  at: string;
  /** Begin of that state, the change that caused it, and its end; `until` is null while it lasts. */
  since: string;
  cause: string;
  until: string | null;
}>;

/** A new contract. */
export interface NewContract extends Subscription {
  readonly userContact: UserContact;
  /** With `autoRenew`, one of the other two is required, and never both. Default: 30 days. */
  readonly billingPeriod?:
    | { readonly autoRenew?: boolean; readonly renewalDays?: number; readonly renewalPeriod?: RenewalPeriod }
    | undefined;
  /** Label under which contracts can be changed together. */
  readonly groupId?: string | undefined;
  /** The contract begins with a trial, and goes on or ends by itself. */
  readonly trial?: NewTrial | undefined;
}

/** New subscription of a contract. It replaces the former one completely. */
export interface Novation extends Subscription {
  readonly billingPeriod?: { readonly autoRenew?: boolean } | undefined;
}

/** Options of a novation. */
export interface NovateOptions extends CallOptions {
  /** Cancels the pending scheduled change of each contract. Default: false. */
  readonly cancelScheduled?: boolean | undefined;
}

/** Changes of a billing period. Absent fields stay as they are. */
export type BillingChanges = Optional<{
  /** ISO 8601. */
  endDate: string;
  autoRenew: boolean;
  /** Takes the place of `renewalPeriod`, and the other way round. */
  renewalDays: number;
  renewalPeriod: RenewalPeriod;
}>;

/** Selects contracts to list. All conditions must hold. */
export type ContractQuery = Optional<{
  /** Matches any part of the name, ignoring case; so do the next three. */
  username: string;
  firstName: string;
  lastName: string;
  email: string;
  groupId: string;
  sort: "username" | "firstName" | "lastName" | "email";
  order: "asc" | "desc";
  /** Contracts with any of these services, or any of their versions, plans or add-ons. */
  filters: {
    readonly services?: readonly string[] | Readonly<Record<string, readonly string[]>>;
    readonly plans?: Readonly<Record<string, readonly string[]>>;
    readonly addOns?: Readonly<Record<string, readonly string[]>>;
  };
  /** State in the billing period. `renewing`: renews automatically. `ending`: ends within a week. */
  state: "active" | "renewing" | "ending" | "expired";
  /** End users that have used at least this share of a limit: above 0, up to 1. */
  near: number;
  /** True for contracts in a trial only. */
  trial: boolean;
}>;

/** One page of a list. `page` starts at 1; `limit` is at most 100. Default: 20. */
export type Paging = Optional<{
  page: number;
  limit: number;
}>;

/**
 * Limits to reset: the named one in every service that has it; otherwise all that renew, and with `all` every limit.
 */
export type UsageReset = { readonly limit: string } | { readonly all?: boolean };

/**
 * Returns the novation that buys a configuration of one service. Other services of the contract stay as they are.
 */
export function novationTo(
  contract: Subscription,
  service: string,
  { pricingVersion, plan, addOns }: Configuration,
): Novation {
  const key = service.toLowerCase();
  const withoutIt = <T>(map: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(map).filter(([name]) => name.toLowerCase() !== key));
  return {
    contractedServices: { ...withoutIt(contract.contractedServices), [key]: pricingVersion },
    subscriptionPlans: { ...withoutIt(contract.subscriptionPlans), ...(plan === null ? {} : { [key]: plan }) },
    subscriptionAddOns: { ...withoutIt(contract.subscriptionAddOns), [key]: addOns },
  };
}

const LARGEST_PAGE = 100;

/** End users' contracts. Needs a key of scope MANAGEMENT, or ALL to delete. Source: contract contracts. */
export class Contracts {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /**
   * Creates a contract.
   * @throws ServiceRequestError with status 409 if the end user has one.
   */
  async create(contract: NewContract, options?: CallOptions): Promise<Contract> {
    const call = { method: "POST", path: "/contracts", body: contract } as const;
    const created = await this.transport.ask(call, isContract, options);
    this.fallbackCache.evict(contract.userContact.userId);
    return created;
  }

  /**
   * Returns an end user's contract.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async get(userId: string, options?: CallOptions): Promise<Contract> {
    return this.transport.ask({ method: "GET", path: pathOf(userId) }, isContract, options);
  }

  /**
   * Returns the contract as of a past moment. Contact and group are the current ones.
   * @throws ServiceRequestError with status 404 before the contract's creation, 400 before the start of the record.
   */
  async getAt(userId: string, at: Date | string, options?: CallOptions): Promise<Contract & { readonly asOf: AsOf }> {
    return this.transport.ask({ method: "GET", path: pathOf(userId), query: { at: instant(at) } }, isPast, options);
  }

  private page(query: ContractQuery & Paging & { after?: string }, options: CallOptions | undefined) {
    const { filters, ...rest } = query;
    const named = { ...rest, filters: filters && JSON.stringify(filters) };
    return this.transport.send({ method: "GET", path: "/contracts", query: named }, options);
  }

  /** Lists one page of contracts, with the number of all matches. */
  async list(
    query: ContractQuery & Paging = {},
    options?: CallOptions,
  ): Promise<{ contracts: Contract[]; total: number }> {
    const answer = await this.page(query, options);
    return { contracts: expected(answer, listOf(isContract)), total: Number(answer.headers.get("x-total-count")) };
  }

  /**
   * Iterates over all matching contracts, and requests pages as needed. Each comes once, in the order of ids, whatever is
   * created or deleted meanwhile. With `sort` or `order`, such changes may shift the pages.
   */
  async *all(query: ContractQuery = {}, options?: CallOptions): AsyncGenerator<Contract, void, undefined> {
    const isSorted = query.sort !== undefined || query.order !== undefined;
    let place: { page: number } | { after: string } = isSorted ? { page: 1 } : { after: "" };
    for (;;) {
      const answer = await this.page({ ...query, ...place, limit: LARGEST_PAGE }, options);
      const contracts = expected(answer, listOf(isContract));
      yield* contracts;
      const after = answer.headers.get("next-after");
      if ("page" in place ? contracts.length < LARGEST_PAGE : after === null) return;
      place = "page" in place ? { page: place.page + 1 } : { after: after ?? "" };
    }
  }

  /**
   * Replaces the subscription and begins a new billing period. Usage stays where its limit does. A scheduled change stays,
   * unless `cancelScheduled` is true.
   */
  novate(userId: string, novation: Novation, options: NovateOptions = {}): Promise<Contract> {
    return this.change(userId, "", novation, options, novateQuery(options));
  }

  /** Changes contact data. Absent fields stay as they are. */
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

  /** Adds amounts per service and limit; negative amounts give back, down to 0. Retries count once. */
  incrementUsage(
    userId: string,
    amounts: Readonly<Record<string, Readonly<Record<string, number>>>>,
    options?: CountedOptions,
  ): Promise<Contract> {
    return this.changeUsage(userId, amounts, {}, options);
  }

  /** Sets usage to 0, and the next reset to one period from now. */
  resetUsage(userId: string, reset: UsageReset = {}, options?: CountedOptions): Promise<Contract> {
    const query: Record<string, string | boolean> =
      "limit" in reset
        ? { usageLimit: reset.limit }
        : { reset: true, renewableOnly: reset.all === true ? "false" : "true" };
    return this.changeUsage(userId, {}, query, options);
  }

  /**
   * Deletes a contract with its history and usage.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async delete(userId: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: pathOf(userId) }, options);
    this.fallbackCache.evict(userId);
  }

  /**
   * Gives a contract another value of a feature or usage limit than its plan and add-ons grant. Replaces the element's
   * former override; a repeated call changes nothing.
   * @throws ServiceRequestError with status 404 for an unknown contract, service or element.
   */
  async setOverride(
    userId: string,
    element: OverrideElement,
    { from, until, ...change }: OverrideChange,
    options?: CallOptions,
  ): Promise<Override> {
    const times = { ...(from && { from: instant(from) }), ...(until && { until: instant(until) }) };
    const path = pathOf(userId) + elementPath(element);
    const set = await this.transport.ask({ method: "PUT", path, body: { ...change, ...times } }, isOverride, options);
    this.fallbackCache.evict(userId);
    return set;
  }

  /**
   * Returns the override of an element.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  override(userId: string, element: OverrideElement, options?: CallOptions): Promise<Override> {
    return this.transport.ask({ method: "GET", path: pathOf(userId) + elementPath(element) }, isOverride, options);
  }

  /** Returns all overrides of a contract, also those that have ended. */
  overrides(userId: string, options?: CallOptions): Promise<Override[]> {
    return this.transport.ask({ method: "GET", path: `${pathOf(userId)}/overrides` }, listOf(isOverride), options);
  }

  /**
   * Ends the override of an element now. Needs a key of scope ALL.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async removeOverride(userId: string, element: OverrideElement, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: pathOf(userId) + elementPath(element) }, options);
    this.fallbackCache.evict(userId);
  }

  /** Lists one page of overrides by their end, those without one last, with the number of all matches. */
  async listOverrides(
    { endsBefore, ...query }: OverrideQuery = {},
    options?: CallOptions,
  ): Promise<{ overrides: Override[]; total: number }> {
    const until = endsBefore === undefined ? {} : { endsBefore: instant(endsBefore) };
    const answer = await this.transport.send(
      { method: "GET", path: "/overrides", query: { ...query, ...until } },
      options,
    );
    return { overrides: expected(answer, listOf(isOverride)), total: Number(answer.headers.get("x-total-count")) };
  }

  /**
   * Applies one novation to every contract of a group, all or none.
   * @returns the contracts, by user name.
   */
  async novateGroup(groupId: string, novation: Novation, options: NovateOptions = {}): Promise<Contract[]> {
    return this.changeGroup("/contracts", groupId, novation, options, novateQuery(options));
  }

  /**
   * Schedules a novation for a moment or for the end of the billing period. A contract has at most one pending change.
   * Retries carry the same idempotency key, so it is scheduled once.
   */
  async schedule(
    userId: string,
    { at, ...change }: NewScheduledChange,
    options: CountedOptions = {},
  ): Promise<ScheduledNovation> {
    const { idempotencyKey = crypto.randomUUID() } = options;
    const body = { ...change, at: instant(at) };
    const call = { method: "POST", path: `${pathOf(userId)}/scheduled`, body, idempotencyKey } as const;
    const scheduled = await this.transport.ask(call, isScheduledNovation, options);
    this.fallbackCache.evict(userId);
    return scheduled;
  }

  /** Returns the newest 100 scheduled changes of a contract in all states, newest first. */
  scheduled(userId: string, options?: CallOptions): Promise<ScheduledChange[]> {
    const path = `${pathOf(userId)}/scheduled`;
    return this.transport.ask({ method: "GET", path }, listOf(isScheduledChange), options);
  }

  /** Returns one page of a contract's holds, newest first. `next` is the `before` of the next page. */
  holds(userId: string, query: HoldQuery = {}, options?: CallOptions): Promise<{ data: Hold[]; next: string | null }> {
    const call = { method: "GET", path: `${pathOf(userId)}/holds`, query: { ...query } } as const;
    return this.transport.ask(call, isHoldPage, options);
  }

  /** Returns the payment provider's subscription that the contract follows; null without one. */
  async billing(userId: string, options?: CallOptions): Promise<ContractBilling | null> {
    return (await this.get(userId, options)).billing ?? null;
  }

  /**
   * Detaches the contract from the subscriptions that it follows; it stays as it is. Needs a key of scope ALL.
   * @throws ServiceRequestError with status 404 if it follows none.
   */
  async stopFollowing(userId: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: `${pathOf(userId)}/billing` }, options);
    this.fallbackCache.evict(userId);
  }

  /** Cancels a pending change. */
  async cancelScheduled(userId: string, id: string, options?: CallOptions): Promise<void> {
    const path = `${pathOf(userId)}/scheduled${segment("id", id)}`;
    await this.transport.send({ method: "DELETE", path }, options);
    this.fallbackCache.evict(userId);
  }

  /** Lists one page of scheduled changes by their moment, with the number of all matches. */
  async listScheduled(
    { dueBefore, ...query }: ScheduledQuery = {},
    options?: CallOptions,
  ): Promise<{ changes: ScheduledChange[]; total: number }> {
    const before = dueBefore === undefined ? {} : { dueBefore: instant(dueBefore) };
    const answer = await this.transport.send(
      { method: "GET", path: "/scheduled", query: { ...query, ...before } },
      options,
    );
    return { changes: expected(answer, listOf(isScheduledChange)), total: Number(answer.headers.get("x-total-count")) };
  }

  /**
   * Updates the billing period of every contract of a group, all or none.
   * @returns the contracts, by user name.
   */
  async updateGroupBillingPeriod(groupId: string, changes: BillingChanges, options?: CallOptions): Promise<Contract[]> {
    return this.changeGroup("/contracts/billingPeriod", groupId, changes, options);
  }

  private async change(
    userId: string,
    below: string,
    body: object,
    options?: CallOptions,
    query: NonNullable<Call["query"]> = {},
  ): Promise<Contract> {
    const changed = await this.transport.ask(
      { method: "PUT", path: pathOf(userId) + below, query, body },
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

  private async changeGroup(
    path: string,
    groupId: string,
    body: object,
    options?: CallOptions,
    query: NonNullable<Call["query"]> = {},
  ): Promise<Contract[]> {
    // Without a group, the second path would address every contract.
    if (groupId === "") throw new Error("groupId must be a non-empty string");
    const call = { method: "PUT", path, query: { groupId, ...query }, body } as const;
    const changed = await this.transport.ask(call, listOf(isContract), options);
    for (const { userContact } of changed) this.fallbackCache.evict(userContact.userId);
    return changed;
  }
}

const novateQuery = ({ cancelScheduled }: NovateOptions) => (cancelScheduled === true ? { cancelScheduled } : {});

const pathOf = (userId: string) => `/contracts${segment("userId", userId)}`;

/**
 * Formats a moment for the service.
 * @internal
 */
export function instant(at: Date | string): string {
  return typeof at === "string" ? at : at.toISOString();
}

/**
 * Returns true for an answer about a past moment. An older service answers about the present.
 * @internal
 */
export function hasAsOf(value: unknown): value is { asOf: AsOf } {
  return isObject(value) && isObject(value["asOf"]);
}

function isContract(value: unknown): value is Contract {
  return isObject(value) && isObject(value["userContact"]);
}

function isPast(value: unknown): value is Contract & { asOf: AsOf } {
  return isContract(value) && hasAsOf(value);
}
