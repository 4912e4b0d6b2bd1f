import { describe, expect, it } from "vitest";
import { StartupProblem } from "../../src/db/postgres/connect.ts";
import { readConfig, warningsOf } from "../../src/entries/process/config.ts";
import { requireSecrets } from "../../src/entries/process/given-secrets.ts";
import { settingsOf } from "../../src/entries/process/settings.ts";

const problemsOf = (work: () => unknown): string[] => {
  try {
    work();
  } catch (error) {
    if (error instanceof StartupProblem) return error.message.split("\n");
    throw error;
  }
  return [];
};

it("an empty environment has the documented defaults", () => {
  expect(readConfig({})).toEqual({
    PORT: 3000,
    EVENTS_PORT: 5403,
    DATA_DIR: ".data",
    BASE_URL_PATH: "",
    ALLOWED_ORIGINS: [],
    ADMIN_USER: "admin",
    ADMIN_ORG_NAME: "admin's Organization",
    JWT_EXPIRATION: 3600,
    TOKEN_SIGNATURE: "HS256",
    ALLOW_PUBLIC_SIGNUP: true,
    OIDC_SCOPES: "openid profile email",
    OIDC_NAME: "single sign-on",
    OIDC_USERNAME_CLAIM: "preferred_username",
    OIDC_ROLES: [],
    OIDC_SIGNUP: true,
    PASSWORD_SIGN_IN: "true",
    SESSION_IDLE: 43_200,
    SESSION_LIFETIME: 2_592_000,
    EVENTS_ONLY: false,
    MIGRATE: true,
    DRAIN_DELAY: 0,
    TRUSTED_PROXIES: 0,
    ACCOUNT_CALLS_PER_MINUTE: 3000,
    FAILED_SIGN_INS_PER_MINUTE: 10,
    UNKNOWN_KEYS_PER_MINUTE: 1000,
    PUBLIC_OFFERS_PER_MINUTE: 600,
    BODY_DEPTH_LIMIT: 1000,
    PRICING_DEPTH_LIMIT: 32,
    WORKERS: 1,
    ANALYSIS_THREADS: undefined,
    ANALYSIS_MEMORY_MB: 192,
    ANALYSIS_TIMEOUT: 60,
    KEY_CALLS_PER_SECOND: 0,
    SOCKETS_PER_ADDRESS: 20_000,
    SOCKET_BUFFER_KB: 256,
    SOCKET_STALL_TIMEOUT: 5,
    SOCKET_MESSAGE_KB: 10,
    PASSWORD_HASHES: 2,
    PASSWORD_HASHES_WAITING: 600,
    WEBHOOKS_PER_ORGANIZATION: 20,
    WEBHOOK_DELIVERIES: 64,
    STREAM_STALL_TIMEOUT: 30,
    HEADERS_TIMEOUT: 10,
    REQUEST_TIMEOUT: 30,
    IDLE_TIMEOUT: 75,
    HEADER_LIMIT_KB: 16,
    EVENT_STREAMS: 1000,
    EVENT_STREAMS_PER_ADDRESS: 50,
    EVENT_STREAMS_PER_KEY: 100,
    BODY_LIMIT_KB: 2048,
    PRICING_LIMIT_KB: 2048,
    PAGE_LIMIT: 1000,
    DATABASE_POOL_SIZE: 10,
    DATABASE_STATEMENT_TIMEOUT: 30,
    DATABASE_LOCK_TIMEOUT: 10,
    DATABASE_IDLE_TRANSACTION_TIMEOUT: 30,
    DATABASE_ACQUIRE_TIMEOUT: 2,
    LOG_LEVEL: "info",
    PRICING_URL_ALLOWED_HOSTS: [],
    EVENT_RETENTION_DAYS: 7,
    AUDIT_RETENTION_DAYS: 365,
    LEDGER_RETENTION_DAYS: 365,
    WEBHOOK_ALLOWED_HOSTS: [],
    ENABLE_TEST_EVENT: true,
  });
});

it("refuses to trust whoever answers in place of the database, and limits that are none", () => {
  const problems = problemsOf(() =>
    readConfig({
      NODE_TLS_REJECT_UNAUTHORIZED: "0",
      DATABASE_POOL_SIZE: "0",
      KEY_CALLS_PER_SECOND: "-1",
      BODY_LIMIT_KB: "2MB",
      PRICING_LIMIT_KB: "4096",
      PAGE_LIMIT: "0",
      EVENT_STREAMS: "0",
      METRICS_TOKEN: "short",
    }),
  );
  expect(problems.toSorted()).toEqual([
    'BODY_LIMIT_KB must be a whole number from 16 to 65536, not "2MB".',
    'DATABASE_POOL_SIZE must be a whole number from 1 to 1000, not "0".',
    'EVENT_STREAMS must be a whole number from 1 to 100000, not "0".',
    'KEY_CALLS_PER_SECOND must be a whole number from 0 to 1000000, not "-1".',
    "METRICS_TOKEN must have at least 16 characters.",
    "NODE_TLS_REJECT_UNAUTHORIZED=0 trusts whoever answers in place of the database: unset it.",
    'PAGE_LIMIT must be a whole number from 1 to 1000, not "0".',
    'PRICING_LIMIT_KB must be a whole number from 16 to 2048, not "4096".',
  ]);
});

it("sessions end after any time that is one", () => {
  const { SESSION_IDLE, SESSION_LIFETIME } = readConfig({ SESSION_IDLE: "2s", SESSION_LIFETIME: "1m" });
  expect([SESSION_IDLE, SESSION_LIFETIME]).toEqual([2, 60]);
  expect(problemsOf(() => readConfig({ SESSION_IDLE: "0s" }))[0]).toContain("SESSION_IDLE");
});

it("refuses times for slow clients that are none, and headers that may take longer than their request", () => {
  const names = ["HEADERS_TIMEOUT", "REQUEST_TIMEOUT", "IDLE_TIMEOUT", "SOCKET_STALL_TIMEOUT", "STREAM_STALL_TIMEOUT"];
  const problems = problemsOf(() =>
    readConfig(Object.fromEntries([...names, "HEADER_LIMIT_KB", "SOCKET_BUFFER_KB"].map((name) => [name, "0"]))),
  );
  expect(problems).toHaveLength(7);
  for (const name of names) expect(problems.join("\n")).toContain(`${name} must be a whole number from 1 to `);
  expect(problemsOf(() => readConfig({ HEADERS_TIMEOUT: "31" }))).toEqual([
    "HEADERS_TIMEOUT is 31 s and REQUEST_TIMEOUT 30 s: headers are a part of the request, and may not take longer.",
  ]);
  expect(problemsOf(() => readConfig({ HEADERS_TIMEOUT: "31", REQUEST_TIMEOUT: "31" }))).toEqual([]);
});

it("an empty variable counts as unset", () => {
  expect(readConfig({ PORT: "", ADMIN_PASSWORD: "", DATABASE_URL: "" })).toEqual(readConfig({}));
});

it.each([
  ["90s", 90],
  ["15m", 900],
  ["1h", 3600],
  ["2d", 172_800],
])("JWT_EXPIRATION %s is %i seconds", (text, seconds) => {
  expect(readConfig({ JWT_EXPIRATION: text }).JWT_EXPIRATION).toBe(seconds);
});

it.each(["0", "1.5", "4000", "week"])("EVENT_RETENTION_DAYS %s is refused in one sentence", (text) => {
  expect(problemsOf(() => readConfig({ EVENT_RETENTION_DAYS: text }))).toEqual([
    `EVENT_RETENTION_DAYS must be a whole number of days from 1 to 3650, not "${text}".`,
  ]);
});

it("lists are split at semicolons; a sub-path and a public address lose their trailing slash", () => {
  const config = readConfig({
    ALLOWED_ORIGINS: " http://a.example ; http://b.example;",
    BASE_URL_PATH: "/space/",
    PUBLIC_URL: "https://faregate.example/",
  });
  expect(config.ALLOWED_ORIGINS).toEqual(["http://a.example", "http://b.example"]);
  expect(config.BASE_URL_PATH).toBe("/space");
  expect(config.PUBLIC_URL).toBe("https://faregate.example");
});

it("settings that keep nobody out are warned of, one sentence each", () => {
  const origins = "ALLOWED_ORIGINS is not set: pages of every origin may call.";
  const password = "ADMIN_PASSWORD is space4all, which everybody knows: set another one, and change the ADMIN's.";
  expect(warningsOf(readConfig({}))).toEqual([origins]);
  expect(warningsOf(readConfig({ ADMIN_PASSWORD: "space4all" }))).toEqual([origins, password]);
  const own = { ALLOWED_ORIGINS: "https://app.example", ADMIN_PASSWORD: "space4nobody" };
  expect(warningsOf(readConfig(own))).toEqual([]);
});

it("every problem is reported at once, each in a sentence that names its variable", () => {
  const problems = problemsOf(() =>
    readConfig({
      PORT: "http",
      EVENTS_PORT: "70000",
      DATABASE_URL: "mysql://root:sesame@db/rates",
      PUBLIC_URL: "faregate.example",
      BASE_URL_PATH: "space",
      JWT_EXPIRATION: "1y",
      ALLOW_PUBLIC_SIGNUP: "perhaps",
      LOG_LEVEL: "loud",
      ADMIN_PASSWORD: "abc",
      ENVIRONMENT: "moon",
    }),
  );
  expect(problems).toHaveLength(10);
  for (const name of ["PORT", "EVENTS_PORT", "DATABASE_URL", "PUBLIC_URL", "BASE_URL_PATH", "JWT_EXPIRATION"]) {
    expect(problems.some((sentence) => sentence.startsWith(`${name} must be`))).toBe(true);
  }
  expect(problems.join()).not.toContain("sesame");
});

it("mails need a sender, and links that no Host header decides", () => {
  expect(problemsOf(() => readConfig({ SMTP_URL: "smtp://mail.example" }))).toEqual([
    "SMTP_URL needs MAIL_FROM: mails have a sender and links.",
    "SMTP_URL needs PUBLIC_URL: mails have a sender and links.",
  ]);
  const SMTP_URL = "smtps://faregate:sesame@mail.example";
  const whole = { SMTP_URL, PUBLIC_URL: "https://faregate.example", MAIL_FROM: "Faregate <no-reply@faregate.example>" };
  expect(settingsOf(readConfig(whole)).sendsMail).toBe(true);
  for (const MAIL_FROM of ["nobody", "a@b\r\nBcc: c@d", "<a@b> <c@d>"]) {
    expect(problemsOf(() => readConfig({ ...whole, MAIL_FROM }))).toEqual([
      expect.stringMatching(/^MAIL_FROM must be/),
    ]);
  }
  const problems = problemsOf(() => readConfig({ ...whole, SMTP_URL: "https://faregate:sesame@mail.example" }));
  expect(problems.join()).toMatch(/^SMTP_URL must be/);
  expect(problems.join()).not.toContain("sesame");
});

it("REST and the event server may not share a port", () => {
  expect(problemsOf(() => readConfig({ PORT: "5403" }))).toHaveLength(1);
});

it("no variable lowers the cost of password hashes", () => {
  const variables = { PASSWORD_ITERATIONS: "1", PASSWORDITERATIONS: "1", passwordIterations: "1" };
  expect(settingsOf(readConfig(variables))).not.toHaveProperty("passwordIterations");
});

describe("secrets beside a given database", () => {
  const strong = "0f4c1c6a5d1e4b7f8a9b0c3d2e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";
  const secrets = (given: Record<string, string>) => problemsOf(() => requireSecrets(readConfig(given)));

  it("good ones are taken", () => {
    expect(requireSecrets(readConfig({ JWT_SECRET: strong, JWT_SALT: "salt", API_KEYS_SECRET: strong }))).toEqual({
      jwtSecret: strong,
      jwtSalt: "salt",
      apiKeysSecret: strong,
    });
  });

  it("missing ones are named in one sentence", () => {
    const [sentence, ...more] = secrets({ JWT_SECRET: strong });
    expect(more).toEqual([]);
    expect(sentence).toContain("JWT_SALT and API_KEYS_SECRET must be set too");
  });

  it.each([
    "test_secret",
    "short",
    "a".repeat(64),
    "change-me-change-me-change-me-1234567890",
    "my-very-long-and-well-known-jwt-secret",
  ])("%s is refused and not repeated", (weak) => {
    const [sentence, ...more] = secrets({ JWT_SECRET: weak, JWT_SALT: "salt", API_KEYS_SECRET: strong });
    expect(more).toEqual([]);
    expect(sentence).toMatch(/^JWT_SECRET must be at least 32 random characters/);
    expect(sentence).not.toContain(weak);
  });
});

it("TOKEN_SIGNATURE is HS256 or EdDSA", () => {
  expect(readConfig({ TOKEN_SIGNATURE: "EdDSA" }).TOKEN_SIGNATURE).toBe("EdDSA");
  expect(() => readConfig({ TOKEN_SIGNATURE: "x" })).toThrow('TOKEN_SIGNATURE must be one of HS256, EdDSA, not "x".');
});
