import { and, asc, eq, sql } from "drizzle-orm";
import { commandLine } from "../../core/command-line.ts";
import { serviceKey, versionKey } from "../../core/pricing/names.ts";
import type { PlannedOrganization, PlannedUser } from "../../core/space/accounts.ts";
import type { PlannedService, PlannedVersion } from "../../core/space/catalog.ts";
import { hasEnded, type PlannedContract } from "../../core/space/planned-contract.ts";
import { createdWith } from "../../core/space/documents.ts";
import type { SpaceBatch } from "../../core/space/plan.ts";
import { type Database, StartupProblem } from "../../db/postgres/connect.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { deleteOrganizations } from "../../db/queries/organization-rows.ts";
import { hashModelText } from "../../db/queries/pricings.ts";
import {
  analyticsDays,
  members,
  organizationKeys,
  organizations,
  pricings,
  services,
  spaceImports,
  users,
} from "../../db/schema.ts";
import type { Context } from "../context.ts";
import { protectApiKey } from "../credentials.ts";
import type { Fetched, OpenImport } from "./space.ts";

/** Stored for a user who needs a new password: no password has this hash. */
const NO_PASSWORD = "unusable";
/** Statements have at most 65,534 parameters. */
const ROWS_PER_STATEMENT = 1000;

/**
 * Commits one batch together with the progress of the import.
 * @throws StartupProblem if another run has committed it, and for users that do not fit the database.
 */
export async function writeBatch(
  ctx: Context,
  batch: SpaceBatch,
  at: { index: number; opened: OpenImport; fetched: Fetched },
): Promise<void> {
  const { index, opened, fetched } = at;
  const { startedAt: now } = opened;
  await ctx.db.transaction(async (tx) => {
    const { dumpHash } = opened;
    const rows =
      index === 0
        ? await tx
            .insert(spaceImports)
            .values({ dumpHash, startedAt: now, batches: 1, fetched })
            .onConflictDoNothing()
            .returning({ batches: spaceImports.batches })
        : await tx
            .update(spaceImports)
            .set({ batches: index + 1 })
            .where(and(eq(spaceImports.dumpHash, dumpHash), eq(spaceImports.batches, index)))
            .returning({ batches: spaceImports.batches });
    if (rows.length === 0) throw new StartupProblem("Another import is running");
    if (batch.kind === "users") await writeUsers({ ...ctx, db: tx }, batch.rows, batch.hasAdmin);
    else if (batch.kind === "organizations") await writeOrganizations({ ...ctx, db: tx }, batch.rows);
    else if (batch.kind === "services") await writeServices(tx, batch.rows);
    else if (batch.kind === "contracts") await writeContracts(tx, batch.rows, now);
    else await inSlices(batch.rows, (days) => tx.insert(analyticsDays).values(days).onConflictDoNothing());
  });
}

async function inSlices<Row>(rows: readonly Row[], write: (slice: Row[]) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < rows.length; at += ROWS_PER_STATEMENT) await write(rows.slice(at, at + ROWS_PER_STATEMENT));
}

async function writeUsers(ctx: Context, rows: readonly PlannedUser[], hasAdmin: boolean): Promise<void> {
  const [seeded] = await ctx.db.select({ id: users.id, username: users.username }).from(users);
  if (hasAdmin && seeded !== undefined) await removeSeeded(ctx.db, seeded);
  if (!hasAdmin && seeded === undefined) {
    throw new StartupProblem(`Neither the dump nor the database has an ADMIN: ${commandLine("migrate")} makes one`);
  }
  if (!hasAdmin && rows.some(({ username }) => username === seeded?.username)) {
    throw new StartupProblem(
      `The dump has no ADMIN, and a user with the name of the database's ADMIN, ${seeded?.username}: start with an empty database and another ADMIN_USER`,
    );
  }
  await inSlices(rows, async (slice) => {
    const values = await Promise.all(
      slice.map(async ({ apiKey, password, ...user }) => {
        const key = apiKey === null ? undefined : await protectApiKey(ctx.resources.keyring, apiKey);
        return {
          ...user,
          passwordHash: password ?? NO_PASSWORD,
          apiKeyHash: key?.hash ?? null,
          apiKeySealed: key?.sealed ?? null,
        };
      }),
    );
    await ctx.db.insert(users).values(values);
  });
}

/** Makes room for the dump's ADMINs. */
async function removeSeeded(tx: Database, seeded: { id: string; username: string }): Promise<void> {
  const owned = await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(eq(organizations.ownerId, seeded.id));
  await deleteOrganizations(
    tx,
    owned.map(({ id }) => id),
  );
  await tx.delete(users).where(eq(users.id, seeded.id));
  await tx.update(spaceImports).set({ seededAdmin: seeded });
}

async function writeOrganizations(ctx: Context, rows: readonly PlannedOrganization[]): Promise<void> {
  const [admin] = await ctx.db
    .select({ id: users.id })
    .from(users)
    .where(eq(users.role, "ADMIN"))
    .orderBy(asc(users.createdAt), asc(users.id))
    .limit(1);
  await ctx.db.insert(organizations).values(
    rows.map(({ id, name, ownerId, isDefault, createdAt }) => {
      const owner = ownerId ?? admin?.id ?? "";
      return { id, name, ownerId: owner, isDefault, createdAt, updatedAt: createdAt };
    }),
  );
  const keys = await Promise.all(
    rows.flatMap((organization) =>
      organization.keys.map(async ({ id, key, scope }) => {
        const { hash: keyHash, sealed: keySealed } = await protectApiKey(ctx.resources.keyring, key);
        const { id: organizationId, createdAt } = organization;
        return { id, organizationId, scope, keyHash, keySealed, createdAt };
      }),
    ),
  );
  await inSlices(keys, (slice) => ctx.db.insert(organizationKeys).values(slice));
  const joined = rows.flatMap((organization) =>
    organization.members.map((member) => ({ organizationId: organization.id, ...member })),
  );
  await inSlices(joined, (slice) => ctx.db.insert(members).values(slice));
}

async function writeServices(tx: Database, rows: readonly PlannedService[]): Promise<void> {
  await tx.insert(services).values(
    rows.map(({ id, organizationId, name, disabled, hasArchive, createdAt }) => {
      const nameKey = serviceKey(name);
      return { id, organizationId, name, nameKey, disabled, hasArchive, createdAt, updatedAt: createdAt };
    }),
  );
  for (const service of rows) for (const version of service.versions) await writeVersion(tx, service, version);
}

async function writeVersion(tx: Database, service: PlannedService, version: PlannedVersion): Promise<void> {
  const { pricing, ...row } = version;
  const model = JSON.stringify(pricing);
  await tx.insert(pricings).values({
    ...row,
    serviceId: service.id,
    organizationId: service.organizationId,
    versionKey: versionKey(row.version),
    model: sql`${model}::json`,
    modelHash: await hashModelText(model),
    declaredAt: new Date(pricing.createdAt),
  });
}

/** Inserts contracts with services, levels, movements, history and states, each in one statement. */
async function writeContracts(tx: Database, rows: readonly PlannedContract[], now: Date): Promise<void> {
  const moment = sql`${now.toISOString()}::timestamptz`;
  await tx.execute(sql`
    insert into contracts (id, organization_id, user_id, username, first_name, last_name, email, phone, group_id,
      start_date, end_date, auto_renew, renewal_days, expiry_announced, created_at, updated_at)
    select id, organization_id, user_id, username, first_name, last_name, email, phone, group_id,
      start_date, end_date, auto_renew, renewal_days, expiry_announced, created_at, ${moment}
    from json_to_recordset(${contractsParameter(rows, now)}::json) as given (id text, organization_id text,
      user_id text, username text, first_name text, last_name text, email text, phone text, group_id text,
      start_date timestamptz, end_date timestamptz, auto_renew boolean, renewal_days integer,
      expiry_announced timestamptz, created_at timestamptz)`);
  await tx.execute(sql`
    insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, plan, add_ons)
    select contract_id, organization_id, service_id, pricing_id, position, plan, add_ons
    from json_to_recordset(${servicesParameter(rows)}::json) as given (contract_id text, organization_id text,
      service_id text, pricing_id text, position integer, plan text, add_ons json)`);
  await tx.execute(sql`
    with given as materialized (
      select * from json_to_recordset(${levelsParameter(rows)}::json) as given (contract_id text, organization_id text,
        service_id text, limit_name text, position integer, consumed numeric, anchor timestamptz, reset_at timestamptz,
        period_value numeric, period_unit text, limit_value numeric, counts_members boolean)
    ), moved as (
      insert into usage_ledger
        (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
      select contract_id, organization_id, service_id, limit_name, 'adjust', 'import', consumed, ${moment}
      from given where consumed > 0
    )
    insert into usage_levels (contract_id, organization_id, service_id, limit_name, position, consumed, anchor, reset_at,
      period_value, period_unit, limit_value, counts_members, used_tenths)
    select contract_id, organization_id, service_id, limit_name, position, consumed, anchor, reset_at, period_value,
      period_unit, limit_value, counts_members, faregate_used_tenths(consumed, limit_value)
    from given`);
  await tx.execute(sql`
    insert into contract_history (contract_id, organization_id, start_date, end_date, contracted_services,
      subscription_plans, subscription_add_ons)
    select contract_id, organization_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons
    from json_to_recordset(${historyParameter(rows)}::json) as given (contract_id text, organization_id text,
      start_date timestamptz, end_date timestamptz, contracted_services json, subscription_plans json, subscription_add_ons json)`);
  await recordStates(tx, { contractIds: rows.map(({ id }) => id), cause: "record", now });
}

const contractsParameter = (rows: readonly PlannedContract[], now: Date): string =>
  JSON.stringify(
    rows.map((row) => ({
      id: row.id,
      organization_id: row.organizationId,
      user_id: row.contact.userId,
      username: row.contact.username,
      first_name: row.contact.firstName,
      last_name: row.contact.lastName,
      email: row.contact.email,
      phone: row.contact.phone,
      group_id: row.contact.groupId,
      start_date: row.billing.startDate,
      end_date: row.billing.endDate,
      auto_renew: row.billing.autoRenew,
      renewal_days: row.billing.renewalDays,
      // Subscribers of events hear of new expiries only.
      expiry_announced: hasEnded(row, now) ? row.billing.endDate : null,
      created_at: createdWith(row.id),
    })),
  );

const servicesParameter = (rows: readonly PlannedContract[]): string =>
  JSON.stringify(
    rows.flatMap(({ id, organizationId, services: contracted }) =>
      contracted.map(({ serviceId, pricingId, plan, addOns }, position) => ({
        contract_id: id,
        organization_id: organizationId,
        service_id: serviceId,
        pricing_id: pricingId,
        position,
        plan,
        add_ons: addOns,
      })),
    ),
  );

const levelsParameter = (rows: readonly PlannedContract[]): string =>
  JSON.stringify(
    rows.flatMap(({ id, organizationId, levels }) =>
      levels.map(
        ({ serviceId, limitName, position, consumed, anchor, resetAt, period, limitValue, countsMembers }) => ({
          contract_id: id,
          organization_id: organizationId,
          service_id: serviceId,
          limit_name: limitName,
          position,
          consumed,
          anchor,
          reset_at: resetAt,
          period_value: period?.value ?? null,
          period_unit: period?.unit ?? null,
          limit_value: limitValue ?? "Infinity",
          counts_members: countsMembers,
        }),
      ),
    ),
  );

const historyParameter = (rows: readonly PlannedContract[]): string =>
  JSON.stringify(
    rows.flatMap(({ id, organizationId, history }) =>
      history.map((entry) => ({
        contract_id: id,
        organization_id: organizationId,
        start_date: entry.startDate,
        end_date: entry.endDate,
        contracted_services: entry.contractedServices,
        subscription_plans: entry.subscriptionPlans,
        subscription_add_ons: entry.subscriptionAddOns,
      })),
    ),
  );
