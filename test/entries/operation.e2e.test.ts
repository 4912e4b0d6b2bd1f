import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  METRICS_TOKEN,
  type RunningServer,
  startEventServer,
  TEST_SECRETS,
  testKeyring,
} from "../support/event-server.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";

/* A real process under traffic: its log, its drain, and what it rejects. */

let database: TestDatabase;
let server: RunningServer;
const PASSWORD = "a-password-nobody-has";

beforeAll(async () => {
  database = await createTestDatabase();
  const resources = createResources(database.connection, {
    keyring: await testKeyring(),
    settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: true },
  });
  await seedFirstAdmin(resources, { username: "admin", password: PASSWORD, organizationName: "Rates" });
  server = await startEventServer(database.url, {
    LOG_LEVEL: "debug",
    METRICS_TOKEN,
    DRAIN_DELAY: "8",
    ADMIN_PASSWORD: "space4all",
  });
});
afterAll(async () => {
  server.process.kill("SIGKILL");
  await database.drop();
});

const call = async (method: string, path: string, key?: string, body?: unknown) => {
  const response = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { "content-type": "application/json", ...(key === undefined ? {} : { "x-api-key": key }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    body: (text.startsWith("{") ? JSON.parse(text) : {}) as Record<string, unknown>,
  };
};

it("a process that was started by itself warns of what keeps nobody out, in its log", async () => {
  const warnings = () =>
    server
      .output()
      .split("\n")
      .filter((line) => line.includes('"level":"warn"'))
      .map((line) => (JSON.parse(line) as { message: string }).message)
      // Of half a second without a heartbeat, which a busy machine may take.
      .filter((message) => !message.startsWith("changes cannot be followed for now"));
  await expect
    .poll(warnings)
    .toEqual([
      "ALLOWED_ORIGINS is not set: pages of every origin may call.",
      expect.stringMatching(/^ADMIN_PASSWORD is space4all, /),
    ]);
});

it("no password, key, token or secret gets into the log, whatever becomes of the requests that carry them", async () => {
  const signedIn = await call("POST", "/users/authenticate", undefined, { username: "admin", password: PASSWORD });
  const userKey = String(signedIn.body["apiKey"]);
  expect(userKey).toMatch(/^usr_/);
  await call("POST", "/users/authenticate", undefined, { username: "admin", password: `${PASSWORD}-wrong` });
  const owned = await call("GET", "/organizations", userKey);
  const orgKey = /org_[0-9a-f]{64}/.exec(owned.text)?.[0] ?? "";
  expect(orgKey).not.toBe("");
  const organization = (JSON.parse(owned.text) as { data: { id: string }[] }).data[0]?.id ?? "";
  await call("GET", "/users", userKey);
  await call("DELETE", `/organizations/${organization}/api-keys/${orgKey}x`, userKey);
  await call("GET", "/services", `${orgKey}00`);
  const hook = await call("POST", `/organizations/${organization}/webhooks`, userKey, {
    url: "https://hooks.example/",
  });
  const secret = String(hook.body["secret"]);
  expect(secret).toMatch(/^whsec_/);
  await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  // An unexpected error: the statement fails, and its values must not reach the log.
  await database.connection.client`alter table users rename column username to name_of_user`;
  const broken = await call("POST", "/users", undefined, { username: "eve-the-new", password: `${PASSWORD}-new` });
  await database.connection.client`alter table users rename column name_of_user to username`;
  await database.connection.client`alter table users add constraint nobody_new check (username <> 'eve-the-new')`;
  const refused = await call("POST", "/users", undefined, { username: "eve-the-new", password: `${PASSWORD}-new` });
  expect([broken.status, refused.status]).toEqual([500, 500]);
  const unexpected = () => server.output().split('"message":"unexpected error"').length - 1;
  await expect.poll(unexpected).toBe(2);
  await expect.poll(server.output).toMatch(/\n$/);
  const log = server.output();
  const lines = log.trim().split("\n");
  for (const line of lines) expect(() => JSON.parse(line) as unknown, line).not.toThrow();
  expect(unexpected()).toBe(2);
  expect(lines.filter((line) => line.includes('"message":"request"')).length).toBeGreaterThan(8);
  const databasePassword = new URL(database.url).password;
  const secrets = [PASSWORD, userKey, orgKey, secret, METRICS_TOKEN, databasePassword, ...Object.values(TEST_SECRETS)];
  for (const one of secrets) {
    expect(one.length).toBeGreaterThan(10);
    expect(log).not.toContain(one);
  }
  expect(log).not.toMatch(/pbkdf2x|v1\$|[0-9a-f]{64}/);
});

it("told to end, it is not ready while it serves on for the delay, then drains and exits 0", async () => {
  expect((await fetch(`${server.url}/ready`)).status).toBe(200);
  const gone = server.stop();
  let reason: unknown;
  const deadline = Date.now() + 5000;
  while (reason === undefined && Date.now() < deadline) {
    const answer = await fetch(`${server.url}/ready`);
    if (answer.status === 503) reason = ((await answer.json()) as { reason: string }).reason;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(reason).toBe("draining");
  expect((await call("GET", "/healthcheck")).status).toBe(200);
  expect((await fetch(`${server.url}/live`)).status).toBe(200);
  expect(await gone).toBe(0);
});
