import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { API_SECRETS, createTestApi } from "../support/api.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { openMailServer } from "../support/mail-server.ts";
import { freePort, TEST_SECRETS } from "../support/event-server.ts";

const ROOT = resolve(import.meta.dirname, "../..");

let database: TestDatabase;
let ports: { PORT: string; EVENTS_PORT: string };
beforeAll(async () => {
  database = await createTestDatabase();
  ports = { PORT: String(await freePort()), EVENTS_PORT: String(await freePort()) };
});
afterAll(() => database.drop());

/** Runs `npm run doctor` without npm. Returns its exit code and its findings as [state, subject, sentence]. */
function examine(environment: Record<string, string>): Promise<{ code: number; findings: string[][]; output: string }> {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([variable]) => !/^(npm_|VITE|NODE_)/.test(variable)),
  );
  const arguments_ = [join(ROOT, "dist/server/doctor.js")];
  return new Promise((done) => {
    execFile(
      process.execPath,
      arguments_,
      { cwd: ROOT, env: { ...inherited, ...ports, ...environment } },
      (error, output) => {
        const findings = [...output.matchAll(/^(ok|warn|FAIL) +(\w+) +(.+)$/gm)].map((match) => match.slice(1));
        done({ code: error === null ? 0 : Number(error.code), findings, output });
      },
    );
  });
}

it("finds what works, and says what could be better", async () => {
  const { code, findings, output } = await examine({ ...TEST_SECRETS, DATABASE_URL: database.url });
  expect(code, output).toBe(0);
  for (const what of [
    "environment",
    "secrets",
    "runtime",
    "driver",
    "port",
    "database",
    "clock",
    "settings",
    "schema",
    "notify",
  ]) {
    expect(findings.map(([state, name]) => `${state} ${name}`)).toContain(`ok ${what}`);
  }
  // The tests' server has a single role with all privileges.
  expect(findings).toContainEqual(["warn", "role", expect.stringMatching(/is a superuser\. src\/db\/roles\.sql/)]);
  expect(findings).toContainEqual(["warn", "settings", expect.stringMatching(/^ALLOWED_ORIGINS is not set/)]);
  expect(output).toMatch(/\d+ looked at: 0 do not work, \d+ could be better\.\n$/);
  const password = new URL(database.url).password;
  for (const secret of [password, ...Object.values(TEST_SECRETS)]) expect(output).not.toContain(secret);
});

it("finds a weak secret, a port that somebody else has and an old schema, all at once, and exits 1", async () => {
  const old = await createTestDatabase();
  const taken = createServer((_, response) => response.end("somebody else"));
  await new Promise<void>((listening) => taken.listen(0, listening));
  try {
    await old.connection.client`
      delete from drizzle.__drizzle_migrations where id = (select max(id) from drizzle.__drizzle_migrations)`;
    const { code, findings } = await examine({
      ...TEST_SECRETS,
      JWT_SECRET: "secret",
      DATABASE_URL: old.url,
      PORT: String((taken.address() as AddressInfo).port),
    });
    expect(code).toBe(1);
    const failed = findings.filter(([state]) => state === "FAIL").map(([, what]) => what);
    expect(failed).toEqual(["secrets", "port", "schema"]);
  } finally {
    taken.close();
    await old.drop();
  }
});

it("finds a mail server that does not answer, one that does, and mails that fail", async () => {
  const mailServer = await openMailServer();
  const mail = { MAIL_FROM: "no-reply@faregate.example", PUBLIC_URL: "https://faregate.example" };
  const environment = { ...TEST_SECRETS, DATABASE_URL: database.url, ...mail };
  const right = await examine({ ...environment, SMTP_URL: mailServer.url });
  expect(right.findings).toContainEqual(["ok", "mail", expect.stringMatching(/admits this one/)]);
  await mailServer.close();
  await database.connection.client`
    insert into mails (id, kind, organization_id, language, status, next_attempt_at, error)
    values ('1', 'recovery', '', 'en', 'failed', now(), 'no such mailbox')`;
  const wrong = await examine({ ...environment, SMTP_URL: mailServer.url.replace("//", "//faregate:sesame@") });
  await database.connection.client`delete from mails`;
  expect(wrong.code).toBe(1);
  expect(wrong.findings).toContainEqual(["FAIL", "mail", expect.stringContaining("ECONNREFUSED")]);
  expect(wrong.findings).toContainEqual([
    "warn",
    "mail",
    expect.stringMatching(/1 failed within a day.*no such mailbox/),
  ]);
  expect(wrong.output).not.toContain("sesame");
});

it("finds a database that does not answer and variables that cannot be read", async () => {
  const gone = await examine({ ...TEST_SECRETS, DATABASE_URL: "postgres://ada:sesame@127.0.0.1:1/rates" });
  expect(gone.code).toBe(1);
  expect(gone.findings).toContainEqual(["FAIL", "database", expect.stringContaining("ECONNREFUSED")]);
  expect(gone.output).not.toContain("sesame");
  const wrong = await examine({ PORT: "http", JWT_EXPIRATION: "soon" });
  expect(wrong.code).toBe(1);
  expect(wrong.findings.map(([state, what]) => `${state} ${what}`)).toEqual(["FAIL environment", "FAIL environment"]);
});

it("finds an API_KEYS_SECRET that does not open the stored keys, and one that does", async () => {
  const api = await createTestApi();
  try {
    const right = { ...TEST_SECRETS, API_KEYS_SECRET: API_SECRETS.apiKeysSecret, DATABASE_URL: api.database.url };
    const opens = await examine(right);
    expect(opens.findings).toContainEqual(["ok", "keys", expect.stringMatching(/opens the stored keys/)]);
    const wrong = await examine({ ...TEST_SECRETS, DATABASE_URL: api.database.url });
    expect(wrong.code).toBe(1);
    expect(wrong.findings).toContainEqual([
      "FAIL",
      "keys",
      expect.stringMatching(/^API_KEYS_SECRET opens 0 of \d+ stored keys/),
    ]);
    const previous = { ...right, ...TEST_SECRETS, API_KEYS_SECRET_PREVIOUS: API_SECRETS.apiKeysSecret };
    expect((await examine(previous)).findings).toContainEqual(["ok", "keys", expect.any(String)]);
  } finally {
    await api.close();
  }
});

it("finds nothing wrong in a fresh folder, and leaves it as it is", async () => {
  const folder = await mkdtemp(join(tmpdir(), "faregate-doctor-"));
  try {
    const { code, findings } = await examine({ DATA_DIR: join(folder, "data") });
    expect(code).toBe(0);
    expect(findings).toContainEqual(["ok", "database", expect.stringMatching(/^There is no embedded database in /)]);
    expect(await readdir(folder)).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

it("a command without a schema says how to make one, and shows no statement", async () => {
  const empty = await createTestDatabase();
  try {
    await empty.connection.client`drop schema public cascade`;
    await empty.connection.client`create schema public`;
    const script = join(ROOT, "dist/server/check-ledger.js");
    const env = { ...process.env, ...TEST_SECRETS, DATABASE_URL: empty.url };
    const { status, stderr } = spawnSync(process.execPath, [script], {
      cwd: ROOT,
      env,
      encoding: "utf8",
    });
    expect({ status, stderr }).toEqual({
      status: 2,
      stderr: expect.stringMatching(/^The database has no schema yet: .*migrate.* makes it\.\n$/) as string,
    });
  } finally {
    await empty.drop();
  }
});
