import type { Hono } from "hono";
import { createApp } from "../../src/http/app.ts";
import type { ProcessHealth } from "../../src/entries/process/health.ts";
import type { ReadAsset } from "../../src/http/routes/documentation.ts";
import type { LogFields, AppEnv, HttpSettings, Log } from "../../src/http/context.ts";
import type { Resources, Settings } from "../../src/operations/context.ts";
import { listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { createKeyring, type Keyring } from "../../src/operations/credentials.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { expectDocumented } from "./documented.ts";
import { expectCatalogued } from "./error-catalogue.ts";
import { preparedCallers } from "./prepared-callers.ts";

export type Method = "GET" | "HEAD" | "OPTIONS" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A response. `body` is parsed JSON, text for other content types, and undefined when empty. */
export interface Answer<T = Record<string, unknown>> {
  status: number;
  headers: Headers;
  body: T;
}

/**
 * Options of a call. Object bodies are sent as JSON, FormData as multipart, strings unchanged (as JSON unless headers
 * differ).
 */
export interface CallOptions {
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

/** A user account with its key. */
export interface TestUser {
  id: string;
  username: string;
  key: string;
}

/** An organization and its first key, of scope ALL. */
export interface TestOrganization {
  id: string;
  key: string;
}

/** One caller of each kind, around one organization that is no user's default. */
export interface Callers {
  /** The organization of the roles and keys below. */
  organizationId: string;
  platformAdmin: TestUser;
  owner: TestUser;
  organizationAdmin: TestUser;
  manager: TestUser;
  evaluator: TestUser;
  /** A USER who is no member of the organization. */
  outsider: TestUser;
  all: { id: string; key: string };
  management: { id: string; key: string };
  evaluation: { id: string; key: string };
}

export interface TestApi {
  app: Hono<AppEnv>;
  database: TestDatabase;
  resources: Resources;
  callers: Callers;
  /** Log lines of the application. */
  logged: { level: string; message: string; detail: unknown; about: LogFields | undefined }[];
  /** Calls the application in process. `path` is relative to /api/v1 unless it starts with /api, /static, /ofrep or
   * /.well-known. */
  call<T = Record<string, unknown>>(method: Method, path: string, options?: CallOptions): Promise<Answer<T>>;
  /** Stops the server's clock at this moment. */
  setNow(moment: Date): void;
  /** Signs up a USER with the password `password`. */
  newUser(username?: string): Promise<TestUser>;
  /** Creates an organization for this user, not their default one. */
  newOrganization(owner: TestUser, name?: string): Promise<TestOrganization>;
  close(): Promise<void>;
}

/** Secrets of every test application. */
export const API_SECRETS = {
  apiKeysSecret: "api keys secret of the tests, 32 bytes or more",
  jwtSecret: "jwt secret of the tests, 32 bytes or more",
  jwtSalt: "jwt salt of the tests",
};

/** Deriving it takes 40 ms. */
let keyringOfTests: Promise<Keyring> | undefined;
const usualKeyring = () => (keyringOfTests ??= createKeyring(API_SECRETS));

let preparedOfTests: Promise<{ template: string; callers: Callers }> | undefined;
const usualCallers = () =>
  (preparedOfTests ??= preparedCallers(async (database) => {
    const api = await createTestApi({ database });
    await api.close();
    return api.callers;
  }));

/**
 * Creates the whole application over its own database, with one caller of each kind. Takes about 0.3 seconds. The clock
 * stands at 2025-06-15T10:00:00Z until setNow.
 */
export async function createTestApi(
  options: {
    settings?: Partial<Settings>;
    http?: Partial<HttpSettings>;
    resources?: Partial<Resources>;
    /** Files of a built console. Default: none. */
    readConsole?: ReadAsset;
    /** A migrated database, which `close` drops. Default: a new one. */
    database?: TestDatabase;
    /** Of the pool of a new database. Default: few; the more, the more transactions race. */
    connections?: number;
    health?: (database: TestDatabase, resources: Resources) => ProcessHealth;
  } = {},
): Promise<TestApi> {
  const { resources: own = {}, settings, database: given } = options;
  // Where neither the clock, the secrets nor a setting is the caller's, each file would create the same callers.
  const isUsual = given === undefined && settings === undefined && own.keyring === undefined && own.now === undefined;
  const prepared = isUsual ? await usualCallers() : undefined;
  const database = given ?? (await createTestDatabase(prepared?.template, options.connections));
  const keyring = await usualKeyring();
  let now = new Date("2025-06-15T10:00:00.000Z");
  const changes = listenForInvalidations(database.url, { applicationName: "faregate-test" });
  const resources: Resources = {
    ...createResources(database.connection, {
      changes,
      keyring,
      settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: true, passwordIterations: 10, ...settings },
      now: () => now,
    }),
    ...own,
  };
  const logged: TestApi["logged"] = [];
  const log: Log = (level, message, detail, about) => logged.push({ level, message, detail, about });
  const health = options.health?.(database, resources);
  const app = createApp({
    open: () => resources,
    ...(health === undefined ? {} : { health, metrics: health.requests }),
    settings: { allowedOrigins: [], baseUrlPath: "", ...options.http },
    log,
    ...(options.readConsole === undefined ? {} : { readConsole: options.readConsole }),
  });
  const call = caller(app);
  let users = 0;
  const newUser = async (username = `user-${(users += 1)}`): Promise<TestUser> => {
    const made = await call<{ id: string; apiKey: string }>("POST", "/users", {
      body: { username, password: "password" },
    });
    if (made.status !== 201) throw new Error(`user ${username}: ${made.status} ${JSON.stringify(made.body)}`);
    return { id: made.body.id, username, key: made.body.apiKey };
  };
  const newOrganization = async (owner: TestUser, name = "Acme"): Promise<TestOrganization> => {
    const made = await call<{ id: string; apiKeys: { key: string }[] }>("POST", "/organizations", {
      key: owner.key,
      body: { name, owner: owner.username },
    });
    if (made.status !== 201) throw new Error(`organization ${name}: ${made.status} ${JSON.stringify(made.body)}`);
    return { id: made.body.id, key: made.body.apiKeys[0]?.key ?? "" };
  };
  // Tests change the keys of their callers.
  const callers =
    prepared === undefined
      ? await createCallers(resources, { call, newUser, newOrganization })
      : structuredClone(prepared.callers);
  return {
    app,
    database,
    resources,
    callers,
    logged,
    call,
    setNow: (moment) => {
      now = moment;
    },
    newUser,
    newOrganization,
    close: async () => {
      await resources.callCounter.flush();
      await resources.keyUses.flush();
      await resources.deniedAttempts.flush();
      await resources.evaluators.flush();
      await changes.close();
      await database.drop();
    },
  };
}

function caller(app: Hono<AppEnv>): TestApi["call"] {
  return async <T>(method: Method, path: string, options: CallOptions = {}) => {
    const headers = new Headers(options.headers);
    if (options.key !== undefined) headers.set("x-api-key", options.key);
    const init: RequestInit = { method, headers };
    if (options.body instanceof FormData) init.body = options.body;
    else if (options.body !== undefined) {
      init.body = typeof options.body === "string" ? options.body : JSON.stringify(options.body);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
    }
    const url = /^\/(api|static|ofrep|\.well-known)(\/|$)/.test(path) ? path : `/api/v1${path}`;
    const response = await app.request(url, init);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") && text !== "";
    const body: unknown = isJson ? JSON.parse(text) : text || undefined;
    const documented = /^[^?#]*?(\/(?:api\/v1|ofrep|\.well-known)\/[^?#]*?)\/?(?:[?#].*)?$/.exec(url)?.[1];
    if (documented !== undefined && method !== "OPTIONS") {
      expectDocumented(method, documented, response.status, body);
      if (response.status >= 400)
        expectCatalogued(`${method} ${documented}`, { status: response.status, headers: response.headers, body });
    }
    return { status: response.status, headers: response.headers, body: shapedAs<T>(body) };
  };
}

/** Casts to the shape that the test expects; its assertions check it. */
function shapedAs<T>(value: unknown): T {
  return value as T;
}

async function createCallers(
  resources: Resources,
  api: Pick<TestApi, "call" | "newUser" | "newOrganization">,
): Promise<Callers> {
  const admin = { username: "platform-admin", password: "password" };
  const asPlatformAdmin = async (): Promise<TestUser> => {
    await seedFirstAdmin(resources, { ...admin, organizationName: "admin's Organization" });
    const signedIn = await api.call<{ apiKey: string }>("POST", "/users/authenticate", { body: admin });
    const key = signedIn.body.apiKey;
    const shown = await api.call<{ id: string }>("GET", `/users/${admin.username}`, { key });
    return { id: shown.body.id, username: admin.username, key };
  };
  const [platformAdmin, owner, organizationAdmin, manager, evaluator, outsider] = await Promise.all([
    asPlatformAdmin(),
    api.newUser("owner"),
    api.newUser("organization-admin"),
    api.newUser("manager"),
    api.newUser("evaluator"),
    api.newUser("outsider"),
  ]);
  const { id: organizationId } = await api.newOrganization(owner);
  const path = `/organizations/${organizationId}`;
  for (const [{ username }, role] of [
    [organizationAdmin, "ADMIN"],
    [manager, "MANAGER"],
    [evaluator, "EVALUATOR"],
  ] as const) {
    await api.call("POST", `${path}/members`, { key: owner.key, body: { username, role } });
  }
  await api.call("POST", `${path}/api-keys`, { key: owner.key, body: { scope: "MANAGEMENT" } });
  const { body } = await api.call<{ apiKeys: { id: string; key: string; scope: string }[] }>(
    "POST",
    `${path}/api-keys`,
    { key: owner.key, body: { scope: "EVALUATION" } },
  );
  const keyOf = (scope: string) => {
    const found = body.apiKeys?.find((key) => key.scope === scope);
    if (found === undefined) throw new Error(`no key of scope ${scope}: ${JSON.stringify(body)}`);
    return { id: found.id, key: found.key };
  };
  return {
    organizationId,
    platformAdmin,
    owner,
    organizationAdmin,
    manager,
    evaluator,
    outsider,
    all: keyOf("ALL"),
    management: keyOf("MANAGEMENT"),
    evaluation: keyOf("EVALUATION"),
  };
}
