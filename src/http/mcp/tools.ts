import { z } from "zod";
import { isDotSegment } from "../../core/pricing/names.ts";
import { PATH_PARAMETERS } from "../../wire/common.ts";
import type { AgentTool, Operation } from "../../wire/operation.ts";
import { OPERATIONS } from "../../wire/operations.ts";
import { API_PREFIX } from "../authorize.ts";

/*
 * Makes the tools of agents from the operations that have `agent` in src/wire, and HTTP requests from tool calls. Routes
 * validate the values, so tool calls and REST calls have the same checks and sentences.
 */

const IN_ORGANIZATION = "InOrganization";
const ORGANIZATION = "organizationId";
const BODY = "body";
const PRICING = "pricing";
const EXPECTATIONS = "expectations";
const DRAFTS = "drafts";

/** An operation that agents may use. */
interface AgentOperation extends Operation {
  agent: AgentTool;
}

/** Tool as clients list it. */
export interface ToolDefinition {
  name: string;
  title: string;
  description: string;
  inputSchema: { type: "object"; [keyword: string]: unknown };
  annotations: { readOnlyHint: true; destructiveHint: false; idempotentHint: true; openWorldHint: false };
}

export interface Tool {
  operation: AgentOperation;
  definition: ToolDefinition;
  /** Names of the arguments. */
  names: ReadonlySet<string>;
}

const isForAgents = (operation: Operation): operation is AgentOperation =>
  operation.agent !== undefined && !operation.id.endsWith(IN_ORGANIZATION);

const ids = new Set(OPERATIONS.map(({ id }) => id));
const pathParameters = ({ path }: Operation) => [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
const isFixed = ({ agent: { fixed = {} } }: AgentOperation, name: string) => Object.hasOwn(fixed, name);

const described = (description: string) => z.string().describe(description);
const PRICING_TEXT = described("The draft: the text of a Pricing2Yaml file");

/** Returns the schema of each argument: parameters by their names, and the body as one argument. */
function argumentsOf(operation: AgentOperation): Record<string, z.ZodType> {
  const { body } = operation;
  return {
    ...(ids.has(operation.id + IN_ORGANIZATION)
      ? {
          [ORGANIZATION]: described(
            "Id of the organization. Required with a user key; leave it out with an organization key",
          ).optional(),
        }
      : {}),
    ...Object.fromEntries(
      pathParameters(operation).map((name) => [name, described(PATH_PARAMETERS[name]?.description ?? name)]),
    ),
    ...Object.fromEntries(Object.entries(operation.query?.shape ?? {}).filter(([name]) => !isFixed(operation, name))),
    ...(body === "pricing" || body === "upload" ? { [PRICING]: PRICING_TEXT } : {}),
    ...(body === "upload"
      ? { [EXPECTATIONS]: described("YAML: expectations that the draft must meet").optional() }
      : {}),
    ...(typeof body === "object" ? { [BODY]: body.required === false ? body.schema.optional() : body.schema } : {}),
    ...(typeof body === "object" && body.asField !== undefined
      ? {
          [DRAFTS]: z
            .array(PRICING_TEXT)
            .max(body.maxDrafts ?? 20)
            .optional()
            .describe("Texts of Pricing2Yaml files that count as versions"),
        }
      : {}),
  };
}

/** Replaces references by their schemas: some clients do not follow them. No schema contains itself. */
function inlined(node: unknown, definitions: Readonly<Record<string, unknown>>): unknown {
  if (Array.isArray(node)) return node.map((each) => inlined(each, definitions));
  if (typeof node !== "object" || node === null) return node;
  if ("$ref" in node && typeof node.$ref === "string") {
    const { $ref, ...rest } = node;
    const target = definitions[$ref.replace("#/$defs/", "")] as object;
    return inlined({ ...target, ...rest }, definitions);
  }
  const entries = Object.entries(node).filter(([key]) => key !== "id" || !("type" in node));
  return Object.fromEntries(entries.map(([key, value]) => [key, inlined(value, definitions)]));
}

function schemaOf(shape: Record<string, z.ZodType>): ToolDefinition["inputSchema"] {
  const {
    $schema: _,
    $defs = {},
    ...schema
  } = z.toJSONSchema(z.strictObject(shape), {
    io: "input",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      if (jsonSchema.format === "date-time" || jsonSchema.format === "date") delete jsonSchema.pattern;
    },
  });
  return { ...(inlined(schema, $defs) as object), type: "object" };
}

function descriptionOf(operation: AgentOperation): string {
  const { fixed = {} } = operation.agent;
  const flags = Object.entries(fixed).flatMap(([name, value]) => {
    const parameter = operation.query?.shape[name] as z.ZodType | undefined;
    return value === null ? [] : [`${name}=${value} (${parameter?.description})`];
  });
  const always = flags.length === 0 ? "" : ` Calls of agents always have ${flags.join(", and ")}.`;
  return `${operation.description}${always}`;
}

function toolOf(operation: AgentOperation): Tool {
  const shape = argumentsOf(operation);
  return {
    operation,
    definition: {
      name: operation.id,
      title: operation.summary,
      description: descriptionOf(operation),
      inputSchema: schemaOf(shape),
      annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    },
    names: new Set(Object.keys(shape)),
  };
}

/** The tools by name. */
export const TOOLS: ReadonlyMap<string, Tool> = new Map(
  OPERATIONS.filter(isForAgents).map((operation) => [operation.id, toolOf(operation)]),
);

/** HTTP request of a tool call: its path with query, and page of the console. */
export interface ToolRequest {
  method: string;
  path: string;
  body: string | FormData | undefined;
  page: string;
}

/** Arguments that no request can be made from. The message names the argument. */
export class ArgumentError extends Error {}

/** Patterns of the API's paths. Literal paths precede parameters. */
const PATTERNS = OPERATIONS.filter(({ base }) => base !== "/").map(({ id, method, path }) => ({
  id,
  method,
  pattern: new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`),
}));

/**
 * Makes the request of a tool call.
 * @throws ArgumentError for an unknown argument, a missing part of the path, and a value of the wrong type.
 */
export function requestOf({ operation, names }: Tool, given: Readonly<Record<string, unknown>>): ToolRequest {
  const unknown = Object.keys(given).find((name) => !names.has(name));
  if (unknown !== undefined) {
    throw new ArgumentError(`Unknown argument: ${unknown.slice(0, 100)}. Arguments: ${[...names].join(", ")}`);
  }
  const { method, agent } = operation;
  const segments = Object.fromEntries(pathParameters(operation).map((name) => [name, segmentOf(name, given[name])]));
  const fill = (template: string) => template.replaceAll(/\{(\w+)\}/g, (_, name: string) => segments[name] ?? "");
  const isInside = given[ORGANIZATION] !== undefined && names.has(ORGANIZATION);
  const home = isInside ? `/organizations/${segmentOf(ORGANIZATION, given[ORGANIZATION])}` : "";
  const path = home + fill(operation.path);
  // A value such as pricing-token is a literal segment of another call.
  const reached = PATTERNS.find((each) => each.method === method && each.pattern.test(path))?.id;
  if (reached !== (isInside ? operation.id + IN_ORGANIZATION : operation.id)) {
    throw new ArgumentError(`No such ${pathParameters(operation).at(-1) ?? "path"}`);
  }
  const query = queryOf(operation, given);
  return {
    method,
    path: `${API_PREFIX}${path}${query === "" ? "" : `?${query}`}`,
    body: bodyOf(operation, given),
    page: fill(agent.page),
  };
}

/** Encodes one segment of a path. Empty and dot segments would lead to another call. */
function segmentOf(name: string, value: unknown): string {
  // A number is refused, because 1.10 would arrive as the version 1.1.
  const text = textOf(name, value);
  if (text === "" || isDotSegment(text) || /\p{Surrogate}/u.test(text)) {
    throw new ArgumentError(`The argument ${name} must be a text that is neither empty nor . or ..`);
  }
  return encodeURIComponent(text);
}

function queryOf(operation: AgentOperation, given: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(operation.agent.fixed ?? {})) if (value !== null) query.set(name, value);
  for (const name of Object.keys(operation.query?.shape ?? {})) {
    const value = Object.hasOwn(given, name) && !isFixed(operation, name) ? given[name] : undefined;
    if (value === undefined || value === null) continue;
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") {
      throw new ArgumentError(`The argument ${name} must be a text, a number or a boolean`);
    }
    query.set(name, String(value));
  }
  return query.toString();
}

function textOf(name: string, value: unknown): string {
  if (value === undefined) throw new ArgumentError(`The argument ${name} is required`);
  if (typeof value !== "string") throw new ArgumentError(`The argument ${name} must be a text, not ${typeof value}`);
  return value;
}

const fileOf = (content: string) => new Blob([content], { type: "application/yaml" });

function bodyOf({ body }: AgentOperation, given: Readonly<Record<string, unknown>>): ToolRequest["body"] {
  if (body === undefined) return undefined;
  const form = new FormData();
  if (typeof body === "string") {
    form.append(PRICING, fileOf(textOf(PRICING, given[PRICING])), "pricing.yml");
    if (body === "upload" && given[EXPECTATIONS] !== undefined) {
      form.append(EXPECTATIONS, fileOf(textOf(EXPECTATIONS, given[EXPECTATIONS])), "expectations.yml");
    }
    return form;
  }
  const value = given[BODY] ?? {};
  if (typeof value !== "object" || Array.isArray(value)) throw new ArgumentError("The argument body must be an object");
  const drafts = body.asField === undefined ? undefined : given[DRAFTS];
  if (body.asField === undefined || drafts === undefined) return JSON.stringify(value);
  if (!Array.isArray(drafts)) throw new ArgumentError(`The argument ${DRAFTS} must be a list of texts`);
  form.append(body.asField, JSON.stringify(value));
  for (const draft of drafts) form.append(PRICING, fileOf(textOf(DRAFTS, draft)), "pricing.yml");
  return form;
}
