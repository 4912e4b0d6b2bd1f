import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildConsole, isConsoleStale } from "../../src/entries/build/console.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startRestServer, TEST_SECRETS, testKeyring } from "../support/event-server.ts";
import { runOn } from "./run-on.ts";
import { restOn, type Runtime, RUNTIMES } from "./runtimes.ts";
import { AREAS, createSuite } from "./suite.ts";
import { CASE_FILES, readCases, TODAY } from "../core/pricing/case-file.ts";
import { run } from "./engine-cases.ts";

/*
 * Tests the whole REST application and the pricing engine on each runtime, over a real Postgres and a real socket. `npm
 * run docs:runtimes` writes the table of src/docs/runtimes.md from this run.
 */

const GUIDE = resolve(import.meta.dirname, "../../src/docs/runtimes.md");
const ADMIN = { username: "admin", password: "password" };
const ORIGIN = "https://app.example";
const ENGINE = "pricing engine";
const ROWS = [...Object.keys(AREAS), ENGINE];

const passed = new Set<string>();
const pass = (row: string, runtime: Runtime) => passed.add(`${row} on ${runtime}`);

/** Host that publishes pricings and redirects. */
const published = new Map<string, string>();
let host: Server;
let origin: string;

beforeAll(async () => {
  if (isConsoleStale()) await buildConsole();
  host = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", origin);
    const text = published.get(pathname);
    const to = searchParams.get("to");
    if (to !== null) response.writeHead(302, { location: to }).end();
    else response.writeHead(text === undefined ? 404 : 200).end(text ?? "");
  });
  await new Promise<void>((done) => host.listen(0, "127.0.0.1", done));
  origin = `http://127.0.0.1:${(host.address() as AddressInfo).port}`;
});
afterAll(() => {
  host.closeAllConnections();
  host.close();
});

describe.each([...RUNTIMES])("on %s", (runtime) => {
  let database: TestDatabase;
  let server: RunningServer;
  let runArea: (area: string) => Promise<void>;

  beforeAll(async () => {
    database = await createTestDatabase();
    const settings = { tokenLifetimeSeconds: 3600, allowPublicSignup: true };
    const resources = createResources(database.connection, { keyring: await testKeyring(), settings });
    await seedFirstAdmin(resources, { ...ADMIN, organizationName: "Administration" });
    server = await startRestServer(await restOn(runtime), database.url, {
      ALLOWED_ORIGINS: ORIGIN,
      BASE_URL_PATH: "/space",
      PRICING_URL_ALLOWED_HOSTS: new URL(origin).host,
    });
    runArea = createSuite({
      url: server.url,
      fetch: (path, init) => fetch(server.url + path, init),
      admin: ADMIN,
      secrets: { jwtSecret: TEST_SECRETS.JWT_SECRET, jwtSalt: TEST_SECRETS.JWT_SALT },
      allowedOrigin: ORIGIN,
      publish: (text) => {
        const path = `/${published.size}.yml`;
        published.set(path, text);
        return origin + path;
      },
      redirect: (to) => `${origin}/redirect?to=${encodeURIComponent(to)}`,
      basePath: "/space",
      verify: async (cases) => (await runOn(runtime, "verifier-cases.ts", cases)) as string[],
    });
  }, 90_000);
  afterAll(async () => {
    await server.stop();
    await database.drop();
  });

  test.each(Object.keys(AREAS))("%s is as everywhere else", async (area) => {
    await runArea(area);
    pass(area, runtime);
  });

  test("the pricing engine returns the results of this process for every case", async () => {
    const cases = CASE_FILES.flatMap((file) => readCases(file));
    const today = TODAY.toISOString();
    expect(cases.length).toBeGreaterThan(300);
    expect(await runOn(runtime, "engine-cases.ts", { cases, today })).toEqual(run({ cases, today }));
    pass(ENGINE, runtime);
  });

  test("leaves no error in the log and no open connection, and exits with 0", async () => {
    // Half a second without a heartbeat, which a busy machine may take, is worth this line.
    const log = server.output().replace(/^.*"changes cannot be followed for now: .*\n/gm, "");
    expect(log).not.toMatch(/"level":"(warn|error)"|Warning/);
    expect(await server.stop()).toBe(0);
    await expect
      .poll(async () => {
        const { client } = database.connection;
        const [row] = await client`
          select count(*)::int as n from pg_stat_activity
          where datname = current_database() and application_name in ('faregate-rest', 'faregate-worker')`;
        return row?.["n"];
      })
      .toBe(0);
  });
});

test("the table of src/docs/runtimes.md lists what passed in this run", () => {
  const lines = [
    ["", ...RUNTIMES],
    ["---", ...RUNTIMES.map(() => ":-:")],
    ...ROWS.map((row) => [row, ...RUNTIMES.map((runtime) => (passed.has(`${row} on ${runtime}`) ? "✓" : "✗"))]),
  ];
  const table = lines.map((cells) => `| ${cells.join(" | ")} |`.replace("|  |", "| |")).join("\n");
  const guide = readFileSync(GUIDE, "utf8");
  const BETWEEN = /(?<=<!-- runtimes -->\n\n)[\s\S]*?(?=\n\n<!-- \/runtimes -->)/;
  if (process.env["UPDATE_GUIDE"] === "true")
    writeFileSync(
      GUIDE,
      guide.replace(BETWEEN, () => table),
    );
  else expect(BETWEEN.exec(guide)?.[0]).toBe(table);
});
