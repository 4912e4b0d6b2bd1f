import { and, sql, type SQL } from "drizzle-orm";
import {
  afterTrial,
  type AfterTrial,
  type ScheduledAvailability,
  chosenIn,
  type ScheduledKind,
  type ScheduledService,
  type ScheduledState,
  type StoredTrial,
} from "../../core/scheduled.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, scheduledChanges } from "../schema.ts";
import type { Actor } from "./actors.ts";

/** Fields of every scheduled change. */
interface CommonView {
  readonly id: string;
  readonly organizationId: string;
  readonly state: ScheduledState;
  readonly userId: string;
  readonly at: Date;
  readonly atPeriodEnd: boolean;
  readonly reason: string | null;
  readonly effectiveAt: Date | null;
  readonly why: string | null;
  readonly createdAt: Date;
}

interface NovationView extends CommonView, Exclude<AfterTrial, "end"> {
  readonly kind: "novation";
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly autoRenew: boolean | null;
}

interface TrialEndView extends CommonView {
  readonly kind: "trialEnd";
  readonly then: AfterTrial;
}

interface AvailabilityView extends Omit<CommonView, "userId" | "atPeriodEnd" | "reason"> {
  readonly kind: "availability";
  readonly serviceName: string;
  readonly pricingVersion: string;
  readonly availability: "active" | "archived";
  readonly fallback: object | null;
  readonly overrideReason: string | null;
}

/** A scheduled change in the form that every endpoint returns. Source: contract custom-terms §4, §5. */
export type ScheduledView = (NovationView | TrialEndView | AvailabilityView) & { readonly actor: Actor };

/** A trial in the form that contracts show it. Source: contract custom-terms §6. */
export interface TrialView {
  readonly until: Date;
  readonly then: AfterTrial;
}

/** A service of a scheduled subscription, with current names where it still exists. */
export type VersionedService = ScheduledService & { readonly version: string };

/** A scheduled change as the database returns it in JSON. */
export type ScheduledJson = Omit<CommonView, "at" | "effectiveAt" | "createdAt"> & {
  kind: ScheduledKind;
  at: string;
  effectiveAt: string | null;
  createdAt: string;
  endsContract: boolean;
  autoRenew: boolean | null;
  availability: ScheduledAvailability | null;
  /** Current names of the service and the version of an availability. */
  serviceName: string | null;
  pricingVersion: string | null;
  services: readonly VersionedService[] | null;
  actorKind: Actor["kind"];
  actorId: string | null;
};

/** A scheduled change, still without the name of who scheduled it. */
export type ReadScheduled = (NovationView | TrialEndView | AvailabilityView) & {
  actorKind: Actor["kind"];
  actorId: string | null;
};

/** SQL expression: the services of the change `s` as a JSON list. */
export const SUBSCRIPTIONS_JSON = `(
          select json_agg(json_build_object('serviceId', x.service_id, 'key', coalesce(v.name_key, x.service_name),
              'version', coalesce(p.version, x.version), 'plan', x.plan, 'addOns', x.add_ons) order by x.position)
          from scheduled_subscriptions x
          left join services v on v.id = x.service_id
          left join contract_services cs on s.kind = 'trialEnd' and cs.contract_id = x.contract_id
            and cs.service_id = x.service_id
          left join pricings p on p.id = coalesce(x.pricing_id, cs.pricing_id)
          where x.contract_id = s.contract_id and x.change_id = s.id)`;

/** SQL expression of a {@link ScheduledJson}: the change `s` of the contract `c`. */
const CHANGE_JSON = `json_build_object(
        'id', s.id, 'organizationId', s.organization_id, 'kind', s.kind, 'state', s.state, 'userId', c.user_id,
        'at', s.at, 'atPeriodEnd', s.at_period_end, 'endsContract', s.ends_contract, 'autoRenew', s.auto_renew,
        'reason', s.reason, 'effectiveAt', s.effective_at, 'why', s.why, 'createdAt', s.created_at,
        'actorKind', s.actor_kind, 'actorId', s.actor_id, 'availability', s.availability,
        'serviceName', (select v.name from services v where v.id = s.service_id),
        'pricingVersion', (select p.version from pricings p where p.id = s.pricing_id),
        'services', ${SUBSCRIPTIONS_JSON})`;

/** SQL expression: the pending change of contract `c`; null without one. Read it with {@link scheduledIn}. */
export const PENDING_JSON = sql.raw(`(case when c.change_at is not null then (
      select ${CHANGE_JSON} from scheduled_changes s where s.contract_id = c.id and s.state = 'pending') end)`);

/** SQL expression of a {@link StoredTrial}: the trial of contract `c`; null without one. */
export const TRIAL_JSON = sql.raw(`(case when c.change_at is not null then (
      select json_build_object('until', s.at, 'endsContract', s.ends_contract, 'services', ${SUBSCRIPTIONS_JSON})
      from scheduled_changes s where s.contract_id = c.id and s.state = 'pending' and s.kind = 'trialEnd') end)`);

/** Reads a trial that {@link TRIAL_JSON} built. */
export const trialIn = (trial: StoredTrial | null): TrialView | null =>
  trial === null ? null : { until: new Date(trial.until), then: afterTrial(trial) };

/** Reads a change that {@link PENDING_JSON} built. */
export function scheduledIn(json: ScheduledJson): ReadScheduled {
  const { services, at, effectiveAt, createdAt, kind, autoRenew, endsContract, actorKind, actorId, ...all } = json;
  const { availability, serviceName, pricingVersion, userId, atPeriodEnd, reason, ...rest } = all;
  const common = {
    ...rest,
    at: new Date(at),
    effectiveAt: effectiveAt === null ? null : new Date(effectiveAt),
    createdAt: new Date(createdAt),
    actorKind,
    actorId,
  };
  if (availability !== null) {
    return {
      ...common,
      kind: "availability",
      serviceName: serviceName ?? availability.serviceName,
      pricingVersion: pricingVersion ?? availability.version,
      availability: availability.availability,
      fallback: availability.fallback,
      overrideReason: availability.overrideReason,
    };
  }
  const change = { ...common, userId, atPeriodEnd, reason };
  if (kind === "trialEnd") return { ...change, kind, then: afterTrial({ endsContract, services }) };
  const list = services ?? [];
  return {
    ...change,
    kind: "novation",
    contractedServices: Object.fromEntries(list.map(({ key, version }) => [key, version])),
    ...chosenIn(list),
    autoRenew,
  };
}

/** All changes, those of contracts with theirs. */
const WITH_CONTRACTS = sql`${scheduledChanges} s left join ${contracts} c on c.id = s.contract_id`;
async function readChanges(db: Database, rest: SQL): Promise<ReadScheduled[]> {
  const rows = await db.execute<{ change: ScheduledJson }>(
    sql`select ${sql.raw(CHANGE_JSON)} as change from ${WITH_CONTRACTS} ${rest}`,
  );
  return rows.map(({ change }) => scheduledIn(change));
}

/** Lists the newest changes of a contract, newest first. */
export function listChangesOf(db: Database, contractId: string, limit: number): Promise<ReadScheduled[]> {
  return readChanges(db, sql`where s.contract_id = ${contractId} order by s.id desc limit ${limit}::integer`);
}

/** Reads one change of a contract; undefined if it has none of this id. */
export async function readChange(db: Database, contractId: string, id: string): Promise<ReadScheduled | undefined> {
  const [change] = await readChanges(db, sql`where s.contract_id = ${contractId} and s.id = ${id}`);
  return change;
}

/** Reads changes by their ids, newest first. */
export function readChangesById(db: Database, ids: readonly string[]): Promise<ReadScheduled[]> {
  return readChanges(db, sql`where ${isAnyOf(sql`s.id`, ids)} order by s.id desc`);
}

/** Conditions on changes; undefined matches everything. */
export interface ScheduledFilter {
  organizationId: string | undefined;
  state: ScheduledState;
  kind: ScheduledKind | undefined;
  dueBefore: Date | undefined;
}

/** Lists one page of changes by moment and id, and counts all matches. */
export async function pageChanges(
  db: Database,
  { organizationId, state, kind, dueBefore }: ScheduledFilter,
  page: { skip: number; limit: number; after: string | undefined },
): Promise<{ changes: ReadScheduled[]; total: number; next: string | undefined }> {
  const where = and(
    sql`s.state = ${state}`,
    organizationId === undefined ? undefined : sql`s.organization_id = ${organizationId}`,
    kind === undefined ? undefined : sql`s.kind = ${kind}`,
    dueBefore === undefined ? undefined : sql`s.at < ${dueBefore.toISOString()}::timestamptz`,
  );
  const [counted] = await db.execute<{ total: number }>(
    sql`select count(*)::integer as total from ${scheduledChanges} s where ${where}`,
  );
  const { after, limit, skip } = page;
  const changes = await readChanges(
    db,
    after === undefined
      ? sql`where ${where} order by s.at, s.id limit ${limit}::bigint offset ${skip}::bigint`
      : sql`where ${where} and s.id > ${after} order by s.id limit ${limit}::bigint`,
  );
  const next = after !== undefined && changes.length === limit ? changes.at(-1)?.id : undefined;
  return { changes, total: counted?.total ?? 0, next };
}
