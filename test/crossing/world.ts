import { expireDueHolds, renewDueLevels } from "../../src/operations/due-holds.ts";
import { sweepDueChanges } from "../../src/operations/due-changes.ts";
import { sweepAvailability } from "../../src/operations/changes/availability-sweep.ts";
import {
  announceEndedOverrides,
  announceEndingTrials,
  announceExpired,
  renewDueContracts,
} from "../../src/operations/contracts/expiry.ts";
import { contextOf } from "../../src/operations/context.ts";
import { type Invalidations, listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createTestApi, type Method, type TestApi } from "../support/api.ts";
import { createTestDatabase } from "../support/database.ts";
import { connectProvider, signStandard } from "../support/billing.ts";
import { expectDocumented } from "../support/documented.ts";
import { yamlUpload } from "../support/uploads.ts";

/** Terms of every version: tasks carry over twice, and can be spent in drafts; members take seats. */
const CREDITS = `
custom:
  faregate:
    rollover:
      maxTasks: { max: 10, periods: 2 }
    rates:
      maxTasks: { draft: 0.5 }
    seats: maxSeats
`;

/*
 * The world of a history: two REST applications over one database, the background work of an event server, one clock, and
 * the log of all calls, which can be pasted into a shell.
 */

/** Both applications, which share a database but no memory, as two processes do. */
export interface Servers {
  api: TestApi;
  /** The second application. The first is that of `api`. */
  second: { connection: Connection; changes: Invalidations; app: ReturnType<typeof createApp> };
  /** Never goes back, so that histories of different organizations share the database. */
  now: Date;
  close(): Promise<void>;
}

export async function openServers(): Promise<Servers> {
  // An empty database: prepared callers have the same accounts on each instance.
  const api = await createTestApi({ database: await createTestDatabase() });
  const connection = connect(api.database.url);
  const changes = listenForInvalidations(api.database.url, { applicationName: "faregate-crossing" });
  const { keyring, settings, now } = api.resources;
  const resources = createResources(connection, { keyring, settings, now, changes });
  const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
  const servers: Servers = {
    api,
    second: { connection, changes, app },
    now: new Date("2025-06-15T10:00:00.000Z"),
    close: async () => {
      await changes.close();
      await connection.close(0);
      await api.close();
    },
  };
  return servers;
}

export interface Answer<T> {
  status: number;
  body: T;
}

const FEATURES = ["board", "bulk", "darkMode", "sla"] as const;

/** One small organization, with what its history has made so far. */
export class World {
  readonly servers: Servers;
  readonly key: string;
  /** The key of another organization of the same owner, to which services move. */
  readonly otherKey: string;
  readonly otherOrganizationId: string;
  readonly organizationId: string;
  /** Path to which a payment provider sends its messages. */
  readonly billingPath: string;
  readonly users: string[] = [];
  readonly holds: string[] = [];
  /** Holds of which usage was reported while they were open. */
  readonly keptHolds: { userId: string; from: Date; until: Date }[] = [];
  readonly leases: { id: string; userId: string; spent: number; until: Date }[] = [];
  readonly scheduled: { userId: string; id: string }[] = [];
  readonly blocks: { userId: string; id: string }[] = [];
  readonly versions: string[] = [];
  serviceName = "Tasker";
  /** The status of the last recorded call. */
  lastStatus = 0;
  #steps = 0;
  readonly #log: string[] = [];
  #items = 0;

  constructor(
    servers: Servers,
    keys: Pick<World, "key" | "otherKey" | "otherOrganizationId" | "organizationId" | "billingPath">,
  ) {
    this.servers = servers;
    this.key = keys.key;
    this.otherKey = keys.otherKey;
    this.otherOrganizationId = keys.otherOrganizationId;
    this.organizationId = keys.organizationId;
    this.billingPath = keys.billingPath;
  }

  /** Key of the service in contracts and ids. */
  get service(): string {
    return this.serviceName.toLowerCase();
  }
  get limit(): string {
    return `${this.service}-maxTasks`;
  }
  get featureIds(): string[] {
    return FEATURES.map((name) => `${this.service}-${name}`);
  }
  get log(): readonly string[] {
    return this.#log;
  }
  nextItem(): string {
    this.#items += 1;
    return `item-${this.#items}`;
  }

  /** True while a process may have held a lease of this user, or a hold that it reported. */
  isLeased(userId: string, at: Date): boolean {
    const isKept = this.keptHolds.some((hold) => hold.userId === userId && hold.from <= at && at <= hold.until);
    return isKept || this.leases.some((lease) => lease.userId === userId && lease.until > at);
  }

  /** Calls the two applications in turn, and records the call. Afterwards both have received what it changed. */
  async call<T = Record<string, unknown>>(
    method: Method,
    path: string,
    body?: unknown,
    key = this.key,
  ): Promise<Answer<T>> {
    this.#steps += 1;
    const isUpload = body instanceof FormData;
    const sent = isUpload
      ? " --form 'pricing=@pricing.yml'"
      : body === undefined
        ? ""
        : ` --json '${JSON.stringify(body)}'`;
    const answer = await this.#ask<T>(this.#steps % 2, method, path, body, key);
    this.lastStatus = answer.status;
    // The application that was not called receives changes a moment later, within the staleness that the contract allows.
    await Promise.all(
      [this.servers.api.resources, this.servers.second.changes].map((each) => each.invalidationsApplied?.()),
    );
    this.#log.push(
      `curl -X ${method} "$URL${path}" -H "x-api-key: $KEY"${sent}  # ${this.servers.now.toISOString()}: ${answer.status}`,
    );
    return answer;
  }

  /** Sends a message of a payment provider to one of the applications, and records it. */
  async message(which: number, message: { id: string }): Promise<{ outcome: string; reason: string | null }> {
    const { api, second, now } = this.servers;
    const body = JSON.stringify(message);
    const headers = signStandard(body, now, message.id);
    const app = which === 0 ? api.app : second.app;
    const response = await app.request(`/api/v1${this.billingPath}`, { method: "POST", headers, body });
    this.lastStatus = response.status;
    const text = await response.text();
    this.#log.push(`# message ${body} at ${now.toISOString()}: ${response.status} ${text}`);
    if (response.status !== 200) throw new Error(`message ${message.id}: ${response.status} ${text}`);
    return JSON.parse(text) as { outcome: string; reason: string | null };
  }

  /** Asks one of the applications. Reads for comparisons are not recorded. */
  read<T = Record<string, unknown>>(which: number, method: Method, path: string, body?: unknown): Promise<Answer<T>> {
    return this.#ask<T>(which, method, path, body, this.key);
  }

  async #ask<T>(which: number, method: Method, path: string, body: unknown, key: string): Promise<Answer<T>> {
    const { api, second } = this.servers;
    const isForm = body instanceof FormData;
    const full = path.startsWith("/ofrep") ? path : `/api/v1${path}`;
    const app = which === 0 ? api.app : second.app;
    const response = await app.request(full, {
      method,
      headers: { "x-api-key": key, ...(isForm || body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true && text !== "";
    const parsed: unknown = isJson ? JSON.parse(text) : text || undefined;
    expectDocumented(method, full.split("?")[0] ?? "", response.status, parsed);
    if (response.status >= 500 && response.status !== 503)
      throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return { status: response.status, body: parsed as T };
  }

  async must<T = Record<string, unknown>>(...asked: Parameters<World["call"]>): Promise<T> {
    const { status, body } = await this.call<T>(...asked);
    if (status >= 300) throw new Error(`${asked[0]} ${asked[1]}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  /** Uploads a version, with terms of credits; the first creates the service. */
  async upload(text: string, version: string): Promise<Answer<unknown>> {
    const path = this.versions.length === 0 ? "/services" : `/services/${this.serviceName}/pricings`;
    const answer = await this.call("POST", path, yamlUpload(text + CREDITS));
    if (answer.status === 201) this.versions.push(version);
    return answer;
  }

  /** Moves the clock on. With `sweeps`, an event server does its background work then. */
  async pass(milliseconds: number, sweeps: boolean): Promise<void> {
    const { servers } = this;
    servers.now = new Date(servers.now.getTime() + milliseconds);
    servers.api.setNow(servers.now);
    if (milliseconds > 1000) this.#log.push(`# ${milliseconds} ms pass${sweeps ? ", an event server sweeps" : ""}`);
    if (!sweeps) return;
    const { resources } = servers.api;
    const ctx = () => contextOf(resources, { kind: "anonymous" });
    await renewDueContracts(resources.db, servers.now);
    await sweepDueChanges(ctx());
    await expireDueHolds(ctx());
    await renewDueLevels(ctx(), undefined);
    await sweepAvailability(ctx());
    await announceExpired(resources.db, servers.now);
    await announceEndingTrials(resources.db, servers.now);
    await announceEndedOverrides(resources.db, servers.now);
  }
}

/** Creates two organizations of one owner and a world around the first. */
export async function createWorld(servers: Servers): Promise<World> {
  const { api } = servers;
  const { owner } = api.callers;
  const mine = await api.newOrganization(owner);
  const other = await api.newOrganization(owner, "Other");
  const prices = {
    basic: { service: "Tasker", plan: "BASIC" },
    pro: { service: "Tasker", plan: "PRO" },
    tasks: { service: "Tasker", addOn: "extraTasks", quantity: 2 },
  };
  const ended = { tasker: "BASIC" };
  const connection = await connectProvider(api, { prices, ended, graceDays: 2 }, "standard", mine.id);
  return new World(servers, {
    key: mine.key,
    otherKey: other.key,
    otherOrganizationId: other.id,
    organizationId: mine.id,
    billingPath: `/billing/${connection.id}`,
  });
}
