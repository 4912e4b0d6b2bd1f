import { Hono } from "hono";
import { type GateRule, gateSentence } from "../../core/change/impact/gate.ts";
import { gate } from "../../wire/gate.ts";
import { Failure } from "../../operations/errors.ts";
import { setGate, showGate } from "../../operations/changes/gates.ts";
import { type AppEnv, context, type AppContext } from "../context.ts";
import { answerOrHold } from "../held.ts";
import { json } from "../reply.ts";
import { refuseSurrogates } from "../unstorable.ts";
import { organizationOf } from "../params.ts";

/**
 * Validates the rules of a body.
 * @throws Failure unprocessable that names the wrong part of a rule.
 */
function rulesOf(c: AppContext): GateRule[] {
  const read = gate.safeParse(c.get("body"), { error: gateSentence });
  if (read.success) {
    refuseSurrogates(c, read.data);
    return read.data.rules;
  }
  const [issue] = read.error.issues;
  const place = (issue?.path ?? []).map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  throw new Failure("unprocessable", `${place.join("").slice(1) || "The body"}: ${issue?.message ?? "not valid"}`);
}

/** Rules that changes of an organization's pricings must pass. */
export const gateRoutes = new Hono<AppEnv>()
  .get("/", async (c) => json(c, await showGate(context(c), organizationOf(c))))
  .put("/", (c) => {
    const gate = { organizationId: organizationOf(c), rules: rulesOf(c) };
    return answerOrHold(c, async (ctx) => json(c, await setGate(ctx, gate)));
  });
