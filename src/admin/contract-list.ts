import type { Contract } from "./answers.ts";
import { type Call, callWithHeaders } from "./api.ts";
import { NEAR } from "./design/meter.tsx";

/** Rows per page of the list. The export reads 100 per request, the server's maximum. */
export const PAGE_SIZE = 20;
const CHUNK = 100;

const SORT_FIELDS = ["username", "firstName", "lastName", "email"] as const;
export type SortField = (typeof SORT_FIELDS)[number];

export const CONTRACT_STATES = ["renewing", "active", "ending", "expired"] as const;
/** A contract's state in its billing period. */
export type ContractState = (typeof CONTRACT_STATES)[number];
/** States offered as filters; `near` comes from the overview's count of users close to a limit. */
export const CHOSEN_STATES = [...CONTRACT_STATES, "near", "trial"] as const;

/** Translates a chosen state into the server's query. */
function stateQuery(state: ContractChoice["state"]): NonNullable<Call["query"]> {
  if (state === "near") return { near: NEAR };
  return state === "trial" ? { trial: true } : { state };
}

/** Filters and sort order of the contract list, as the page's URL holds them. */
export interface ContractChoice {
  /** Text in the user's id, names or email address, or in the group's id. */
  text: string;
  service: string;
  version: string;
  plan: string;
  group: string;
  sort: SortField;
  order: "asc" | "desc";
  page: number;
  /** One of CHOSEN_STATES; "" for any state. */
  state: string;
}

const sortOf = (text: string | null): SortField => SORT_FIELDS.find((field) => field === text) ?? "username";

export function choiceFrom(search: URLSearchParams): ContractChoice {
  return {
    text: search.get("q") ?? "",
    service: search.get("service") ?? "",
    version: search.get("version") ?? "",
    plan: search.get("plan") ?? "",
    group: search.get("group") ?? "",
    state: CHOSEN_STATES.find((state) => state === search.get("state")) ?? "",
    sort: sortOf(search.get("sort")),
    order: search.get("order") === "desc" ? "desc" : "asc",
    page: Math.max(1, Math.trunc(Number(search.get("page"))) || 1),
  };
}

/** Translates the URL's filters into the server's query. The server searches, filters, sorts and paginates. */
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
    q: choice.text,
    groupId: choice.group,
    ...stateQuery(choice.state),
    sort: choice.sort,
    order: choice.order,
    page: choice.page,
    limit: PAGE_SIZE,
    filters,
  };
}

/** Reads all matching contracts page by page; `onProgress` receives the counts so far. */
export async function readAll(
  to: string,
  query: Call["query"],
  onProgress: (done: number, all: number) => void,
): Promise<Contract[]> {
  const contracts: Contract[] = [];
  for (let page = 1; ; page += 1) {
    const { body, headers } = await callWithHeaders<Contract[]>("GET", to, {
      query: { ...query, page, limit: CHUNK },
    });
    contracts.push(...body);
    onProgress(contracts.length, Number(headers.get("x-total-count") ?? contracts.length));
    if (body.length < CHUNK) return contracts;
  }
}

/** Tones of the states, for their dots. */
export const STATE_TONES = { active: "good", renewing: "good", ending: "warn", expired: "bad" } as const;

const SOON_MS = 7 * 86_400_000;

export function stateOf({ billingPeriod }: Pick<Contract, "billingPeriod">, now: number): ContractState {
  const left = Date.parse(billingPeriod.endDate) - now;
  if (billingPeriod.autoRenew) return "renewing";
  if (left < 0) return "expired";
  return left < SOON_MS ? "ending" : "active";
}
