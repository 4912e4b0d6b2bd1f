import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { hashApiKey } from "../../src/operations/credentials.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { testKeyring } from "../support/event-server.ts";
import { importFolder, importInstallation } from "../support/import-space.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import {
  type Document,
  objectId,
  organizationId,
  smallInstallation,
  spaceContract,
  spaceKey,
  TASKER,
  writeDump,
} from "../support/space-dump.ts";
import { importedRows } from "../support/space-rows.ts";

/* `faregate import-space` against a real database. Source: contract files-and-migration §5 and the cases of §9. */

const opened: { drop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.drop();
});

async function newDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  opened.push(database);
  return database;
}

/** The server over an imported database. */
async function serve(database: TestDatabase): Promise<TestApi> {
  opened.splice(
    opened.findIndex((each) => each === database),
    1,
  );
  const api = await createTestApi({ database, resources: { keyring: await testKeyring() } });
  opened.push({ drop: api.close });
  api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  return api;
}

const patched = (list: Document[], index: number, changes: Document) => Object.assign(list[index] ?? {}, changes);
const all = spaceKey("org", "all");

describe("an installation that is moved", () => {
  it("lets users sign in with their passwords, keeps their keys and replaces bcrypt", { timeout: 60_000 }, async () => {
    const database = await newDatabase();
    await importInstallation(smallInstallation(), database.url);
    const api = await serve(database);
    const signIn = (username: string) =>
      api.call("POST", "/users/authenticate", { body: { username, password: `${username}-password` } });
    const stored = async () =>
      (await database.connection.client`select password_hash from users where username = 'ada'`)[0]?.["password_hash"];
    expect(await stored()).toMatch(/^\$2b\$10\$/);
    for (const _ of [1, 2]) {
      expect(await signIn("ada")).toMatchObject({
        status: 200,
        body: { username: "ada", apiKey: spaceKey("usr", "ada"), role: "ADMIN" },
      });
      expect(await stored()).toMatch(/^pbkdf2x\$/);
    }
    expect(await signIn("bob")).toMatchObject({ status: 200, body: { apiKey: expect.stringMatching(/^usr_/) } });
    expect(
      (await api.call("POST", "/users/authenticate", { body: { username: "ada", password: "wrong" } })).status,
    ).toBe(401);
    const shown = await api.call("GET", `/organizations/${organizationId}`, { key: spaceKey("usr", "ada") });
    expect(shown.body).toMatchObject({
      owner: "ada",
      default: true,
      apiKeys: ["all", "management", "evaluation"].map((name) => ({
        key: spaceKey("org", name),
        scope: name.toUpperCase(),
      })),
      members: [{ username: "bob", role: "MANAGER" }],
    });
  });

  it("accepts the keys of SPACE with their scopes, and stores none in clear", async () => {
    const database = await newDatabase();
    await importInstallation(smallInstallation(), database.url);
    const api = await serve(database);
    const list = (key: string) => api.call("GET", "/contracts", { key });
    expect((await list(all)).status).toBe(200);
    expect((await list(spaceKey("org", "management"))).status).toBe(200);
    expect((await list(spaceKey("org", "evaluation"))).status).toBe(403);
    const { client } = database.connection;
    const tables = await client<
      { name: string }[]
    >`select tablename as name from pg_tables where schemaname = 'public'`;
    for (const { name } of tables) {
      const [found] = await client.unsafe(`select count(*)::int as count from ${name} t where t::text like '%${all}%'`);
      expect([name, found?.["count"]]).toEqual([name, 0]);
    }
    const [row] = await client`select count(*)::int as count from organization_keys
      where key_hash = ${await hashApiKey(await testKeyring(), all)}`;
    expect(row?.["count"]).toBe(1);
  });

  it("shows versions, contracts, history and levels as SPACE did, in true spelling", async () => {
    const database = await newDatabase();
    await importInstallation(smallInstallation(), database.url);
    const api = await serve(database);
    const service = await api.call("GET", "/services/Tasker", { key: all });
    expect(service.body).toEqual({
      id: objectId("Tasker").toHexString(),
      name: "Tasker",
      organizationId,
      disabled: false,
      activePricings: { "2.0.0": { id: objectId("Tasker 2.0.0", 20).toHexString() } },
      archivedPricings: { "1.0.0": { id: objectId("Tasker 1.0.0", 10).toHexString() } },
    });
    const [, stored] = smallInstallation().pricings;
    const pricing = await api.call("GET", "/services/Tasker/pricings/2.0.0", { key: all });
    for (const part of ["features", "usageLimits", "plans"]) {
      expect(pricing.body[part]).toEqual(JSON.parse(JSON.stringify(stored?.[part])));
    }
    expect(pricing.body).toMatchObject({
      yamlPath: stored?.["yamlPath"],
      addOns: { extraTasks: { subscriptionConstraints: { minQuantity: 1, maxQuantity: null, quantityStep: 1 } } },
    });
    expect((await api.call("GET", String(stored?.["yamlPath"]))).status).toBe(200);
    const { client } = database.connection;
    const before = await client`select consumed::float, reset_at, limit_value, used_tenths from usage_levels
      where contract_id = ${objectId("contract u1").toHexString()} order by position`;
    expect(before.map((row) => ({ ...row }))).toEqual([
      { consumed: 650, reset_at: null, limit_value: "1200", used_tenths: 5 },
      { consumed: 12.5, reset_at: "2024-06-30 08:00:00+00", limit_value: "Infinity", used_tenths: 0 },
    ]);
    const shown = await api.call("GET", "/contracts/u1", { key: all });
    expect(shown.body).toMatchObject({
      id: objectId("contract u1").toHexString(),
      userContact: { userId: "u1", username: "u1's name", email: "u1@example.com" },
      contractedServices: { tasker: "2.0.0" },
      subscriptionPlans: { tasker: "pro" },
      subscriptionAddOns: { tasker: { extraTasks: 2 } },
      history: [{ contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "FREE" } }],
    });
    const body = {};
    const path = "/features/u1/tasker-board?details=true&server=true";
    expect(await api.call("POST", path, { key: all, body })).toMatchObject({
      status: 200,
      body: { eval: true, used: { "tasker-maxTasks": 650 }, limit: { "tasker-maxTasks": 1200 } },
    });
    await api.call("POST", "/features/u1", { key: all, body });
    const renewed = await api.call<{ usageLevels: unknown }>("GET", "/contracts/u1", { key: all });
    expect(renewed.body.usageLevels).toEqual({
      tasker: {
        maxTasks: { consumed: 650 },
        // 30 June + n months, of which the next is on 30 June 2025.
        calls: { consumed: 0, resetTimeStamp: "2025-06-30T08:00:00.000Z" },
      },
    });
    const past = await api.call("POST", "/features/u1/tasker-board?at=2025-01-01T00:00:00.000Z", { key: all, body });
    expect(past).toMatchObject({ status: 400, body: { error: expect.stringContaining("record") } });
    await expectBalancesMatchLedger(database);
  });

  it("answers the object's limit where the text of --statics has another", async () => {
    const statics = mkdtempSync(join(tmpdir(), "faregate-statics-"));
    try {
      const space = smallInstallation();
      for (const [index, version] of (["1.0.0", "2.0.0"] as const).entries()) {
        const path = join(statics, String(space.pricings[index]?.["yamlPath"]));
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, TASKER[version].replace("defaultValue: 10,", "defaultValue: 11,"));
      }
      // A path that leaves the folder is not read.
      writeFileSync(join(statics, "outside.yml"), TASKER["1.0.0"]);
      const database = await newDatabase();
      const run = await importInstallation(space, database.url, { statics });
      expect(run.report?.changed.map(({ code, name }) => `${code} ${name}`)).toEqual([
        "seeded-admin-removed admin",
        "text-differs Tasker 2_0_0",
      ]);
      const api = await serve(database);
      const pricing = await api.call("GET", "/services/Tasker/pricings/2.0.0", { key: all });
      expect(pricing.body).toMatchObject({ usageLimits: { maxTasks: { defaultValue: 10 } } });
      const kept = await api.call<string>("GET", String(space.pricings[0]?.["yamlPath"]));
      expect(kept.body).toBe(TASKER["1.0.0"]);
      patched(space.pricings, 0, { yamlPath: "/static/../../outside.yml" });
      const outside = await importInstallation(space, undefined, { statics: join(statics, "static") });
      expect(outside.report?.changed.map(({ code }) => code)).toEqual(["text-written", "text-written"]);
    } finally {
      rmSync(statics, { recursive: true, force: true });
    }
  });

  it("keeps a contract whose version was not fetched, and exits with 1", async () => {
    const space = smallInstallation();
    patched(space.services, 0, {
      activePricings: {
        "2_0_0": { id: objectId("Tasker 2.0.0", 20) },
        "3_0_0": { url: "https://pricings.example/3.yml" },
      },
    });
    space.contracts = [spaceContract("u", { contractedServices: { tasker: "3_0_0" }, usageLevels: {} })];
    const database = await newDatabase();
    const run = await importInstallation(space, database.url);
    expect(run.code).toBe(1);
    expect(run.report?.left.map(({ code }) => code)).toEqual(["version-not-fetched", "contracted-version-missing"]);
    const api = await serve(database);
    expect((await api.call("GET", "/contracts/u", { key: all })).body).toMatchObject({
      contractedServices: {},
      subscriptionPlans: {},
      usageLevels: {},
      billingPeriod: { startDate: "2024-05-01T08:00:00.000Z", renewalDays: 30 },
    });
  });

  it("fetches pricings once, and uses them again when the import continues", async () => {
    let asked = 0;
    const host = createServer((request, response) => {
      asked += 1;
      response.statusCode = request.url === "/3.yml" ? 200 : 404;
      response.end(TASKER["1.0.0"].replace('"1.0.0"', '"3.0.0"'));
    });
    await new Promise<void>((done) => host.listen(0, "127.0.0.1", done));
    const address = host.address();
    const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
    const variables = { PRICING_URL_ALLOWED_HOSTS: "127.0.0.1" };
    try {
      const space = smallInstallation();
      patched(space.services, 0, {
        activePricings: { "3_0_0": { url: `${url}/3.yml` }, "4_0_0": { url: `${url}/4.yml` } },
      });
      space.contracts = [
        spaceContract("u", { contractedServices: { tasker: "3_0_0" }, usageLevels: {}, subscriptionAddOns: {} }),
      ];
      const dump = await writeDump(space);
      const database = await newDatabase();
      const first = await importFolder(dump.folder, database.url, { fetch: true, variables });
      expect(first.report?.left.map(({ code, name }) => `${code} ${name}`)).toEqual([
        "version-not-fetched Tasker 4_0_0",
        `pricing-unreferenced Tasker 2_0_0`,
      ]);
      expect(asked).toBe(2);
      // As if it had been killed before its last batch.
      const { client } = database.connection;
      await client`delete from analytics_days`;
      await client`update space_imports set report = null, reported = false, batches = batches - 1`;
      const again = await importFolder(dump.folder, database.url, { variables });
      expect(again.report).toEqual(first.report);
      expect(asked).toBe(2);
      await dump.remove();
      const api = await serve(database);
      const contracted = await api.call("GET", "/contracts/u", { key: all });
      expect(contracted.body).toMatchObject({ contractedServices: { tasker: "3.0.0" } });
      const shown = await api.call("GET", "/services/Tasker/pricings/3.0.0", { key: all });
      expect(shown.body).toMatchObject({ url: `${url}/3.yml` });
    } finally {
      host.close();
    }
  });

  it("gives organizations without an owner to the database's ADMIN if the dump has none", async () => {
    const space = smallInstallation();
    patched(space.users, 0, { role: "USER" });
    patched(space.organizations, 0, { owner: "gone" });
    const database = await newDatabase();
    expect(await importInstallation(space, database.url, { variables: { ADMIN_USER: "ada" } })).toMatchObject({
      code: 2,
      err: "The dump has no ADMIN, and a user with the name of the database's ADMIN, ada: start with an empty database and another ADMIN_USER\n",
    });
    const another = await newDatabase();
    const run = await importInstallation(space, another.url, { variables: { ADMIN_USER: "root" } });
    expect(run.report?.changed.map(({ code }) => code)).not.toContain("seeded-admin-removed");
    const [owner] = await another.connection.client`select username from organizations o
      join users u on u.id = o.owner_id where o.id = ${organizationId}`;
    expect(owner?.["username"]).toBe("root");
  });
});

describe("the order of checks", () => {
  const refused = async (installation: Parameters<typeof importInstallation>[0], url?: string, variables = {}) => {
    const { code, out, err, report } = await importInstallation(installation, url, { variables });
    expect([code, out, report]).toEqual([2, "", undefined]);
    return err;
  };

  it("refuses what is no dump of SPACE before it looks at the database", async () => {
    const { users, services } = smallInstallation();
    const nowhere = "postgres://nobody@127.0.0.1:1/none";
    expect(await refused({ services }, nowhere)).toMatch(/^\S+ is no dump of SPACE: users is missing\n$/);
    expect(await refused({ users }, nowhere)).toMatch(/^\S+ is no dump of SPACE: services is missing\n$/);
    expect(await refused({ users, services }, nowhere)).toBe(
      "This dump has no organizations: SPACE before 1.0 is not supported\n",
    );
    expect((await importFolder("/does/not/exist", nowhere)).err).toMatch(/^\/does\/not\/exist cannot be read: ENOENT/);
    expect(await refused(smallInstallation(), nowhere)).toMatch(/^The database 127\.0\.0\.1:1\/none cannot be reached/);
    expect(await refused(smallInstallation(), nowhere, { JWT_SECRET: "change-me" })).toMatch(/^JWT_SECRET must be/);
  });

  it("refuses a damaged file with its name, and writes nothing", async () => {
    const database = await newDatabase();
    const dump = await writeDump(smallInstallation());
    writeFileSync(join(dump.folder, "users.bson"), Buffer.from([100, 0, 0, 0, 1, 2, 3]));
    const run = await importFolder(dump.folder, database.url);
    expect(run).toMatchObject({
      code: 2,
      err: `${dump.folder}/users.bson cannot be read: it ends in the middle of a document\n`,
    });
    expect((await importedRows(database.connection))["organizations"]).toHaveLength(1);
    writeFileSync(join(dump.folder, "users.bson"), Buffer.from("no bson at all"));
    expect((await importFolder(dump.folder, undefined)).err).toMatch(/users\.bson cannot be read: /);
    rmSync(join(dump.folder, "users.bson"));
    writeFileSync(join(dump.folder, "users.json"), '{"username": 1}\nnothing\n');
    expect((await importFolder(dump.folder, undefined)).err).toMatch(
      /users\.json cannot be read: line 2 is no Extended JSON/,
    );
    await dump.remove();
  });

  it("finds a torn file of contracts before it writes the first batch", async () => {
    const database = await newDatabase();
    const dump = await writeDump(smallInstallation());
    const file = join(dump.folder, "contracts.bson");
    writeFileSync(file, readFileSync(file).subarray(0, -5));
    expect(await importFolder(dump.folder, database.url)).toMatchObject({
      code: 2,
      err: `${file} cannot be read: it ends in the middle of a document\n`,
    });
    // The ADMIN that the migration made is all there is.
    const { users, organizations, contracts } = await importedRows(database.connection);
    expect([users, organizations, contracts].map((rows) => rows?.length)).toEqual([1, 1, 0]);
    await dump.remove();
  });

  it("carries everything beside one odd value, and names it", async () => {
    const database = await newDatabase();
    const space = smallInstallation();
    const levels = { tasker: { maxTasks: { consumed: { $inc: 1 } } } };
    space.contracts[1] = spaceContract("u2", { usageLevels: levels, groupId: 7 });
    const run = await importInstallation(space, database.url);
    expect(run.code).toBe(1);
    expect(run.report?.carried).toMatchObject({ users: 2, contracts: 2 });
    expect(run.report?.changed.map(({ detail }) => detail)).toContain("a map becomes 0");
    expect(run.report?.left.map(({ detail }) => detail)).toContain("Its groupId is 7, and no text");
  });

  it("carries the longest texts and the oldest dates that it plans", async () => {
    const database = await newDatabase();
    const space = smallInstallation();
    // Random characters of three bytes: Postgres compresses others.
    const long = Array.from(randomBytes(512), (byte, index) => String.fromCharCode(0x4e00 + byte * 64 + (index % 64)));
    const text = long.join("");
    const startDate = new Date("1890-01-01T00:00:00.000Z");
    space.contracts[0] = spaceContract("old", {
      userContact: { userId: text, username: text, firstName: text, email: text },
      groupId: text,
      billingPeriod: { startDate, endDate: startDate, autoRenew: false, renewalDays: 30 },
    });
    patched(space.users, 1, { username: text });
    patched(space.organizations, 0, { members: [] });
    patched(space.pricings, 1, { yamlPath: text });
    // No file has a name as long as this path.
    const run = await importInstallation(space, database.url, { statics: tmpdir() });
    expect([run.code, run.err]).toEqual([0, ""]);
    expect(run.report?.changed.map(({ code }) => code)).toEqual([
      "seeded-admin-removed",
      "text-written",
      "text-written",
    ]);
    const [row] = await database.connection.client`select start_date from contracts where user_id = ${text}`;
    expect(row?.["start_date"]).toBe("1890-01-01 00:00:00+00");
  });

  it("abandons an unfinished import, so that a mended dump can be imported as if it were the first", async () => {
    const database = await newDatabase();
    const torn = await writeDump({ ...smallInstallation(), analyticsdays: [] });
    expect((await importFolder(torn.folder, database.url)).code).toBe(0);
    // As a run that was killed after its last batch.
    await database.connection.client`update space_imports set report = null, reported = false`;
    expect(await refused(smallInstallation(), database.url)).toBe("An import of another dump is unfinished\n");
    expect(await importFolder(torn.folder, database.url, { abandon: true })).toMatchObject({
      code: 0,
      out: "The unfinished import is abandoned: 2 users, 1 services and 2 contracts are removed.\n",
    });
    expect(await importFolder(torn.folder, database.url, { abandon: true })).toMatchObject({
      code: 2,
      err: "There is no unfinished import: nothing is removed\n",
    });
    expect((await importInstallation(smallInstallation(), database.url)).code).toBe(0);
    const direct = await newDatabase();
    await importInstallation(smallInstallation(), direct.url);
    const [mended, first] = [await importedRows(database.connection), await importedRows(direct.connection)];
    expect({ ...mended, audit_log: [] }).toEqual({ ...first, audit_log: [] });
    await torn.remove();
  });

  it("refuses a database that is in use, and a second import of a finished dump", async () => {
    const database = await newDatabase();
    const dump = await writeDump(smallInstallation());
    expect((await importFolder(dump.folder, database.url)).code).toBe(0);
    const rows = await importedRows(database.connection);
    const again = await importFolder(dump.folder, database.url);
    expect(again).toMatchObject({
      code: 2,
      err: "The database is not empty: it has 2 users, 1 services and 2 contracts\n",
    });
    expect(await importedRows(database.connection)).toEqual(rows);
    await dump.remove();

    const used = await newDatabase();
    await used.connection.client`insert into users (id, username, password_hash, role) values
      ('1', 'someone', 'x', 'USER'), ('2', 'admin', 'x', 'ADMIN')`;
    expect(await refused(smallInstallation(), used.url)).toBe(
      "The database is not empty: it has 2 users, 0 services and 0 contracts\n",
    );
  });

  it("refuses another dump while one is unfinished", async () => {
    const database = await newDatabase();
    await database.connection
      .client`insert into space_imports (dump_hash, started_at, batches, fetched) values ('other', now(), 1, '{}')`;
    expect(await refused(smallInstallation(), database.url)).toBe("An import of another dump is unfinished\n");
  });

  it("prints the stored report of an import that was killed before it reported", async () => {
    const database = await newDatabase();
    const space = smallInstallation();
    space.contracts[0] = spaceContract("u1", { notes: "left" });
    const dump = await writeDump(space);
    const first = await importFolder(dump.folder, database.url);
    expect(first.code).toBe(1);
    await database.connection.client`update space_imports set reported = false`;
    expect(await importFolder(dump.folder, database.url)).toEqual(first);
    expect((await importFolder(dump.folder, database.url)).code).toBe(2);
    await dump.remove();
  });

  it("a dry run reads no variables, needs no database and reports the same", async () => {
    const dump = await writeDump(smallInstallation());
    const dry = await importFolder(dump.folder, undefined);
    expect(dry).toMatchObject({ code: 0, err: "" });
    const database = await newDatabase();
    const real = await importFolder(dump.folder, database.url);
    expect(real.report?.changed.slice(1)).toEqual(dry.report?.changed);
    expect({ ...real.report, changed: [] }).toEqual({ ...dry.report, changed: [] });
    expect(dry.out).toContain("Nothing was left behind.");
    await dump.remove();
  });

  it("finds the files in the only subfolder, as mongodump writes them", async () => {
    const dump = await writeDump(smallInstallation());
    expect((await importFolder(dirname(dump.folder), undefined)).code).toBe(2);
    const outer = mkdtempSync(join(tmpdir(), "faregate-outer-"));
    const { renameSync } = await import("node:fs");
    renameSync(dump.folder, join(outer, "space_db"));
    writeFileSync(join(outer, "space_db", "users.metadata.json"), "{}");
    writeFileSync(join(outer, "space_db", "prelude.json"), "{}");
    expect((await importFolder(outer, undefined)).code).toBe(0);
    rmSync(outer, { recursive: true });
  });
});
