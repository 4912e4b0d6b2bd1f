import { eq, sql } from "drizzle-orm";
import type { Pricing } from "../core/pricing/model.ts";
import { parsePricing } from "../core/pricing/parse.ts";
import { hashModel, type ServiceRow, versionKey } from "../db/pricings.ts";
import { pricings } from "../db/schema.ts";
import { type Context, newId } from "./context.ts";
import { Failure } from "./errors.ts";

/** A pricing as it came in: its text, and the address it was fetched from when it was given by URL. */
export interface PricingSource {
  text: string;
  url?: string | undefined;
}

/** Size of a pricing's text; the largest in the wild has 54 KB. */
export const MAX_PRICING_BYTES = 2 * 1024 * 1024;

/**
 * Turns a source into a pricing. Failure invalid with the first problem as its sentence and all of them in `problems`.
 * Source: contract services-pricings §4.2.
 */
export function readPricing(source: PricingSource, now: Date): Pricing {
  const result = parsePricing(source.text, now);
  if (result.ok) return result.pricing;
  const [first] = result.problems;
  const sentence = first?.message ?? "The file does not contain valid YAML content.";
  throw new Failure("invalid", first?.kind === "key" ? sentence : `Pricing parsing error: ${sentence}`, {
    problems: result.problems.map(({ message, path, line, column }) => ({ message, path, line, column })),
  });
}

/**
 * Fetches a pricing once, at upload; what is stored never changes afterwards.
 * Failure invalid when the address is not allowed, does not answer in time, or answers anything but 2xx.
 * Source: contract services-pricings §7.
 */
export async function fetchPricing(ctx: Context, address: unknown): Promise<PricingSource> {
  if (typeof address !== "string" || !URL.canParse(address)) throw new Failure("invalid", "Invalid URL");
  if (ctx.download === undefined) {
    throw new Failure("invalid", "This server takes pricings as files only: URLs cannot be fetched safely here");
  }
  return { text: await ctx.download(new URL(address), MAX_PRICING_BYTES), url: address };
}

const pathPart = (text: string) =>
  text
    .trim()
    .replace(/[^A-Za-z0-9._-]/g, "-")
    .replace(/-+/g, "-")
    .toLowerCase();

/** Stores a new active version with its original text; call it with the service locked. */
export async function insertPricing(
  ctx: Context,
  input: { service: ServiceRow; pricing: Pricing; source: PricingSource },
): Promise<void> {
  const { service, pricing, source } = input;
  const id = newId(ctx.now());
  let yamlPath: string | null = null;
  if (source.url === undefined) {
    const stem = `/static/pricings/${pathPart(service.organizationId)}-${pathPart(service.name)}-${pathPart(pricing.version)}`;
    // Two names may normalise alike; the lock makes the look-up hold until the commit.
    await ctx.db.execute(sql`select pg_advisory_xact_lock(hashtextextended(${stem}, 0))`);
    const taken = await ctx.db
      .select({ id: pricings.id })
      .from(pricings)
      .where(eq(pricings.yamlPath, `${stem}.yaml`));
    yamlPath = taken.length === 0 ? `${stem}.yaml` : `${stem}-${id}.yaml`;
  }
  await ctx.db.insert(pricings).values({
    id,
    serviceId: service.id,
    version: pricing.version,
    versionKey: versionKey(pricing.version),
    availability: "active",
    url: source.url ?? null,
    yamlPath,
    source: source.text,
    model: pricing,
    modelHash: await hashModel(pricing),
    declaredAt: new Date(pricing.createdAt),
  });
}
