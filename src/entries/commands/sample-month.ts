import { sql } from "drizzle-orm";
import { compilePricing } from "../../core/pricing/compile.ts";
import { featureIds, prepareEvaluation } from "../../core/pricing/evaluate.ts";
import { involvedLimits } from "../../core/pricing/involved-limits.ts";
import { isBound, type Pricing } from "../../core/pricing/model.ts";
import { grant, grantedLimits } from "../../core/pricing/subscription.ts";
import { addBuckets, startOfBucket } from "../../core/usage-range.ts";
import { connect, type Database, StartupProblem } from "../../db/postgres/connect.ts";
import { putLevels } from "../../db/queries/contract-levels.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { findService, listVersions, modelText } from "../../db/queries/pricings.ts";
import { contracts, contractServices, usageLedger } from "../../db/schema.ts";
import { newId } from "../../operations/context.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `npm run sample:month -- <organization id> <service>` writes 200 customers with their usage of last month. They are the same at each
 * run, so that replays have something to show on a new system. Exit code 2 without such a service, and if its sample is there.
 */

const CUSTOMERS = 200;
/** Most calls of a customer in the month. */
const MAX_CALLS = 60;
/** Rows of one insert. */
const CHUNK = 1_000;
/** Usage of customers without a limit. */
const USUAL_AMOUNT = 300;

/** Draws numbers from 0 to 1 from a seed. Source: Park and Miller, minimal standard generator. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

type Movement = typeof usageLedger.$inferInsert;

async function writeMonth(db: Database, organizationId: string, name: string, now: Date): Promise<string> {
  const service = await findService(db, { organizationId, name });
  const version = service && (await listVersions(db, service.id)).find(({ state }) => state === "active");
  if (service === undefined || version === undefined)
    throw new StartupProblem(`There is no service ${name} with an active version.`);
  const pricing = compilePricing(JSON.parse(await modelText(db, version.id)) as Pricing);
  const to = startOfBucket("month", now);
  const from = addBuckets("month", to, -1);
  const random = seeded(2026);
  const plans = pricing.pricing.plans.filter((plan) => !plan.private);
  const rows = Array.from({ length: CUSTOMERS }, (_, index) => {
    // Half of the customers have the first plan, a quarter the second, and so on.
    const place = Math.min(plans.length - 1, Math.floor(-Math.log2(1 - random())));
    const userId = `sample-${String(index + 1).padStart(3, "0")}`;
    return { id: newId(now), userId, plan: plans[place]?.name ?? null };
  });
  const renewal = { autoRenew: true, renewalDays: 30, renewalValue: 1, renewalUnit: "MONTH" as const };
  await db.insert(contracts).values(
    rows.map(({ id, userId }) => ({
      id,
      organizationId,
      userId,
      username: userId,
      startDate: from,
      endDate: to,
      ...renewal,
    })),
  );
  const of = { organizationId, serviceId: service.id };
  await db
    .insert(contractServices)
    .values(
      rows.map(({ id, plan }) => ({ contractId: id, ...of, pricingId: version.id, position: 0, plan, addOns: {} })),
    );
  await putLevels(
    db,
    rows.map(({ id, plan }) => ({
      contractIds: [id],
      next: [{ serviceId: service.id, tracked: grantedLimits(pricing, { plan, addOns: {} }) }],
    })),
    from,
  );
  await recordStates(db, { contractIds: rows.map(({ id }) => id), cause: "creation", now: from });
  const movements = rows.flatMap(({ id, plan }): Movement[] => {
    const granted = grant(pricing, plan ?? undefined, {});
    const evaluation = prepareEvaluation([{ serviceName: service.nameKey, pricing, grant: granted }]);
    const featureId = featureIds(evaluation, { server: false }).find(
      (each) => involvedLimits(evaluation, each, { server: false }).length > 0,
    );
    const share = random();
    const calls = Math.ceil(random() * MAX_CALLS);
    const limits = featureId === undefined ? [] : involvedLimits(evaluation, featureId, { server: false });
    return Array.from({ length: calls }, (_, call) => {
      const at = new Date(from.getTime() + Math.floor(((call + random()) / calls) * (to.getTime() - from.getTime())));
      return limits.map(({ limitName }): Movement => {
        const limit = granted.usageLimits.get(limitName);
        const total = Math.floor(share * (isBound(limit) ? limit : USUAL_AMOUNT));
        const delta = Math.floor((total * (call + 1)) / calls) - Math.floor((total * call) / calls);
        return {
          contractId: id,
          ...of,
          limitName,
          kind: "consume",
          featureId,
          operationId: newId(now),
          delta,
          createdAt: at,
        };
      });
    }).flat();
  });
  for (let at = 0; at < movements.length; at += CHUNK)
    await db.insert(usageLedger).values(movements.slice(at, at + CHUNK));
  await db.execute(sql`
    update usage_levels u set consumed = moved.sum,
      used_tenths = faregate_used_tenths(moved.sum, u.limit_value)
    from (
      select l.contract_id, l.limit_name, sum(l.delta) as sum from usage_ledger l
      join contracts c on c.id = l.contract_id and c.organization_id = ${organizationId} and c.user_id like 'sample-%'
      where l.service_id = ${service.id} group by 1, 2
    ) moved
    where u.contract_id = moved.contract_id and u.service_id = ${service.id} and u.limit_name = moved.limit_name`);
  const month = from.toISOString().slice(0, 7);
  return `${rows.length} customers of ${service.name} made ${movements.length} calls in ${month}\n`;
}

await runCommand(async ({ database }) => {
  const [organizationId, name] = readArguments({}, 2).operands;
  if (organizationId === undefined || name === undefined) {
    process.stderr.write("Usage: npm run sample:month -- <organization id> <service>\n");
    return 2;
  }
  const connection = connect(database, { maxConnections: 1, applicationName: "faregate-sample-month" });
  try {
    const said = await connection.db.transaction((tx) => writeMonth(tx, organizationId, name, new Date()));
    process.stdout.write(said);
    return 0;
  } finally {
    await connection.close();
  }
});
