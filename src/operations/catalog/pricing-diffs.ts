import { tenantOf } from "../access.ts";
import {
  hashModelText,
  listVersions,
  modelText,
  type ServiceRow,
  versionKey,
  type VersionRow,
} from "../../db/queries/pricings.ts";
import type { Context } from "../context.ts";
import { type PricingSource, readPricing } from "./pricing-source.ts";
import { type PricingAddress, requireService, type ServiceAddress, versionNotFound } from "../service-address.ts";

/** Time limit of a comparison. On timeout, the diff lists the parts that were not compared. */
const DIFF_MS = 4_000;
export type DiffFormat = "json" | "markdown";

interface DiffInput extends ServiceAddress {
  format: DiffFormat;
  /** New names of plans, by their previous names. Default: those that the newer version declares. */
  renames?: Readonly<Record<string, string>> | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Compares what subscribers gain and lose between two versions, active or archived. Returns a PricingDiff as JSON, or
 * Markdown.
 * @throws Failure tooManyRequests when all analysis slots of the organization are taken.
 */
export async function diffVersions(ctx: Context, input: DiffInput & { from: string; to: string }): Promise<string> {
  const service = await requireService(ctx, input);
  const before = await findVersion(ctx, service, { ...input, version: input.from });
  const { id, hash } = await findVersion(ctx, service, { ...input, version: input.to });
  return diffText(ctx, { ...input, before, after: { hash, text: () => modelText(ctx.db, id) } });
}

/**
 * Compares a draft with a version, by default the newest active one. The draft is not stored. Formats and failures as
 * in diffVersions.
 */
export async function diffDraft(
  ctx: Context,
  input: DiffInput & { from: string | undefined; source: PricingSource },
): Promise<string> {
  const draft = await readPricing(ctx, input.organizationId, input.source);
  const service = await requireService(ctx, input);
  const newest = async () => (await listVersions(ctx.db, service.id)).find(({ state }) => state === "active")?.version;
  const version = input.from ?? (await newest()) ?? "";
  const before = await findVersion(ctx, service, { ...input, version });
  const text = JSON.stringify(draft);
  return diffText(ctx, { ...input, before, after: { hash: await hashModelText(text), text: async () => text } });
}

/** Returns a diff as text, cached by both model hashes. Models never change, so entries never become stale. */
async function diffText(
  ctx: Context,
  input: DiffInput & { before: VersionRow; after: { hash: string; text(): Promise<string> } },
): Promise<string> {
  const { before, after, format, renames, organizationId, signal } = input;
  const key = `${before.hash} ${after.hash} ${format} ${JSON.stringify(renames ?? null)}`;
  const cached = ctx.resources.pricingCache.diff(key);
  if (cached !== undefined) return cached;
  const models = { before: await modelText(ctx.db, before.id), after: await after.text() };
  const { text } = await ctx.resources.analysis.call(
    tenantOf(ctx, organizationId),
    (call) => call.run({ kind: "diff", ...models, format, renames, limitMs: DIFF_MS }),
    signal,
  );
  return ctx.resources.pricingCache.keepDiff(key, text);
}

async function findVersion(ctx: Context, service: ServiceRow, input: PricingAddress): Promise<VersionRow> {
  const row = (await listVersions(ctx.db, service.id)).find(({ key }) => key === versionKey(input.version));
  if (row === undefined) throw versionNotFound(input);
  return row;
}
