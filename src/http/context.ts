import type { Context as HonoContext } from "hono";
import { forwardedAddress } from "../core/access/forwarded.ts";
import type { Caller } from "../core/access/caller.ts";
import { type Context, contextOf, type Resources } from "../operations/context.ts";
import { type Trace, traceContextOf } from "./tracing.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
/** What a line is about: fields of their own beside the message. */
export type LogFields = Readonly<Record<string, string | undefined>>;
/** Writes one structured line; fields never contain a key, a password or a token. */
export type Log = (level: LogLevel, message: string, detail?: unknown, about?: LogFields) => void;

/** What an operator decides about the HTTP interface. */
export interface HttpSettings {
  /** Exact origins; empty means every origin. `http://localhost:5403` is always allowed. */
  allowedOrigins: readonly string[];
  /** A sub-path such as `/space` under which everything is served too; empty for none. */
  baseUrlPath: string;
  /** True: every request is logged; otherwise those that failed or were slow. */
  logsRequests?: boolean;
  /** Proxies in front, each of which adds itself to X-Forwarded-For; 0: that header is the client's invention. */
  trustedProxies?: number;
  /** Unknown keys a minute and address, in one process; 0: no limit; absent: the usual one. */
  unknownKeysPerMinute?: number | undefined;
  /** Calls a second and key, in one process; 0 or absent: no limit. */
  keyCallsPerSecond?: number;
  /** Largest body that is no file; absent: the usual one. */
  maxBodyBytes?: number;
  /** Deepest nesting of a body; absent: the usual one. */
  maxBodyDepth?: number;
  /** Event streams at once, in one process; absent: the usual number. */
  maxStreams?: number;
  /** Event streams without a key per address (IPv6: /64), and per key, in one process; 0: no limit. Default: 50, 100. */
  maxStreamsPerAddress?: number;
  maxStreamsPerKey?: number;
  /** How long a stream may not be read; absent: the usual time. */
  maxStreamStallMs?: number;
}

/** What is known of a request before anybody is asked. */
export interface RequestState {
  id: string;
  /** When it arrived, by `performance.now()`. */
  startedAt: number;
  /** Headers of the answer, whatever it will be; a route may add to them. */
  headers: Record<string, string>;
  /** True when the answer was made with them already. */
  headersApplied: boolean;
  /** True once nothing but routes and their middleware is left. */
  reachedHandlers: boolean;
  /** Only where requests are traced. */
  trace: Trace | undefined;
}

export function newRequest(id: string, headers: Record<string, string>): RequestState {
  return { id, startedAt: performance.now(), headers, headersApplied: false, reachedHandlers: false, trace: undefined };
}

/** What middleware leaves for routes. `body` is the parsed JSON or form; `{}` when there was none. */
export interface AppEnv {
  Bindings: object;
  /** Few and not one a fact: each is an entry of a map that every request fills. */
  Variables: {
    server: { settings: HttpSettings; log: Log | undefined };
    request: RequestState;
    resources: Resources;
    caller: Caller;
    body: unknown;
  };
}

/** Hono's context of one request. */
export type AppContext = HonoContext<AppEnv>;

/** The operation's context of this request. */
export function context(c: AppContext): Context {
  return contextOf(c.get("resources"), c.get("caller"), c.get("request").id);
}

/** Who sent this request, as far as that can be known; empty when it cannot. */
export function addressOf(c: AppContext): string {
  const forwarded = forwardedAddress(c.req.header("x-forwarded-for"), c.get("server").settings.trustedProxies ?? 0);
  if (forwarded !== undefined) return forwarded;
  const told = fieldOf(c.env, "clientAddress");
  if (typeof told === "function") return String(told());
  const address = fieldOf(fieldOf(fieldOf(c.env, "incoming"), "socket"), "remoteAddress");
  return typeof address === "string" ? address : "";
}

/** A field of what may be an object; undefined otherwise. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && name in value ? Reflect.get(value, name) : undefined;
}

/** Logs a line about this request; what it is about is only looked up now. */
export function logRequest(c: AppContext, level: LogLevel, message: string, detail?: unknown): void {
  const log = c.get("server").log;
  if (log === undefined) return;
  // Set by a middleware that a refused request has not reached.
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
