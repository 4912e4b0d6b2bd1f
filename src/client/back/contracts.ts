import type { ContractBilling } from "./billing.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import {
  type AsOf,
  type BillingChanges,
  type Contract,
  type ContractQuery,
  isContract,
  isPast,
  type NewContract,
  type UsageReset,
  type UserContact,
} from "./contract.ts";
import { type Balance, Blocks, isBalance } from "./blocks.ts";
import { Budgets } from "./budgets.ts";
import { Members } from "./members.ts";
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
  type ScheduledChange,
  type ScheduledNovation,
  type ScheduledQuery,
} from "./scheduled.ts";
import { instant, type Novation, type Paging } from "./subscription.ts";
import {
  type Call,
  type CallOptions,
  type CountedOptions,
  expected,
  listOf,
  segment,
  type Transport,
} from "./transport.ts";

/** Options of a novation. */
export interface NovateOptions extends CallOptions {
  /** Cancels the pending scheduled change of each contract. Default: false. */
  readonly cancelScheduled?: boolean | undefined;
}

const LARGEST_PAGE = 100;

/** End users' contracts. Needs a key of scope MANAGEMENT, or ALL to delete. Source: contract contracts. */
export class Contracts {
  /** Amounts beyond the plan. */
  readonly blocks: Blocks;
  /** People who use a contract. */
  readonly members: Members;
  /** How much of a limit spenders may take. */
  readonly budgets: Budgets;
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.blocks = new Blocks(transport, fallbackCache);
    this.members = new Members(transport, fallbackCache);
    this.budgets = new Budgets(transport, fallbackCache);
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

  /** Returns each tracked limit with what its plan grants, its open blocks, and what is used and held. */
  balances(userId: string, options?: CallOptions): Promise<Balance[]> {
    return this.transport.ask({ method: "GET", path: `${pathOf(userId)}/balances` }, listOf(isBalance), options);
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
