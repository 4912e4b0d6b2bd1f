import { afterAll, beforeEach, expect, it } from "vitest";
import { type Claim, claimDeliveries } from "../../src/events/webhook-claims.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const database: TestDatabase = await createTestDatabase();
const { db, client } = database.connection;
afterAll(() => database.drop());
beforeEach(() => client`truncate users, organizations, webhook_endpoints, webhook_deliveries cascade`);

/** Creates an account with organizations, endpoints of each, and 500 due deliveries per moment. */
const fill = async (owner: string, { organizations = 1, endpoints = 1, deliveries = 1 }) => {
  await client`
    insert into users (id, username, role, password_hash, api_key_hash, api_key_sealed, created_at, updated_at)
    values (${owner}, ${owner}, 'USER', 'none', ${owner}, 'none', now(), now())`;
  await client`
    insert into organizations (id, name, owner_id, created_at, updated_at)
    select ${owner} || '/' || n, 'Acme', ${owner}, now(), now() from generate_series(1, ${organizations}::int) n`;
  await client`
    insert into webhook_endpoints (id, organization_id, url, state, secret_sealed, after_event_id, created_at, updated_at)
    select o.id || '/' || n, o.id, 'http://127.0.0.1/', 'enabled', 'sealed', 0, now(), now()
    from organizations o, generate_series(1, ${endpoints}::int) n where o.owner_id = ${owner}`;
  await client`
    insert into webhook_deliveries (endpoint_id, event_id, code, payload, next_attempt_at)
    select e.id, n, 'SERVICE_DISABLED', '{}', now() - interval '1 hour' + n / 500 * interval '1 second'
    from webhook_endpoints e, generate_series(1, ${deliveries}::int) n where e.id like ${`${owner}/%`}`;
};
const SHARES = { perOwner: 16, perOrganization: 8, reserved: 32 };
const countBy = (claims: readonly Claim[], by: (claim: Claim) => string) => {
  const counts: Record<string, number> = {};
  for (const claim of claims) counts[by(claim)] = (counts[by(claim)] ?? 0) + 1;
  return counts;
};
const byOwner = (claims: readonly Claim[]) => countBy(claims, ({ ownerId }) => ownerId);

// First in the file: behind a pooler, the backends that served other tests may report their reads late.
it("a claim reads a bounded number of rows, however many deliveries of one owner are due", async () => {
  await fill("many", { organizations: 3, endpoints: 20, deliveries: 1667 });
  await fill("a", { endpoints: 1, deliveries: 2 });
  // All tables of the claim: statistics from when one of them was empty lead to another plan.
  await client`vacuum analyze`;
  const rowsRead = async () => {
    await client`select pg_stat_force_next_flush()`;
    const [row] = await client`
      select (seq_tup_read + idx_tup_fetch)::int as n from pg_stat_user_tables where relname = 'webhook_deliveries'`;
    return row?.["n"] as number;
  };
  const before = await rowsRead();
  const claims = await claimDeliveries(db, { limit: 64, busy: [], shares: SHARES });
  await expect.poll(rowsRead, { timeout: 30_000 }).toBeGreaterThan(before);
  expect(byOwner(claims)).toEqual({ many: 16, a: 2 });
  // Claims the first due delivery of each of the 16 endpoints.
  expect((await rowsRead()) - before).toBeLessThan(10_000);
});

it("owners get equal shares, whatever they have due: one with a hundred organizations has one share", async () => {
  await fill("many", { organizations: 100, endpoints: 20, deliveries: 50 });
  for (const owner of ["a", "b", "c", "d"]) await fill(owner, { endpoints: 2, deliveries: 10 });
  const claims = await claimDeliveries(db, { limit: 64, busy: [], shares: SHARES });
  const counts = byOwner(claims);
  for (const owner of ["a", "b", "c", "d", "many"]) expect(counts[owner]).toBeGreaterThanOrEqual(6);
  expect(counts["many"]).toBeLessThanOrEqual(8);
  // Within the account's share, its organizations take turns.
  const turns = countBy(claims, ({ organizationId }) => organizationId);
  expect(Object.entries(turns).filter(([id, count]) => id.startsWith("many/") && count > 1)).toEqual([]);
});

it("what an owner and an organization have in flight counts towards their shares", async () => {
  await fill("one", { organizations: 3, endpoints: 20, deliveries: 10 });
  const inFlight: Claim[] = [];
  const rounds: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const busy = inFlight.map(({ endpointId }) => endpointId);
    const claims = await claimDeliveries(db, { limit: 12, busy, inFlight, shares: { ...SHARES, reserved: 0 } });
    rounds.push(claims.length);
    inFlight.push(...claims);
  }
  expect(rounds).toEqual([12, 4, 0]);
  for (const count of Object.values(countBy(inFlight, (one) => one.organizationId))) {
    expect(count).toBeLessThanOrEqual(8);
  }
  const alone = await claimDeliveries(db, {
    limit: 64,
    busy: inFlight.map(({ endpointId }) => endpointId),
    inFlight: inFlight.filter(({ organizationId }) => organizationId === "one/1"),
    shares: { ...SHARES, perOwner: 64 },
  });
  expect(Object.entries(countBy(alone, (one) => one.organizationId)).filter(([, count]) => count > 8)).toEqual([]);
});

it("reserved places go to owners that have nothing in flight, one each", async () => {
  const owners = Array.from({ length: 6 }, (_, i) => `owner-${i}`);
  for (const owner of owners) await fill(owner, { endpoints: 2, deliveries: 10 });
  const inFlight = [{ organizationId: "owner-0/1", ownerId: "owner-0" }];
  const claims = await claimDeliveries(db, { limit: 20, busy: [], inFlight, shares: { ...SHARES, reserved: 20 } });
  expect(byOwner(claims)).toEqual(Object.fromEntries(owners.slice(1).map((owner) => [owner, 1])));
});

it("slow and failing endpoints come last in their owner's share, one delivery each, and get half of it at most", async () => {
  await fill("mixed", { endpoints: 20, deliveries: 10 });
  await fill("slow", { endpoints: 20, deliveries: 10 });
  await client`update webhook_endpoints set failures = 1 where id like 'mixed/%' and id <> 'mixed/1/7'`;
  const slow = Array.from({ length: 20 }, (_, i) => `slow/1/${i + 1}`);
  const claims = await claimDeliveries(db, { limit: 64, busy: [], slow, shares: SHARES });
  const endpoints = countBy(claims, ({ endpointId }) => endpointId);
  expect(endpoints["mixed/1/7"]).toBe(4);
  const others = Object.entries(endpoints).filter(([id]) => id !== "mixed/1/7");
  expect(others.map(([, count]) => count)).toEqual(others.map(() => 1));
  expect(byOwner(claims)).toEqual({ mixed: 4, slow: 4 });
});

it("processes that claim at the same moment each serve every owner, and no delivery goes to two", async () => {
  await fill("many", { organizations: 10, endpoints: 20, deliveries: 20 });
  for (const owner of ["a", "b", "c"]) await fill(owner, { endpoints: 20, deliveries: 20 });
  const claims = await Promise.all(
    [1, 2, 3, 4].map(() => claimDeliveries(db, { limit: 64, busy: [], shares: SHARES })),
  );
  for (const one of claims) {
    const counts = byOwner(one);
    for (const owner of ["a", "b", "c", "many"]) expect(counts[owner]).toBeGreaterThanOrEqual(1);
    for (const count of Object.values(counts)) expect(count).toBeLessThanOrEqual(16);
  }
  const ids = claims.flat().map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});
