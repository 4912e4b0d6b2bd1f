import { asc, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/pg-core";
import { type RenewalPeriod, renewalPeriodOf, runningDays } from "../../core/period.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts } from "../schema.ts";
import { BILLING_JSON, billingIn, type BillingJson, type BillingView } from "./billing.ts";
import { SERVICES_JSON } from "./contract-snapshots.ts";
import type { SnapshotService } from "../schema.ts";
import { type OverrideJson, OVERRIDES_JSON, overridesIn, type OverrideView, type StoredOverride } from "./overrides.ts";
import {
  PENDING_JSON,
  type ReadScheduled,
  scheduledIn,
  type ScheduledJson,
  type ScheduledView,
  type TrialView,
} from "./scheduled-view.ts";

/** Contract in the form that every endpoint returns. Source: contract contracts §2. */
export interface ContractView {
  id: string;
  userContact: {
    userId: string;
    username: string;
    firstName?: string;
    lastName?: string;
    email?: string;
    phone?: string;
  };
  /** `renewalPeriod` only where it is set; `renewalDays` is then the length of the running period. */
  billingPeriod: {
    startDate: Date;
    endDate: Date;
    autoRenew: boolean;
    renewalDays: number;
    renewalPeriod?: RenewalPeriod;
  };
  /** `held` only where open holds hold something. */
  usageLevels: Record<string, Record<string, { resetTimeStamp?: Date; consumed: number; held?: number }>>;
  organizationId: string;
  groupId?: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
  history: {
    startDate: Date;
    endDate: Date;
    contractedServices: Record<string, string>;
    subscriptionPlans: Record<string, string>;
    subscriptionAddOns: Record<string, Record<string, number>>;
  }[];
  /** Overrides that have not ended, if there are any. Added by operations/contract-views.ts. */
  overrides?: OverrideView[];
  /** The pending scheduled change, if there is one. Added by operations/contract-views.ts. */
  scheduled?: Extract<ScheduledView, { kind: "novation" }>;
  /** The trial, while it lasts. */
  trial?: TrialView;
  /** The subscription that the contract follows, if any. */
  billing?: BillingView;
}

type ContractRow = typeof contracts.$inferSelect;

function userContact(row: ContractRow): ContractView["userContact"] {
  const contact: ContractView["userContact"] = { userId: row.userId, username: row.username };
  if (row.firstName !== null) contact.firstName = row.firstName;
  if (row.lastName !== null) contact.lastName = row.lastName;
  if (row.email !== null) contact.email = row.email;
  if (row.phone !== null) contact.phone = row.phone;
  return contact;
}

/** The SQL expressions below refer to the contract's row by this alias. */
const c = alias(contracts, "c");

const LEVELS_JSON = sql.raw(`(select json_agg(json_build_object(
    'service', s.name_key, 'limit', u.limit_name, 'consumed', u.consumed, 'held', u.held,
    'resetAt', u.reset_at)
    order by cs.position, u.position)
  from usage_levels u
  join contract_services cs using (contract_id, service_id)
  join services s on s.id = u.service_id
  where u.contract_id = c.id)`);

const HISTORY_ENTRY = `json_build_object(
    'startDate', h.start_date, 'endDate', h.end_date, 'contractedServices', h.contracted_services,
    'subscriptionPlans', h.subscription_plans, 'subscriptionAddOns', h.subscription_add_ons)`;
const HISTORY_JSON = sql.raw(`(select json_agg(${HISTORY_ENTRY} order by h.id)
  from contract_history h where h.contract_id = c.id)`);
const NEWEST_HISTORY_JSON = sql.raw(`(select ${HISTORY_ENTRY}
  from contract_history h where h.contract_id = c.id order by h.id desc limit 1)`);

type LevelJson = Omit<Belongings["levels"][number], "resetAt"> & { resetAt: string | null };
type HistoryJson = Omit<Belongings["past"][number], "startDate" | "endDate"> & { startDate: string; endDate: string };

/** A contract's view, still without overrides and scheduled change, and what those depend on. */
export interface ReadContract {
  view: ContractView;
  services: readonly SnapshotService[];
  /** In display order. */
  overrides: readonly StoredOverride[];
  /** The pending novation and the trial; null without one. A contract has at most one of them. */
  scheduled: Extract<ReadScheduled, { kind: "novation" }> | null;
  trial: TrialView | null;
  /** Null without a followed subscription. */
  billing: BillingView | null;
}

/**
 * Reads contracts with services, levels, history, overrides and scheduled change, in the given order. Uses one statement, so that each view
 * is consistent. Omits deleted contracts.
 */
export async function readContracts(db: Database, named: readonly { id: string }[]): Promise<ReadContract[]> {
  if (named.length === 0) return [];
  const ids = named.map(({ id }) => id);
  const found = await db
    .select({
      row: c,
      contracted: sql<SnapshotService[] | null>`${SERVICES_JSON}`,
      levels: sql<LevelJson[] | null>`${LEVELS_JSON}`,
      past: sql<HistoryJson[] | null>`${HISTORY_JSON}`,
      overrides: sql<OverrideJson[] | null>`${OVERRIDES_JSON}`,
      scheduled: sql<ScheduledJson | null>`${PENDING_JSON}`,
      billing: sql<BillingJson | null>`${BILLING_JSON}`,
    })
    .from(c)
    .where(isAnyOf(c.id, ids));
  const contracts = new Map(
    found.map(({ row, contracted, levels, past, overrides, scheduled, billing }): [string, ReadContract] => [
      row.id,
      {
        view: viewOf(row, {
          contracted: contracted ?? [],
          levels: (levels ?? []).map((level) => ({
            ...level,
            resetAt: level.resetAt === null ? null : new Date(level.resetAt),
          })),
          past: (past ?? []).map(pastOf),
        }),
        services: contracted ?? [],
        overrides: overridesIn(overrides),
        ...pendingIn(scheduled === null ? null : scheduledIn(scheduled)),
        billing: billingIn(billing),
      },
    ]),
  );
  return ids.flatMap((id) => contracts.get(id) ?? []);
}

function pendingIn(change: ReadScheduled | null): Pick<ReadContract, "scheduled" | "trial"> {
  if (change?.kind === "novation") return { scheduled: change, trial: null };
  if (change?.kind !== "trialEnd") return { scheduled: null, trial: null };
  return { scheduled: null, trial: { until: change.at, then: change.then } };
}

/**
 * Reads contracts with services and their newest history entry, in the order of their ids. The views lack levels and older
 * history, which take most of the time of readContracts.
 */
export async function viewSubscriptions(db: Database, ids: readonly string[]): Promise<ContractView[]> {
  const found = await db
    .select({
      row: c,
      contracted: sql<SnapshotService[] | null>`${SERVICES_JSON}`,
      newest: sql<HistoryJson | null>`${NEWEST_HISTORY_JSON}`,
    })
    .from(c)
    .where(isAnyOf(c.id, ids))
    .orderBy(asc(c.id));
  return found.map(({ row, contracted, newest }) =>
    viewOf(row, { contracted: contracted ?? [], levels: [], past: newest === null ? [] : [pastOf(newest)] }),
  );
}

const pastOf = (entry: HistoryJson): Belongings["past"][number] => ({
  ...entry,
  startDate: new Date(entry.startDate),
  endDate: new Date(entry.endDate),
});

/** Services, levels and history of a contract, each list in display order. */
interface Belongings {
  contracted: readonly Pick<SnapshotService, "key" | "version" | "plan" | "addOns">[];
  levels: readonly { service: string; limit: string; consumed: number; held: number; resetAt: Date | null }[];
  past: readonly ContractView["history"][number][];
}

function billingPeriodOf(row: ContractRow): ContractView["billingPeriod"] {
  const { startDate, endDate, autoRenew, renewalDays } = row;
  const renewalPeriod = renewalPeriodOf(row);
  if (renewalPeriod === undefined) return { startDate, endDate, autoRenew, renewalDays };
  return { startDate, endDate, autoRenew, renewalDays: runningDays(row), renewalPeriod };
}

/** Builds the view of a contract from its row and related rows. */
export function viewOf(row: ContractRow, { contracted, levels, past }: Belongings): ContractView {
  const view: ContractView = {
    id: row.id,
    userContact: userContact(row),
    billingPeriod: billingPeriodOf(row),
    usageLevels: {},
    organizationId: row.organizationId,
    ...(row.groupId === null ? {} : { groupId: row.groupId }),
    contractedServices: {},
    subscriptionPlans: {},
    subscriptionAddOns: {},
    history: past.map((entry) => ({
      startDate: entry.startDate,
      endDate: entry.endDate,
      contractedServices: entry.contractedServices,
      subscriptionPlans: entry.subscriptionPlans,
      subscriptionAddOns: entry.subscriptionAddOns,
    })),
  };
  for (const { key, version, plan, addOns } of contracted) {
    define(view.contractedServices, key, version);
    if (plan !== null) define(view.subscriptionPlans, key, plan);
    if (addOns !== null) define(view.subscriptionAddOns, key, addOns);
  }
  for (const { service, limit, consumed, held, resetAt } of levels) {
    if (!Object.hasOwn(view.usageLevels, service)) define(view.usageLevels, service, {});
    const level = resetAt === null ? { consumed } : { resetTimeStamp: resetAt, consumed };
    define(view.usageLevels[service] ?? {}, limit, held > 0 ? { ...level, held } : level);
  }
  return view;
}

/** Sets an own property of any name: service names are user input and may be `__proto__`. */
function define<T>(target: Record<string, T>, key: string, value: T): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}
