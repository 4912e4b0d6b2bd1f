import type { z } from "zod";
import { findRule } from "../core/access/find-rule.ts";
import { EXAMPLE, PATH_PARAMETERS } from "../wire/common.ts";
import { failure } from "../wire/failure.ts";
import { type DocumentedAnswer, type DocumentedBody, GROUPS, type Operation } from "../wire/operation.ts";
import { OPERATIONS } from "../wire/operations.ts";
import { EXPECTATIONS_EXAMPLE, PRICING_EXAMPLE } from "../wire/pricing-example.ts";
import { createSchemas, forGenerators, type Json, type OpenApiVersion, type Schemas } from "./openapi-schemas.ts";

const EXPECTATIONS = {
  type: "string",
  description: "YAML: expectations that the pricing must meet, at most 256 kB",
};

/** The body of an upload: a file, or the address of one. */
function pricingBody(takesExpectations: boolean): Json {
  const description = "A Pricing2Yaml file";
  const extra = (schema: Json) => (takesExpectations ? { expectations: schema } : {});
  return {
    description: "A Pricing2Yaml file, or an https address from which it is fetched once",
    required: true,
    content: {
      "multipart/form-data": {
        schema: {
          type: "object",
          properties: {
            pricing: { type: "string", format: "binary", description },
            ...extra(EXPECTATIONS),
          },
          required: ["pricing"],
        },
        example: { pricing: PRICING_EXAMPLE, ...(takesExpectations ? { expectations: EXPECTATIONS_EXAMPLE } : {}) },
      },
      "application/json": {
        schema: {
          type: "object",
          properties: { pricing: { type: "string", format: "uri", description }, ...extra(EXPECTATIONS) },
          required: ["pricing"],
        },
        example: { pricing: "https://example.com/tasker.yml" },
      },
    },
  };
}

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description: "A retry with the same key within 24 hours is counted once and returns the first answer",
  schema: { type: "string", maxLength: 255 },
};
const IF_NONE_MATCH = {
  name: "If-None-Match",
  in: "header",
  description: "ETag of the answer that the client has",
  schema: { type: "string" },
};
const ETAG = { ETag: { description: "Changes with the answer", schema: { type: "string" } } };

/** Errors that every operation can return. An operation without a body has no 413, and a public one no 403 and 410. */
const SHARED_ERRORS = {
  400: ["BadRequest", "The request cannot be read, or a rule forbids it", "INVALID DATA: Malformed JSON body"],
  401: ["Unauthenticated", "The key is missing or unknown", "INVALID DATA: Invalid API Key"],
  403: ["Forbidden", "The key is not allowed to do this", "You do not have permission to access this resource"],
  410: [
    "Gone",
    "The organization has moved to another instance, whose address is in details",
    "The organization has moved to https://two.example.com",
  ],
  413: ["TooLarge", "The body is too large, or has too many values", "The request body is larger than 2 MB"],
  422: ["Unprocessable", "A field of the body, or an id in the path, is wrong", "Username is required"],
  429: [
    "TooManyRequests",
    "Too many requests; Retry-After says when to retry",
    "Too many requests. Please try again later",
  ],
  503: [
    "Unavailable",
    "The server is busy; Retry-After says when to retry",
    "The service is temporarily unavailable. Please try again",
  ],
} as const;

const errorResponse = (description: string, example: string) => ({
  description,
  content: { "application/json": { schema: { $ref: "#/components/schemas/Failure" }, example: { error: example } } },
});

function errorsOf(operation: Operation, isPublic: boolean, schemas: Schemas): Json {
  const { failure: other } = operation;
  const shared = Object.entries(SHARED_ERRORS).filter(([status]) => {
    if (status === "403") return !isPublic;
    if (status === "410") return !isPublic || /^\/(?:billing|invitations)\//.test(operation.path);
    if (status === "413") return operation.body !== undefined;
    return status !== "422" || operation.body !== undefined || operation.path.includes("{organizationId}");
  });
  if (other !== undefined) {
    const content = { "application/json": { schema: schemas.schemaOf(other, "output") } };
    const described = [
      ...shared.map(([status, [, text]]) => [status, text]),
      ...Object.entries(operation.errors ?? {}),
    ];
    return Object.fromEntries(described.map(([status, description]) => [status, { description, content }]));
  }
  return {
    ...Object.fromEntries(shared.map(([status, [name]]) => [status, { $ref: `#/components/responses/${name}` }])),
    ...Object.fromEntries(
      Object.entries(operation.errors ?? {}).map(([status, sentence]) => [status, errorResponse(sentence, sentence)]),
    ),
  };
}

function answerOf(operation: Operation, status: string, answer: DocumentedAnswer | null, schemas: Schemas): Json {
  if (answer === null) return { description: status === "304" ? "Not modified" : "Done" };
  const { schema, example, description = "Success" } = answer;
  const json = { "application/json": { schema: schemas.schemaOf(schema, "output"), example } };
  const text = (mediaType: string, shown?: unknown) => ({
    [mediaType]: { schema: { type: "string" }, ...(shown === undefined ? {} : { example: shown }) },
  });
  return {
    description,
    ...(operation.conditional === undefined ? {} : { headers: ETAG }),
    content:
      operation.mediaType === undefined
        ? { ...json, ...(operation.alsoAs === undefined ? {} : text(operation.alsoAs)) }
        : text(operation.mediaType, example),
  };
}

/** Documents a form with the JSON body as text in one field, and drafts beside it. */
function draftsForm(field: string, { example, maxDrafts = 20 }: DocumentedBody): Json {
  return {
    schema: {
      type: "object",
      properties: {
        [field]: { type: "string", description: "The JSON body as text" },
        pricing: {
          type: "array",
          maxItems: maxDrafts,
          items: { type: "string", format: "binary", description: "A Pricing2Yaml file" },
        },
      },
      required: [field],
    },
    example: { [field]: JSON.stringify(example) },
  };
}

function bodyOf(body: DocumentedBody | "pricing" | "upload", schemas: Schemas): Json {
  if (typeof body === "string") return pricingBody(body === "upload");
  const schema = schemas.schemaOf(body.schema, "input");
  return {
    required: body.required ?? true,
    content: {
      "application/json": { schema, example: body.example },
      ...(body.asField === undefined ? {} : { "multipart/form-data": draftsForm(body.asField, body) }),
    },
  };
}

function parametersOf(operation: Operation, schemas: Schemas): Json[] {
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
  return [
    ...names.map((name) => ({
      name,
      in: "path",
      required: true,
      description: PATH_PARAMETERS[name]?.description,
      schema: { type: "string" },
      example: PATH_PARAMETERS[name]?.example,
    })),
    ...(operation.idempotent === undefined ? [] : [IDEMPOTENCY_KEY]),
    ...(operation.conditional === undefined ? [] : [IF_NONE_MATCH]),
    ...Object.entries(operation.query?.shape ?? {}).map(([name, each]) => {
      const { description, ...schema } = schemas.schemaOf(each as z.ZodType, "input");
      const isRequired = !(each as z.ZodType).safeParse(undefined).success;
      return { name, in: "query", ...(isRequired ? { required: true } : {}), description, schema };
    }),
  ];
}

function documented(operation: Operation, schemas: Schemas): Json {
  const isPublic = findRule(operation.method, operation.path, operation.base)?.access === "public";
  return {
    operationId: operation.id,
    summary: operation.summary,
    description: operation.description,
    tags: [operation.group],
    security: isPublic ? [] : [{ apiKey: [] }, ...(operation.base === "/" ? [{ bearer: [] }] : [])],
    parameters: parametersOf(operation, schemas),
    ...(operation.body === undefined ? {} : { requestBody: bodyOf(operation.body, schemas) }),
    responses: {
      ...Object.fromEntries(
        Object.entries(operation.answers).map(([status, answer]) => [
          status,
          answerOf(operation, status, answer, schemas),
        ]),
      ),
      ...errorsOf(operation, isPublic, schemas),
      // Linters and generators of clients demand a success or a default; an operation that only redirects has no success.
      ...(Object.keys(operation.answers).some((status) => status.startsWith("2"))
        ? {}
        : { default: { description: "Redirects to the page that follows" } }),
    },
  };
}

const SUMMARY = "May this user use this feature, and how much is left?";
const INTRODUCTION = `Faregate answers one question at run time: may this user use this feature, and how much is left?

**Keys.** Every call sends its key in the header \`x-api-key\`. A *user key* (\`usr_…\`) belongs to a person and is returned by signing in. An *organization key* (\`org_…\`) belongs to a server of yours; its scope is ALL, MANAGEMENT (everything but removing) or EVALUATION (reading and evaluating).

**Organizations** separate tenants. An organization key acts inside its own organization: call \`/services\`, \`/contracts\` and \`/features\`. A user key names the organization in the path: \`/organizations/{organizationId}/services\`.

**First steps.** Create a user, sign in, create an organization and a key of it. With that key upload a pricing, create a contract, and evaluate a feature.

**Errors** are \`{"error": "…"}\` with a sentence that says what is wrong. The header \`Link\` of each leads to its meaning and remedy, on the page \`docs/errors\`.`;

/** The OpenAPI document, from the operations in src/wire and the permission table. */
export function openApiDocument(basePath: string, version: OpenApiVersion = "3.1"): object {
  const schemas = createSchemas(version);
  const failureSchema = schemas.schemaOf(failure, "output");
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    const item = (paths[operation.path] ??= operation.base === "/" ? { servers: [{ url: basePath || "/" }] } : {});
    item[operation.method.toLowerCase()] = documented(operation, schemas);
  }
  const document = {
    openapi: version === "3.0" ? "3.0.3" : "3.1.0",
    info: {
      title: "Faregate",
      version: "1",
      description: INTRODUCTION,
      ...(version === "3.0"
        ? { license: { name: "MIT", url: "https://opensource.org/license/mit" } }
        : { summary: SUMMARY, license: { name: "MIT", identifier: "MIT" } }),
    },
    servers: [{ url: `${basePath}/api/v1` }],
    tags: Object.entries(GROUPS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: { Failure: failureSchema, ...schemas.components },
      responses: Object.fromEntries(
        Object.values(SHARED_ERRORS).map(([name, description, example]) => [name, errorResponse(description, example)]),
      ),
      securitySchemes: {
        apiKey: {
          type: "apiKey",
          in: "header",
          name: "x-api-key",
          description: `A user key (${EXAMPLE.userKey.slice(0, 4)}…) or an organization key (${EXAMPLE.organizationKey.slice(0, 4)}…)`,
        },
        bearer: { type: "http", scheme: "bearer", description: "An organization key, for OpenFeature clients" },
      },
    },
  };
  return version === "3.0" ? forGenerators(document) : document;
}
