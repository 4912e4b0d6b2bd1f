import { z } from "zod";
import { OVERRIDE_KINDS, OVERRIDE_MODES, OVERRIDE_STATES } from "../core/pricing/overrides.ts";
import { objectError } from "./change-bodies.ts";
import {
  afterParameter,
  actor,
  EXAMPLE,
  id,
  limitParameter,
  moment,
  offsetParameter,
  optionalInstant,
  pageParameter,
  reasonText,
  NO_SINGLE_CONTRACT,
  SEVERAL_CONTRACTS,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull } from "./subscription.ts";

const VALUE =
  "The value field must be a boolean, a finite number, a text of at most 1000 characters, or a list of texts";

const value = z.union([z.boolean(), z.number(), z.string().max(1000, VALUE), z.array(z.string()).max(64, VALUE)]);

export const overrideChange = z
  .strictObject(
    {
      value: z.union(value.options, requiredNotNull("The value field is required", VALUE)),
      mode: z.enum(OVERRIDE_MODES, "The mode field must be set or add"),
      from: optionalInstant("from").describe("Start, ISO 8601. Default, and for a past one: now"),
      until: optionalInstant("until").describe("End, ISO 8601. Default: never"),
      reason: reasonText("The reason field is required"),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "OverrideChange" });

const kind = z.enum(OVERRIDE_KINDS);
const mode = z.enum(OVERRIDE_MODES).describe("`add` adds to the granted number");
const timed = { kind, name: z.string(), mode, value, from: moment, until: moment.nullable() };
const service = z.string().describe("Name of the service in lower case");

export const override = z
  .strictObject({
    organizationId: id,
    userId: z.string(),
    service,
    ...timed,
    reason: z.string(),
    state: z
      .enum(OVERRIDE_STATES)
      .describe("`inapplicable`: the contracted version has no element of this name and type"),
    granted: value.nullable().describe("Value that plan and add-ons give; null for none"),
    effective: value.nullable().describe("Value that expressions read; null for none"),
    setAt: moment,
    actor,
  })
  .meta({ id: "Override" });

/** Override without its times and circumstances. */
export const plainOverride = z.strictObject({ kind, name: z.string(), mode, value }).meta({ id: "PlainOverride" });

/** Override of an answer about a past moment. */
export const heldOverride = z.strictObject({ service, ...timed }).meta({ id: "HeldOverride" });

const CHANGE = {
  mode: "add",
  value: 50,
  until: "2026-06-01T00:00:00Z",
  reason: "Launch week, agreed with support",
};
const OVERRIDE = {
  organizationId: EXAMPLE.organizationId,
  userId: "ada",
  service: "tasker",
  kind: "usageLimits",
  name: "maxTasks",
  mode: "add",
  value: 50,
  from: EXAMPLE.createdAt,
  until: "2026-06-01T00:00:00.000Z",
  reason: CHANGE.reason,
  state: "active",
  granted: 300,
  effective: 350,
  setAt: EXAMPLE.createdAt,
  actor: { kind: "key", id: EXAMPLE.apiKeyId, name: null },
};
const PATH = "/contracts/{userId}/overrides/{serviceName}/{kind}/{name}";
const NO_OVERRIDE = "No override of usageLimits maxTasks of service tasker in the contract of ada";

/** Exceptions to what plan and add-ons grant. Source: contract custom-terms §3. */
export const overrideOperations: readonly Operation[] = [
  {
    id: "listContractOverrides",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}/overrides",
    summary: "List a contract's overrides",
    description: "Lists the exceptions to what plan and add-ons grant, ended ones included, by service, kind and name.",
    answers: { 200: { schema: z.array(override), example: [OVERRIDE] } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "showOverride",
    group: "Contracts",
    method: "GET",
    path: PATH,
    summary: "Show an override",
    description: "Returns the exception for one feature or usage limit of a contract.",
    answers: { 200: { schema: override, example: OVERRIDE } },
    errors: { 404: NO_OVERRIDE, 409: SEVERAL_CONTRACTS },
  },
  {
    id: "setOverride",
    group: "Contracts",
    method: "PUT",
    path: PATH,
    summary: "Override a feature or limit",
    description:
      "Gives one contract another value of a feature or usage limit than plan and add-ons grant, for a while or forever. Replaces the element's previous override; a repeated call changes nothing.",
    body: { schema: overrideChange, example: CHANGE },
    answers: { 200: { schema: override, example: OVERRIDE } },
    errors: {
      400: "INVALID DATA: Mode add is for numeric usage limits",
      404: "Usage limit maxTasks not found in pricing version 1.0.0 of service tasker",
      409: SEVERAL_CONTRACTS,
      422: "The reason field is required",
    },
  },
  {
    id: "removeOverride",
    group: "Contracts",
    method: "DELETE",
    path: PATH,
    summary: "Remove an override",
    description: "Ends the exception now. From then on plan and add-ons decide.",
    answers: { 204: null },
    errors: { 404: NO_OVERRIDE, 409: SEVERAL_CONTRACTS },
  },
  {
    id: "listOverrides",
    group: "Contracts",
    method: "GET",
    path: "/overrides",
    summary: "List overrides",
    description:
      "Lists overrides by their end, those without one last. The header X-Total-Count has the number of matches. A platform ADMIN without an organization sees all of them.",
    query: z.object({
      service: z.string().optional().describe("Whole name of the service"),
      name: z.string().optional().describe("Name of the feature or usage limit"),
      state: z.enum(OVERRIDE_STATES).optional().describe("State of the override"),
      endsBefore: z.iso
        .datetime({ offset: true, local: true })
        .or(z.iso.date())
        .optional()
        .describe("Only overrides that end before this moment"),
      page: pageParameter,
      offset: offsetParameter,
      after: afterParameter,
      limit: limitParameter(20),
    }),
    answers: { 200: { schema: z.array(override), example: [OVERRIDE] } },
    errors: { 400: "INVALID DATA: endsBefore must be an ISO 8601 date" },
  },
];
