import { sql } from "drizzle-orm";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Database } from "../../src/db/postgres/connect.ts";
import { contracts } from "../../src/db/schema.ts";
import { makePartitions } from "../../src/db/queries/ledger-partitions.ts";
import {
  compactLedger,
  pruneAuditLog,
  pruneBillingMessages,
  pruneCarriedBlocks,
  pruneDenials,
  pruneHolds,
  pruneIdempotencyKeys,
  pruneRequests,
  pruneUsageKeys,
} from "../../src/db/queries/retention.ts";
import { createRollUp, pruneRollUp } from "../../src/db/queries/usage-rollup.ts";
import { contextOf } from "../../src/operations/context.ts";
import { renewDueLevels } from "../../src/operations/due-holds.ts";
import { pruneOutbox } from "../../src/events/retention.ts";
import { claimDeliveries } from "../../src/events/webhook-claims.ts";
import { makeDeliveries, pruneDeliveries, settleDelivered } from "../../src/events/webhook-rows.ts";
import { tasker } from "../support/contracting.ts";
import { expectCleanLedger } from "./invariants.ts";
import { step } from "./operations.ts";
import { createWorld, openServers, type Servers, type World } from "./world.ts";

/*
 * Long life in short: all operations of the crossing test, month after simulated month, with retention running. What no month adds to
 * for good stays bounded. `npm run test:year` lives a year of 3,000 contracts, and prints rows and kilobytes by month.
 */

const MONTHS = Number(process.env["YEAR_MONTHS"] ?? 6);
const STEPS = Number(process.env["YEAR_STEPS"] ?? 40);
/** Contracts of the company that stays for the whole time. */
const CONTRACTS = Number(process.env["YEAR_CONTRACTS"] ?? 20);
/** Usage of each of them per month, sent in batches. */
const MOVEMENTS = Number(process.env["YEAR_MOVEMENTS"] ?? 4);
const PER_BATCH = 1_000;
/** Contracts that are created, and whose balances are renewed, at the same time. */
const AT_ONCE = 4;
const DAY_MS = 86_400_000;
const DAYS = 30;
/** Tables that grow with accounts, contracts and configuration, and with their changes. Retention bounds every other one. */
const GROWING = new Set([
  "billing_connections",
  "billing_links",
  "billing_subscriptions",
  "budget_balances",
  "contract_billing",
  "contract_budgets",
  "contract_history",
  "contract_members",
  "contract_overrides",
  "contract_services",
  "contracts",
  "deleted_pricings",
  "given_trials",
  "members",
  "organization_keys",
  "organizations",
  "pricing_decisions",
  "pricings",
  "scheduled_changes",
  "scheduled_subscriptions",
  "services",
  "usage_levels",
  "users",
  "webhook_endpoints",
]);
/** Space that a bounded table may gain: of the pages that its indexes and its free space need. */
const SLACK_KB = 512;
/** Rows of a bounded table that each month's new organizations may keep. */
const PER_MONTH_ROWS = 30;
const TABLE = process.env["YEAR_TABLE"] === "true";

let servers: Servers;
beforeAll(async () => {
  servers = await openServers();
});
afterAll(() => servers.close());

/** Makes the deliveries of all events. A call makes those of a page, and returns the newest event that it has reached. */
async function makeAllDeliveries(db: Database): Promise<void> {
  for (let reached: number | undefined; ;) {
    const newest = await makeDeliveries(db);
    if (newest !== undefined && newest === reached) return;
    reached = newest;
  }
}

/** The retention of an event server, with small numbers. */
async function retain(): Promise<void> {
  const { db } = servers.api.resources;
  const { now } = servers;
  const rollUp = createRollUp(db);
  for (let rounds = 0; rounds < 2; rounds += 1) await rollUp();
  await makeAllDeliveries(db);
  await makePartitions(db, now);
  await pruneOutbox(db, new Date(Date.now() + DAY_MS), { days: 0, keepEvents: 100 });
  await pruneDeliveries(db, { days: 7, keep: 100 });
  await pruneIdempotencyKeys(db, now);
  await pruneUsageKeys(db, now);
  await pruneBillingMessages(db, now);
  await pruneDenials(db, now);
  await pruneAuditLog(db, now, DAYS);
  await pruneRequests(db, now, DAYS);
  await compactLedger(db, now, DAYS);
  await pruneRollUp(db);
  await pruneHolds(db, now, DAYS);
  await pruneCarriedBlocks(db, now, DAYS);
}

/** The company's endpoint answers again: everything that is due is delivered. */
async function answerWebhooks(): Promise<void> {
  const { db } = servers.api.resources;
  const outcome = { delivered: true, responseStatus: 200, durationMs: 1, error: null };
  for (;;) {
    const claims = await claimDeliveries(db, { limit: 1_000, busy: [] });
    if (claims.length === 0) return;
    for (let first = 0; first < claims.length; first += 8)
      await Promise.all(claims.slice(first, first + 8).map((claim) => settleDelivered(db, claim, outcome)));
  }
}

interface Size {
  rows: number;
  kilobytes: number;
}

/**
 * Rows and bytes of each table. Of the ledger: of all its partitions. A simulated month passes in minutes, in which autovacuum runs once
 * or twice instead of for weeks: the vacuum stands for it.
 */
async function sizes(): Promise<Map<string, Size>> {
  const { client } = servers.api.database.connection;
  await client.unsafe("vacuum analyze");
  const tables = await client<{ name: string; kilobytes: number }[]>`
    select relname as name, ((pg_total_relation_size(c.oid) + coalesce((
        select sum(pg_total_relation_size(inhrelid)) from pg_inherits where inhparent = c.oid), 0)) / 1024)::int as kilobytes
    from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`;
  const found = new Map<string, Size>();
  for (const { name, kilobytes } of tables) {
    const [row] = await client<{ rows: number }[]>`select count(*)::int as rows from ${client(name)}`;
    found.set(name, { rows: row?.rows ?? 0, kilobytes: kilobytes ?? 0 });
  }
  return found;
}

const isShown = ([, { kilobytes }]: [string, Size]) => kilobytes >= 500;

/** Markdown table of rows and kilobytes by month. */
function tableOf(months: readonly Map<string, Size>[]): string {
  const cell = (size: Size | undefined) => `${size?.rows ?? 0} · ${size?.kilobytes ?? 0}`;
  return [...(months.at(-1)?.keys() ?? [])]
    .map((name) => `| ${[`\`${name}\``, ...months.map((month) => cell(month.get(name)))].join(" | ")} |`)
    .join("\n");
}

/** An organization with three contracts. Each month has its own: histories may end without any service. */
async function openOrganization(): Promise<World> {
  const world = await createWorld(servers);
  await world.upload(tasker(), "1.0.0");
  for (const userId of ["ada", "grace", "linus"]) {
    await world.must("POST", "/contracts", {
      userContact: { userId, username: userId },
      billingPeriod: { autoRenew: true, renewalDays: 30 },
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    });
    world.users.push(userId);
  }
  return world;
}

/** A company with many customers, whose webhook endpoint answers at the end of a month only. */
async function openCompany(): Promise<World> {
  const world = await createWorld(servers);
  await world.upload(tasker(), "1.0.0");
  const { owner } = servers.api.callers;
  await world.must(
    "POST",
    `/organizations/${world.organizationId}/webhooks`,
    { url: "https://127.0.0.1:9/faregate" },
    owner.key,
  );
  const contract = (userId: string) =>
    world.must("POST", "/contracts", {
      userContact: { userId, username: userId },
      billingPeriod: { autoRenew: true, renewalDays: 30 },
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    });
  for (let first = 0; first < CONTRACTS; first += AT_ONCE)
    await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, CONTRACTS - first) }, (_, i) => contract(`customer-${first + i}`)),
    );
  return world;
}

/** Sends one unit of usage of each customer, in batches that may be repeated. */
async function useOnce(company: World, key: string): Promise<void> {
  for (let first = 0; first < CONTRACTS; first += PER_BATCH) {
    const items = Array.from({ length: Math.min(PER_BATCH, CONTRACTS - first) }, (_, i) => ({
      userId: `customer-${first + i}`,
      featureId: `${company.service}-board`,
      amounts: { [company.limit]: 1 },
      key: `${key}-${first + i}`,
    }));
    const { counts } = await company.must<{ counts: { counted: number; refused: number } }>("POST", "/usage", items);
    expect(counts.counted + counts.refused).toBe(items.length);
  }
}

/** Moves the clock on. With `sweeps`, an event server does its background work then; balances are renewed several at once. */
async function passTime(world: World, milliseconds: number, sweeps: boolean): Promise<void> {
  await world.pass(milliseconds, false);
  if (!sweeps) return;
  const ctx = contextOf(servers.api.resources, { kind: "anonymous" });
  const part = (n: number) => sql`abs(hashtext(${contracts.id})::bigint) % ${AT_ONCE} = ${n}`;
  await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => renewDueLevels(ctx, part(n))));
  await world.pass(0, true);
}

async function liveOneMonth(company: World, world: World, month: number): Promise<void> {
  const every = Math.max(1, Math.floor(STEPS / MOVEMENTS));
  const steps = fc.sample(step, { numRuns: STEPS, seed: month });
  for (const [i, { run }] of steps.entries()) {
    await run(world);
    for (const userId of world.users)
      await world.call("POST", `/features/${userId}/${world.service}-board`, { [world.limit]: 1 });
    // An event server is away for a day now and then; what is due is carried out by whoever asks.
    await passTime(world, (DAYS * DAY_MS) / STEPS, i % 13 !== 0);
    if (i % every === 0) await useOnce(company, `${month}-${i}`);
    if (i % 10 === 0) await retain();
  }
  await answerWebhooks();
  await retain();
}

test("no relation grows from the third month on, beyond contracts and configuration", async () => {
  const months: Map<string, Size>[] = [];
  const company = await openCompany();
  for (let month = 0; month < MONTHS; month += 1) {
    const world = await openOrganization();
    await liveOneMonth(company, world, month);
    const size = await sizes();
    months.push(size);
    // A long run shows each month when it is over.
    if (TABLE) process.stderr.write(`month ${month + 1} of ${MONTHS}: ${JSON.stringify([...size].filter(isShown))}\n`);
    await expectCleanLedger(world);
  }
  await expectCleanLedger(company);
  const [given] = await servers.api.database.connection.client<{ movements: number }[]>`
    select last_value::int as movements from usage_ledger_id_seq`;
  expect(given?.movements).toBeGreaterThan(MONTHS * 5);
  if (TABLE) process.stderr.write(`${given?.movements} movements\n${tableOf(months)}\n`);
  const sizeOf = (month: number, name: string) => months[month]?.get(name) ?? { rows: 0, kilobytes: 0 };
  const last = MONTHS - 1;
  for (const name of months[last]?.keys() ?? []) {
    const [early, end] = [[1, 2].map((month) => sizeOf(month, name)), sizeOf(last, name)];
    if (GROWING.has(name)) {
      // Each month opens organizations of one size.
      const ofMonth = Math.max(sizeOf(0, name).rows, sizeOf(2, name).rows - sizeOf(1, name).rows);
      expect(end.rows, `rows of ${name}`).toBeLessThanOrEqual((early[1]?.rows ?? 0) + 2 * MONTHS * (ofMonth + 30));
      continue;
    }
    const rows = Math.max(...early.map((size) => size.rows));
    const kilobytes = Math.max(...early.map((size) => size.kilobytes));
    expect(end.rows, `rows of ${name}`).toBeLessThanOrEqual(rows * 1.5 + PER_MONTH_ROWS * MONTHS);
    expect(end.kilobytes, `kilobytes of ${name}`).toBeLessThanOrEqual(kilobytes * 1.5 + SLACK_KB);
  }
}, 7_200_000);
