import { HELD, TOO_MANY_PENDING } from "./approvals.ts";
import { NO_ORGANIZATION } from "./common.ts";
import { z } from "zod";
import { gateRules } from "../core/change/impact/gate.ts";
import type { Operation } from "./operation.ts";

export const gate = z.strictObject({ rules: gateRules }).meta({ id: "Gate" });

const GATE = { rules: [{ rule: "noFeatureLost" }] };

/** Rules that changes of an organization's pricings must pass. */
export const gateOperations: readonly Operation[] = [
  {
    id: "showGate",
    group: "Changes",
    method: "GET",
    path: "/organizations/{organizationId}/gate",
    summary: "Show the gate's rules",
    description: "Returns the rules that changes of pricings must pass.",
    answers: { 200: { schema: gate, example: GATE } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "setGate",
    group: "Changes",
    method: "PUT",
    path: "/organizations/{organizationId}/gate",
    summary: "Set the gate's rules",
    description: "Replaces the rules. A change that breaks one is rejected with 409, unless an OWNER overrides it.",
    body: { schema: gate, example: GATE },
    answers: { 200: { schema: gate, example: GATE }, 202: HELD },
    errors: { 404: NO_ORGANIZATION, 409: TOO_MANY_PENDING },
  },
];
