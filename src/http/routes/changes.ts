import { Hono } from "hono";
import { instantIn } from "../../core/instant.ts";
import type { z } from "zod";
import type { ChangeAction } from "../../operations/policy/change-plan.ts";
import { Failure } from "../../operations/errors.ts";
import { listDecisions } from "../../operations/changes/gates.ts";
import { openImpact } from "../../operations/changes/impact.ts";
import { openReplay } from "../../operations/changes/replay.ts";
import { novateHolders } from "../../operations/contracts/mass-novation.ts";
import { type DiffFormat, diffDraft, diffVersions } from "../../operations/catalog/pricing-diffs.ts";
import { readDraft, readDrafts } from "../../operations/catalog/version-files.ts";
import { change, massNovationBody } from "../../wire/changes.ts";
import { replayBody } from "../../wire/replay.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { answerOrHold } from "../held.ts";
import { json, reply, replyJson } from "../reply.ts";
import { cursorPage, organizationOf, queryParameter } from "../params.ts";
import { replyLines, wantsLines } from "../progress-lines.ts";
import { draftsOf, groupsOf, overrideReasonOf, pricingOf, replayedDraftOf, targetsOf } from "./change-bodies.ts";

function changeOf(body: z.infer<typeof change>): ChangeAction {
  const { action, pricingVersion, from } = body;
  if (action === "disable") return { action };
  if (action === "novation") return { action, pricingVersion, from, targets: targetsOf(body) };
  if (pricingVersion === undefined) {
    throw new Failure("unprocessable", `The pricingVersion field is required to ${action}`);
  }
  return action === "activate" ? { action, pricingVersion } : { action, pricingVersion, targets: targetsOf(body) };
}

const addressed = (c: AppContext) => ({
  organizationId: organizationOf(c),
  serviceName: c.req.param("serviceName") ?? "",
});

function formatOf(c: AppContext): DiffFormat {
  const accepted = /\btext\/markdown\b/i.test(c.req.header("accept") ?? "") ? "markdown" : "json";
  const format = queryParameter(c, "format") ?? accepted;
  if (format !== "json" && format !== "markdown") {
    throw new Failure("invalid", "INVALID DATA: format must be json or markdown");
  }
  return format;
}

function answerDiff(c: AppContext, format: DiffFormat, text: string): Response {
  if (format === "json") return replyJson(c, text, 200);
  return reply(c, text, 200, { "Content-Type": "text/markdown; charset=utf-8" });
}

/**
 * Reads `renames=OLD:NEW,OLD2:NEW2`. Undefined without the parameter.
 * @throws Failure invalid for a pair without a colon.
 */
function renamesOf(c: AppContext): Record<string, string> | undefined {
  const text = queryParameter(c, "renames");
  if (text === undefined) return undefined;
  const pairs = text.split(",").map((pair) => pair.split(":").map((name) => name.trim()));
  if (pairs.length > MAX_RENAMES || pairs.some((names) => names.length !== 2 || names.includes(""))) {
    throw new Failure("invalid", "INVALID DATA: renames must be pairs of plan names, such as PRO:TEAM,BASIC:STARTER");
  }
  return Object.fromEntries(pairs) as Record<string, string>;
}

/** Parameters of a diff besides its versions. */
const diffing = (c: AppContext) => ({
  ...addressed(c),
  format: formatOf(c),
  renames: renamesOf(c),
  signal: c.req.raw.signal,
});

function required(c: AppContext, name: string): string {
  const value = queryParameter(c, name);
  if (value === undefined || value === "") throw new Failure("invalid", `The ${name} query parameter is required`);
  return value;
}

/** Maximum renames of one diff. */
const MAX_RENAMES = 1_000;
/** Changes of pricings: compare, predict, carry out. Mounted at /services and inside an organization. */
export const changeRoutes = new Hono<AppEnv>()
  .get("/:serviceName/diff", async (c) => {
    const input = { ...diffing(c), from: required(c, "from"), to: required(c, "to") };
    return answerDiff(c, input.format, await diffVersions(context(c), input));
  })
  .post("/:serviceName/diff", async (c) => {
    const input = { ...diffing(c), from: queryParameter(c, "from") || undefined, source: await pricingOf(c) };
    return answerDiff(c, input.format, await diffDraft(context(c), input));
  })
  .post("/:serviceName/impact", async (c) => {
    const includesCertificates = queryParameter(c, "certificate") === "true";
    const sources = await draftsOf(c);
    const drafts = sources && (await readDrafts(context(c), addressed(c), sources));
    const wanted = { ...addressed(c), change: changeOf(bodyOf(c, change)), includesCertificates, drafts };
    const run = await openImpact(context(c), wanted);
    if (wantsLines(c)) return replyLines(c, run);
    return json(c, await run({ signal: c.req.raw.signal }));
  })
  .post("/:serviceName/replay", async (c) => {
    const source = await replayedDraftOf(c);
    const body = bodyOf(c, replayBody);
    const draft = source && (await readDraft(context(c), addressed(c), source));
    const date = (text: string | undefined) => (text === undefined ? undefined : instantIn(text));
    const { pricingVersion, from, to, groups, renames, keepPlans, top } = body;
    const run = await openReplay(context(c), {
      ...addressed(c),
      pricingVersion,
      draft,
      from: date(from),
      to: date(to),
      targets: { groups: groupsOf(groups) ?? [], renames },
      keepPlans,
      top,
    });
    if (wantsLines(c)) return replyLines(c, run);
    return json(c, await run({ signal: c.req.raw.signal }));
  })
  .post("/:serviceName/novations", async (c) => {
    const body = bodyOf(c, massNovationBody);
    const { pricingVersion, from } = body;
    const novation = {
      ...addressed(c),
      change: { action: "novation", pricingVersion, from, targets: targetsOf(body) },
      overrideReason: overrideReasonOf(c),
      signal: c.req.raw.signal,
    } as const;
    return answerOrHold(c, async (ctx) => json(c, await novateHolders(ctx, novation)));
  })
  .get("/:serviceName/decisions", async (c) =>
    json(
      c,
      await listDecisions(context(c), {
        ...addressed(c),
        pricingVersion: queryParameter(c, "pricingVersion"),
        ...cursorPage(c),
      }),
    ),
  );
