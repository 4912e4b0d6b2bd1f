import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Proposal, proposeSteps } from "../../src/core/change/best-fit/best-fit.ts";
import { type Configuration, configurationOf } from "../../src/core/change/configuration.ts";
import { diffSteps } from "../../src/core/change/diff/diff.ts";
import { createSide, type Side } from "../../src/core/change/entitlements.ts";
import { lintPricing } from "../../src/core/change/lint/lint.ts";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import type { Pricing } from "../../src/core/pricing/model.ts";
import { finish, type IsOver } from "../../src/core/steps.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { checkSubscription, constraintsOf } from "../../src/core/pricing/subscription.ts";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { fillLimitValues } from "../../src/operations/numeric-limits.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { startRestServer } from "../support/event-server.ts";
import { heavyPricing } from "../support/heavy-pricings.ts";
import { percentile } from "../support/hostile-tenant.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";
import { contractUsers, seedResources } from "../support/seed.ts";
import { yamlUpload } from "../support/uploads.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures changes of pricings: lint, diff and best fit by themselves; then the prediction and the novation of all
 * contracts of a large pricing, while another organization and the moving contracts consume.
 */

const CONTENT = { "content-type": "application/json" };
const PLANS = 14;
const FEATURES = 100;
const LIMITS = 20;
const ADD_ONS = 6;
/** Duration of consumption without a change, for comparison. */
const IDLE_MS = 10_000;
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

/** Builds a pricing as large as the largest real one. Version 2 lowers some limits and removes a feature from a plan. */
function tower(version: 1 | 2): string {
  const feature = (index: number) => {
    const own = `pricingContext['features']['feature${index}']`;
    const limit = `limit${index % LIMITS}`;
    const below = ` && subscriptionContext['${limit}'] < pricingContext['usageLimits']['${limit}']`;
    const expression = own + (index % 4 === 0 ? below : "");
    return `  feature${index}: {valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "${expression}"}`;
  };
  const limit = (index: number) =>
    `  limit${index}: {valueType: NUMERIC, defaultValue: ${10 * (index + 1)}, unit: task, type: RENEWABLE, period: {value: 1, unit: MONTH}}`;
  const plan = (index: number) => {
    const features = numbers(FEATURES)
      .filter((each) => each % PLANS <= index && !(version === 2 && each === 3 && index === 5))
      .map((each) => `feature${each}: {value: true}`);
    const limits = numbers(LIMITS).map(
      (each) => `limit${each}: {value: ${(index + 1) * 10 * (each + 1) - (version === 2 && each === 2 ? 5 : 0)}}`,
    );
    return `  PLAN${index}: {price: ${index * 10}, unit: user/month, features: {${features.join(", ")}}, usageLimits: {${limits.join(", ")}}}`;
  };
  const addOn = (index: number) =>
    `  pack${index}: {price: ${index + 1}, unit: user/month, availableFor: [${numbers(PLANS)
      .map((each) => `PLAN${each}`)
      .join(
        ", ",
      )}], usageLimitsExtensions: {limit${index}: {value: 10}}, subscriptionConstraints: {minQuantity: 1, maxQuantity: 1000, quantityStep: 1}}`;
  return [
    `saasName: Tower\nsyntaxVersion: "3.0"\nversion: "${version}.0.0"\ncreatedAt: "2025-0${version}-01"\ncurrency: EUR\nfeatures:`,
    ...numbers(FEATURES).map(feature),
    "usageLimits:",
    ...numbers(LIMITS).map(limit),
    "plans:",
    ...numbers(PLANS).map(plan),
    "addOns:",
    ...numbers(ADD_ONS).map(addOn),
    "",
  ].join("\n");
}

/** Copies the first contract until there are `contracts`, spread over `configurations` plans and add-ons. */
async function copyContracts(connection: Connection, contracts: number, configurations: number): Promise<void> {
  const sql = connection.client;
  const ends = sql`generate_series(1, ${contracts}::int) n`;
  await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew)
    select 'copy-' || n, organization_id, 'copy-' || n, 'copy-' || n, start_date, end_date, true
    from contracts, ${ends} where user_id = 'tower-user'`;
  await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
    select 'copy-' || n, cs.service_id, cs.pricing_id, 0, 'PLAN' || ((n % ${configurations}::int) % ${PLANS}::int),
      json_build_object(
        'pack' || ((n % ${configurations}::int) / ${PLANS}::int % ${ADD_ONS}::int),
        (n % ${configurations}::int) / ${PLANS * ADD_ONS}::int + 1)
    from contracts c join contract_services cs on cs.contract_id = c.id, ${ends} where c.user_id = 'tower-user'`;
  await sql`insert into usage_levels (contract_id, service_id, limit_name, position, anchor, reset_at, period_value, period_unit)
    select 'copy-' || n, u.service_id, u.limit_name, u.position, u.anchor, u.reset_at, u.period_value, u.period_unit
    from contracts c join usage_levels u on u.contract_id = c.id, ${ends} where c.user_id = 'tower-user'`;
  // As `npm run migrate` does for balances that do not know their limits.
  await fillLimitValues(await seedResources(connection));
  await sql.unsafe("vacuum analyze");
}

function parsed(text: string): Pricing {
  const result = parsePricing(text, new Date());
  if (!result.ok) throw new Error(result.problems[0]?.message ?? "the pricing is not accepted");
  return result.pricing;
}

/** Two versions of one pricing. The second one takes every seventh boolean from the plans. */
interface Pair {
  readonly name: string;
  readonly text: string;
  readonly before: Pricing;
  readonly after: Pricing;
  readonly isHostile: boolean;
}

function pairOf(name: string, text: string, isHostile = false): Pair {
  const before = parsed(text);
  const plans = before.plans.map((plan, at) => ({
    ...plan,
    features: Object.fromEntries(
      Object.entries(plan.features).map(([key, value], index) => [
        key,
        (index + at) % 7 === 0 && typeof value === "boolean" ? !value : value,
      ]),
    ),
  }));
  return { name, text, isHostile, before, after: { ...before, version: "99.0.0", plans } };
}

/** The pricings of the folder `PRICINGS`, if that variable is set, and the largest of this bench. */
function pairs(): Pair[] {
  const folder = process.env["PRICINGS"];
  const files = folder === undefined ? [] : readdirSync(folder).filter((file) => /\.ya?ml$/.test(file));
  const real = files.flatMap((file) => {
    const text = readFileSync(join(folder ?? "", file), "utf8");
    return parsePricing(text, new Date()).ok ? [pairOf(file, text)] : [];
  });
  const heavy = heavyPricing({ name: "Heavy", features: 60, limits: 8, plans: 4, addOns: 6 });
  return [...real, pairOf("tower", tower(1)), pairOf("hostile", heavy, true)];
}

/** Lists configurations of a pricing: plans in turn, with more and more of each add-on in turn. */
function configurationsOf(side: Side, count: number): Configuration[] {
  const { plans, addOns } = side.pricing.pricing;
  return numbers(count).flatMap((index) => {
    const [plan, addOn] = [plans[index % plans.length]?.name, addOns[index % (addOns.length + 1)]];
    const { minQuantity, quantityStep } =
      addOn === undefined ? { minQuantity: 1, quantityStep: 1 } : constraintsOf(addOn);
    const quantity = minQuantity + Math.floor(index / 50) * quantityStep;
    const configuration = configurationOf(plan, addOn === undefined ? {} : { [addOn.name]: quantity });
    const { serviceName, pricing } = side;
    const verdict = checkSubscription(pricing, { serviceName, version: pricing.pricing.version, ...configuration });
    return verdict.ok ? [configuration] : [];
  });
}

const CONFIGURATIONS = 200;
/** The server's time limits of a lint, a diff and a best fit. */
const LINT_MS = 400;
const DIFF_MS = 4_000;
const SEARCH_MS = 1_000;
/** Time for all best fits of one pair. */
const SEARCHES_MS = 10_000;

function within(milliseconds: number): IsOver {
  const end = performance.now() + milliseconds;
  return () => performance.now() > end;
}

/** Measures the analyses of one pair without a server. Hostile pricings reach the time limits. */
function analyse({ name, text, before, after, isHostile }: Pair): BenchRow[] {
  const timed = <T>(work: () => T): { ms: number; result: T } => {
    const start = performance.now();
    const result = work();
    return { ms: performance.now() - start, result };
  };
  const row = (what: string, value: number, most: number, detail: string): BenchRow => ({
    name: `${what}, ${name} (ms)`,
    detail,
    value,
    target: `< ${most}`,
    ok: value < most,
  });
  const size = `${before.plans.length} plans, ${before.features.length} features, ${before.addOns.length} add-ons`;
  const lint = timed(() => lintPricing(before, text, within(LINT_MS)));
  const diff = timed(() => finish(diffSteps(before, after, { isOver: within(DIFF_MS) })));
  const [old, now] = [createSide(compilePricing(before)), createSide(compilePricing(after))];
  const isEnough = within(SEARCHES_MS);
  const proposals: (Proposal | undefined)[] = [];
  const fits = timed(() => {
    for (const each of configurationsOf(old, CONFIGURATIONS)) {
      if (isEnough()) break;
      proposals.push(finish(proposeSteps(old, now, each, within(SEARCH_MS))));
    }
  });
  const complete = proposals.filter((proposal) => proposal?.complete === true).length;
  return [
    row("lint", lint.ms, LINT_MS + 100, `${size}; ${lint.result.length} findings`),
    row(
      "diff",
      diff.ms,
      isHostile ? DIFF_MS + 500 : 2_000,
      `${size}; ${diff.result.space.complete ? "complete" : "not complete"}`,
    ),
    row(
      "best fit, each",
      fits.ms / Math.max(1, proposals.length),
      isHostile ? SEARCH_MS + 100 : 5,
      `${complete} of ${proposals.length} complete`,
    ),
  ];
}

/** A caller that consumes again and again. */
interface Consumer {
  readonly tookMs: number[];
  /** Calls that were asked to retry, because their contract is moving. */
  busy: number;
  stop(): Promise<void>;
}

function startConsumer(input: { url: string; key: string; featureId: string; nextUser: () => string }): Consumer {
  const { url, key, featureId, nextUser } = input;
  const stopping = new AbortController();
  const work = async () => {
    while (!stopping.signal.aborted) {
      const start = performance.now();
      const answer = await fetch(`${url}/api/v1/features/${nextUser()}/${featureId}`, {
        method: "POST",
        headers: { ...CONTENT, "x-api-key": key },
        body: '{"tower-limit0":1}',
      });
      const text = await answer.text();
      if (answer.status === 503) consumer.busy += 1;
      else if (!answer.ok) throw new Error(`${answer.status} ${text}`);
      consumer.tookMs.push(performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const consumer: Consumer = {
    tookMs: [],
    busy: 0,
    stop: () => {
      stopping.abort();
      return running;
    },
  };
  const running = work();
  return consumer;
}

/** Creates an organization with the same pricing and the end user `stranger`. Returns its key. */
async function addOrganization(url: string): Promise<string> {
  const call = async (path: string, key: string, body: FormData | object) => {
    const isForm = body instanceof FormData;
    const answer = await fetch(`${url}/api/v1${path}`, {
      method: "POST",
      headers: { "x-api-key": key, ...(isForm ? {} : CONTENT) },
      body: isForm ? body : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json() as Promise<{ apiKey: string; apiKeys: { key: string }[] }>;
  };
  const { apiKey } = await call("/users/authenticate", "", { username: "admin", password: "password" });
  const organization = await call("/organizations", apiKey, { name: "Strangers", owner: "admin" });
  const key = organization.apiKeys[0]?.key ?? "";
  await call("/services", key, yamlUpload(tower(1)));
  await call("/contracts", key, {
    userContact: { userId: "stranger", username: "stranger" },
    contractedServices: { tower: "1.0.0" },
    subscriptionPlans: { tower: "PLAN0" },
    subscriptionAddOns: {},
  });
  return key;
}

/** Only when named: `npm run bench -- changes`. `PRICINGS=folder` adds the pricings of a folder. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const rows = pairs().flatMap(analyse);
  const [contracts, configurations] = quick ? [10_000, 600] : [100_000, 3_000];
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await onServer(database.url, "create database changes");
    const databaseUrl = withDatabase(database.url, "changes");
    await migrate(databaseUrl, MIGRATIONS);
    const connection = connect(databaseUrl);
    const key = await contractUsers(connection, {
      pricing: tower(1),
      service: "tower",
      plan: "PLAN0",
      userIds: ["tower-user"],
    });
    await copyContracts(connection, contracts, configurations);
    await connection.close();
    const [program = "", ...given] = await builtRestOn("Node 20");
    const server = await startRestServer([program, ...given], databaseUrl);
    try {
      const headers = { "x-api-key": key };
      const post = async (path: string, body: FormData | object, more = {}) => {
        const answer = await fetch(`${server.url}/api/v1${path}`, {
          method: "POST",
          headers: body instanceof FormData ? headers : { ...headers, ...CONTENT, ...more },
          body: body instanceof FormData ? body : JSON.stringify(body),
        });
        if (!answer.ok) throw new Error(`${path}: ${answer.status} ${(await answer.text()).slice(0, 300)}`);
        return answer;
      };
      await post("/services/Tower/pricings", yamlUpload(tower(2)));
      const sizes = `${contracts} contracts of ${configurations} configurations`;
      const seconds = (name: string, value: number, most: number, detail: string) =>
        rows.push({ name: `${name}, ${sizes} (s)`, detail, value, target: `< ${most}`, ok: value < most });
      const other = await addOrganization(server.url);
      const strangers = () =>
        startConsumer({ url: server.url, key: other, featureId: "tower-feature0", nextUser: () => "stranger" });
      let n = 0;
      const nextUser = () => `copy-${(n = (n + 7919) % contracts) + 1}`;
      const movers = () => startConsumer({ url: server.url, key, featureId: "tower-feature0", nextUser });
      const [idle, others] = [strangers(), movers()];
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
      await Promise.all([idle.stop(), others.stop()]);
      const timed = async (name: string, most: number, work: () => Promise<string>) => {
        const consumers = [strangers(), movers()] as const;
        const start = performance.now();
        const detail = await work().finally(() => Promise.all(consumers.map((each) => each.stop())));
        seconds(name, (performance.now() - start) / 1_000, most, detail);
        const [stranger, moving] = consumers;
        const [before, during] = [idle, stranger].map(({ tookMs }) => percentile(tookMs, 0.99));
        const slower = (during ?? 0) / (before ?? 1);
        rows.push({
          name: `consumption of another organization during ${name}, p99 / p99 without`,
          detail: `${Math.round(during ?? 0)} ms / ${Math.round(before ?? 0)} ms, ${stranger.tookMs.length} calls, ${stranger.busy} asked to retry`,
          value: slower,
          target: "< 2",
          ok: slower < 2 && stranger.busy === 0,
        });
        const slowest = Math.max(...moving.tookMs) / 1_000;
        const held = `p99 ${Math.round(percentile(moving.tookMs, 0.99))} ms, ${moving.tookMs.length} calls, ${moving.busy} asked to retry`;
        seconds(`slowest consumption of the moving contracts during ${name}`, slowest, 5, held);
      };
      await timed("impact", 60, async () => {
        const answer = await post(
          "/services/Tower/impact",
          { action: "novation", pricingVersion: "2.0.0" },
          { accept: "application/x-ndjson" },
        );
        let [last, longest, lines, text] = [performance.now(), 0, 0, ""];
        const decoder = new TextDecoder();
        for await (const chunk of answer.body ?? []) {
          longest = Math.max(longest, performance.now() - last);
          last = performance.now();
          text += decoder.decode(chunk as Uint8Array, { stream: true });
          lines += 1;
        }
        const final = text.trimEnd().split("\n").at(-1) ?? "";
        if (!final.startsWith('{"report":')) throw new Error(final.slice(0, 300));
        return `${lines} chunks, longest silence ${Math.round(longest)} ms`;
      });
      await timed("novation", 120, async () => {
        const answer = await post("/services/Tower/novations", { pricingVersion: "2.0.0" });
        const { novatedContracts } = (await answer.json()) as { novatedContracts: number };
        return `${novatedContracts} moved`;
      });
      return rows;
    } finally {
      await server.stop();
    }
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
