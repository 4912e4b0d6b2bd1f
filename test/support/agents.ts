import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Client as ClientOfV2, StreamableHTTPClientTransport as TransportOfV2 } from "@modelcontextprotocol/client";
import { Client as ClientOfV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportOfV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { TestApi } from "./api.ts";

/** Answer of a tool. */
export interface ToolAnswer {
  content: { type: string; text: string }[];
  isError?: boolean;
}

/** Part of the SDKs' clients that both generations have. */
export interface AgentClient {
  listTools(): Promise<{
    tools: { name: string; description?: string | undefined; inputSchema: Record<string, unknown> }[];
  }>;
  callTool(params: { name: string; arguments?: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

const IDENTITY = { name: "faregate-test", version: "1" };

/** Clients of the official SDKs: both generations, and both eras of the protocol. */
export const CLIENTS: Readonly<Record<string, (url: URL, headers: Record<string, string>) => Promise<AgentClient>>> = {
  "SDK 1": async (url, headers) => {
    const client = new ClientOfV1(IDENTITY);
    // Declared without exactOptionalPropertyTypes.
    await client.connect(new TransportOfV1(url, { requestInit: { headers } }) as Parameters<typeof client.connect>[0]);
    return client;
  },
  "SDK 2, protocol of 2025": async (url, headers) => {
    const client = new ClientOfV2(IDENTITY, { versionNegotiation: { mode: "legacy" } });
    await client.connect(new TransportOfV2(url, { requestInit: { headers } }));
    return client;
  },
  "SDK 2, newest protocol": async (url, headers) => {
    const client = new ClientOfV2(IDENTITY, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
    await client.connect(new TransportOfV2(url, { requestInit: { headers } }));
    return client;
  },
};

/** Serves the application on a port of this machine. */
export async function onPort(api: TestApi): Promise<{ url: URL; close(): Promise<void> }> {
  const server = serve({ fetch: api.app.fetch, port: 0, hostname: "127.0.0.1" });
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`http://127.0.0.1:${port}/mcp`),
    close: () => new Promise((done) => server.close(() => done())),
  };
}

/** Response of /mcp. */
export interface RpcAnswer {
  status: number;
  headers: Headers;
  body: { id?: unknown; result?: ToolAnswer & Record<string, unknown>; error?: { code: number; message: string } };
}

/** Posts a body to /mcp, in process. */
export async function post(
  api: TestApi,
  key: string | undefined,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<RpcAnswer> {
  const response = await api.app.request("/mcp", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(key === undefined ? {} : { "x-api-key": key }),
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? {} : JSON.parse(text) };
}

/** Calls a tool, in process. `given` may be of any type. */
export async function callTool(api: TestApi, key: string, name: string, given: unknown = {}): Promise<RpcAnswer> {
  return post(api, key, { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } });
}
