import type { Context as HonoContext, MiddlewareHandler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { z } from "zod";
import type { Caller } from "../core/access/caller.ts";
import { scopeOf } from "../operations/access.ts";
import type { Context, Resources } from "../operations/context.ts";
import { Failure } from "../operations/errors.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
/** Writes one structured line; fields never contain a key, a password or a token. */
export type Log = (level: LogLevel, message: string, detail?: unknown) => void;

/** What middleware leaves for routes. `body` is the parsed JSON or form; `{}` when there was none. */
export interface AppEnv {
  Bindings: object;
  Variables: {
    resources: Resources;
    caller: Caller;
    requestId: string;
    log: Log | undefined;
    body: unknown;
    /** Headers of the answer, whatever it will be; a route may add to them. */
    headers: Record<string, string>;
    /** True when the answer was made with them already. */
    isComplete: boolean;
  };
}

type Ask = HonoContext<AppEnv>;

/** The operation's context of this request. */
export function context(c: Ask): Context {
  return { ...c.get("resources"), caller: c.get("caller") };
}

/**
 * An answer with the headers that every answer has. A Response of our own instead of `c.body`, whose merging of headers
 * costs more than everything else that a small answer needs.
 */
export function reply(
  c: Ask,
  body: string | Uint8Array<ArrayBuffer> | null,
  status: number,
  headers?: Readonly<Record<string, string>>,
): Response {
  c.set("isComplete", true);
  return new Response(body, { status, headers: { ...c.get("headers"), ...headers } });
}

/** A JSON answer with the content type that the contract asks for everywhere. */
export function json(c: Ask, value: unknown, status: ContentfulStatusCode = 200): Response {
  return reply(c, JSON.stringify(value), status, { "Content-Type": "application/json; charset=utf-8" });
}

/** The organization a call is about; undefined for a platform ADMIN who named none: then all of them. */
export function scope(c: Ask): string | undefined {
  return scopeOf(c.get("caller"), { path: c.req.param("organizationId"), query: c.req.query("organizationId") });
}

/** The organization a call is about, where it must be one. */
export function organizationOf(c: Ask): string {
  const organizationId = scope(c);
  if (organizationId === undefined) {
    throw new Failure("invalid", "INVALID DATA: The organizationId query parameter is required");
  }
  return organizationId;
}

/**
 * Checks the parsed body; 422 with the first failing check's sentence, in the order in which the schema lists its fields.
 * Unknown fields are dropped, so they can never be stored.
 */
export function bodyOf<T>(c: Ask, schema: z.ZodType<T>): T {
  const result = schema.safeParse(c.get("body"));
  if (result.success) return result.data;
  throw new Failure("unprocessable", result.error.issues[0]?.message ?? "The body is not valid");
}

/** Refuses query parameters that are repeated or bracketed: each is read as one text. Source: contract users-organizations §1.2. */
export const singleQueryParameters: MiddlewareHandler<AppEnv> = async (c, next) => {
  const url = c.req.url;
  if (url.includes("?")) {
    const seen = new Set<string>();
    for (const name of new URL(url).searchParams.keys()) {
      if (seen.has(name)) throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be given once`);
      if (name.includes("["))
        throw new Failure("invalid", `INVALID DATA: Query parameter ${name} must be a plain value`);
      seen.add(name);
    }
  }
  await next();
};

/** An integer read by its leading digits ("5abc" is 5); undefined when there are none. Source: users-organizations §1.2. */
export function leadingInteger(text: string | undefined): number | undefined {
  const digits = /^\s*([+-]?\d+)/.exec(text ?? "")?.[1];
  if (digits === undefined) return undefined;
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : undefined;
}
