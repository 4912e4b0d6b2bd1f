import { Failure } from "../../operations/errors.ts";
import { keyOf, limitCalls } from "../authorize.ts";
import type { AppContext } from "../context.ts";
import { type FailureBody, UNEXPECTED } from "../errors.ts";
import { json } from "../reply.ts";
import type { ReadAsset } from "../routes/documentation.ts";
import type { AgentRequest } from "./server.ts";
import type { ToolRequest } from "./tools.ts";

/** Messages of one request. Only the protocol's version of 2025-03-26 has batches. */
const MAX_BATCH = 20;
const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const INTERNAL_ERROR = -32_603;

/** Headers that a tool call hands on to the request that it makes. */
const HANDED_ON = ["x-forwarded-for", "traceparent"] as const;

const rpcError = (code: number, message: string) => ({ jsonrpc: "2.0", id: null, error: { code, message } });

/** The body of an error that concerns no message: JSON-RPC, as for every other answer of /mcp. */
export const mcpFailure: FailureBody = (failure) => {
  if (failure === undefined) return rpcError(INTERNAL_ERROR, UNEXPECTED);
  return rpcError(failure.code === "invalid" ? PARSE_ERROR : INVALID_REQUEST, failure.message);
};

/** The application, for tool calls, the sub-path of its console, and that console's files, among them the guides. */
export interface McpOptions {
  fetch: (request: Request, bindings: unknown) => Response | Promise<Response>;
  baseUrlPath: string;
  readConsole: ReadAsset | undefined;
}

/**
 * Handles /mcp, the tools of agents. A tool call goes through the application as a request with the caller's key, so that
 * permissions, limits and the audit log hold for it. Source: modelcontextprotocol.io/specification, Streamable HTTP.
 */
export function mcpRoute(options: McpOptions): (c: AppContext) => Promise<Response> {
  return async (c) => {
    if (c.req.method !== "POST") {
      c.get("request").headers["Allow"] = "POST";
      return json(c, rpcError(INVALID_REQUEST, "This server has no sessions and no streams: send POST"), 405);
    }
    // The specification asks for it against DNS rebinding.
    if (c.req.header("origin") !== undefined && c.get("request").headers["Access-Control-Allow-Origin"] === undefined) {
      throw new Failure("forbidden", "The origin is not one of ALLOWED_ORIGINS");
    }
    if (!/^application\/json\s*(;|$)/i.test(c.req.header("content-type") ?? "")) {
      return json(c, rpcError(INVALID_REQUEST, "The Content-Type must be application/json"), 415);
    }
    const body = c.get("body");
    const messages: unknown[] = Array.isArray(body) ? body : [body];
    if (messages.length > MAX_BATCH) {
      return json(c, rpcError(INVALID_REQUEST, `A batch must not have more than ${MAX_BATCH} messages`), 400);
    }
    const { keyCallsPerSecond } = c.get("server").settings;
    const count = () => {
      if (keyCallsPerSecond) limitCalls(c, keyCallsPerSecond);
    };
    // A tool call is counted by the request that it makes.
    if (!messages.some(isToolCall)) count();
    const { serve } = await import("./server.ts");
    const read = options.readConsole ?? (async () => undefined);
    return serve({ request: c.req.raw, body, count, read, send: senderFor(c, options), pageOf: pagesFor(c, options) });
  };
}

const isToolCall = (message: unknown) =>
  typeof message === "object" && message !== null && Reflect.get(message, "method") === "tools/call";

function senderFor(c: AppContext, { fetch }: McpOptions): AgentRequest["send"] {
  return async ({ method, path, body }: ToolRequest) => {
    const headers = new Headers({ "x-api-key": keyOf(c) ?? "", "x-request-id": c.get("request").id });
    for (const name of HANDED_ON) {
      const value = c.req.header(name);
      if (value !== undefined) headers.set(name, value);
    }
    if (typeof body === "string") headers.set("content-type", "application/json");
    const init = { method, headers, signal: c.req.raw.signal, ...(body === undefined ? {} : { body }) };
    return fetch(new Request(new URL(path, c.req.url), init), c.env);
  };
}

function pagesFor(c: AppContext, { baseUrlPath, readConsole }: McpOptions): AgentRequest["pageOf"] {
  return (organizationId, page) => {
    const caller = c.get("caller");
    const id = caller.kind === "key" ? caller.organizationId : organizationId;
    if (readConsole === undefined || id === undefined) return undefined;
    const server = c.get("resources").settings.publicUrl ?? new URL(c.req.url).origin + baseUrlPath;
    return `${server}/console/o/${encodeURIComponent(id)}/${page}`;
  };
}
