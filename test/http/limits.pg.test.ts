import { hash as bcryptHash } from "bcryptjs";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { connect, databaseError } from "../../src/db/postgres/connect.ts";
import { pruneRates } from "../../src/db/queries/rate-counters.ts";
import { isPublicAddress } from "../../src/entries/platform/public-lookup.ts";
import { createApp } from "../../src/http/app.ts";
import type { HttpSettings } from "../../src/http/context.ts";
import { contextOf } from "../../src/operations/context.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { processorMs } from "../support/processor-time.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi({ settings: { accountCallsPerMinute: 3 }, resources: { isPublicAddress } });
});
afterAll(() => api.close());

let minutes = 0;
beforeEach(() => api.setNow(new Date(Date.UTC(2025, 5, 15, 10, (minutes += 2)))));

/** Creates the application with these settings and its own connections, like another process. */
function appWith(settings: Partial<HttpSettings>) {
  return createApp({ open: () => api.resources, settings: { allowedOrigins: [], baseUrlPath: "", ...settings } });
}

const from = (remoteAddress: string) => ({ incoming: { socket: { remoteAddress } } });
const signIn = (app = api.app, address = "192.0.2.1", headers: Record<string, string> = {}) =>
  app.request(
    "/api/v1/users/authenticate",
    {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ username: "owner", password: "password" }),
    },
    from(address),
  );
const signUp = (username: string, address: string, app = api.app) =>
  app.request(
    "/api/v1/users",
    {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username, password: "password" }),
    },
    from(address),
  );

it("an organization may have as many webhooks as the operator says", async () => {
  const few = {
    ...api.resources,
    settings: { ...api.resources.settings, maxWebhooks: 2, webhookAllowedHosts: ["127.0.0.1"] },
  };
  const app = createApp({ open: () => few, settings: { allowedOrigins: [], baseUrlPath: "" } });
  const { key } = await api.newOrganization(api.callers.owner);
  const create = () =>
    app.request("/api/v1/webhooks", {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": key },
      body: JSON.stringify({ url: "http://127.0.0.1:9/hook" }),
    });
  expect([(await create()).status, (await create()).status]).toEqual([201, 201]);
  const refused = await create();
  expect(refused.status).toBe(409);
  expect(await refused.json()).toEqual({ error: "CONFLICT: An organization can have at most 2 webhooks" });
});

describe("sign-ins and sign-ups of one address", () => {
  it("are counted together, across processes, and refused beyond the limit until the minute is over", async () => {
    expect((await signIn()).status).toBe(200);
    expect((await signUp("someone", "192.0.2.1")).status).toBe(201);
    const other = appWith({});
    expect((await signIn(other)).status).toBe(200);
    const refused = await signIn(other);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBe(60);
    expect((await signUp("nobody", "192.0.2.1")).status).toBe(429);
    expect((await signIn(api.app, "192.0.2.2")).status).toBe(200);
    api.setNow(new Date(api.resources.now().getTime() + 60_000));
    expect((await signIn()).status).toBe(200);
  });

  it("a forged X-Forwarded-For changes nothing, and behind one proxy its own entry is the address", async () => {
    for (let i = 0; i < 3; i += 1) await signIn(api.app, "192.0.2.7", { "x-forwarded-for": `198.51.100.${i}` });
    expect((await signIn(api.app, "192.0.2.7", { "x-forwarded-for": "198.51.100.9" })).status).toBe(429);
    const proxied = appWith({ trustedProxies: 1 });
    const through = (client: string) => signIn(proxied, "10.0.0.1", { "x-forwarded-for": `203.0.113.66, ${client}` });
    for (let i = 0; i < 3; i += 1) expect((await through("198.51.100.20")).status).toBe(200);
    expect((await through("198.51.100.20")).status).toBe(429);
    expect((await through("198.51.100.21")).status).toBe(200);
  });

  it("calls with a user's key are not counted", async () => {
    const { platformAdmin } = api.callers;
    for (let i = 0; i < 5; i += 1) {
      const made = await api.app.request(
        "/api/v1/users",
        {
          method: "POST",
          headers: { "content-type": "application/json", "x-api-key": platformAdmin.key },
          body: JSON.stringify({ username: `made-${i}`, password: "password" }),
        },
        from("192.0.2.30"),
      );
      expect(made.status).toBe(201);
    }
  });
});

it("failed sign-ins of a name are counted across processes, and the name itself is not stored", async () => {
  vi.resetModules();
  const elsewhere = await import("../../src/operations/accounts/sign-in.ts");
  const ctx = contextOf(api.resources, { kind: "anonymous" });
  const guesses = Array.from({ length: 10 }, () =>
    elsewhere.authenticate(ctx, { username: "guessed-name", password: "wrong" }).then(
      () => "in",
      (error: { code: string }) => error.code,
    ),
  );
  expect(new Set(await Promise.all(guesses))).toEqual(new Set(["unauthenticated"]));
  const here = await api.call("POST", "/users/authenticate", { body: { username: "guessed-name", password: "wrong" } });
  expect(here.status).toBe(429);
  const rows = await api.database.connection.client<{ bucket: string }[]>`select bucket from rate_counters`;
  expect(rows.length).toBeGreaterThan(0);
  expect(JSON.stringify(rows)).not.toContain("guessed");
  await pruneRates(api.resources.db, new Date(api.resources.now().getTime() + 120_000));
  expect(await api.database.connection.client`select 1 from rate_counters`).toHaveLength(0);
});

it("unknown keys and calls of one key are refused beyond what the operator sets, others are not touched", async () => {
  const app = appWith({ unknownKeysPerMinute: 2, keyCallsPerSecond: 3 });
  const ask = (key: string) =>
    Promise.resolve(app.request("/api/v1/services", { headers: { "x-api-key": key } }, from("192.0.2.40"))).then(
      ({ status }) => status,
    );
  expect([await ask("org_a"), await ask("org_b"), await ask("org_c")]).toEqual([401, 401, 429]);
  const { all, evaluation } = api.callers;
  expect([await ask(all.key), await ask(all.key), await ask(all.key), await ask(all.key)]).toEqual([
    200, 200, 200, 429,
  ]);
  expect(await ask(evaluation.key)).toBe(200);
  api.setNow(new Date(api.resources.now().getTime() + 1000));
  expect(await ask(all.key)).toBe(200);
});

describe("passwords that were imported as bcrypt hashes", () => {
  beforeAll(() => {
    api.resources.settings = { ...api.resources.settings, passwordIterations: undefined };
  });

  const hashOf = async (name: string) => {
    const [row] = await api.database.connection.client`select password_hash from users where username = ${name}`;
    return String(row?.["password_hash"]);
  };
  const importHash = async (name: string, hash: string) => {
    await api.newUser(name);
    await api.database.connection.client`update users set password_hash = ${hash} where username = ${name}`;
  };
  const statusOf = async (username: string, password: string) =>
    (await api.call("POST", "/users/authenticate", { body: { username, password } })).status;

  it("sign in, and have the hash of today from then on", async () => {
    const imported = await bcryptHash("imported-secret", 4);
    await importHash("imported", imported);
    expect(await statusOf("imported", "another-secret")).toBe(401);
    expect(await hashOf("imported")).toBe(imported);
    expect(await statusOf("imported", "imported-secret")).toBe(200);
    expect(await hashOf("imported")).toMatch(/^pbkdf2x\$6\$100000\$/);
    expect(await statusOf("imported", "imported-secret")).toBe(200);
    expect(await statusOf("imported", "another-secret")).toBe(401);
  });

  it.each([["$2b$31$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], ["$2b$10$short"], ["plain"]])(
    "the hash %s lets nobody in and keeps nobody busy",
    async (hash) => {
      const name = `broken-${hash.length}`;
      await importHash(name, hash);
      const spentMs = await processorMs(async () => expect(await statusOf(name, "password")).toBe(401));
      expect(spentMs).toBeLessThan(5000);
    },
  );
});

describe("webhooks lead to the public internet only, which is said when they are made", () => {
  it.each([
    "https://127.0.0.1/hook",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://10.1.2.3:8443/",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[fd00::1]/",
  ])("%s is refused", async (url) => {
    const { key } = api.callers.all;
    const error = "INVALID DATA: The url must resolve to a public address";
    expect(await api.call("POST", "/webhooks", { key, body: { url } })).toMatchObject({ status: 400, body: { error } });
    const made = await api.call<{ id: string }>("POST", "/webhooks", { key, body: { url: "https://192.0.43.8/" } });
    expect(made.status).toBe(201);
    const changed = await api.call("PUT", `/webhooks/${made.body.id}`, { key, body: { url } });
    expect(changed).toMatchObject({ status: 400, body: { error } });
    await api.call("DELETE", `/webhooks/${made.body.id}`, { key });
  });
});

describe("the database's patience", () => {
  const codeOf = (work: PromiseLike<unknown>) =>
    work.then(
      () => "done",
      (error: unknown) => databaseError(error)?.code ?? String(error),
    );

  it("a call that gets no connection in time is given up, does nothing, and the pool serves on", async () => {
    const pool = connect(api.database.url, { maxConnections: 1, timeouts: { acquire: 2000 } });
    try {
      let release = () => {};
      const holding = pool.client.begin(async (tx) => {
        await tx`select 1`;
        await new Promise<void>((resolve) => (release = resolve));
      });
      await vi.waitFor(async () => expect(await codeOf(pool.client`select 1`)).toBe("57014"), { timeout: 20_000 });
      const waiting = [
        pool.client`select 1`,
        pool.client.begin((tx) => tx`create table never (id integer)`),
        pool.db.transaction((tx) => tx.execute("create table never_either (id integer)")),
      ].map(codeOf);
      await vi.waitFor(() => expect(pool.waiting.now).toBe(3));
      expect(await Promise.all(waiting)).toEqual(["57014", "57014", "57014"]);
      release();
      await holding;
      const [found] = await pool.client`select to_regclass('never') as one, to_regclass('never_either') as two`;
      expect(found).toEqual({ one: null, two: null });
      expect(pool.waiting.now).toBe(0);
      expect(pool.waiting.refused).toBeGreaterThanOrEqual(4);
      expect(await Promise.all(Array.from({ length: 50 }, () => codeOf(pool.client`select 1`)))).toEqual(
        Array.from({ length: 50 }, () => "done"),
      );
    } finally {
      await pool.close(0);
    }
  });

  it("statements, locks and transactions in which nobody says anything end in time", async () => {
    const pool = connect(api.database.url, { maxConnections: 2, timeouts: { statement: 4000, lock: 1000 } });
    const impatient = connect(api.database.url, { maxConnections: 1, timeouts: { idleInTransaction: 200 } });
    try {
      expect(await codeOf(pool.client`select pg_sleep(60)`)).toBe("57014");
      const locked = pool.client.begin(async (tx) => {
        await tx`lock table cache_entries`;
        expect(await codeOf(pool.client`select * from cache_entries`)).toBe("55P03");
      });
      await locked;
      const idle = impatient.client.begin(async (tx) => {
        await tx`select 1`;
        await new Promise((resolve) => setTimeout(resolve, 600));
        await tx`select 1`;
      });
      expect(await codeOf(idle)).not.toBe("done");
      expect(await codeOf(impatient.client`select 1`)).toBe("done");
    } finally {
      await pool.close(0);
      await impatient.close(0);
    }
  });

  it("without time-outs, a pool has none of those of its role and database either", async () => {
    const database = new URL(api.database.url).pathname.slice(1);
    const admin = api.database.connection.client;
    const names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
    for (const name of names) await admin.unsafe(`alter database "${database}" set ${name} = '5s'`);
    const pool = connect(api.database.url, { maxConnections: 1 });
    try {
      const found = await pool.client`select setting from pg_settings where name = any(${names})`;
      expect(found.map(({ setting }: { setting?: string }) => setting)).toEqual(["0", "0", "0"]);
    } finally {
      await pool.close(0);
      for (const name of names) await admin.unsafe(`alter database "${database}" reset ${name}`);
    }
  });
});

it.each([100, 20_000, 300_000])(
  "a body nested %i levels deep is no failure of the server, also where all of it is written down",
  async (levels) => {
    const { all, platformAdmin } = api.callers;
    const deep = `${"[".repeat(levels)}${"]".repeat(levels)}`;
    const isDeep = levels > 100;
    const error = "INVALID DATA: The body is nested too deeply";
    const revert = await api.call("POST", "/features/ada/x-y?revert=true", {
      key: all.key,
      body: `{"a":${deep}}`,
      headers: { "idempotency-key": "deep" },
    });
    expect(revert).toMatchObject(isDeep ? { status: 400, body: { error } } : { status: 404 });
    const kept = await api.call("POST", "/cache/set", {
      key: platformAdmin.key,
      body: `{"key":"deep-${levels}","value":${deep}}`,
    });
    expect(kept).toMatchObject(isDeep ? { status: 400, body: { error } } : { status: 200 });
  },
);

it("nesting is taken as deep as the operator allows, of bodies and of pricings; brackets in texts are none", async () => {
  const app = createApp({
    open: () => ({ ...api.resources, settings: { ...api.resources.settings, maxPricingDepth: 8 } }),
    settings: { allowedOrigins: [], baseUrlPath: "", maxBodyDepth: 16 },
  });
  const { all, platformAdmin } = api.callers;
  const nest = (levels: number, inside = "") => `${"[".repeat(levels)}${inside}${"]".repeat(levels)}`;
  const keep = (value: string) =>
    app.request("/api/v1/cache/set", {
      method: "POST",
      headers: { "x-api-key": platformAdmin.key, "content-type": "application/json" },
      body: `{"key":"${crypto.randomUUID()}","value":${value}}`,
    });
  // The body itself counts as one level.
  expect((await keep(nest(15, '"[[[[[[[[\\"[[[[[[["'))).status).toBe(200);
  const refused = await keep(nest(16));
  expect(refused.status).toBe(400);
  expect(await refused.json()).toEqual({ error: "INVALID DATA: The body is nested too deeply" });
  const form = new FormData();
  form.append("pricing", new Blob([`saasName: ${nest(8)}`]), "pricing.yml");
  const uploaded = await app.request("/api/v1/services", {
    method: "POST",
    headers: { "x-api-key": all.key },
    body: form,
  });
  expect(uploaded.status).toBe(400);
  expect(await uploaded.text()).toContain("nesting deeper than 8 levels is not accepted");
});

it("failed sign-ins of a name are refused beyond what the operator sets", async () => {
  const app = createApp({
    open: () => ({ ...api.resources, settings: { ...api.resources.settings, failedSignInsPerMinute: 2 } }),
    settings: { allowedOrigins: [], baseUrlPath: "" },
  });
  const guess = async () => {
    const body = JSON.stringify({ username: "guessed-twice", password: "wrong" });
    const headers = { "content-type": "application/json" };
    return (await app.request("/api/v1/users/authenticate", { method: "POST", headers, body })).status;
  };
  expect([await guess(), await guess(), await guess()]).toEqual([401, 401, 429]);
});

describe("sizes that the operator has set", () => {
  it("hold for bodies, declared or not, and for pricings on their own", async () => {
    const app = createApp({
      open: () => ({ ...api.resources, settings: { ...api.resources.settings, maxPricingBytes: 32 * 1024 } }),
      settings: { allowedOrigins: [], baseUrlPath: "", maxBodyBytes: 16 * 1024 },
    });
    const headers = { "x-api-key": api.callers.all.key, "content-type": "application/json" };
    const post = (path: string, body: BodyInit, init: RequestInit & { duplex?: "half" } = {}) =>
      app.request(`/api/v1${path}`, { method: "POST", headers, body, ...init });
    const large = JSON.stringify({ userContact: { userId: "x".repeat(17 * 1024) } });
    const streamed = new Blob([large]).stream();
    for (const answer of [
      await post("/contracts", large, { headers: { ...headers, "content-length": String(large.length) } }),
      await post("/contracts", streamed, { duplex: "half" }),
    ]) {
      expect(answer.status).toBe(413);
      expect(await answer.json()).toEqual({ error: "The request body is larger than 16 KB" });
    }
    const uploadOf = (size: number) => {
      const form = new FormData();
      form.append("pricing", new Blob([`#${" ".repeat(size - 1)}`]), "pricing.yml");
      return post("/services", form, { headers: { "x-api-key": api.callers.all.key } });
    };
    expect((await uploadOf(32 * 1024)).status).toBe(400);
    const refused = await uploadOf(32 * 1024 + 1);
    expect(refused.status).toBe(413);
    expect(await refused.json()).toEqual({ error: "File too large" });
  });

  it("hold for the pages of every listing, which go on where the page ended", async () => {
    await Promise.all(Array.from({ length: 3 }, () => api.newUser()));
    const app = createApp({
      open: () => ({ ...api.resources, settings: { ...api.resources.settings, maxPageSize: 2 } }),
      settings: { allowedOrigins: [], baseUrlPath: "" },
    });
    const read = async (path: string, key = api.callers.platformAdmin.key) =>
      (await app.request(`/api/v1${path}`, { headers: { "x-api-key": key } })).json();
    expect(await read("/users?limit=50")).toMatchObject({ data: { length: 2 }, pagination: { limit: 2, page: 1 } });
    expect(await read("/users?limit=51")).toEqual({ error: "INVALID DATA: Limit must be between 1 and 50" });
    expect(await read("/organizations?limit=50")).toMatchObject({ pagination: { limit: 2 } });
    const first = await read("/audit-log?limit=100");
    expect(first.data).toHaveLength(2);
    const second = await read(`/audit-log?limit=100&before=${first.next}`);
    expect(second.data[0].id).toBeLessThan(first.data[1].id);
    const { key } = api.callers.all;
    await upload(api, key, ...["Tasker", "Two", "Three"].map((name) => tasker({ name })));
    for (let i = 0; i < 3; i += 1) await contract(api, key, `reader-${i}`);
    expect(await read("/contracts?limit=100", key)).toHaveLength(2);
    expect(await read("/services?limit=1000", key)).toHaveLength(2);
  });
});
