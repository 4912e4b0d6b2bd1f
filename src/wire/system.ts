import { z } from "zod";
import { message } from "./common.ts";
import type { Operation } from "./operation.ts";

const INVALID_ENTRY = {
  key: "INVALID DATA: The key field must be a non-empty string",
  value: "INVALID DATA: The value field is required",
  expirationInSeconds: "INVALID DATA: The expirationInSeconds field must be a positive integer",
} as const;

/** One hundred years, well within the range of stored times. */
const MAX_EXPIRATION = 3_155_760_000;

export const cacheEntry = z
  .object({
    key: z
      .string(INVALID_ENTRY.key)
      .min(1, INVALID_ENTRY.key)
      .max(512, "INVALID DATA: The key field must not be longer than 512 characters"),
    value: z.custom<unknown>((value) => value !== undefined, INVALID_ENTRY.value),
    // Zero counts as missing.
    expirationInSeconds: z
      .int(INVALID_ENTRY.expirationInSeconds)
      .min(0, INVALID_ENTRY.expirationInSeconds)
      .max(MAX_EXPIRATION, INVALID_ENTRY.expirationInSeconds)
      .transform((seconds) => seconds || 300)
      .default(300),
  })
  .meta({ id: "CacheEntry" });

export const cacheQueryParameters = z.object({ key: z.string().min(1).describe("Key of the entry") });

/** Versions of OpenAPI that the document is written in. */
export const OPENAPI_VERSIONS = ["3.1", "3.0"] as const;
export const documentQueryParameters = z.object({
  version: z.enum(OPENAPI_VERSIONS).default("3.1").describe("Version of OpenAPI"),
});

/** Bounded like every body: a token of many features takes about 100 kB. */
export const tokenToVerify = z
  .object({
    token: z.string({
      error: ({ input }) => (input === undefined ? "The token field is required" : "The token field must be a string"),
    }),
  })
  .meta({ id: "TokenToVerify" });

export const tokenVerdict = z
  .strictObject({ valid: z.boolean(), reason: z.string().nullable() })
  .meta({ id: "TokenVerdict" });

const TOKEN_KEY = {
  kty: "OKP",
  crv: "Ed25519",
  use: "sig",
  alg: "EdDSA",
  kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
  x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
};

export const tokenKeySet = z
  .strictObject({
    keys: z.array(
      z.strictObject({
        kty: z.literal("OKP"),
        crv: z.literal("Ed25519"),
        use: z.literal("sig"),
        alg: z.literal("EdDSA"),
        kid: z.string().describe("RFC 7638 thumbprint of the key"),
        x: z.string(),
      }),
    ),
  })
  .meta({ id: "TokenKeySet" });

export const week = z
  .strictObject({ labels: z.array(z.string()).length(7), data: z.array(z.number()).length(7) })
  .meta({ id: "Week" });

const WEEK = {
  labels: ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
  data: [12, 40, 38, 55, 61, 9, 7],
};

/** Health, tokens, statistics and this document. */
export const systemOperations: readonly Operation[] = [
  {
    id: "verifyToken",
    group: "Tokens",
    method: "POST",
    path: "/pricing-tokens/verify",
    summary: "Verify a pricing token",
    description:
      "Checks that a token was signed here, is for an organization of the caller, and has not expired. For back ends without the secret.",
    body: { schema: tokenToVerify, example: { token: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.…" } },
    answers: { 200: { schema: tokenVerdict, example: { valid: true, reason: null } } },
  },
  {
    id: "listTokenKeys",
    group: "Tokens",
    base: "/",
    method: "GET",
    path: "/.well-known/jwks.json",
    summary: "List the public token keys",
    description:
      "Returns the keys that verify EdDSA pricing tokens, oldest first, for pages of every origin. A new key is published before it signs.",
    conditional: true,
    answers: { 200: { schema: tokenKeySet, example: { keys: [TOKEN_KEY] } } },
  },
  {
    id: "showHealth",
    group: "System",
    method: "GET",
    path: "/healthcheck",
    summary: "Check that the service runs",
    description:
      "Answers while the process runs, without looking at the database. Orchestrators use `/live` and `/ready`.",
    answers: { 200: { schema: message, example: { message: "Service is up and running!" } } },
  },
  {
    id: "countCalls",
    group: "System",
    method: "GET",
    path: "/analytics/api-calls",
    summary: "Count calls per day",
    description: "Counts calls of the whole instance over the last seven days.",
    answers: { 200: { schema: week, example: WEEK } },
  },
  {
    id: "countEvaluations",
    group: "System",
    method: "GET",
    path: "/analytics/evaluations",
    summary: "Count evaluations per day",
    description: "Counts evaluations of the whole instance over the last seven days.",
    answers: { 200: { schema: week, example: WEEK } },
  },
  {
    id: "readCacheEntry",
    group: "System",
    method: "GET",
    path: "/cache/get",
    summary: "Read a cache entry",
    description: "Returns a value that a platform ADMIN has stored. The server itself reads none of them.",
    query: cacheQueryParameters,
    answers: { 200: { schema: z.unknown(), example: { colour: "blue" } } },
  },
  {
    id: "writeCacheEntry",
    group: "System",
    method: "POST",
    path: "/cache/set",
    summary: "Write a cache entry",
    description: "Stores a value for a platform ADMIN, for five minutes unless the body says otherwise.",
    body: { schema: cacheEntry, example: { key: "theme", value: { colour: "blue" }, expirationInSeconds: 60 } },
    answers: { 200: { schema: message, example: { message: "Cache set successfully" } } },
    errors: { 409: "Value already exists in cache, please use a different key." },
  },
  {
    id: "showDocument",
    group: "System",
    method: "GET",
    path: "/openapi.json",
    summary: "Get this document",
    description:
      "Returns the OpenAPI document of this interface. Version 3.0 is for generators that read no 3.1: a union is one type there.",
    query: documentQueryParameters,
    answers: { 200: { schema: z.looseObject({ openapi: z.string() }), example: { openapi: "3.1.0" } } },
    errors: { 400: "INVALID DATA: version must be one of 3.1, 3.0" },
  },
  {
    id: "showReference",
    group: "System",
    method: "GET",
    path: "/docs",
    summary: "Open the reference page",
    description: "Returns a page to read and try the interface.",
    mediaType: "text/html",
    answers: { 200: { schema: z.string(), example: "<!doctype html>" } },
    errors: { 404: "Cannot GET /api/v1/docs" },
  },
];
