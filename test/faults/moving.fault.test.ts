import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { createResources } from "../../src/operations/resources.ts";
import { tasker } from "../support/contracting.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  databaseVariables,
  freePort,
  type RunningServer,
  startEventServer,
  TEST_SECRETS,
  testKeyring,
} from "../support/event-server.ts";
import { yamlUpload } from "../support/uploads.ts";

/* Two instances behind the nginx of the guide: an organization moves from one to the other while callers go on consuming. */

const ROOT = join(import.meta.dirname, "../..");
const USERS = 8;

let databases: [TestDatabase, TestDatabase];
let servers: [RunningServer, RunningServer];
let nginx: ChildProcess | undefined;
let address: string;
let folder: string;

/** Reloads nginx with these lines of the map. */
function route(lines: readonly string[]): void {
  writeFileSync(join(folder, "instances.map"), lines.map((line) => `${line}\n`).join(""));
  nginx?.kill("SIGHUP");
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "faregate-moving-"));
  databases = [await createTestDatabase(), await createTestDatabase()];
  for (const [i, database] of databases.entries()) {
    const resources = createResources(database.connection, {
      keyring: await testKeyring(),
      settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: true },
    });
    const admin = { username: `admin-${i}`, password: "a-password-nobody-has", organizationName: "Rates" };
    await seedFirstAdmin(resources, admin);
  }
  servers = [await startEventServer(databases[0].url), await startEventServer(databases[1].url)];
  const port = await freePort();
  address = `http://127.0.0.1:${port}`;
  const printed = readFileSync(join(ROOT, "src/deploy/nginx/nginx.conf"), "utf8");
  const own = printed
    .replace("127.0.0.1:3000", new URL(servers[0].url).host)
    .replace("127.0.0.1:3100", new URL(servers[1].url).host)
    .replace("127.0.0.1:8080", `127.0.0.1:${port}`);
  expect(own.match(/127\.0\.0\.1:\d+/g)).toHaveLength(3);
  writeFileSync(join(folder, "nginx.conf"), own);
  writeFileSync(join(folder, "instances.map"), "");
  mkdirSync(join(folder, "temp"));
  // The tests' user is root, whose workers may not be another user in this folder.
  const global = `daemon off;${process.getuid?.() === 0 ? " user root;" : ""}`;
  nginx = spawn("/usr/sbin/nginx", ["-p", folder, "-c", "nginx.conf", "-g", global], { stdio: "inherit" });
}, 240_000);
afterAll(async () => {
  nginx?.kill("SIGQUIT");
  for (const server of servers ?? []) await server.stop();
  for (const database of databases ?? []) await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

/** Runs a command of faregate-server on a database. */
function command(name: string, database: TestDatabase, operands: readonly string[]) {
  const child = spawn(process.execPath, [join(ROOT, `dist/server/${name}.js`), ...operands], {
    env: { ...process.env, ...TEST_SECRETS, ...databaseVariables(database.url) },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, done: exit.then((code) => ({ code, output: output.trim() })) };
}

const call = async (method: string, path: string, key?: string, body?: unknown, idempotencyKey?: string) => {
  const isForm = body instanceof FormData;
  const response = await fetch(`${address}/api/v1${path}`, {
    method,
    headers: {
      ...(body === undefined || isForm ? {} : { "content-type": "application/json" }),
      ...(key === undefined ? {} : { "x-api-key": key }),
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
    },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    retryAfter: response.headers.get("retry-after"),
    body: (text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : {}) as Record<string, unknown>,
  };
};

/** Created organization with its key and contracts. */
async function openOrganization() {
  const signedUp = await call("POST", "/users", undefined, { username: "ada", password: "a-password-nobody-has" });
  expect(signedUp.status).toBe(201);
  const userKey = signedUp.body["apiKey"] as string;
  const made = await call("POST", "/organizations", userKey, { name: "Moving Inc.", owner: "ada" });
  const organizationId = made.body["id"] as string;
  const key = (made.body["apiKeys"] as { key: string }[])[0]?.key ?? "";
  expect((await call("POST", "/services", key, yamlUpload(tasker({ maxTasks: 1_000_000 })))).status).toBe(201);
  for (let n = 0; n < USERS; n += 1) {
    const contract = await call("POST", "/contracts", key, {
      userContact: { userId: `user-${n}`, username: `user-${n}` },
      billingPeriod: { autoRenew: true, renewalDays: 365 },
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    });
    expect(contract.status).toBe(201);
  }
  return { userKey, organizationId, key };
}

test("an organization moves under load: each unit that was acknowledged is counted once, where it is now", async () => {
  await expect
    .poll(
      () =>
        fetch(`${address}/api/v1/healthcheck`).then(
          ({ status }) => status,
          () => 0,
        ),
      { timeout: 30_000 },
    )
    .toBe(200);
  const { userKey, organizationId, key } = await openOrganization();
  const acknowledged = Array.from({ length: USERS }, () => 0);
  const answered = new Map<number, number>();
  const over = new AbortController();
  /** One consumption, repeated with its key while nginx ends the connection: a reload closes those that are idle. */
  const consumeOnce = async (user: number, idempotencyKey: string) => {
    const path = `/features/user-${user}/tasker-board`;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call("POST", path, key, { "tasker-maxTasks": 1 }, idempotencyKey);
      } catch (error) {
        // Node's fetch rejects with an Error whose cause is that of undici or of the system, if there is one.
        const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
        if (attempt === 5 || !["UND_ERR_SOCKET", "ECONNRESET"].includes(cause?.code ?? "")) throw error;
      }
    }
  };
  const consume = async (user: number) => {
    while (!over.signal.aborted) {
      const answer = await consumeOnce(user, randomUUID());
      answered.set(answer.status, (answered.get(answer.status) ?? 0) + 1);
      if (answer.status === 200 && answer.body["eval"] === true) acknowledged[user] = (acknowledged[user] ?? 0) + 1;
      else await new Promise((resolve) => setTimeout(resolve, 100));
      if (answer.status === 503) expect(answer.retryAfter).toBe("10");
    }
  };
  const callers = acknowledged.map((_, user) => consume(user));
  await expect.poll(() => answered.get(200) ?? 0, { timeout: 30_000 }).toBeGreaterThan(100);

  const [source, target] = databases;
  const exported = join(folder, "export");
  const out = await command("export-organization", source, [organizationId, exported]).done;
  expect(out).toEqual({ code: 0, output: expect.stringMatching(/^Moving Inc\. is frozen, and its \d+ rows are in /) });
  await expect.poll(() => answered.get(503) ?? 0).toBeGreaterThan(0);
  // Reads go on.
  expect((await call("POST", "/features/user-0/tasker-board", key)).body["eval"]).toBe(true);
  expect((await call("GET", `/organizations/${organizationId}`, userKey)).status).toBe(200);

  // A killed import has written nothing.
  const killed = command("import-organization", target, [exported]);
  await expect
    .poll(
      async () => {
        const [row] = await target.connection.client<{ n: number }[]>`
        select count(*)::int as n from pg_stat_activity
        where application_name = 'faregate-import-organization' and datname = current_database()`;
        // A fast import may end between two looks.
        return killed.child.exitCode === null ? (row?.n ?? 0) : 1;
      },
      { timeout: 60_000, interval: 5 },
    )
    .toBeGreaterThan(0);
  killed.child.kill("SIGKILL");
  await killed.done;
  const rows = async () => {
    const [row] = await target.connection.client<{ n: number }[]>`select count(*)::int as n from contracts`;
    return row?.n;
  };
  expect([0, USERS]).toContain(await rows());
  if ((await rows()) === 0) {
    const into = await command("import-organization", target, [exported]).done;
    expect(into).toEqual({
      code: 0,
      output: expect.stringMatching(/^Moving Inc\. is here: \d+ rows, and all balances agree with the ledger\.$/),
    });
  }

  expect(await command("move-organization", source, [exported, "--to=ftp://two"]).done).toMatchObject({ code: 2 });
  const left = await command("move-organization", source, [exported, "--to=https://two.example.com"]).done;
  expect(left).toEqual({ code: 0, output: expect.stringMatching(/^Moving Inc\. has left: /) });
  await expect.poll(() => answered.get(410) ?? 0).toBeGreaterThan(0);
  const before = [...acknowledged];
  route([`${organizationId} two;`, `${key} two;`]);
  await expect
    .poll(() => acknowledged.every((units, user) => units > (before[user] ?? 0)), { timeout: 30_000 })
    .toBe(true);
  over.abort();
  await Promise.all(callers);

  for (const [user, units] of acknowledged.entries()) {
    const balances = await call("GET", `/contracts/user-${user}/balances`, key);
    const consumed = (balances.body as unknown as { limit: string; consumed: number }[]).find(
      ({ limit }) => limit === "tasker-maxTasks" || limit === "maxTasks",
    );
    expect(consumed?.consumed, JSON.stringify(balances.body)).toBe(units);
  }
  // The owner's account has moved along, with the key.
  expect((await call("GET", `/organizations/${organizationId}`, userKey)).status).toBe(200);
  expect([...answered.keys()].toSorted((a, b) => a - b)).toEqual([200, 410, 503]);
  for (const database of databases) expect(await command("check-ledger", database, []).done).toMatchObject({ code: 0 });
});
