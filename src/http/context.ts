import type { Context as HonoContext } from "hono";
import { unmappedAddress } from "../core/access/address-block.ts";
import { forwardedAddress } from "../core/access/forwarded.ts";
import type { Caller } from "../core/access/caller.ts";
import { type Context, contextOf, type Resources } from "../operations/context.ts";
import type { ErrorLinks } from "./error-links.ts";
import { type Trace, traceContextOf } from "./tracing.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
/** Structured fields of a log line, beside its message. */
export type LogFields = Readonly<Record<string, string | undefined>>;
/** Writes one structured log line. Fields never contain a key, a password or a token. */
export type Log = (level: LogLevel, message: string, detail?: unknown, about?: LogFields) => void;

/** Operator settings of the HTTP interface. */
export interface HttpSettings {
  /** Allowed origins, exactly; empty allows every origin. `http://localhost:5403` is always allowed. */
  allowedOrigins: readonly string[];
  /** Additional sub-path that serves everything, such as `/space`; empty for none. */
  baseUrlPath: string;
  /** Logs every request. Default: only failed and slow ones. */
  logsRequests?: boolean;
  /** Number of proxies that append to X-Forwarded-For. 0 ignores the header, which clients can forge. */
  trustedProxies?: number;
  /** Unknown keys per minute and address, per process; 0 disables the limit. Default: see throttle.ts. */
  unknownKeysPerMinute?: number | undefined;
  /** Public offers per minute and address, per process; 0 disables the limit. Default: see call-limits.ts. */
  publicOffersPerMinute?: number | undefined;
  /** Calls per second and key, per process. Default: unlimited. */
  keyCallsPerSecond?: number;
  /** Maximum size of a body other than a file, in bytes. Default: 2 MiB. */
  maxBodyBytes?: number;
  /** Maximum nesting depth of a body. Default: 1,000. */
  maxBodyDepth?: number;
  /** Maximum open event streams per process. Default: see routes/stream.ts. */
  maxStreams?: number;
  /** Maximum event streams without a key per address (IPv6: /64), and per key; 0 disables. Default: 50, 100. */
  maxStreamsPerAddress?: number;
  maxStreamsPerKey?: number;
  /** Closes a stream that its client has not read for this long. */
  maxStreamStallMs?: number;
}

/** State of one request, from its arrival on. */
export interface RequestState {
  id: string;
  /** Time of arrival, by `performance.now()`. */
  startedAt: number;
  /** Headers of the answer. Routes may add to them. */
  headers: Record<string, string>;
  /** True if the cookie named a session that ended or never was. */
  sessionEnded: boolean;
  /** True once the Response was created with `headers`. */
  headersApplied: boolean;
  /** True once the body is read and the handlers run. */
  reachedHandlers: boolean;
  /** True if the JSON text of the body escapes a surrogate, of a pair or alone. */
  escapesSurrogate: boolean;
  /** Query parameters, and if none has a bracket in its name. Null without a query, undefined until one is read. */
  query: { values: URLSearchParams; isFlat: boolean } | null | undefined;
  /** Undefined unless requests are traced. */
  trace: Trace | undefined;
}

export function newRequest(id: string, headers: Record<string, string>): RequestState {
  return {
    id,
    startedAt: performance.now(),
    headers,
    sessionEnded: false,
    headersApplied: false,
    reachedHandlers: false,
    escapesSurrogate: false,
    query: undefined,
    trace: undefined,
  };
}

/** Values that the middleware sets for routes. `body` is the parsed JSON or form; `{}` without a body. */
export interface AppEnv {
  Bindings: object;
  /** Few variables: each one is an entry of a map that every request fills. */
  Variables: {
    server: { settings: HttpSettings; log: Log | undefined; errorLinks: ErrorLinks };
    request: RequestState;
    resources: Resources;
    caller: Caller;
    body: unknown;
  };
}

/** Hono's context of one request. */
export type AppContext = HonoContext<AppEnv>;

/** Creates the operation's context of this request. */
export function context(c: AppContext): Context {
  return contextOf(c.get("resources"), c.get("caller"), c.get("request").id);
}

/** Client of a call that hashes a password or guesses: its address for limits, its signal to drop abandoned work. */
export const clientOf = (c: AppContext) => ({ address: addressOf(c), signal: c.req.raw.signal });

/** Returns the client's IP address; empty if unknown. */
export const addressOf = (c: AppContext): string => unmappedAddress(reportedAddress(c));

function reportedAddress(c: AppContext): string {
  const forwarded = forwardedAddress(c.req.header("x-forwarded-for"), c.get("server").settings.trustedProxies ?? 0);
  if (forwarded !== undefined) return forwarded;
  const told = fieldOf(c.env, "clientAddress");
  if (typeof told === "function") return String(told());
  const address = fieldOf(fieldOf(fieldOf(c.env, "incoming"), "socket"), "remoteAddress");
  return typeof address === "string" ? address : "";
}

/** Returns the origin that the client addressed. Believes the headers of the proxies that the operator counts. */
export function requestOrigin(c: AppContext): URL {
  const url = new URL(c.req.url);
  if ((c.get("server").settings.trustedProxies ?? 0) === 0) return url;
  const protocol = lastOf(c.req.header("x-forwarded-proto"));
  const host = lastOf(c.req.header("x-forwarded-host"));
  const origin = `${protocol === "https" ? "https:" : url.protocol}//${host ?? url.host}`;
  return URL.canParse(origin) ? new URL(origin) : url;
}

const lastOf = (header: string | undefined) => header?.split(",").at(-1)?.trim();

/** Reads a field of an unknown value. Undefined if it is not an object with that field. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && name in value ? Reflect.get(value, name) : undefined;
}

/** Logs a line with the fields of this request. */
export function logRequest(c: AppContext, level: LogLevel, message: string, detail?: unknown): void {
  const log = c.get("server").log;
  if (log === undefined) return;
  // Undefined if the request failed before authentication.
  const caller: Caller | undefined = c.get("caller");
  log(level, message, detail, {
    request: c.get("request").id,
    trace: c.get("request").trace?.id ?? traceContextOf(c.req.header("traceparent"))?.traceId,
    method: c.req.method,
    user: caller?.kind === "user" ? caller.id : undefined,
    key: caller?.kind === "key" ? caller.keyId : undefined,
    organization: caller?.kind === "key" ? caller.organizationId : c.req.param("organizationId"),
  });
}
