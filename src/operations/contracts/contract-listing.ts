import { and, asc, desc, eq, gt, or, sql, type SQL } from "drizzle-orm";
import type { ContractView } from "../../db/queries/contract-view.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { CONTRACT_STATES, type ContractState, isInState } from "../../db/queries/overview.ts";
import { countNear, isNear, type Nearness } from "../../db/queries/near-limits.ts";
import { hasMember } from "../../db/queries/contract-members.ts";
import { serviceKey, versionKey } from "../../db/queries/pricings.ts";
import { contracts } from "../../db/schema.ts";
import { containsText } from "../access.ts";
import { showContracts } from "../contract-views.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { numericLimitsOf } from "../numeric-limits.ts";
import { type Context, snapshot } from "../context.ts";
import { Failure } from "../errors.ts";
import { type PageQuery, pageOf } from "./paging.ts";

/** Conditions on subscriptions. Source: contract contracts §3. */
export interface SubscriptionFilters {
  services?: readonly string[] | Readonly<Record<string, readonly string[]>> | undefined;
  plans?: Readonly<Record<string, readonly string[]>> | undefined;
  addOns?: Readonly<Record<string, readonly string[]>> | undefined;
}

export const CONTRACT_SORT_FIELDS = ["firstName", "lastName", "username", "email"] as const;
type SortField = (typeof CONTRACT_SORT_FIELDS)[number];

type SearchField = SortField | "userId";

const COLUMNS = {
  userId: contracts.userId,
  username: contracts.username,
  firstName: contracts.firstName,
  lastName: contracts.lastName,
  email: contracts.email,
} as const;

export interface ContractQuery extends PageQuery {
  organizationId: string | undefined;
  contains: Partial<Record<SearchField, string | undefined>>;
  /** Text in any of the searched fields, or in the group's id. */
  q: string | undefined;
  groupId: string | undefined;
  /** Id of a member that the contracts have. */
  member: string | undefined;
  sort: string | undefined;
  order: string | undefined;
  filters: SubscriptionFilters;
  /** A contract state, as the overview counts them. */
  state: string | undefined;
  /** True for contracts in a trial only. */
  inTrial: boolean;
  /** Minimum consumed share of a limit; requires an organization. */
  near: number | undefined;
}

/**
 * Lists one page of the matching contracts, and counts all matches. Uses one snapshot and a constant number of queries.
 */
export async function listContracts(
  ctx: Context,
  query: ContractQuery,
): Promise<{ contracts: ContractView[]; total: number; next: string | undefined }> {
  const paging = readPaging(ctx, query);
  await applyDueChangesOf(ctx, { organizationId: query.organizationId });
  return snapshot(ctx, (ctx) => readPage(ctx, query, paging));
}

async function readPage(
  ctx: Context,
  query: ContractQuery,
  { sort, order, skip, limit, state, after }: Paging,
): Promise<{ contracts: ContractView[]; total: number; next: string | undefined }> {
  const nearness = await nearnessOf(ctx, query);
  const filter = and(
    query.groupId === undefined ? undefined : eq(contracts.groupId, query.groupId),
    query.member === undefined ? undefined : hasMember(ctx.db, query.member),
    ...Object.entries(query.contains).map(([field, text]) =>
      text === undefined || text === "" ? undefined : containsText(COLUMNS[field as SearchField], text),
    ),
    anywhere(query.q),
    servicesCondition(query.filters.services),
    plansCondition(query.filters.plans),
    addOnsCondition(query.filters.addOns),
    state === undefined ? undefined : isInState(state, ctx.resources.now()),
    query.inTrial ? IN_TRIAL : undefined,
  );
  const where = and(
    query.organizationId === undefined ? undefined : eq(contracts.organizationId, query.organizationId),
    filter,
    nearness === undefined ? undefined : isNear(nearness),
  );
  const by = sql`${COLUMNS[sort]} collate "C"`;
  // An index has the user names in order, but not with nulls first: they are never null.
  const [first, last] = sort === "username" ? [sql``, sql``] : [sql` nulls first`, sql` nulls last`];
  const [rows, total] = await Promise.all([
    ctx.db
      .select({ id: contracts.id })
      .from(contracts)
      .where(after ? and(where, gt(contracts.id, after)) : where)
      .orderBy(
        ...(after !== undefined
          ? [asc(contracts.id)]
          : order === "asc"
            ? [sql`${by} asc${first}`, asc(contracts.id)]
            : [sql`${by} desc${last}`, desc(contracts.id)]),
      )
      .limit(limit)
      .offset(skip),
    // Skips the contracts' rows, which take longer to read than the balances.
    nearness !== undefined && filter === undefined ? countNear(ctx.db, nearness) : ctx.db.$count(contracts, where),
  ]);
  const next = after !== undefined && rows.length === limit ? rows.at(-1)?.id : undefined;
  return { contracts: await showContracts(ctx, rows), total, next };
}

/** True for contracts with the text in any field that identifies a person. */
function anywhere(text: string | undefined): SQL | undefined {
  if (text === undefined || text === "") return undefined;
  return or(...[...Object.values(COLUMNS), contracts.groupId].map((column) => containsText(column, text)));
}

interface Paging {
  sort: SortField;
  order: "asc" | "desc";
  skip: number;
  limit: number;
  after: string | undefined;
  state: ContractState | undefined;
}

function readPaging(ctx: Context, query: ContractQuery): Paging {
  const problems: string[] = [];
  const sort = CONTRACT_SORT_FIELDS.find((field) => field === (query.sort || "username"));
  if (sort === undefined) {
    problems.push(`Invalid sort field. Please use one of the following: ${CONTRACT_SORT_FIELDS.join(", ")}`);
  }
  const order = query.order === "desc" ? "desc" : "asc";
  if ((query.order || "asc") !== order) problems.push("Invalid order value. Please use 'asc' or 'desc'");
  const state = CONTRACT_STATES.find((each) => each === query.state);
  if (query.state && state === undefined) {
    problems.push(`Invalid state. Please use one of the following: ${CONTRACT_STATES.join(", ")}`);
  }
  return { sort: sort ?? "username", order, state, ...pageOf(ctx, query, problems) };
}

async function nearnessOf(ctx: Context, { organizationId, near }: ContractQuery): Promise<Nearness | undefined> {
  if (near === undefined) return undefined;
  if (organizationId === undefined) {
    throw new Failure("invalid", "INVALID DATA: near requires an organization");
  }
  const limits = await numericLimitsOf(ctx, organizationId);
  return { organizationId, ...limits, share: near, now: ctx.resources.now() };
}

/** True for contracts with a service that satisfies `condition`. */
function having(condition: SQL): SQL {
  return sql`exists (
    select 1 from contract_services cs
    join services s on s.id = cs.service_id
    join pricings p on p.id = cs.pricing_id
    where cs.contract_id = ${contracts.id} and (${condition})
  )`;
}

const IN_TRIAL = sql`(${contracts.changeAt} is not null and exists (
  select 1 from scheduled_changes s
  where s.contract_id = ${contracts.id} and s.state = 'pending' and s.kind = 'trialEnd'))`;

const NOTHING = sql`false`;

function servicesCondition(wanted: SubscriptionFilters["services"]): SQL | undefined {
  if (wanted === undefined) return undefined;
  if (Array.isArray(wanted)) {
    return wanted.length === 0 ? NOTHING : having(isAnyOf(sql`s.name_key`, wanted.map(serviceKey)));
  }
  const conditions = Object.entries(wanted).map(([name, versions]) =>
    and(
      sql`s.name_key = ${serviceKey(name)}`,
      versions.length === 0 ? undefined : isAnyOf(sql`p.version_key`, versions.map(versionKey)),
    ),
  );
  return anyOf(conditions);
}

function plansCondition(wanted: SubscriptionFilters["plans"]): SQL | undefined {
  const conditions = Object.entries(wanted ?? {}).flatMap(([name, plans]) =>
    plans.length === 0
      ? []
      : [
          and(
            sql`s.name_key = ${serviceKey(name)}`,
            isAnyOf(
              sql`lower(cs.plan)`,
              plans.map((plan) => plan.toLowerCase()),
            ),
          ),
        ],
  );
  return anyOf(conditions);
}

function addOnsCondition(wanted: SubscriptionFilters["addOns"]): SQL | undefined {
  const conditions = Object.entries(wanted ?? {}).flatMap(([name, addOns]) =>
    addOns.length === 0
      ? []
      : [
          and(
            sql`s.name_key = ${serviceKey(name)}`,
            sql`exists (select 1 from json_object_keys(cs.add_ons) added where ${isAnyOf(
              sql`lower(added)`,
              addOns.map((addOn) => addOn.toLowerCase()),
            )})`,
          ),
        ],
  );
  return anyOf(conditions);
}

function anyOf(conditions: readonly (SQL | undefined)[]): SQL | undefined {
  const condition = or(...conditions);
  return condition === undefined ? undefined : having(condition);
}
