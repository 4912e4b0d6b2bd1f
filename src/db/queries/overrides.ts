import { and, eq, sql, type SQL } from "drizzle-orm";
import type { PrivateEvent } from "../../core/event-messages.ts";
import type { FeatureValue } from "../../core/pricing/model.ts";
import type { Override, OverrideKind, OverrideState, TimedOverride } from "../../core/pricing/overrides.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contractOverrides, services } from "../schema.ts";
import type { Actor } from "./actors.ts";
import { endLeavingBlocks } from "./blocks.ts";
import type { SnapshotService } from "../schema.ts";
import type { Addressed } from "./outbox.ts";

/** An override as it is stored, without the contract that it belongs to. */
export interface StoredOverride extends TimedOverride {
  readonly serviceId: string;
  readonly reason: string;
  readonly setAt: Date;
  readonly actorKind: Actor["kind"];
  readonly actorId: string | null;
}

/** An override in the form that every endpoint returns. Source: contract custom-terms §3. */
export interface OverrideView extends Omit<StoredOverride, "serviceId" | "actorKind" | "actorId"> {
  readonly organizationId: string;
  readonly userId: string;
  /** Service name in lower case. */
  readonly service: string;
  readonly state: OverrideState;
  /** The value that plan and add-ons give, and the value that expressions read; null for none. */
  readonly granted: FeatureValue | null;
  readonly effective: FeatureValue | null;
  readonly actor: Actor;
}

/** Names one element of a contract. */
export interface ElementKey extends Pick<Override, "kind" | "name"> {
  contractId: string;
  serviceId: string;
}

export type OverrideJson = Omit<StoredOverride, "from" | "until" | "setAt"> & {
  from: string;
  until: string | null;
  setAt: string;
};

/**
 * SQL expression: all overrides of contract `c` as a JSON list, by service, kind and name in code point order; null if it
 * has none. Read it with {@link overridesIn}.
 */
export const OVERRIDES_JSON = sql.raw(`(select json_agg(json_build_object(
        'serviceId', o.service_id, 'kind', o.kind, 'name', o.name, 'mode', o.mode, 'value', o.value, 'from', o.starts_at,
        'until', o.ends_at, 'reason', o.reason, 'setAt', o.set_at, 'actorKind', o.actor_kind, 'actorId', o.actor_id)
        order by s.name_key collate "C", o.kind, o.name collate "C")
      from contract_overrides o join services s on s.id = o.service_id
      where o.contract_id = c.id)`);

/** Reads a list that {@link OVERRIDES_JSON} built. */
export function overridesIn(list: readonly OverrideJson[] | null): StoredOverride[] {
  return (list ?? []).map((override) => ({ ...override, ...timesOf(override) }));
}

const timesOf = ({ from, until, setAt }: OverrideJson) => ({
  from: new Date(from),
  until: until === null ? null : new Date(until),
  setAt: new Date(setAt),
});

/** Creates or replaces the override of an element. Call it with the contract locked. */
export async function putOverride(
  tx: Database,
  contract: { id: string; organizationId: string },
  override: StoredOverride,
): Promise<void> {
  const row = { contractId: contract.id, organizationId: contract.organizationId, ...override, endAnnounced: false };
  const { contractId, serviceId, kind, name, organizationId } = contractOverrides;
  await tx
    .insert(contractOverrides)
    .values(row)
    .onConflictDoUpdate({ target: [contractId, serviceId, kind, name, organizationId], set: row });
}

export async function deleteOverride(tx: Database, { contractId, serviceId, kind, name }: ElementKey): Promise<void> {
  await tx
    .delete(contractOverrides)
    .where(
      and(
        eq(contractOverrides.contractId, contractId),
        eq(contractOverrides.serviceId, serviceId),
        eq(contractOverrides.kind, kind),
        eq(contractOverrides.name, name),
      ),
    );
}

interface EndedRow extends Record<string, unknown> {
  organization_id: string;
  contract_id: string;
  user_id: string;
  name_key: string;
  kind: OverrideKind;
  name: string;
}

type EndCause = Extract<PrivateEvent, { code: "CONTRACT_OVERRIDE_ENDED" }>["details"]["cause"];

const endedEvent = (row: EndedRow, cause: EndCause): Addressed => ({
  organizationId: row.organization_id,
  event: {
    code: "CONTRACT_OVERRIDE_ENDED",
    details: {
      contractId: row.contract_id,
      userId: row.user_id,
      serviceName: row.name_key,
      kind: row.kind,
      name: row.name,
      cause,
    },
  },
});

/**
 * Deletes the overrides of services that leave contracts, and revokes their blocks. Returns the events of ends that were not
 * announced. Call it with the contracts locked, before their services are deleted, which would delete the overrides silently.
 * `leaving` is a condition on `service_id`.
 */
export async function endLeavingTerms(
  tx: Database,
  { contractIds, leaving, now }: { contractIds: readonly string[]; leaving: SQL; now: Date },
): Promise<Addressed[]> {
  const revoked = await endLeavingBlocks(tx, { contractIds, leaving, now });
  const rows = await tx.execute<EndedRow & { has_ended: boolean; end_announced: boolean }>(sql`
    with gone as (
      delete from contract_overrides where ${isAnyOf(sql`contract_id`, contractIds)} and ${leaving} returning *
    )
    select c.organization_id, gone.contract_id, c.user_id, s.name_key, gone.kind, gone.name, gone.end_announced,
      coalesce(gone.ends_at <= ${now.toISOString()}::timestamptz, false) as has_ended
    from gone join contracts c on c.id = gone.contract_id join services s on s.id = gone.service_id
    order by gone.contract_id, s.name_key collate "C", gone.kind, gone.name collate "C"
  `);
  const ended = rows
    .filter((row) => !row.end_announced)
    .map((row) => endedEvent(row, row.has_ended ? "expired" : "serviceLeft"));
  return [...ended, ...revoked];
}

/** Overrides whose end is announced in one transaction. */
export const ENDS_AT_ONCE = 500;

/**
 * Marks up to {@link ENDS_AT_ONCE} overrides whose end has passed, and returns their events. Skips those that another
 * process has locked. With `contractId`, only those of this contract.
 */
export async function takeEndedOverrides(tx: Database, now: Date, contractId?: string): Promise<Addressed[]> {
  const rows = await tx.execute<EndedRow>(sql`
    with due as (
      select contract_id, service_id, kind, name from contract_overrides
      where not end_announced and ends_at <= ${now.toISOString()}::timestamptz
        and ${contractId === undefined ? sql`true` : sql`contract_id = ${contractId}`}
      order by ends_at limit ${ENDS_AT_ONCE}::integer for update skip locked
    ), announced as (
      update contract_overrides o set end_announced = true from due
      where o.contract_id = due.contract_id and o.service_id = due.service_id and o.kind = due.kind and o.name = due.name
      returning o.*
    )
    select c.organization_id, a.contract_id, c.user_id, s.name_key, a.kind, a.name
    from announced a join contracts c on c.id = a.contract_id join services s on s.id = a.service_id
    order by a.ends_at, a.contract_id, s.name_key collate "C", a.kind, a.name collate "C"
  `);
  return rows.map((row) => endedEvent(row, "expired"));
}

/** Conditions on overrides; undefined matches everything. */
export interface OverrideFilter {
  organizationId: string | undefined;
  /** Service name in lower case. */
  serviceKey: string | undefined;
  name: string | undefined;
  endsBefore: Date | undefined;
}

const conditionsOf = ({ organizationId, serviceKey, name, endsBefore }: OverrideFilter): SQL | undefined =>
  and(
    organizationId === undefined ? undefined : eq(services.organizationId, organizationId),
    serviceKey === undefined ? undefined : eq(services.nameKey, serviceKey),
    name === undefined ? undefined : eq(contractOverrides.name, name),
    endsBefore === undefined ? undefined : sql`${contractOverrides.until} < ${endsBefore.toISOString()}::timestamptz`,
  );

const OVERRIDES_WITH_SERVICES = sql`${contractOverrides} join ${services} on ${services.id} = ${contractOverrides.serviceId}
    join contracts c on c.id = ${contractOverrides.contractId}
    join contract_services cs on cs.contract_id = c.id and cs.service_id = ${services.id}
    join pricings p on p.id = cs.pricing_id`;

/** An overridden element of one version, with the JSON type of its values. There are few, even for many contracts. */
export interface OverriddenElement extends Pick<Override, "kind" | "name"> {
  pricingId: string;
  hash: string;
  /** A value of the overrides, which all have the same type. */
  value: FeatureValue;
}

/** Text key of an overridden element and its type, equal in SQL and JavaScript. */
const elementKey = sql`json_build_array(p.id, ${contractOverrides.kind}, ${contractOverrides.name},
    json_typeof(${contractOverrides.value}))::text`;

/** Lists the distinct elements that overrides are set on, by the key that {@link pageOverrides} compares. */
export async function listOverriddenElements(
  db: Database,
  filter: OverrideFilter,
): Promise<(OverriddenElement & { key: string })[]> {
  const rows = await db.execute<{
    key: string;
    pricing_id: string;
    hash: string;
    kind: OverrideKind;
    name: string;
    value: FeatureValue;
  }>(sql`
    select distinct on (key) ${elementKey} as key, p.id as pricing_id, p.model_hash as hash, ${contractOverrides.kind},
      ${contractOverrides.name}, ${contractOverrides.value}
    from ${OVERRIDES_WITH_SERVICES} where ${conditionsOf(filter) ?? sql`true`}
    order by key
  `);
  return rows.map(({ pricing_id, ...row }) => ({ ...row, pricingId: pricing_id }));
}

/** An override with the contract and configuration that it applies to. */
export interface ContractOverride extends StoredOverride {
  readonly organizationId: string;
  readonly userId: string;
  readonly contracted: Pick<SnapshotService, "key" | "pricingId" | "hash" | "plan" | "addOns">;
}

/**
 * Lists one page of overrides, and counts all matches: by end (none last), end user, service, kind and name.
 * `inapplicable` are the keys of elements that their version lacks. With `after`: by contract, service, kind and name.
 */
export async function pageOverrides(
  db: Database,
  filter: OverrideFilter,
  page: {
    state: OverrideState | undefined;
    inapplicable: readonly string[];
    now: Date;
    skip: number;
    limit: number;
    after: string | undefined;
  },
): Promise<{ overrides: ContractOverride[]; total: number; next: string | undefined }> {
  const moment = sql`${page.now.toISOString()}::timestamptz`;
  const isInapplicable = isAnyOf(elementKey, page.inapplicable);
  const isEnded = sql`coalesce(${contractOverrides.until} <= ${moment}, false)`;
  const isUpcoming = sql`${contractOverrides.from} > ${moment}`;
  const inState: Readonly<Record<OverrideState, SQL>> = {
    ended: isEnded,
    inapplicable: sql`not ${isEnded} and ${isInapplicable}`,
    upcoming: sql`not ${isEnded} and not ${isInapplicable} and ${isUpcoming}`,
    active: sql`not ${isEnded} and not ${isInapplicable} and not ${isUpcoming}`,
  };
  const where = and(conditionsOf(filter), page.state === undefined ? undefined : inState[page.state]) ?? sql`true`;
  const [counted] = await db.execute<{ total: number }>(
    sql`select count(*)::integer as total from ${OVERRIDES_WITH_SERVICES} where ${where}`,
  );
  const { after, limit, skip } = page;
  // Names have no dots, as ids have none.
  const [contractId = "", serviceId = "", kind = "", name = ""] = (after ?? "").split(".");
  const cursor = [contractId, serviceId, kind, name].map((part) => sql`${part}`);
  const key = sql`(c.id, ${services.id}, ${contractOverrides.kind}, ${contractOverrides.name} collate "C")`;
  const isAfter = after ? sql`${key} > (${sql.join(cursor, sql`, `)})` : sql`true`;
  const order =
    after === undefined
      ? sql`${contractOverrides.until} nulls last, c.user_id collate "C", ${services.nameKey} collate "C",
          ${contractOverrides.kind}, ${contractOverrides.name} collate "C", c.id`
      : sql`c.id, ${services.id}, ${contractOverrides.kind}, ${contractOverrides.name} collate "C"`;
  const rows = await db.execute<
    OverrideJson & Pick<ContractOverride, "organizationId" | "userId" | "contracted"> & { contractId: string }
  >(sql`
    select c.id as "contractId", c.organization_id as "organizationId", c.user_id as "userId", json_build_object('key', ${services.nameKey},
        'pricingId', p.id, 'hash', p.model_hash, 'plan', cs.plan, 'addOns', cs.add_ons) as contracted,
      ${services.id} as "serviceId", ${contractOverrides.kind}, ${contractOverrides.name}, ${contractOverrides.mode},
      ${contractOverrides.value}, ${contractOverrides.from} as "from", ${contractOverrides.until} as "until",
      ${contractOverrides.reason}, ${contractOverrides.setAt} as "setAt", ${contractOverrides.actorKind} as "actorKind",
      ${contractOverrides.actorId} as "actorId"
    from ${OVERRIDES_WITH_SERVICES} where ${where} and ${isAfter}
    order by ${order} limit ${limit}::bigint offset ${after === undefined ? skip : 0}::bigint
  `);
  const last = after !== undefined && rows.length === limit ? rows.at(-1) : undefined;
  return {
    overrides: rows.map((row) => ({ ...row, ...timesOf(row) })),
    total: counted?.total ?? 0,
    next: last && [last.contractId, last.serviceId, last.kind, last.name].join("."),
  };
}
