import { z } from "zod";
import { type Base, findRule } from "../core/access/permissions.ts";
import * as answers from "./answers.ts";
import * as changes from "./routes/changes.ts";
import * as contracts from "./routes/contracts.ts";
import { expectedConsumption } from "./routes/features.ts";
import { gate } from "./routes/gate.ts";
import { evaluationRequest } from "./routes/ofrep.ts";
import * as organizations from "./routes/organizations.ts";
import * as services from "./routes/services.ts";
import { tokenToVerify } from "./routes/system.ts";
import * as users from "./routes/users.ts";
import * as webhooks from "./routes/webhooks.ts";

/** One documented call. `path` is relative to `base`, which is /api/v1 unless said; parameters in braces. */
export interface Operation {
  base?: Base;
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  summary: string;
  /** Query parameters: name -> what it does. */
  query?: Record<string, string>;
  /** The schema that validates the body, or a pricing's upload. */
  body?: z.ZodType | "pricing" | "upload";
  /** Successful answers by status; null is an empty body. */
  answers: Record<number, z.ZodType | null>;
  /** The shape of refusals, where a protocol asks for another than ours. */
  failure?: z.ZodType;
  /** The answer has an ETag, and If-None-Match asks for 304 instead of the same again. */
  conditional?: true;
  /** Takes an Idempotency-Key: sent again within 24 hours, it is done once and answered the same. */
  idempotent?: true;
  /** Media type of the answer where it is not JSON. */
  mediaType?: string;
  /** Another one in which the answer is given to who asks for it. */
  alsoAs?: string;
}

const PAGE = {
  page: "Page number, from 1",
  offset: "Rows to skip; replaces page when greater than 0",
  limit: "Rows a page",
};
const MODE = { server: "true: evaluate server expressions where a feature has one" };
const AT = {
  at: "ISO 8601: the answer of that moment in the past, with the state that it is made from; counts nothing",
};
const AUDIT = {
  action: "One of the actions, such as contract.novate, or what is before its dot",
  target: "Exactly it",
  actorId: "Id of the user or the key",
  from: "ISO 8601: not before",
  to: "ISO 8601: before",
  before: "Id of the last entry of the page before",
  limit: "1 to 100, 20 by default",
};
const OVERRIDE = {
  overrideReason: "Of an OWNER: why it is done although a rule of the gate is broken (409 without it)",
};
const AVAILABILITY = { availability: "active or archived (the default)", ...OVERRIDE };

const userOperations: Operation[] = [
  {
    method: "POST",
    path: "/users/authenticate",
    summary: "Sign in: returns the user's current key",
    body: users.credentials,
    answers: { 200: answers.signedIn },
  },
  {
    method: "POST",
    path: "/users",
    summary: "Create a user with its default organization",
    body: users.newUser,
    answers: { 201: answers.user },
  },
  {
    method: "GET",
    path: "/users",
    summary: "Find users",
    query: { q: "Part of the name; at least 4 characters unless ADMIN", offset: PAGE.offset, limit: "1 to 50" },
    answers: { 200: answers.userPage },
  },
  { method: "GET", path: "/users/me", summary: "Who the key belongs to", answers: { 200: answers.me } },
  { method: "GET", path: "/users/{username}", summary: "Show a user", answers: { 200: answers.user } },
  {
    method: "PUT",
    path: "/users/{username}",
    summary: "Change name, password or role",
    body: users.userChange,
    answers: { 200: answers.userUpdated },
  },
  {
    method: "PUT",
    path: "/users/{username}/api-key",
    summary: "Replace the user's key; the old one stops working at once, or after overlapSeconds",
    body: users.keyRotation,
    answers: { 200: answers.userKey },
  },
  {
    method: "GET",
    path: "/users/{username}/api-key",
    summary: "When the user's key ends and when it was used last",
    answers: { 200: answers.userKeyDetails },
  },
  {
    method: "PUT",
    path: "/users/{username}/role",
    summary: "Change the platform role",
    body: users.newRole,
    answers: { 200: answers.userUpdated },
  },
  {
    method: "DELETE",
    path: "/users/{username}",
    summary: "Delete a user; its organizations pass to a member or go",
    answers: { 204: null },
  },
];

const organizationOperations: Operation[] = [
  {
    method: "GET",
    path: "/organizations",
    summary: "Own organizations; for a platform ADMIN all of them, paged",
    query: { q: "Part of the name", offset: PAGE.offset, limit: "1 to 50" },
    answers: { 200: answers.organizationPage },
  },
  {
    method: "POST",
    path: "/organizations",
    summary: "Create an organization",
    body: organizations.newOrganization,
    answers: { 201: answers.organizationListed },
  },
  {
    method: "GET",
    path: "/organizations/{organizationId}",
    summary: "Show an organization",
    answers: { 200: answers.organization },
  },
  {
    method: "PUT",
    path: "/organizations/{organizationId}",
    summary: "Rename, transfer, or make default",
    body: organizations.organizationChange,
    answers: { 200: answers.organization },
  },
  {
    method: "DELETE",
    path: "/organizations/{organizationId}",
    summary: "Delete an organization with all that it has",
    answers: { 204: null },
  },
  {
    method: "POST",
    path: "/organizations/{organizationId}/members",
    summary: "Add a member",
    body: organizations.newMember,
    answers: { 200: answers.organization },
  },
  {
    method: "PUT",
    path: "/organizations/{organizationId}/members/{username}",
    summary: "Change a member's role",
    body: organizations.newMemberRole,
    answers: { 200: answers.organization },
  },
  {
    method: "DELETE",
    path: "/organizations/{organizationId}/members/{username}",
    summary: "Remove a member, or leave",
    answers: { 200: answers.organization },
  },
  {
    method: "POST",
    path: "/organizations/{organizationId}/api-keys",
    summary: "Create a key; it is the last element of apiKeys",
    query: { scope: "ALL, MANAGEMENT or EVALUATION, where the body has none" },
    body: organizations.keyRequest,
    answers: { 200: answers.organization },
  },
  {
    method: "GET",
    path: "/organizations/{organizationId}/api-keys",
    summary: "When keys end and when they were used last; without their values",
    answers: { 200: z.array(answers.organizationKey) },
  },
  {
    method: "PUT",
    path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
    summary: "Name a key, or say when it ends: to rotate it, create another one before",
    body: organizations.keyChange,
    answers: { 200: answers.organizationKey },
  },
  {
    method: "GET",
    path: "/organizations/{organizationId}/overview",
    summary: "Contracts by state, who is near a limit, limits reached and denials lately, active versions",
    query: {
      near: "From which share of a limit on somebody is near it, above 0 and up to 1; 0.8 by default",
      hours: "How far back limits reached and denials are counted, the latter by whole hours, 1 to 168; 24 by default",
    },
    answers: { 200: answers.overview },
  },
  {
    method: "GET",
    path: "/organizations/{organizationId}/denials",
    summary: "How often features were refused lately, and which ones most",
    query: { hours: "How far back they are counted, by whole hours, 1 to 168; 24 by default" },
    answers: { 200: answers.denialReport },
  },
  {
    method: "GET",
    path: "/organizations/{organizationId}/audit-log",
    summary: "Who changed what in the organization, newest first; for OWNER and ADMIN",
    query: AUDIT,
    answers: { 200: answers.auditPage },
  },
  {
    method: "DELETE",
    path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
    summary: "Delete a key, by its id or its value",
    answers: { 200: answers.organization },
  },
];

const gateOperations: Operation[] = [
  {
    method: "GET",
    path: "/organizations/{organizationId}/gate",
    summary: "The rules that changes of pricings are held against",
    answers: { 200: answers.gate },
  },
  {
    method: "PUT",
    path: "/organizations/{organizationId}/gate",
    summary: "Set the rules: archiving, activating, disabling and mass novation that break one are refused with 409",
    body: gate,
    answers: { 200: answers.gate },
  },
];

const serviceOperations: Operation[] = [
  {
    method: "GET",
    path: "/services",
    summary: "List services",
    query: { name: "Part of the name", ...PAGE, order: "asc or desc, by name" },
    answers: { 200: z.array(answers.service) },
  },
  {
    method: "POST",
    path: "/services",
    summary: "Create a service from its first pricing; expectations that it does not meet refuse it",
    body: "upload",
    answers: { 201: answers.serviceUploaded },
  },
  {
    method: "DELETE",
    path: "/services",
    summary: "Remove every service for good",
    answers: { 200: answers.message },
  },
  { method: "GET", path: "/services/{serviceName}", summary: "Show a service", answers: { 200: answers.service } },
  {
    method: "PUT",
    path: "/services/{serviceName}",
    summary: "Rename a service or move it to another organization; the gate decides on a move as on disabling",
    query: OVERRIDE,
    body: services.serviceChanges,
    answers: { 200: answers.service },
  },
  {
    method: "DELETE",
    path: "/services/{serviceName}",
    summary: "Disable a service",
    query: OVERRIDE,
    answers: { 204: null },
  },
  {
    method: "GET",
    path: "/services/{serviceName}/pricings",
    summary: "List pricing versions",
    query: { pricingStatus: "active (the default) or archived" },
    answers: { 200: z.array(answers.pricing) },
  },
  {
    method: "POST",
    path: "/services/{serviceName}/pricings",
    summary: "Add a pricing version; expectations that it does not meet refuse it",
    body: "upload",
    answers: { 201: answers.serviceUploaded },
  },
  {
    method: "GET",
    path: "/services/{serviceName}/pricings/{pricingVersion}",
    summary: "Show a pricing version",
    answers: { 200: answers.pricing },
  },
  {
    method: "GET",
    path: "/services/{serviceName}/pricings/{pricingVersion}/public-url",
    summary: "Where the uploaded text is public",
    answers: { 200: answers.publicUrl },
  },
  {
    method: "PUT",
    path: "/services/{serviceName}/pricings/{pricingVersion}",
    summary: "Archive a version, novating its contracts, or activate it again",
    query: AVAILABILITY,
    body: services.fallbackSubscription,
    answers: { 200: answers.service },
  },
  {
    method: "DELETE",
    path: "/services/{serviceName}/pricings/{pricingVersion}",
    summary: "Delete an archived version",
    answers: { 204: null },
  },
];

const changeOperations: Operation[] = [
  {
    method: "GET",
    path: "/services/{serviceName}/diff",
    summary:
      "What subscribers gain and lose between two versions. An organization has two analyses at a time, others get 429 with Retry-After",
    query: { from: "A version", to: "Another one", format: "json or markdown, instead of Accept" },
    alsoAs: "text/markdown",
    answers: { 200: answers.diff },
  },
  {
    method: "POST",
    path: "/services/{serviceName}/diff",
    summary: "The same between a version and a draft, which is not kept",
    query: { from: "A version; the newest active one by default", format: "json or markdown, instead of Accept" },
    body: "pricing",
    alsoAs: "text/markdown",
    answers: { 200: answers.diff },
  },
  {
    method: "POST",
    path: "/services/{serviceName}/impact",
    summary:
      "What archiving, activating, disabling or a novation of all contracts would do to each contract; changes nothing. As application/x-ndjson line by line: progress, and the report at the end",
    query: { certificate: "true for the certificate of each group's best fit" },
    body: changes.change,
    alsoAs: "application/x-ndjson",
    answers: { 200: answers.impact },
  },
  {
    method: "POST",
    path: "/services/{serviceName}/novations",
    summary: "Novate every contract of a service to one version, each configuration where it fits best; all or none",
    query: OVERRIDE,
    body: changes.massNovation,
    answers: { 200: answers.massNovation },
  },
  {
    method: "GET",
    path: "/services/{serviceName}/decisions",
    summary: "What was known of changes when they were made, newest first: impact, rules of the gate, overrides",
    query: {
      pricingVersion: "Of this version alone",
      before: "Id of the last one of the page before",
      limit: "1 to 100, 20 by default",
    },
    answers: { 200: answers.decisionPage },
  },
];

const contractOperations: Operation[] = [
  {
    method: "GET",
    path: "/contracts",
    summary: "List contracts; X-Total-Count says how many match",
    query: {
      username: "Part of it",
      firstName: "Part of it",
      lastName: "Part of it",
      email: "Part of it",
      groupId: "Exactly it",
      ...PAGE,
      sort: "firstName, lastName, username or email",
      order: "asc or desc",
      filters: "JSON: {services, plans, addOns}",
      state: "active, renewing (by itself), ending (within a week) or expired, as the overview counts them",
      near: "Those who have used this share of a limit or more, above 0 and up to 1; within an organization",
    },
    answers: { 200: z.array(answers.contract) },
  },
  {
    method: "POST",
    path: "/contracts",
    summary: "Contract an end user",
    body: contracts.newContract,
    answers: { 201: answers.contract },
  },
  {
    method: "PUT",
    path: "/contracts",
    summary: "Novate every contract of a group, if the gate lets it",
    query: { groupId: "The group", ...OVERRIDE },
    body: contracts.novation,
    answers: { 200: z.array(answers.contract) },
  },
  { method: "DELETE", path: "/contracts", summary: "Delete every contract", answers: { 204: null } },
  {
    method: "GET",
    path: "/contracts/{userId}",
    summary: "Show a contract, as it is or as it was",
    query: AT,
    answers: { 200: answers.contractShown },
  },
  {
    method: "PUT",
    path: "/contracts/{userId}",
    summary: "Novate: replace what is contracted",
    body: contracts.novation,
    answers: { 200: answers.contract },
  },
  { method: "DELETE", path: "/contracts/{userId}", summary: "Delete a contract", answers: { 204: null } },
];

const contractDetailOperations: Operation[] = [
  {
    method: "PUT",
    path: "/contracts/billingPeriod",
    summary: "Change the billing period of a group or of all contracts",
    query: { groupId: "The group; without it, all contracts of the key's organization" },
    body: contracts.billingChanges,
    answers: { 200: z.array(answers.contract) },
  },
  {
    method: "PUT",
    path: "/contracts/{userId}/usageLevels",
    idempotent: true,
    summary: "Add to, give back, or reset what was used",
    query: {
      reset: "true: all renewable levels to zero",
      renewableOnly: "false: with reset, the others too",
      usageLimit: "Only this limit to zero",
    },
    body: contracts.usageAmounts,
    answers: { 200: answers.contract },
  },
  {
    method: "PUT",
    path: "/contracts/{userId}/userContact",
    summary: "Change contact details",
    body: contracts.contactChanges,
    answers: { 200: answers.contract },
  },
  {
    method: "PUT",
    path: "/contracts/{userId}/billingPeriod",
    summary: "Change one contract's billing period",
    body: contracts.billingChanges,
    answers: { 200: answers.contract },
  },
];

const featureOperations: Operation[] = [
  {
    method: "GET",
    path: "/features",
    summary: "List features of all pricings",
    query: {
      featureName: "Part of it",
      serviceName: "Part of it",
      pricingVersion: "Part of it",
      show: "active, archived or all",
      ...PAGE,
      sort: "serviceName or featureName",
      order: "asc or desc",
    },
    answers: { 200: z.array(answers.listedFeature) },
  },
  {
    method: "POST",
    path: "/features/{userId}",
    summary: "Evaluate every feature",
    query: { details: "true: with limit, use and error of each", ...MODE, ...AT },
    answers: { 200: z.union([answers.featuresAsOf, answers.booleans, answers.featureResults]) },
  },
  {
    method: "POST",
    path: "/features/{userId}/pricing-token",
    summary: "Issue a signed pricing token",
    query: MODE,
    answers: { 200: answers.pricingToken },
  },
  {
    method: "POST",
    path: "/features/{userId}/{featureId}",
    idempotent: true,
    summary: "Evaluate one feature; with amounts in the body, count its use",
    query: {
      ...MODE,
      revert: "true: undo what this feature consumed in the last two minutes (204)",
      latest: "true: with revert, only the newest",
      strict: "true: refuse amounts that would pass a limit; adds what is left",
      dryRun: "true: answer what would happen and count nothing; adds what is left",
      explain: "true: add what is left and when it resets",
      ...AT,
    },
    body: expectedConsumption,
    answers: { 200: answers.featureAnswer, 204: null },
  },
];

const ofrepOperations: Operation[] = [
  {
    base: "/",
    method: "POST",
    path: "/ofrep/v1/evaluate/flags",
    conditional: true,
    summary: "OpenFeature (OFREP): evaluate every feature for the user that context.targetingKey names",
    query: MODE,
    body: evaluationRequest,
    answers: { 200: answers.ofrepFlags, 304: null },
    failure: answers.ofrepBulkFailure,
  },
  {
    base: "/",
    method: "POST",
    path: "/ofrep/v1/evaluate/flags/{key}",
    summary: "OpenFeature (OFREP): evaluate one feature; never counts",
    query: MODE,
    body: evaluationRequest,
    answers: { 200: answers.ofrepFlag },
    failure: answers.ofrepFailure,
  },
];

const webhookOperations: Operation[] = [
  {
    method: "GET",
    path: "/webhooks",
    summary: "List the addresses to which events are sent",
    answers: { 200: z.array(answers.webhook) },
  },
  {
    method: "POST",
    path: "/webhooks",
    summary: "Have events sent to an address, signed as Standard Webhooks says; the secret is in this answer only",
    body: webhooks.newWebhook,
    answers: { 201: answers.webhookWithSecret },
  },
  { method: "GET", path: "/webhooks/{webhookId}", summary: "Show a webhook", answers: { 200: answers.webhook } },
  {
    method: "PUT",
    path: "/webhooks/{webhookId}",
    summary: "Change a webhook; enabled: true ends a suspension",
    body: webhooks.webhookChanges,
    answers: { 200: answers.webhook },
  },
  {
    method: "DELETE",
    path: "/webhooks/{webhookId}",
    summary: "Delete a webhook with its deliveries",
    answers: { 204: null },
  },
  {
    method: "POST",
    path: "/webhooks/{webhookId}/secret",
    summary: "Replace the secret; for a day the old one signs too",
    answers: { 200: answers.webhookWithSecret },
  },
  {
    method: "GET",
    path: "/webhooks/{webhookId}/deliveries",
    summary: "List deliveries, newest first, with how the last attempt of each went",
    query: {
      status: "pending, delivered or failed",
      before: "Only those older than the delivery with this id",
      limit: "1 to 100",
    },
    answers: { 200: z.array(answers.delivery) },
  },
  {
    method: "POST",
    path: "/webhooks/{webhookId}/deliveries/{deliveryId}/resend",
    summary: "Send a delivery again, with the same webhook-id",
    answers: { 202: answers.delivery },
  },
];

const systemOperations: Operation[] = [
  { method: "GET", path: "/healthcheck", summary: "Is the service up", answers: { 200: answers.message } },
  {
    method: "GET",
    path: "/audit-log",
    summary: "Who changed what, newest first; a platform ADMIN who names no organization reads everything",
    query: AUDIT,
    answers: { 200: answers.auditPage },
  },
  {
    method: "POST",
    path: "/pricing-tokens/verify",
    summary: "Verify that a pricing token was signed here, is for an organization of the caller, and has not expired",
    body: tokenToVerify,
    answers: { 200: answers.tokenVerdict },
  },
  {
    method: "GET",
    path: "/analytics/api-calls",
    summary: "Calls a day, last seven days",
    answers: { 200: answers.week },
  },
  {
    method: "GET",
    path: "/analytics/evaluations",
    summary: "Evaluations a day, last seven days",
    answers: { 200: answers.week },
  },
  { method: "GET", path: "/events/status", summary: "Is the event channel up", answers: { 200: answers.eventStatus } },
  {
    method: "GET",
    path: "/events/client",
    summary: "A page that shows events as they come",
    mediaType: "text/html",
    answers: { 200: z.string() },
  },
  {
    method: "GET",
    path: "/events/stream",
    summary:
      "Events as they happen, as Server-Sent Events; goes on after the header Last-Event-ID. A key shows its organization's, without one only the public ones",
    query: {
      organizationId: "With a user key: the organization whose events to show",
      lastEventId: "Where to go on, for clients that cannot send the header",
    },
    mediaType: "text/event-stream",
    answers: { 200: z.string() },
  },
  {
    method: "POST",
    path: "/events/test-event",
    summary: "Send a PRICING_ARCHIVED for trying clients out, to sockets that are connected; ten per minute",
    query: { organizationId: "With an ADMIN's key: the organization that sends it" },
    body: z.object({ serviceName: z.string().min(1).max(255), pricingVersion: z.string().min(1).max(255) }),
    answers: { 200: answers.eventSent },
  },
  {
    method: "GET",
    path: "/cache/get",
    summary: "Read an entry of the ADMIN's cache",
    query: { key: "Its key" },
    answers: { 200: z.unknown() },
  },
  {
    method: "POST",
    path: "/cache/set",
    summary: "Write an entry of the ADMIN's cache",
    body: z.object({ key: z.string(), value: z.unknown(), expirationInSeconds: z.int().optional() }),
    answers: { 200: answers.message },
  },
  {
    method: "GET",
    path: "/openapi.json",
    summary: "This document",
    answers: { 200: z.looseObject({ openapi: z.literal("3.1.0") }) },
  },
  {
    method: "GET",
    path: "/docs",
    summary: "This document as a page to read and try",
    mediaType: "text/html",
    answers: { 200: z.string() },
  },
];

const insideOrganization = (operation: Operation): Operation => ({
  ...operation,
  path: `/organizations/{organizationId}${operation.path}`,
  summary: `${operation.summary} (of one organization, with a user key)`,
});

/** Every call there is; a test holds it against the router, in both directions. */
export const OPERATIONS: readonly Operation[] = [
  ...userOperations,
  ...organizationOperations,
  ...gateOperations,
  ...serviceOperations,
  ...serviceOperations.map(insideOrganization),
  ...changeOperations,
  ...changeOperations.map(insideOrganization),
  ...contractDetailOperations,
  ...contractOperations,
  ...contractOperations.map(insideOrganization),
  ...featureOperations,
  ...ofrepOperations,
  ...webhookOperations,
  ...webhookOperations.map(insideOrganization),
  ...systemOperations,
];

const schemaOf = (schema: z.ZodType, io: "input" | "output") => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
};

const jsonContent = (schema: z.ZodType, io: "input" | "output") => ({
  "application/json": { schema: schemaOf(schema, io) },
});

const pricingBody = (more: { file?: object; text?: object }) => ({
  description: "A Pricing2Yaml file, or an https address from which it is fetched once",
  required: true,
  content: {
    "multipart/form-data": {
      schema: {
        type: "object",
        properties: { pricing: { type: "string", format: "binary" }, ...more.file },
        required: ["pricing"],
      },
    },
    "application/json": {
      schema: {
        type: "object",
        properties: { pricing: { type: "string", format: "uri" }, ...more.text },
        required: ["pricing"],
      },
    },
  },
});
const EXPECTATIONS = { type: "string", description: "YAML: the expectations that the pricing must meet; 256 kB" };
const BODIES = {
  pricing: pricingBody({}),
  upload: pricingBody({
    file: { expectations: { ...EXPECTATIONS, format: "binary" } },
    text: { expectations: EXPECTATIONS },
  }),
};

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description: "Sent again with the same key within 24 hours, the call is done once and answered the same",
  schema: { type: "string", maxLength: 255 },
};

const IF_NONE_MATCH = {
  name: "If-None-Match",
  in: "header",
  description: "The ETag of an answer that is still at hand",
  schema: { type: "string" },
};
const ETAG = { ETag: { description: "Equal as long as the answer is", schema: { type: "string" } } };

function documented(operation: Operation): object {
  const pathNames = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
  const isPublic = findRule(operation.method, operation.path, operation.base)?.access === "public";
  const success = Object.entries(operation.answers).map(([status, schema]) => [
    status,
    schema === null
      ? { description: status === "304" ? "Not modified" : "Done" }
      : {
          description: "Success",
          ...(operation.conditional === undefined ? {} : { headers: ETAG }),
          content:
            operation.mediaType === undefined
              ? {
                  ...jsonContent(schema, "output"),
                  ...(operation.alsoAs === undefined ? {} : { [operation.alsoAs]: { schema: { type: "string" } } }),
                }
              : { [operation.mediaType]: { schema: { type: "string" } } },
        },
  ]);
  return {
    summary: operation.summary,
    tags: [
      operation.path
        .split("/")
        .findLast(
          (part, i) =>
            i > 0 &&
            /^(users|organizations|services|contracts|features|analytics|cache|events|webhooks|ofrep)$/.test(part),
        ) ?? "system",
    ],
    security: isPublic ? [] : [{ apiKey: [] }, ...(operation.base === "/" ? [{ bearer: [] }] : [])],
    parameters: [
      ...pathNames.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
      ...(operation.idempotent === undefined ? [] : [IDEMPOTENCY_KEY]),
      ...(operation.conditional === undefined ? [] : [IF_NONE_MATCH]),
      ...Object.entries(operation.query ?? {}).map(([name, description]) => ({
        name,
        in: "query",
        description,
        schema: { type: "string" },
      })),
    ],
    ...(operation.body === undefined
      ? {}
      : {
          requestBody:
            typeof operation.body === "string"
              ? BODIES[operation.body]
              : { content: jsonContent(operation.body, "input") },
        }),
    responses: {
      ...Object.fromEntries(success),
      default: {
        description: "Refused: the sentence says why",
        content:
          operation.failure === undefined
            ? { "application/json": { schema: { $ref: "#/components/schemas/Failure" } } }
            : jsonContent(operation.failure, "output"),
      },
    },
  };
}

/** The OpenAPI 3.1 document, from the schemas that validate bodies and the table that guards routes. */
export function openApiDocument(basePath: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    const item = (paths[operation.path] ??= operation.base === "/" ? { servers: [{ url: basePath || "/" }] } : {});
    item[operation.method.toLowerCase()] = documented(operation);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Faregate",
      version: "1",
      description: "May this user use this feature, and how much is left?",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: `${basePath}/api/v1` }],
    paths,
    components: {
      schemas: { Failure: schemaOf(answers.failure, "output") },
      securitySchemes: {
        apiKey: {
          type: "apiKey",
          in: "header",
          name: "x-api-key",
          description: "A user key (usr_…) or an organization key (org_…)",
        },
        bearer: { type: "http", scheme: "bearer", description: "An organization key, for clients of OFREP" },
      },
    },
  };
}
