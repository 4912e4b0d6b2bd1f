import { z } from "zod";
import type { Operation } from "../wire/operation.ts";
import { OPERATIONS } from "../wire/operations.ts";
import type { Base } from "../core/access/permissions.ts";
import * as answers from "../wire/answers.ts";
import * as changes from "./routes/changes.ts";
import { gate } from "./routes/gate.ts";
import * as organizations from "./routes/organizations.ts";
import * as services from "./routes/services.ts";
import { tokenToVerify } from "./routes/system.ts";
import * as webhooks from "./routes/webhooks.ts";

/** One documented call. `path` is relative to `base`, which is /api/v1 unless said; parameters in braces. */
export interface LegacyOperation {
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

const organizationOperations: LegacyOperation[] = [
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

const gateOperations: LegacyOperation[] = [
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

const serviceOperations: LegacyOperation[] = [
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

const changeOperations: LegacyOperation[] = [
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

const webhookOperations: LegacyOperation[] = [
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

const systemOperations: LegacyOperation[] = [
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

const insideOrganization = (operation: LegacyOperation): LegacyOperation => ({
  ...operation,
  path: `/organizations/{organizationId}${operation.path}`,
  summary: `${operation.summary} (of one organization, with a user key)`,
});

/** Every call there is; a test holds it against the router, in both directions. */
export const LEGACY_OPERATIONS: readonly LegacyOperation[] = [
  ...organizationOperations,
  ...gateOperations,
  ...serviceOperations,
  ...serviceOperations.map(insideOrganization),
  ...changeOperations,
  ...changeOperations.map(insideOrganization),
  ...webhookOperations,
  ...webhookOperations.map(insideOrganization),
  ...systemOperations,
];

const adapt = ({ query, body, answers: all, ...operation }: LegacyOperation): Operation => ({
  id: `${operation.method} ${operation.path}`,
  group: "System",
  description: operation.summary,
  ...operation,
  ...(query === undefined
    ? {}
    : {
        query: z.object(
          Object.fromEntries(Object.entries(query).map(([name, text]) => [name, z.string().optional().describe(text)])),
        ),
      }),
  ...(body === undefined ? {} : { body: typeof body === "string" ? body : { schema: body, example: undefined } }),
  answers: Object.fromEntries(
    Object.entries(all).map(([status, schema]) => [status, schema === null ? null : { schema, example: undefined }]),
  ),
});

export const ALL_OPERATIONS: readonly Operation[] = [...OPERATIONS, ...LEGACY_OPERATIONS.map(adapt)];
