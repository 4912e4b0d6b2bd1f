import type { Timeouts } from "../../db/postgres/connect.ts";
import type { HttpSettings } from "../../http/context.ts";
import type { Settings } from "../../operations/context.ts";
import type { SignOnSettings } from "../../operations/state/sign-on-provider.ts";
import type { Config } from "./config.ts";
import type { ConnectionLimits } from "../platform/http-server.ts";

/** Settings of operations, from the environment. */
export function settingsOf(config: Config): Settings {
  return {
    tokenLifetimeSeconds: config.JWT_EXPIRATION,
    tokenSignature: config.TOKEN_SIGNATURE,
    allowPublicSignup: config.ALLOW_PUBLIC_SIGNUP,
    signOn: signOnOf(config),
    passwordSignIn: config.PASSWORD_SIGN_IN,
    sessionIdleSeconds: config.SESSION_IDLE,
    sessionLifetimeSeconds: config.SESSION_LIFETIME,
    allowTestEvents: config.ENABLE_TEST_EVENT,
    publicUrl: config.PUBLIC_URL,
    sendsMail: config.SMTP_URL !== undefined,
    webhookAllowedHosts: config.WEBHOOK_ALLOWED_HOSTS,
    accountCallsPerMinute: config.ACCOUNT_CALLS_PER_MINUTE,
    failedSignInsPerMinute: config.FAILED_SIGN_INS_PER_MINUTE,
    maxWaitingHashes: config.PASSWORD_HASHES_WAITING,
    maxWebhooks: config.WEBHOOKS_PER_ORGANIZATION,
    maxPricingDepth: config.PRICING_DEPTH_LIMIT,
    maxPricingBytes: config.PRICING_LIMIT_KB * 1024,
    maxPageSize: config.PAGE_LIMIT,
  };
}

/** Settings of single sign-on. Undefined unless it is on. */
export function signOnOf(config: Config): SignOnSettings | undefined {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId } = config;
  if (issuer === undefined || clientId === undefined) return undefined;
  return {
    issuer,
    clientId,
    clientSecret: config.OIDC_CLIENT_SECRET,
    scopes: config.OIDC_SCOPES,
    name: config.OIDC_NAME,
    usernameClaim: config.OIDC_USERNAME_CLAIM,
    roles: config.OIDC_ROLES,
    allowsSignUp: config.OIDC_SIGNUP,
  };
}

/** Settings of the HTTP interface, from the environment. */
export function httpSettingsOf(config: Config): HttpSettings {
  return {
    allowedOrigins: config.ALLOWED_ORIGINS,
    baseUrlPath: config.BASE_URL_PATH,
    logsRequests: config.LOG_LEVEL === "debug",
    trustedProxies: config.TRUSTED_PROXIES,
    unknownKeysPerMinute: config.UNKNOWN_KEYS_PER_MINUTE,
    publicOffersPerMinute: config.PUBLIC_OFFERS_PER_MINUTE,
    keyCallsPerSecond: config.KEY_CALLS_PER_SECOND,
    maxBodyBytes: config.BODY_LIMIT_KB * 1024,
    maxBodyDepth: config.BODY_DEPTH_LIMIT,
    maxStreams: config.EVENT_STREAMS,
    maxStreamsPerAddress: config.EVENT_STREAMS_PER_ADDRESS,
    maxStreamsPerKey: config.EVENT_STREAMS_PER_KEY,
    maxStreamStallMs: config.STREAM_STALL_TIMEOUT * 1000,
  };
}

/** Time-outs of a request pool's statements. */
export function timeoutsOf(config: Config): Timeouts {
  return {
    statement: config.DATABASE_STATEMENT_TIMEOUT * 1000,
    lock: config.DATABASE_LOCK_TIMEOUT * 1000,
    idleInTransaction: config.DATABASE_IDLE_TRANSACTION_TIMEOUT * 1000,
    acquire: config.DATABASE_ACQUIRE_TIMEOUT * 1000,
  };
}

/** Limits of a connection of Node's server. */
export function connectionLimitsOf(config: Config): ConnectionLimits {
  return {
    headersTimeout: config.HEADERS_TIMEOUT * 1000,
    requestTimeout: config.REQUEST_TIMEOUT * 1000,
    keepAliveTimeout: config.IDLE_TIMEOUT * 1000,
    maxHeaderSize: config.HEADER_LIMIT_KB * 1024,
  };
}
