import {
  type CallToolResult,
  createMcpHandler,
  isLegacyRequest,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  type Result,
  Server,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { Failure } from "../../operations/errors.ts";
import { listGuides, readGuide } from "../guides.ts";
import type { ReadAsset } from "../routes/documentation.ts";
import { type Bounded, boundedJson, boundedText } from "./bounded.ts";
import { ArgumentError, requestOf, type Tool, type ToolRequest, TOOLS } from "./tools.ts";

/*
 * The Model Context Protocol, without state: each request has a server of its own, which answers and is dropped. This file
 * loads the SDK, so that only the first call to /mcp pays for it.
 */

/** One request of an agent. */
export interface AgentRequest {
  request: Request;
  body: unknown;
  /** Sends a request to the application, with the agent's key. */
  send: (request: ToolRequest) => Promise<Response>;
  /** Counts a message that sends no request. @throws Failure tooManyRequests. */
  count: () => void;
  /** Reads a file beside the console. */
  read: ReadAsset;
  /** Returns the address of a page of the console, by its path in an organization. Undefined without a console. */
  pageOf: (organizationId: string | undefined, page: string) => string | undefined;
}

const IDENTITY = { name: "faregate", title: "Faregate", version: "1" };
const INSTRUCTIONS = `Faregate answers: may this user use this feature, and how much is left? These tools read and never change anything: a draft of a pricing is compared and judged, and people activate it.
To explain why a user cannot use a feature: evaluateFeatures lists the ids of the features, evaluateFeature gives the reason and the limits, unlockFeature the smallest purchase that helps, showContract the subscription, also at a past moment.
To change a pricing: showSource has the text of a version, lintDraft checks your draft, compareDraft says what subscribers gain and lose with it, and predictImpact what it does to each contract. A person uploads it in the console.
To integrate an application, read the resource faregate://llms.txt first. The other resources are the guides.
With a user key, name the organization in each call: its id is in the address of its pages in the console, /console/o/<id>.`;

/** Elicitation is the only use of the validator, and no tool asks for it. The default one compiles code at run time. */
const NO_VALIDATOR = {
  getValidator: () => {
    throw new Error("no tool asks for input");
  },
};

/** Answers one HTTP request by the protocol's rules for servers without sessions, in both eras of the protocol. */
export async function serve(agent: AgentRequest): Promise<Response> {
  const { request, body } = agent;
  if (!(await isLegacyRequest(request, body))) {
    // Nothing here changes while a client listens.
    const handler = createMcpHandler(() => serverFor(agent), { legacy: "reject", maxSubscriptions: 0 });
    return handler.fetch(request, { parsedBody: body });
  }
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  const server = serverFor(agent);
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, { parsedBody: body });
  } finally {
    await server.close();
  }
}

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/** Names the wrong field of a request. The SDK alone answers with the issues of its schema, mostly as an internal error. */
class CheckedServer extends Server {
  protected override _wrapHandler(method: string, handler: Handler): Handler {
    const wrapped = super._wrapHandler(method, handler);
    return async (request, context) => {
      try {
        return await wrapped(request, context);
      } catch (error) {
        const field = wrongField(error);
        if (field === undefined) throw error;
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, `The ${field} field is not valid`);
      }
    };
  }
}

/** Returns the path of the first field in an error that lists the issues of a schema as JSON. */
function wrongField(error: unknown): string | undefined {
  // Anchored, because the sentences of this server repeat names that callers chose.
  const list =
    error instanceof Error ? /^(?:Invalid [a-z/]+ request: )?(\[\n[^]*)$/.exec(error.message)?.[1] : undefined;
  if (list === undefined) return undefined;
  const [issue] = JSON.parse(list) as { path: PropertyKey[] }[];
  return issue?.path.join(".");
}

function serverFor(agent: AgentRequest): Server {
  const server = new CheckedServer(IDENTITY, {
    capabilities: { tools: {}, resources: {} },
    instructions: INSTRUCTIONS,
    jsonSchemaValidator: NO_VALIDATOR,
  });
  server.setRequestHandler("tools/list", () => ({ tools: [...TOOLS.values()].map(({ definition }) => definition) }));
  server.setRequestHandler("tools/call", ({ params }) => call(agent, params.name, params.arguments ?? {}));
  server.setRequestHandler("resources/list", async () => ({
    resources: (await listGuides(agent.read)).map(({ path, ...about }) => ({
      uri: SCHEME + path,
      mimeType: MARKDOWN,
      ...about,
    })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [] }));
  server.setRequestHandler("resources/read", ({ params }) => guide(agent, params.uri));
  return server;
}

const SCHEME = "faregate://";
const MARKDOWN = "text/markdown";

async function guide({ read }: AgentRequest, uri: string): Promise<ReadResourceResult> {
  const path = (await listGuides(read)).find((each) => SCHEME + each.path === uri)?.path;
  const text = path === undefined ? undefined : await readGuide(read, path);
  if (text !== undefined) return { contents: [{ uri, mimeType: MARKDOWN, text }] };
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown resource: ${uri.slice(0, 200)}`);
}

async function call(agent: AgentRequest, name: string, given: Record<string, unknown>): Promise<CallToolResult> {
  try {
    const tool = TOOLS.get(name);
    if (tool === undefined) {
      agent.count();
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, 100)}`);
    }
    const request = requestOf(tool, given);
    const answer = await agent.send(request);
    if (!answer.ok) return refusal(await answer.text(), answer.headers);
    const { organizationId } = given;
    const page = agent.pageOf(typeof organizationId === "string" ? organizationId : undefined, request.page);
    return result(tool, request, answer, page);
  } catch (error) {
    if (error instanceof Failure) return failed(error.message);
    if (!(error instanceof ArgumentError)) throw error;
    return uncounted(agent, error);
  }
}

/** Answers a call from which no request was made, within the limit of calls. */
function uncounted(agent: AgentRequest, { message }: ArgumentError): CallToolResult {
  try {
    agent.count();
    return failed(message);
  } catch (error) {
    if (error instanceof Failure) return failed(error.message);
    throw error;
  }
}

const failed = (...texts: string[]): CallToolResult => ({
  content: texts.map((text) => ({ type: "text", text })),
  isError: true,
});

/** Repeats the server's sentence. The rest of its error, such as the problems of a file, follows as JSON. */
function refusal(text: string, headers: Headers): CallToolResult {
  const { error, ...rest } = JSON.parse(text) as { error: string };
  const retryAfter = headers.get("retry-after");
  return failed(
    error,
    ...(Object.keys(rest).length === 0 ? [] : [boundedJson(JSON.stringify(rest)).text]),
    ...(retryAfter === null ? [] : [`Try again in ${retryAfter} seconds`]),
  );
}

async function result(
  tool: Tool,
  request: ToolRequest,
  answer: Response,
  page: string | undefined,
): Promise<CallToolResult> {
  const text = await answer.text();
  const isJson = answer.headers.get("content-type")?.startsWith("application/json") === true;
  const bounded = isJson ? boundedJson(text) : boundedText(text);
  const notes = [
    headerNote(answer.headers, "x-total-count", "Matches in all"),
    headerNote(answer.headers, "next-after", "The next page has after="),
    ...omissions(tool, request, bounded),
    ...(page === undefined ? [] : [`In the console: ${page}`]),
  ].filter((note) => note !== undefined);
  return {
    content: [bounded.text, notes.join("\n")]
      .filter((each) => each !== "")
      .map((each) => ({ type: "text", text: each })),
  };
}

function headerNote(headers: Headers, name: string, label: string): string | undefined {
  const value = headers.get(name);
  return value === null ? undefined : label.endsWith("=") ? label + value : `${label}: ${value}`;
}

const PAGING = ["page", "offset", "after", "before", "limit", "top", "from", "to"];

/** Says what was left out of an answer, and how to get it. */
function omissions({ names }: Tool, { method, path }: ToolRequest, { omitted }: Bounded): string[] {
  if (omitted.length === 0) return [];
  const paging = PAGING.filter((name) => names.has(name));
  return [
    `Shortened. ${omitted.join("; ")}.`,
    ...(paging.length === 0 ? [] : [`Ask for less at a time with ${paging.join(", ")}.`]),
    `The whole answer: ${method} ${path} with the same key.`,
  ];
}
