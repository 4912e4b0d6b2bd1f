import type { ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { recordEvents } from "../../src/db/queries/outbox.ts";
import { hashApiKey } from "../../src/operations/credentials.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { openReceiver } from "../events/webhook-receiver.ts";
import { type RunningServer, startEventServer, startRestServer, testKeyring } from "../support/event-server.ts";
import { createdEvent } from "../support/private-events.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";
import { contractUsers, spread } from "../support/seed.ts";
import { yamlUpload } from "../support/uploads.ts";
import type { BenchRow } from "./pricing.ts";
import { forkClients, megabytesOf } from "./processes.ts";
import { compare, pricingOf } from "./side-by-side.ts";
import { type Load, measure } from "./wrk.ts";

/*
 * Measures how cost grows with data. Two databases on one server, one with a hundred times as many contracts and
 * organizations, each with its own REST process: requests for a thousand contracts must cost the same. Then, over the
 * small one: pricings with more and more features, versions of a service, webhooks, and clients on an event server.
 */

const FEATURES = [10, 40, 160];
const VERSIONS = 500;
/** As many as an organization may have. */
const WEBHOOKS = 20;
const WEBHOOK_HOST = "127.0.0.1";
const DELIVERIES = 2000;
const SOCKETS = 1000;
/** Contracts requested in turn, spread over all organizations. */
const ASKED = 1000;

interface Side extends RunningServer {
  databaseUrl: string;
  /** Builds the requests: equally many contracts on both sides. */
  load(body: string, asked?: number): Load;
  /** Key of an organization without other contracts. */
  key: string;
}

const CONTENT = { "content-type": "application/json" };
const keyOf = (n: number) => `org_${n.toString(16).padStart(64, "0")}`;

async function startSide(serverUrl: string, name: string, organizations: number, contracts: number): Promise<Side> {
  await onServer(serverUrl, `create database ${name}`);
  const databaseUrl = withDatabase(serverUrl, name);
  await migrate(databaseUrl, MIGRATIONS);
  const connection = connect(databaseUrl);
  const pricing = pricingOf("Meter", 0, true);
  const key = await contractUsers(connection, { pricing, service: "meter", plan: "ALL", userIds: ["user-0"] });
  const keyring = await testKeyring();
  await spread(connection.client, { organizations, contracts, hashOf: (n) => hashApiKey(keyring, keyOf(n)) });
  await connection.client.unsafe("vacuum analyze");
  await connection.close();
  const [program = "", ...given] = await builtRestOn("Node 20");
  const server = await startRestServer([program, ...given], databaseUrl, {
    WEBHOOK_ALLOWED_HOSTS: WEBHOOK_HOST,
  });
  return {
    ...server,
    databaseUrl,
    key,
    load: (body, asked = ASKED) => {
      // Spread over all contracts, in an order unlike any table's.
      const numbers = Array.from(
        { length: asked },
        (_, i) => ((i * 7919 * Math.floor(contracts / asked)) % contracts) + 1,
      );
      return {
        url: server.url,
        headers: CONTENT,
        body,
        paths: numbers.map((n) => `/api/v1/features/end-${n}/meter-call`),
        keys: numbers.map((n) => keyOf((n % organizations) + 1)),
      };
    },
  };
}

/** Requests each path once, concurrently; not measured. */
async function askAll({ url, headers, body = "", paths, keys = [] }: Load): Promise<void> {
  const numbers = paths.keys();
  const worker = async () => {
    for (const i of numbers) {
      const answer = await fetch(url + paths[i], {
        method: "POST",
        headers: { ...headers, "x-api-key": keys[i] ?? "" },
        body,
      });
      if (!answer.ok) throw new Error(`${paths[i]}: ${answer.status} ${await answer.text()}`);
      await answer.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: 32 }, worker));
}

/** Calls the small side with the key of the organization without other contracts. */
async function post(small: Side, path: string, body: FormData | string): Promise<unknown> {
  const headers = { "x-api-key": small.key };
  const answer = await fetch(`${small.url}/api/v1${path}`, {
    method: "POST",
    headers: typeof body === "string" ? { ...headers, ...CONTENT } : headers,
    body,
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Contracts a service whose one user has its name, and returns evaluations of all its features. */
async function contractOf(small: Side, service: string): Promise<Load> {
  const subscription = {
    userContact: { userId: service, username: service },
    contractedServices: { [service.toLowerCase()]: "1.0.0" },
    subscriptionPlans: { [service.toLowerCase()]: "ALL" },
    subscriptionAddOns: {},
  };
  await post(small, "/contracts", JSON.stringify(subscription));
  const path = `/api/v1/features/${service}?details=true`;
  return { url: small.url, headers: { "x-api-key": small.key, ...CONTENT }, body: "{}", paths: [path] };
}

async function growFeatures(small: Side, rounds: number, seconds: number): Promise<BenchRow[]> {
  const loads: Load[] = [];
  for (const count of FEATURES) {
    const service = `Size${count}`;
    await post(small, "/services", yamlUpload(pricingOf(service, count, true)));
    loads.push(await contractOf(small, service));
  }
  const rows: BenchRow[] = [];
  for (const [i, of] of loads.entries()) {
    const against = loads[i - 1];
    if (against === undefined) continue;
    const name = `${FEATURES[i]} features with limit and use / ${FEATURES[i - 1]} features`;
    // Four times the features may cost at most four times as much.
    rows.push(await compare({ name, against, of, connections: 64, target: 0.25 }, rounds, seconds));
  }
  return rows;
}

/** Compares a service of many versions with one of a single version, and its last uploads with its first ones. */
async function growVersions(small: Side, rounds: number, seconds: number): Promise<BenchRow[]> {
  const textOf = (service: string, version: number) =>
    pricingOf(service, 10, true).replace(`version: "1.0.0"`, `version: "${version}.0.0"`);
  for (const service of ["Single", "Many"]) await post(small, "/services", yamlUpload(textOf(service, 1)));
  const against = await contractOf(small, "Single");
  const of = await contractOf(small, "Many");
  const durations: number[] = [];
  for (let version = 2; version <= VERSIONS; version += 1) {
    const started = performance.now();
    await post(small, "/services/Many/pricings", yamlUpload(textOf("Many", version)));
    durations.push(performance.now() - started);
  }
  const middle = (some: readonly number[]) => some.toSorted((a, b) => a - b)[Math.floor(some.length / 2)] ?? Number.NaN;
  const [first, last] = [middle(durations.slice(10, 60)), middle(durations.slice(-50))];
  const name = `evaluate with a limit, ${VERSIONS} versions of the service / one`;
  return [
    await compare({ name, against, of, connections: 64, target: 0.8 }, rounds, seconds),
    {
      name: `first uploads of a version / those after ${VERSIONS - 50} versions`,
      detail: `${first.toFixed(1)} of ${last.toFixed(1)} ms`,
      value: first / last,
      target: ">= 0.5",
      ok: first / last >= 0.5,
    },
  ];
}

/** Compares deliveries per second to many webhooks of one organization with those to one. */
async function growWebhooks(small: Side): Promise<BenchRow> {
  const receiver = await openReceiver();
  const connection = connect(small.databaseUrl, { maxConnections: 1 });
  const events = await startEventServer(small.databaseUrl, { WEBHOOK_ALLOWED_HOSTS: WEBHOOK_HOST });
  const rateWith = async (webhooks: number, added: number) => {
    for (let i = 0; i < added; i += 1) await post(small, "/webhooks", JSON.stringify({ url: receiver.url }));
    const [row] = await connection.client<
      { id: string }[]
    >`select organization_id as id from webhook_endpoints limit 1`;
    const organizationId = row?.id ?? "";
    receiver.received.length = 0;
    const recorded = DELIVERIES / webhooks;
    const all = Array.from({ length: recorded }, (_, i) => ({ organizationId, event: createdEvent(`user-${i}`) }));
    await connection.db.transaction((tx) => recordEvents(tx, all));
    while (receiver.received.length < DELIVERIES) await new Promise((resolve) => setTimeout(resolve, 10));
    const times = receiver.received.map(({ at }) => at);
    return (1000 * DELIVERIES) / (Math.max(...times) - Math.min(...times));
  };
  try {
    const one = await rateWith(1, 1);
    const many = await rateWith(WEBHOOKS, WEBHOOKS - 1);
    return {
      name: `deliveries to ${WEBHOOKS} webhooks of one organization / to one`,
      detail: `${Math.round(many)}/s of ${Math.round(one)}/s`,
      value: many / one,
      target: ">= 0.8",
      ok: many / one >= 0.8,
    };
  } finally {
    await events.stop();
    await connection.close();
    await receiver.close();
  }
}

async function growSockets(small: Side, rounds: number, seconds: number): Promise<BenchRow> {
  const name = `evaluate with ${SOCKETS} clients on the event server beside / with none`;
  const events = await startEventServer(small.databaseUrl);
  let clients: ChildProcess | undefined;
  try {
    const rates: { none: number; many: number }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const { perSecond: none } = await measure(small.load("{}"), 64, seconds);
      const child = forkClients(events.url, SOCKETS);
      clients = child;
      await new Promise((ready, failed) => {
        child.once("message", ready);
        child.once("exit", () => failed(new Error("the clients of the event server ended")));
      });
      rates.push({ none, many: (await measure(small.load("{}"), 64, seconds)).perSecond });
      child.removeAllListeners("exit");
      const gone = new Promise((done) => child.once("exit", done));
      child.disconnect();
      await gone;
    }
    const middle = rates.toSorted((a, b) => a.many / a.none - b.many / b.none)[Math.floor(rates.length / 2)];
    const { none = 0, many = 0 } = middle ?? {};
    const detail = `${Math.round(many)}/s of ${Math.round(none)}/s`;
    return { name, detail, value: many / none, target: ">= 0.8", ok: many / none >= 0.8 };
  } finally {
    clients?.kill();
    await events.stop();
  }
}

/** Measures six growth curves, and the memory of the large database's process after all requests. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const [rounds, seconds] = quick ? [3, 1] : [5, 3];
  const [organizations, contracts] = quick ? [100, 20_000] : [1000, 100_000];
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const sides: Side[] = [];
  try {
    const small = await startSide(database.url, "small", organizations / 100, contracts / 100);
    sides.push(small);
    const large = await startSide(database.url, "large", organizations, contracts);
    sides.push(large);
    const sizes = `${contracts} contracts of ${organizations} organizations / ${contracts / 100} of ${organizations / 100}`;
    const asked = Math.min(ASKED, contracts / 100);
    const rows: BenchRow[] = [];
    for (const [name, body] of [
      ["evaluate with a limit", "{}"],
      ["consume", '{"meter-calls":1}'],
    ] as const) {
      rows.push(
        await compare(
          {
            name: `${name}, ${sizes}`,
            against: small.load(body, asked),
            of: large.load(body, asked),
            connections: 64,
            target: 0.8,
          },
          rounds,
          seconds,
        ),
      );
    }
    rows.push(
      ...(await growFeatures(small, rounds, seconds)),
      ...(await growVersions(small, rounds, seconds)),
      await growWebhooks(small),
      await growSockets(small, rounds, seconds),
    );
    await askAll(large.load("{}", contracts));
    const mb = megabytesOf(large.process.pid);
    rows.push({
      name: `REST process that has seen ${contracts} contracts (MB)`,
      value: mb,
      target: "<= 250",
      ok: mb <= 250,
    });
    return rows;
  } finally {
    for (const side of sides) await side.stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
