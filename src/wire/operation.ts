import type { z } from "zod";
import type { Base } from "../core/access/permissions.ts";

/** Groups of the reference, in the order in which a newcomer needs them, each with its introduction. */
export const GROUPS = {
  Features: "Ask at run time: may this user use this feature, and how much is left? The calls of every request.",
  Contracts: "An end user's subscription: services, plans, add-ons, billing period, and what has been consumed.",
  Usage: "Usage that happened elsewhere, handed in as batches that may be repeated, and the history of all usage.",
  Services: "The products that you price, and the versions of their pricings.",
  Offers: "What a service sells, and the smallest purchase that turns a feature on: price pages and upgrade prompts.",
  Changes:
    "Compare two versions, predict what a change does to each contract, and set the rules that changes must pass.",
  Tokens: "Pricing tokens: signed answers that a front end can hold.",
  Events: "Changes as they happen, and a check of the event channel.",
  Billing: "Connections to payment providers, whose signed messages move contracts.",
  Webhooks: "Events sent to addresses of yours, signed as Standard Webhooks defines it.",
  OpenFeature: "The same evaluations by the OpenFeature Remote Evaluation Protocol (OFREP).",
  Organizations: "Tenants: members with roles, and organization keys for your servers.",
  Users: "Accounts of people: sign-in, user keys and platform roles.",
  "Audit log": "Who changed what, newest first.",
  System: "Health, statistics and this document.",
} as const;
export type Group = keyof typeof GROUPS;

/** One answer of an operation: its schema and an example. A null body has neither. */
export interface DocumentedAnswer {
  /** One sentence for the reference. Default: "Success". */
  description?: string;
  schema: z.ZodType;
  example: unknown;
}

/** A request body: the schema that validates it, and an example that the server accepts. */
export interface DocumentedBody {
  schema: z.ZodType;
  example: unknown;
  /** False where the call works without a body. Default: true. */
  required?: boolean;
  /** Also accepted as a form: the body as JSON text in the field with this name, and pricing files as drafts. */
  asField?: string;
  /** Maximum drafts of a form. Default: 20. */
  maxDrafts?: number;
}

/** Makes an operation a tool of agents, with its id as the name. */
export interface AgentTool {
  /** `read` changes nothing. `propose` examines a draft and stores nothing. */
  may: "read" | "propose";
  /** Page of the console that shows the subject: relative to the organization's, with path parameters in braces. */
  page: string;
  /** Query parameters that agents cannot choose: the value that each of their calls has, or null for none. */
  fixed?: Readonly<Record<string, string | null>>;
}

/** One operation of the HTTP interface. Routes validate with its schemas, and the OpenAPI document is made from it. */
export interface Operation {
  /** Stable identifier in the document: verb and noun, such as `createContract`. */
  id: string;
  group: Group;
  base?: Base;
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Relative to `base` (default: /api/v1), with parameters in braces; see PATH_PARAMETERS. */
  path: string;
  /** At most eight words, for lists. */
  summary: string;
  /** One to four sentences: its effect, requirements and cost. */
  description: string;
  /** Query parameters, each with a description and its real type. */
  query?: z.ZodObject;
  /** "pricing" and "upload" are multipart files or an address to fetch; see `pricingBody`. */
  body?: DocumentedBody | "pricing" | "upload";
  /** Successful answers by status; null is an empty body. */
  answers: Record<number, DocumentedAnswer | null>;
  /** Sentences of this operation's own errors by status. Errors that every operation shares are added. */
  errors?: Record<number, string>;
  /** Schema of errors, where a protocol asks for another than ours. */
  failure?: z.ZodType;
  /** The answer has an ETag, and If-None-Match yields 304 while it is unchanged. */
  conditional?: true;
  /** Accepts an Idempotency-Key: a retry within 24 hours returns the first answer. */
  idempotent?: true;
  /** Media type of the answer. Default: application/json. */
  mediaType?: string;
  /** Alternative media type, selected by the Accept header. */
  alsoAs?: string;
  agent?: AgentTool;
}
