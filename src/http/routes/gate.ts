import { Hono } from "hono";
import type { z } from "zod";
import type { GateRule } from "../../core/change/impact/gate.ts";
import { gate } from "../../wire/gate.ts";
import { Failure } from "../../operations/errors.ts";
import { setGate, showGate } from "../../operations/changes/gates.ts";
import { type AppEnv, context, type AppContext } from "../context.ts";
import { json } from "../reply.ts";
import { organizationOf } from "../params.ts";

const NOUNS: Readonly<Record<string, string>> = { array: "list", int: "whole number", string: "text" };
const UNITS: Readonly<Record<string, string>> = { array: " elements", string: " characters" };

/** Words what is wrong with a part of a rule. Undefined where the schema has its own sentence. */
function sentenceOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${/^[aeiou]/.test(NOUNS[issue.expected] ?? issue.expected) ? "an" : "a"} ${NOUNS[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `must be one of ${issue.values.join(", ")}`;
    case "too_big":
      return `must ${issue.origin in UNITS ? "have" : "be"} at most ${issue.maximum}${UNITS[issue.origin] ?? ""}`;
    case "too_small":
      return `must ${issue.origin in UNITS ? "have" : "be"} at least ${issue.minimum}${UNITS[issue.origin] ?? ""}`;
    case "unrecognized_keys":
      return `has the unknown field ${issue.keys[0]}`;
    default:
      return undefined;
  }
}

/**
 * Validates the rules of a body.
 * @throws Failure unprocessable that names the wrong part of a rule.
 */
function rulesOf(c: AppContext): GateRule[] {
  const read = gate.safeParse(c.get("body"), { error: sentenceOf });
  if (read.success) return read.data.rules;
  const [issue] = read.error.issues;
  const place = (issue?.path ?? []).map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  throw new Failure("unprocessable", `${place.join("").slice(1) || "The body"}: ${issue?.message ?? "not valid"}`);
}

/** Rules that changes of an organization's pricings must pass. */
export const gateRoutes = new Hono<AppEnv>()
  .get("/", async (c) => json(c, await showGate(context(c), organizationOf(c))))
  .put("/", async (c) => json(c, await setGate(context(c), { organizationId: organizationOf(c), rules: rulesOf(c) })));
