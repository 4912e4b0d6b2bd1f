import { TOKEN_SIGNATURES } from "../../core/token-keys.ts";
import { availableParallelism } from "node:os";
import { z } from "zod";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { isLoopback } from "../../operations/state/sign-on-provider.ts";
import {
  address,
  databaseAddress,
  days,
  duration,
  flag,
  list,
  number,
  oneOf,
  port,
  roleRules,
  subPath,
} from "./variables.ts";

/*
 * Every environment variable, read once. An empty variable counts as unset, because compose files and shells write
 * `NAME=`. Each problem is a sentence that names its variable; all are reported together.
 */

const schema = z.object({
  /** Port of the REST process. */
  PORT: port("PORT", 3000),
  /** Port of the event server. */
  EVENTS_PORT: port("EVENTS_PORT", 5403),
  /** REST processes behind PORT. `auto`: one for each processor but one. */
  WORKERS: z
    .string()
    .optional()
    .transform((text, ctx) => {
      const value = text === undefined ? 1 : Number(text);
      if (text === "auto") return text;
      if (Number.isInteger(value) && value >= 1 && value <= 64) return value;
      ctx.addIssue(`WORKERS must be auto or a whole number from 1 to 64, not "${text}".`);
      return z.NEVER;
    }),
  /** Address to listen on. Default: all interfaces, IPv4 and IPv6. */
  HOST: z.string().optional(),
  /** Default: an embedded Postgres. */
  DATABASE_URL: databaseAddress("DATABASE_URL"),
  /** URL of the same database without a pooler, for LISTEN, locks and migrations. Default: DATABASE_URL. */
  DATABASE_DIRECT_URL: databaseAddress("DATABASE_DIRECT_URL"),
  /** True: DATABASE_URL leads to a transaction pooler. Default: detected at start. */
  DATABASE_POOLER: oneOf("DATABASE_POOLER", ["true", "false"]).transform((text) =>
    text === undefined ? undefined : text === "true",
  ),
  /** URL of the database with a role that may change the schema. Default: DATABASE_DIRECT_URL. */
  DATABASE_OWNER_URL: databaseAddress("DATABASE_OWNER_URL"),
  /** Folder of the embedded cluster and its secrets. */
  DATA_DIR: z.string().default(".data"),
  BASE_URL_PATH: subPath,
  /** Public base URL of this server. */
  PUBLIC_URL: address("PUBLIC_URL", ["http:", "https:"]).transform((text) => text?.replace(/\/+$/, "")),
  ALLOWED_ORIGINS: list,
  ADMIN_USER: z.string().default("admin"),
  /** Default: generated at the first start and printed once. */
  ADMIN_PASSWORD: z.string().min(5, "ADMIN_PASSWORD must have at least 5 characters.").optional(),
  ADMIN_ORG_NAME: z.string().default("admin's Organization"),
  JWT_SECRET: z.string().optional(),
  JWT_SALT: z.string().optional(),
  API_KEYS_SECRET: z.string().optional(),
  /** The previous secret, while tokens signed with it are valid. */
  JWT_SECRET_PREVIOUS: z.string().optional(),
  /** The previous secret, until stored keys are re-encrypted; see reseal.ts. */
  API_KEYS_SECRET_PREVIOUS: z.string().optional(),
  /** Lifetime of pricing tokens, in seconds. */
  JWT_EXPIRATION: duration("JWT_EXPIRATION", "1h"),
  /** Signature of pricing tokens whose request names none. */
  TOKEN_SIGNATURE: oneOf("TOKEN_SIGNATURE", TOKEN_SIGNATURES).transform((signature) => signature ?? "HS256"),
  /** Time without use after which a session ends, and time after which it ends in any case. */
  SESSION_IDLE: duration("SESSION_IDLE", "12h", 1, 400 * 86_400),
  SESSION_LIFETIME: duration("SESSION_LIFETIME", "30d", 1, 400 * 86_400),
  /** Provider of single sign-on: address, client and its secret. Default: none. */
  OIDC_ISSUER: z
    .string()
    .optional()
    .transform((text, ctx) => {
      if (text === undefined || text.startsWith("https:")) return text;
      if (URL.canParse(text) && text.startsWith("http:") && isLoopback(new URL(text))) return text;
      ctx.addIssue("OIDC_ISSUER must be an address that begins with https://, or http:// on this machine.");
      return z.NEVER;
    }),
  OIDC_CLIENT_ID: z.string().optional(),
  OIDC_CLIENT_SECRET: z.string().optional(),
  OIDC_SCOPES: z.string().default("openid profile email"),
  /** Name of the provider on its button. */
  OIDC_NAME: z.string().default("single sign-on"),
  OIDC_USERNAME_CLAIM: z.string().default("preferred_username"),
  OIDC_ROLES: roleRules,
  /** False: only existing accounts sign in with the provider. */
  OIDC_SIGNUP: flag("OIDC_SIGNUP", true),
  /** Accounts that may sign in with a password. */
  PASSWORD_SIGN_IN: oneOf("PASSWORD_SIGN_IN", ["true", "admins", "false"]).transform((given) => given ?? "true"),
  ALLOW_PUBLIC_SIGNUP: flag("ALLOW_PUBLIC_SIGNUP", true),
  /** True: the event server serves only the handshake. */
  EVENTS_ONLY: flag("EVENTS_ONLY", false),
  /** False: the launcher does not migrate the schema. */
  MIGRATE: flag("MIGRATE", true),
  /** Bearer token for /metrics. Default: no metrics. */
  METRICS_TOKEN: z.string().min(16, "METRICS_TOKEN must have at least 16 characters.").optional(),
  /** OTLP over HTTP endpoint for spans. Default: no tracing. */
  OTEL_EXPORTER_OTLP_ENDPOINT: address("OTEL_EXPORTER_OTLP_ENDPOINT", ["http:", "https:"]),
  /** Service name in spans. Default: the name of the process. */
  OTEL_SERVICE_NAME: z.string().optional(),
  /** Seconds for which a stopping process reports not ready and still serves. */
  DRAIN_DELAY: number("DRAIN_DELAY", 0, 300),
  /** Number of proxies in front; see http/context.ts. */
  TRUSTED_PROXIES: number("TRUSTED_PROXIES", 0, 10),
  /** Limits; 0 disables them. */
  ACCOUNT_CALLS_PER_MINUTE: number("ACCOUNT_CALLS_PER_MINUTE", 3000, 1_000_000),
  FAILED_SIGN_INS_PER_MINUTE: number("FAILED_SIGN_INS_PER_MINUTE", 10, 1_000_000, 1),
  UNKNOWN_KEYS_PER_MINUTE: number("UNKNOWN_KEYS_PER_MINUTE", 1000, 1_000_000),
  PUBLIC_OFFERS_PER_MINUTE: number("PUBLIC_OFFERS_PER_MINUTE", 600, 1_000_000),
  KEY_CALLS_PER_SECOND: number("KEY_CALLS_PER_SECOND", 0, 1_000_000),
  SOCKETS_PER_ADDRESS: number("SOCKETS_PER_ADDRESS", 20_000, 1_000_000),
  /** Maximum buffer of a socket that does not read, in KB, and maximum stall in seconds. */
  SOCKET_BUFFER_KB: number("SOCKET_BUFFER_KB", 256, 65_536, 16),
  SOCKET_STALL_TIMEOUT: number("SOCKET_STALL_TIMEOUT", 5, 300, 1),
  /** Maximum message of a socket, in KB. */
  SOCKET_MESSAGE_KB: number("SOCKET_MESSAGE_KB", 10, 976, 1),
  /** Password hashes computed concurrently, and maximum waiting, per process. */
  PASSWORD_HASHES: number("PASSWORD_HASHES", 2, 64, 1),
  PASSWORD_HASHES_WAITING: number("PASSWORD_HASHES_WAITING", 600, 100_000, 1),
  WEBHOOKS_PER_ORGANIZATION: number("WEBHOOKS_PER_ORGANIZATION", 20, 1000, 1),
  /** Webhook requests in flight per event process; see events/webhooks.ts for the shares. */
  WEBHOOK_DELIVERIES: number("WEBHOOK_DELIVERIES", 64, 1000, 8),
  /** Server that sends mails. Default: links are copied. */
  SMTP_URL: address("SMTP_URL", ["smtp:", "smtps:"]),
  /** Sender of mails: an address, or a name with an address in angle brackets. */
  MAIL_FROM: z
    .string()
    .regex(
      /^(?:[^<>\r\n]*<[^@<>\s]+@[^@<>\s]+>|[^@<>\s]+@[^@<>\s]+)$/,
      "MAIL_FROM must be an address such as Faregate <no-reply@example.com>.",
    )
    .optional(),
  /** Seconds after which an unread event stream is closed. */
  STREAM_STALL_TIMEOUT: number("STREAM_STALL_TIMEOUT", 30, 300, 1),
  /** Time-outs for headers, for the whole request, and until the next one, in seconds; see http-server.ts. */
  HEADERS_TIMEOUT: number("HEADERS_TIMEOUT", 10, 3600, 1),
  REQUEST_TIMEOUT: number("REQUEST_TIMEOUT", 30, 3600, 1),
  IDLE_TIMEOUT: number("IDLE_TIMEOUT", 75, 3600, 1),
  /** Maximum size of a request's headers, in KB. */
  HEADER_LIMIT_KB: number("HEADER_LIMIT_KB", 16, 256, 4),
  /** Maximum open event streams per process. */
  EVENT_STREAMS: number("EVENT_STREAMS", 1000, 100_000, 1),
  /** Maximum streams without a key per address, and per key; 0 disables. */
  EVENT_STREAMS_PER_ADDRESS: number("EVENT_STREAMS_PER_ADDRESS", 50, 100_000),
  EVENT_STREAMS_PER_KEY: number("EVENT_STREAMS_PER_KEY", 100, 100_000),
  /** Maximum size of a body other than a file, and of a pricing, in KB. */
  BODY_LIMIT_KB: number("BODY_LIMIT_KB", 2048, 65_536, 16),
  PRICING_LIMIT_KB: number("PRICING_LIMIT_KB", 2048, 2048, 16),
  /** Maximum nesting depth of a body, and of a pricing. */
  BODY_DEPTH_LIMIT: number("BODY_DEPTH_LIMIT", 1000, 1000, 16),
  PRICING_DEPTH_LIMIT: number("PRICING_DEPTH_LIMIT", 32, 32, 8),
  /** Threads for diffs, best fits and reviews. Default: one for each processor but one, at most 2. */
  ANALYSIS_THREADS: z
    .string()
    .optional()
    .transform((text, ctx) => {
      const value = text === undefined ? undefined : Number(text);
      if (value === undefined || (Number.isInteger(value) && value >= 1 && value <= 16)) return value;
      ctx.addIssue(`ANALYSIS_THREADS must be a whole number from 1 to 16, not "${text}".`);
      return z.NEVER;
    }),
  /** Heap per analysis thread, in MB. */
  ANALYSIS_MEMORY_MB: number("ANALYSIS_MEMORY_MB", 192, 4096, 64),
  /** Seconds after which a thread is terminated. */
  ANALYSIS_TIMEOUT: number("ANALYSIS_TIMEOUT", 60, 600, 10),
  /** Upper bound on every listing's page size. */
  PAGE_LIMIT: number("PAGE_LIMIT", 1000, 1000, 1),
  /** Maximum connections of a process's pool. */
  DATABASE_POOL_SIZE: number("DATABASE_POOL_SIZE", 10, 1000, 1),
  /** Seconds; 0 disables the bound. */
  DATABASE_STATEMENT_TIMEOUT: number("DATABASE_STATEMENT_TIMEOUT", 30, 3600),
  DATABASE_LOCK_TIMEOUT: number("DATABASE_LOCK_TIMEOUT", 10, 3600),
  DATABASE_IDLE_TRANSACTION_TIMEOUT: number("DATABASE_IDLE_TRANSACTION_TIMEOUT", 30, 3600),
  DATABASE_ACQUIRE_TIMEOUT: number("DATABASE_ACQUIRE_TIMEOUT", 2, 3600),
  LOG_LEVEL: oneOf("LOG_LEVEL", ["debug", "info", "warn", "error"]).transform((level) => level ?? "info"),
  /** Hosts from which pricings may be fetched over http: or at private addresses. */
  PRICING_URL_ALLOWED_HOSTS: list,
  /** Retention of events, in days. */
  EVENT_RETENTION_DAYS: days("EVENT_RETENTION_DAYS", 7),
  /** Retention of the audit log, in days. */
  AUDIT_RETENTION_DAYS: days("AUDIT_RETENTION_DAYS", 365),
  /** Retention of single movements, in days. Older ones are summed up. */
  LEDGER_RETENTION_DAYS: days("LEDGER_RETENTION_DAYS", 365),
  /** Hosts to which webhooks may be sent over http: or at private addresses. */
  WEBHOOK_ALLOWED_HOSTS: list,
  /** Accepted for compatibility with the reference service; has no effect. */
  ENVIRONMENT: oneOf("ENVIRONMENT", ["production", "development", "testing"]),
  ENABLE_TEST_EVENT: flag("ENABLE_TEST_EVENT", true),
});

/** Names of all variables. */
export const VARIABLES: readonly string[] = Object.keys(schema.shape);

/** The validated environment. */
export type Config = z.infer<typeof schema>;

/**
 * Reads the environment.
 * @throws StartupProblem with one sentence per problem.
 */
export function readConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const result = schema.safeParse(given);
  const problems = result.success ? [] : result.error.issues.map((issue) => issue.message);
  if (result.success && result.data.PORT === result.data.EVENTS_PORT) {
    problems.push(`PORT and EVENTS_PORT are both ${result.data.PORT}: REST and the event server need one each.`);
  }
  if (result.success && result.data.HEADERS_TIMEOUT > result.data.REQUEST_TIMEOUT) {
    const { HEADERS_TIMEOUT: headers, REQUEST_TIMEOUT: request } = result.data;
    problems.push(
      `HEADERS_TIMEOUT is ${headers} s and REQUEST_TIMEOUT ${request} s: headers are a part of the request, and may not take longer.`,
    );
  }
  if (result.success && result.data.SMTP_URL !== undefined) {
    // Links in mails must not depend on the Host header of whoever asks for them.
    for (const name of ["MAIL_FROM", "PUBLIC_URL"] as const) {
      if (result.data[name] === undefined) problems.push(`SMTP_URL needs ${name}: mails have a sender and links.`);
    }
  }
  if (result.success) problems.push(...signOnProblems(result.data));
  if (given["NODE_TLS_REJECT_UNAUTHORIZED"] === "0") {
    problems.push("NODE_TLS_REJECT_UNAUTHORIZED=0 trusts whoever answers in place of the database: unset it.");
  }
  if (!result.success || problems.length > 0) throw new StartupProblem(problems.join("\n"));
  return result.data;
}

function signOnProblems({ OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_SCOPES, PASSWORD_SIGN_IN }: Config): string[] {
  const isOn = OIDC_ISSUER !== undefined && OIDC_CLIENT_ID !== undefined;
  const isHalf = !isOn && (OIDC_ISSUER ?? OIDC_CLIENT_ID) !== undefined;
  return [
    ...(isHalf ? ["OIDC_ISSUER and OIDC_CLIENT_ID turn single sign-on on together: set both, or none."] : []),
    ...(OIDC_SCOPES.split(" ").includes("openid") ? [] : ["OIDC_SCOPES must contain openid."]),
    ...(PASSWORD_SIGN_IN !== "true" && !isOn
      ? [`PASSWORD_SIGN_IN is ${PASSWORD_SIGN_IN}, and without OIDC_ISSUER nobody could sign in another way.`]
      : []),
  ];
}

/** Returns the number of REST processes that a configuration asks for. `auto` leaves a processor to Postgres. */
export function workerCount({ WORKERS }: Pick<Config, "WORKERS">): number {
  return WORKERS === "auto" ? Math.max(1, availableParallelism() - 1) : WORKERS;
}

/** Default password of the reference service. */
const KNOWN_PASSWORD = "space4all";

/** Returns warnings about settings that protect nothing. */
export function warningsOf(config: Config): string[] {
  return [
    ...(config.ALLOWED_ORIGINS.length === 0 ? ["ALLOWED_ORIGINS is not set: pages of every origin may call."] : []),
    ...(config.ADMIN_PASSWORD === KNOWN_PASSWORD
      ? [`ADMIN_PASSWORD is ${KNOWN_PASSWORD}, which everybody knows: set another one, and change the ADMIN's.`]
      : []),
  ];
}
