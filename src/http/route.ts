import type { Context as HonoContext } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { z } from "zod";
import { forwardedAddress } from "../core/access/forwarded.ts";
import type { Caller } from "../core/access/caller.ts";
import { scopeOf } from "../operations/access.ts";
import { type Context, contextOf, type Resources } from "../operations/context.ts";
import { Failure } from "../operations/errors.ts";
import { type Trace, traceContextOf } from "./tracing.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
/** What a line is about: fields of their own beside the message. */
export type About = Readonly<Record<string, string | undefined>>;
/** Writes one structured line; fields never contain a key, a password or a token. */
export type Log = (level: LogLevel, message: string, detail?: unknown, about?: About) => void;

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
  isComplete: boolean;
  /** True once nothing but routes and their middleware is left. */
  isEntered: boolean;
  /** Only where requests are traced. */
  trace: Trace | undefined;
}

export function newRequest(id: string, headers: Record<string, string>): RequestState {
  return { id, startedAt: performance.now(), headers, isComplete: false, isEntered: false, trace: undefined };
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

type Ask = HonoContext<AppEnv>;

/** The operation's context of this request. */
export function context(c: Ask): Context {
  return contextOf(c.get("resources"), c.get("caller"), c.get("request").id);
}

/** Who sent this request, as far as that can be known; empty when it cannot. */
export function addressOf(c: Ask): string {
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
export function tell(c: Ask, level: LogLevel, message: string, detail?: unknown): void {
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

/**
 * An answer with the headers that every answer has. A Response of our own instead of `c.body`, whose merging of headers
 * costs more than everything else that a small answer needs.
 */
export function reply(
  c: Ask,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null,
  status: number,
  headers?: Readonly<Record<string, string>>,
): Response {
  const request = c.get("request");
  request.isComplete = true;
  if (headers !== undefined) Object.assign(request.headers, headers);
  return new Response(body, { status, headers: request.headers });
}

/** The same for a text that is JSON, with the content type that the contract asks for everywhere. */
export function replyJson(c: Ask, text: string, status: number, headers?: Readonly<Record<string, string>>): Response {
  c.get("request").headers["Content-Type"] = "application/json; charset=utf-8";
  return reply(c, text, status, headers);
}

/** The texts of frozen answers, so that they are not written out again. */
const texts = new WeakMap<object, string>();

function textOf(value: unknown): string {
  if (typeof value !== "object" || value === null || !Object.isFrozen(value)) return JSON.stringify(value);
  const text = texts.get(value) ?? JSON.stringify(value);
  texts.set(value, text);
  return text;
}

/** A value as an answer. One that is frozen is written out once, however often it is given: what it holds must not change either. */
export function json(c: Ask, value: unknown, status: ContentfulStatusCode = 200): Response {
  return replyJson(c, textOf(value), status);
}

/** The organization a call is about; undefined for a platform ADMIN who named none: then all of them. */
export function scope(c: Ask): string | undefined {
  return scopeOf(c.get("caller"), { path: c.req.param("organizationId"), query: queryParameter(c, "organizationId") });
}

/** The organization a call is about, where it must be one. */
export function organizationOf(c: Ask): string {
  const organizationId = scope(c);
  if (organizationId === undefined) {
    throw new Failure("invalid", "INVALID DATA: The organizationId query parameter is required");
  }
  return organizationId;
}

/** The parsed body as far as it has fields, which a list has none of. */
export function fieldsOf(c: Ask): unknown {
  const body = c.get("body");
  return Array.isArray(body) ? {} : body;
}

/**
 * Checks the parsed body; 422 with the first failing check's sentence, in the order in which the schema lists its fields.
 * Unknown fields are dropped, so they can never be stored. A list is a body without fields, but to a schema that has a
 * sentence of its own for one.
 */
export function bodyOf<T>(c: Ask, schema: z.ZodType<T>): T {
  const result = schema.safeParse(schema.def.error === undefined ? fieldsOf(c) : c.get("body"));
  if (result.success) return result.data;
  throw new Failure("unprocessable", result.error.issues[0]?.message ?? "The body is not valid");
}

/**
 * A parameter of the query, undefined without it. Failure invalid for one that is repeated or bracketed: each is one text.
 * Parameters that nobody reads are ignored, however they are given. Source: contract users-organizations §1.2, §4.3.
 */
export function queryParameter(c: Ask, name: string): string | undefined {
  const { url } = c.req;
  if (!url.includes("?")) return undefined;
  const given = c.req.queries(name) ?? [];
  if (given.length > 1) throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be given once`);
  if (/\[|%5b/i.test(url) && Object.keys(c.req.query()).some((other) => other.startsWith(`${name}[`))) {
    throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be a plain value`);
  }
  return given[0];
}

/**
 * An integer read by its leading digits ("5abc" is 5), the nearest one that can be counted with; undefined when there are
 * none. Source: users-organizations §1.2.
 */
export function leadingInteger(text: string | undefined): number | undefined {
  const digits = /^\s*([+-]?\d+)/.exec(text ?? "")?.[1];
  if (digits === undefined) return undefined;
  return Math.min(Math.max(Number(digits), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}

/** The share of a limit from which on somebody is near it. */
export function nearOf(c: Ask): number | undefined {
  const given = queryParameter(c, "near");
  if (given === undefined) return undefined;
  if (/^(0?\.\d{1,6}|1(\.0*)?)$/.test(given) && Number(given) > 0) return Number(given);
  throw new Failure("invalid", "INVALID DATA: near must be a number above 0 and up to 1");
}

/** The page of a list that is read from its newest entry on: at most `limit`, older than the one with the id `before`. */
export function newestFirst(c: Ask): { before: number | undefined; limit: number } {
  const before = queryParameter(c, "before");
  const number = leadingInteger(queryParameter(c, "limit") ?? "20") ?? 0;
  if (number < 1 || number > 100) throw new Failure("invalid", "INVALID DATA: Limit must be between 1 and 100");
  if (before !== undefined && !/^\d{1,15}$/.test(before)) {
    throw new Failure("invalid", "INVALID DATA: before must be the id of an entry");
  }
  return { before: before === undefined ? undefined : Number(before), limit: number };
}

const isMoment = (text: string) => !Number.isNaN(Date.parse(text));
/** Field expiresAt of a body: ISO 8601, or null for never. */
export const expiry = z
  .string("The expiresAt field must be an ISO 8601 date or null")
  .max(40, "The expiresAt field must be an ISO 8601 date or null")
  .regex(/^\d{4}-\d{2}-\d{2}T/, "The expiresAt field must be an ISO 8601 date or null")
  .refine(isMoment, "The expiresAt field must be an ISO 8601 date or null")
  .nullable();

const INSTANT = /^(\d{4}-\d{2}-\d{2})(?:(T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(?:Z|([+-]\d{2})(?::?(\d{2}))?)?)?$/;

/**
 * The moment of an ISO 8601 date, or date and time, in UTC where it has no offset; undefined for anything else, and for a
 * year that cannot be stored.
 */
export function instantIn(text: string): Date | undefined {
  const [, day = "", time = "T00:00", hours = "+00", minutes = "00"] = INSTANT.exec(text) ?? [];
  // A day that its month does not have would be one of the next month.
  const isDay = !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day);
  const moment = new Date(`${day}${time}${hours}:${minutes}`);
  const year = moment.getUTCFullYear();
  return isDay && year >= 1 && year <= 9999 ? moment : undefined;
}

/**
 * The same of a query parameter, undefined without it. The `+` of an offset may have become a space. Failure invalid for
 * anything else.
 */
export function instantOf(c: Ask, name: string): Date | undefined {
  const text = queryParameter(c, name);
  if (text === undefined) return undefined;
  const moment = instantIn(text.replace(" ", "+"));
  if (moment !== undefined) return moment;
  throw new Failure("invalid", `INVALID DATA: ${name} must be an ISO 8601 date`);
}

/** The moment of a field that was checked. */
export const momentOf = (text: string | null) => (text === null ? null : new Date(text));
