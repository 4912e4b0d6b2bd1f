import type { Contract } from "./answers.ts";
import { type Call, callWithHeaders } from "./api.ts";

/** Rows of a page; a hundred is the most that the server gives at once. */
export const PAGE_SIZE = 20;
const CHUNK = 100;

export const SEARCH_FIELDS = ["username", "firstName", "lastName", "email"] as const;
export type SearchField = (typeof SEARCH_FIELDS)[number];

/** What the address of the page says about which contracts to show. */
export interface ContractChoice {
  text: string;
  field: SearchField;
  service: string;
  version: string;
  plan: string;
  group: string;
  sort: SearchField;
  order: "asc" | "desc";
  page: number;
  /** What only a look at the contracts themselves tells; "" for any. */
  state: string;
}

const fieldOf = (text: string | null): SearchField => SEARCH_FIELDS.find((field) => field === text) ?? "username";

export function choiceFrom(search: URLSearchParams): ContractChoice {
  return {
    text: search.get("q") ?? "",
    field: fieldOf(search.get("in")),
    service: search.get("service") ?? "",
    version: search.get("version") ?? "",
    plan: search.get("plan") ?? "",
    group: search.get("group") ?? "",
    state: search.get("state") ?? "",
    sort: fieldOf(search.get("sort")),
    order: search.get("order") === "desc" ? "desc" : "asc",
    page: Math.max(1, Math.trunc(Number(search.get("page"))) || 1),
  };
}

/** The server's query for a choice: everything is searched, filtered, sorted and cut there. */
export function queryOf(choice: ContractChoice): NonNullable<Call["query"]> {
  const { service, version, plan } = choice;
  const filters =
    service === ""
      ? undefined
      : JSON.stringify({
          services: { [service]: version === "" ? [] : [version] },
          ...(plan === "" ? {} : { plans: { [service]: [plan] } }),
        });
  return {
    [choice.field]: choice.text,
    groupId: choice.group,
    sort: choice.sort,
    order: choice.order,
    page: choice.page,
    limit: PAGE_SIZE,
    filters,
  };
}

/** All that match, page after page; `onProgress` hears how far it is. */
export async function readAll(
  to: string,
  query: Call["query"],
  key: string,
  options: { onProgress?: (done: number, all: number) => void; atMost?: number; signal?: AbortSignal } = {},
): Promise<{ contracts: Contract[]; total: number }> {
  const contracts: Contract[] = [];
  for (let page = 1; ; page += 1) {
    const { body, headers } = await callWithHeaders<Contract[]>("GET", to, {
      key,
      query: { ...query, page, limit: CHUNK },
      signal: options.signal,
    });
    contracts.push(...body);
    const total = Number(headers.get("x-total-count") ?? contracts.length);
    options.onProgress?.(contracts.length, total);
    if (body.length < CHUNK || contracts.length >= (options.atMost ?? Number.POSITIVE_INFINITY)) {
      return { contracts, total };
    }
  }
}

const SOON_MS = 7 * 86_400_000;

export type ContractState = "active" | "renewing" | "ending" | "expired";

/** Where a contract is in its billing period. */
export function stateOf({ billingPeriod }: Pick<Contract, "billingPeriod">, now: number): ContractState {
  const left = Date.parse(billingPeriod.endDate) - now;
  if (billingPeriod.autoRenew) return "renewing";
  if (left < 0) return "expired";
  return left < SOON_MS ? "ending" : "active";
}
