import { sql } from "drizzle-orm";
import type { Database } from "../db/postgres/connect.ts";

/** Deliveries claimed per endpoint at once, and per slow or failing endpoint. */
const PER_ENDPOINT = 4;
const PER_SLOW_ENDPOINT = 1;
/** Key of an advisory lock that nothing else in this database uses. */
const CLAIM_LOCK = 5403_0003;
/** Lease of a claimed delivery. Afterwards another process may claim it. */
const LEASE = sql`interval '30 seconds'`;

/** A delivery that this process has claimed, with everything that an attempt needs. */
export interface Claim {
  id: number;
  endpointId: string;
  organizationId: string;
  /** The account that owns the organization. */
  ownerId: string;
  eventId: number;
  payload: string;
  /** Number of this attempt, from 1. */
  attempt: number;
  url: string;
  secretSealed: string;
  /** The secret before the last rotation, while it still signs. */
  previousSecretSealed: string | null;
}

/**
 * Shares of one process's places. An owner has one share for all of its organizations, webhooks and deliveries. A
 * receiver that never answers occupies a place of that share until its time-out.
 */
export interface Shares {
  /** Deliveries in flight per owner, and per organization. Slow and failing endpoints get half of it. */
  perOwner: number;
  perOrganization: number;
  /** Places that only owners without a delivery in flight may take. */
  reserved: number;
}

/** Maximum of Postgres's integer, so that no share is smaller than the number of places. */
const UNSHARED: Shares = { perOwner: 2 ** 31 - 1, perOrganization: 2 ** 31 - 1, reserved: 0 };

/**
 * Claims due deliveries of endpoints outside `busy`. Owners take turns: each gets its first place before any gets its
 * second. Within an owner, organizations take turns, and slow and failing endpoints come last. Rows locked by other
 * processes are skipped, and a claimed delivery is not due before its lease ends. Reads one index entry per enabled
 * endpoint, and the first due deliveries of `perOwner` endpoints per owner: 27 ms for 2,200 endpoints, 2,000 of them of
 * one owner with 100,000 deliveries.
 */
export async function claimDeliveries(
  db: Database,
  input: {
    limit: number;
    busy: readonly string[];
    /** Endpoints that answered slowly of late. Failing endpoints always count as slow. */
    slow?: readonly string[];
    /** Deliveries in flight in this process. */
    inFlight?: readonly Pick<Claim, "organizationId" | "ownerId">[];
    /** Without shares, any owner may take all places. */
    shares?: Shares;
  },
): Promise<Claim[]> {
  const { limit, busy, slow = [], inFlight = [] } = input;
  const { perOwner, perOrganization, reserved } = input.shares ?? UNSHARED;
  const claim = (tx: Database) =>
    tx.execute<{
      id: string;
      endpoint_id: string;
      organization_id: string;
      owner_id: string;
      event_id: string;
      payload: string;
      attempts: number;
      url: string;
      secret_sealed: string;
      previous_secret_sealed: string | null;
    }>(sql`
    with in_flight as (
      select "organizationId" as organization_id, "ownerId" as owner_id
      from json_to_recordset(${JSON.stringify(inFlight)}::json) as given ("organizationId" text, "ownerId" text)
    ), of_owners as (
      select owner_id, count(*) as number from in_flight group by owner_id
    ), of_organizations as (
      select organization_id, count(*) as number from in_flight group by organization_id
    ), ready as (
      select e.id, e.organization_id, o.owner_id,
        e.failures > 0 or e.id in (select json_array_elements_text(${JSON.stringify(slow)}::json)) as is_slow
      from webhook_endpoints e
      join organizations o on o.id = e.organization_id
      cross join lateral (
        select from webhook_deliveries d
        where d.endpoint_id = e.id and d.status = 'pending' and d.next_attempt_at <= now()
        -- Without an order, Postgres 15 may read the whole table for the first row instead of the index.
        order by d.next_attempt_at limit 1
      ) due
      where e.state = 'enabled' and e.id not in (select json_array_elements_text(${JSON.stringify(busy)}::json))
    ), in_turn as (
      select *, row_number() over (partition by organization_id order by is_slow, random()) as turn from ready
    ), picked as (
      select *, row_number() over (partition by owner_id order by is_slow, turn, random()) as place from in_turn
    ), candidates as (
      select p.*, d.id as delivery_id, d.nth
      from picked p
      cross join lateral (
        select first.id, row_number() over (order by first.next_attempt_at, first.event_id) as nth
        from (
          select d.id, d.next_attempt_at, d.event_id from webhook_deliveries d
          where d.endpoint_id = p.id and d.status = 'pending' and d.next_attempt_at <= now()
          order by d.next_attempt_at, d.event_id
          limit ${PER_ENDPOINT}::integer
        ) first
      ) d
      where p.place <= ${perOwner}::integer
        and d.nth <= case when p.is_slow then ${PER_SLOW_ENDPOINT}::integer else ${PER_ENDPOINT}::integer end
    ), within_organizations as (
      select c.*, coalesce(f.number, 0)
        + row_number() over (partition by c.organization_id order by c.is_slow, c.nth, c.place) as of_organization
      from candidates c left join of_organizations f on f.organization_id = c.organization_id
    ), within_owners as (
      select w.*, coalesce(f.number, 0)
        + row_number() over (partition by w.owner_id order by w.is_slow, w.nth, w.place) as of_owner
      from within_organizations w left join of_owners f on f.owner_id = w.owner_id
      where w.of_organization <= case when w.is_slow
        then ${Math.ceil(perOrganization / 2)}::integer else ${perOrganization}::integer end
    ), shared as (
      select *, row_number() over (order by of_owner, random()) as overall
      from within_owners
      where of_owner <= case when is_slow then ${Math.ceil(perOwner / 2)}::integer else ${perOwner}::integer end
    ), due as (
      select d.id, s.organization_id, s.owner_id, e.url, e.secret_sealed,
        case when e.previous_secret_until > now() then e.previous_secret_sealed end as previous_secret_sealed
      from shared s
      join webhook_deliveries d on d.id = s.delivery_id and d.status = 'pending' and d.next_attempt_at <= now()
      join webhook_endpoints e on e.id = s.id
      where s.of_owner = 1 or ${limit > reserved}::boolean
      order by s.overall
      limit greatest(
        least((select count(*) from shared where of_owner = 1), ${limit}::integer), ${limit - reserved}::integer)
      for update of d skip locked
    )
    update webhook_deliveries w
    set attempts = w.attempts + 1, last_attempt_at = now(), next_attempt_at = now() + ${LEASE}
    from due where w.id = due.id
    returning w.id, w.endpoint_id, due.organization_id, due.owner_id, w.event_id, w.payload, w.attempts,
      due.url, due.secret_sealed, due.previous_secret_sealed
  `);
  const rows = await db.transaction(async (tx) => {
    // One process at a time: rows that another one has locked would be missing from this one's shares.
    await tx.execute(sql`select pg_advisory_xact_lock(${CLAIM_LOCK})`);
    return claim(tx);
  });
  return rows.map((row) => ({
    id: Number(row.id),
    endpointId: row.endpoint_id,
    organizationId: row.organization_id,
    ownerId: row.owner_id,
    eventId: Number(row.event_id),
    payload: row.payload,
    attempt: row.attempts,
    url: row.url,
    secretSealed: row.secret_sealed,
    previousSecretSealed: row.previous_secret_sealed,
  }));
}
