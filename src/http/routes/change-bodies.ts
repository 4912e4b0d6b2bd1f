import type { z } from "zod";
import type { targets } from "../../wire/change-bodies.ts";
import { configurationOf } from "../../core/change/configuration.ts";
import type { GroupTarget } from "../../core/change/configuration.ts";
import type { Targets } from "../../operations/policy/change-plan.ts";
import { Failure } from "../../operations/errors.ts";
import {
  fetchPricing,
  MAX_EXPECTATIONS_BYTES,
  maxPricingBytes,
  type PricingSource,
} from "../../operations/catalog/pricing-source.ts";
import { MAX_BODY_BYTES } from "../body.ts";
import { type FormField, jsonField, readMultipart, useJsonField } from "../multipart.ts";
import { context, fieldOf, type AppContext } from "../context.ts";
import { queryParameter } from "../params.ts";

/** Converts the groups of a validated body. */
export function groupsOf(groups: z.infer<(typeof targets)["groups"]>): readonly GroupTarget[] | undefined {
  return groups?.map(({ pricingVersion, configuration, target }) => ({
    pricingVersion,
    configuration: configurationOf(configuration.plan, configuration.addOns ?? {}),
    target: configurationOf(target.plan, target.addOns ?? {}),
  }));
}

/** Converts the targets of a validated body. */
export function targetsOf(body: z.infer<z.ZodObject<typeof targets>>): Targets {
  const { subscriptionPlan, subscriptionAddOns, groups, renames } = body;
  const isGiven = subscriptionPlan !== undefined || subscriptionAddOns !== undefined;
  return {
    fallback: isGiven ? configurationOf(subscriptionPlan, subscriptionAddOns ?? {}) : undefined,
    groups: groupsOf(groups) ?? [],
    renames,
  };
}

/** Reads the reason for overriding the gate. Undefined if missing. */
export function overrideReasonOf(c: AppContext): string | undefined {
  const reason = queryParameter(c, "overrideReason");
  if (reason === undefined) return undefined;
  if (reason.trim() === "") throw new Failure("invalid", "INVALID DATA: The overrideReason query parameter is empty");
  if (reason.length > 1000) {
    throw new Failure("invalid", "INVALID DATA: The overrideReason query parameter is longer than 1000 characters");
  }
  return reason;
}

/** Reads the pricing of a body: a file in the field `pricing`, or a URL in the same field. A file wins. */
export async function pricingOf(c: AppContext): Promise<PricingSource> {
  return sourceOf(c, (await readMultipart(c, { pricing: maxPricingBytes(context(c)) }))?.pricing);
}

function sourceOf(c: AppContext, part: FormField | undefined): PricingSource | Promise<PricingSource> {
  const [text] = part?.files ?? [];
  if (text !== undefined) return { text };
  const given = part?.text ?? fieldOf(c.get("body"), "pricing");
  if (given === undefined || given === null || given === "") {
    throw new Failure("invalid", "No file or URL provided");
  }
  return fetchPricing(context(c), given);
}

/** Maximum drafts of one prediction. */
const MAX_DRAFTS = 20;

/**
 * Reads the drafts of a multipart body, whose field `change` becomes the body. Undefined for other content types.
 * @throws Failure unprocessable without a change; invalid for too many drafts.
 */
export async function draftsOf(c: AppContext): Promise<readonly PricingSource[] | undefined> {
  const { maxBodyBytes: change = MAX_BODY_BYTES } = c.get("server").settings;
  const parts = await readMultipart(c, { change, pricing: maxPricingBytes(context(c)) }, "pricing");
  if (parts === undefined) return undefined;
  useJsonField(c, "change", parts.change);
  const { files = [] } = parts.pricing ?? {};
  if (files.length > MAX_DRAFTS) throw new Failure("invalid", `INVALID DATA: At most ${MAX_DRAFTS} drafts`);
  return files.map((text) => ({ text }));
}

/** Fields of a replay's form besides the draft. Those that are no texts are JSON. */
const REPLAY_FIELDS = ["pricingVersion", "from", "to", "groups", "renames", "keepPlans", "top"] as const;

/**
 * Reads the draft of a replay's multipart body. Its other fields become the body: together as JSON in the field `replay`, or one by
 * one. Undefined without a draft, and for other content types.
 */
export async function replayedDraftOf(c: AppContext): Promise<PricingSource | undefined> {
  const { maxBodyBytes: most = MAX_BODY_BYTES } = c.get("server").settings;
  const limits = Object.fromEntries(["replay", ...REPLAY_FIELDS].map((name) => [name, most]));
  const parts = await readMultipart(c, { ...limits, pricing: maxPricingBytes(context(c)) });
  if (parts === undefined) return undefined;
  const fields: Record<string, FormField | undefined> = parts;
  if (fields["replay"] !== undefined) useJsonField(c, "replay", fields["replay"]);
  else {
    const body: Record<string, unknown> = {};
    for (const name of REPLAY_FIELDS) {
      const field = fields[name];
      if (field?.text === undefined) continue;
      const isText = name === "pricingVersion" || name === "from" || name === "to";
      body[name] = isText ? field.text : jsonField(c, name, field);
    }
    c.set("body", body);
  }
  const [text] = fields["pricing"]?.files ?? [];
  return text === undefined ? undefined : { text };
}

/** Reads an upload: the pricing, and the text of the optional field `expectations`. */
export async function uploadOf(c: AppContext): Promise<PricingSource> {
  const parts = await readMultipart(c, { pricing: maxPricingBytes(context(c)), expectations: MAX_EXPECTATIONS_BYTES });
  const given = parts?.expectations?.files[0] ?? parts?.expectations?.text ?? fieldOf(c.get("body"), "expectations");
  if (given !== undefined && given !== null && typeof given !== "string") {
    throw new Failure("invalid", "INVALID DATA: The expectations field must be a file or a text");
  }
  if (given && new TextEncoder().encode(given).byteLength > MAX_EXPECTATIONS_BYTES) {
    throw new Failure("tooLarge", "File too large");
  }
  return { ...(await sourceOf(c, parts?.pricing)), expectations: given || undefined };
}
