import { eq, sql } from "drizzle-orm";
import type { ReadUpload as ParsedUpload } from "../core/change/analysis.ts";
import type { UploadReport } from "../core/change/review.ts";
import type { Pricing } from "../core/pricing/model.ts";
import { hashModelText, type ServiceRow, versionKey } from "../db/queries/pricings.ts";
import { pricings } from "../db/schema.ts";
import { type Context, newId } from "./context.ts";
import { Failure } from "./errors.ts";

/** A pricing as it came in: its text, and the address it was fetched from when it was given by URL. */
export interface PricingSource {
  text: string;
  url?: string | undefined;
  /** The text of the expectations that it must meet. */
  expectations?: string | undefined;
}

/** Size of a pricing's text where the operator has not said otherwise; the largest in the wild has 54 KB. */
const MAX_PRICING_BYTES = 2 * 1024 * 1024;

/** How large a pricing's text may be. */
export const maxPricingBytes = ({ settings }: Pick<Context, "settings">): number =>
  settings.maxPricingBytes ?? MAX_PRICING_BYTES;

/** Size of the expectations of one upload. */
export const MAX_EXPECTATIONS_BYTES = 256 * 1024;
/** How long an upload's review may look for warnings; the largest pricing in the wild takes half of it. */
const LINT_MS = 400;
/** The same for expectations; what takes longer is refused. */
const EXPECTATIONS_MS = 1000;

export type { UploadReport } from "../core/change/review.ts";

/** A pricing that was read; with an illegal key it has a refusal, to be thrown by who looks at keys last. */
interface ReadSource {
  pricing: Pricing;
  keyRefusal?: Failure;
}

function fromParsed(result: ParsedUpload["parsed"]): ReadSource {
  if (result.ok) return { pricing: result.pricing };
  const problems = result.problems.map(({ message, path, line, column }) => ({ message, path, line, column }));
  const [first] = result.problems;
  const sentence = first?.message ?? "The file does not contain valid YAML content.";
  if (first?.kind === "key" && result.pricing !== undefined) {
    return { pricing: result.pricing, keyRefusal: new Failure("invalid", sentence, { problems }) };
  }
  throw new Failure("invalid", `Pricing parsing error: ${sentence}`, { problems });
}

function analyseSource(
  ctx: Context,
  organizationId: string,
  source: PricingSource,
  reviews: boolean,
): Promise<ParsedUpload> {
  return ctx.analysis.call(organizationId, (call) =>
    call.run({
      kind: "upload",
      text: source.text,
      now: ctx.now().getTime(),
      maxDepth: ctx.settings.maxPricingDepth,
      reviews,
      expectations: source.expectations,
      lintMs: LINT_MS,
      expectationsMs: EXPECTATIONS_MS,
    }),
  );
}

/**
 * Turns a source into a pricing. Failure invalid with the first problem as its sentence and all of them in `problems`.
 * Source: contract services-pricings §4.2.
 */
export async function readPricing(ctx: Context, organizationId: string, source: PricingSource): Promise<Pricing> {
  const { parsed } = await analyseSource(ctx, organizationId, source, false);
  const { pricing, keyRefusal } = fromParsed(parsed);
  if (keyRefusal !== undefined) throw keyRefusal;
  return pricing;
}

/**
 * Reads an upload, holds it against its expectations and looks for what does no good in it. One that does not meet its
 * expectations has a `refusal`, one with an illegal key a `keyRefusal`: its report is empty. Call it outside of transactions.
 * Source: contract services-pricings §4.8.
 */
export async function readUpload(
  ctx: Context,
  organizationId: string,
  source: PricingSource,
): Promise<ReadSource & { refusal?: Failure; report: UploadReport }> {
  const { parsed, review } = await analyseSource(ctx, organizationId, source, true);
  const read = fromParsed(parsed);
  if (review === undefined) return { ...read, report: { warnings: [] } };
  if (review.ok) return { ...read, report: review.report };
  const { message, problems } = review.refusal;
  const refusal = new Failure("invalid", message, problems.length === 0 ? {} : { problems });
  return { ...read, refusal, report: { warnings: [] } };
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
  return { text: await ctx.download(address, maxPricingBytes(ctx)), url: address };
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
  // Written out once: a large one takes tens of milliseconds.
  const model = JSON.stringify(pricing);
  await ctx.db.insert(pricings).values({
    id,
    serviceId: service.id,
    version: pricing.version,
    versionKey: versionKey(pricing.version),
    availability: "active",
    url: source.url ?? null,
    yamlPath,
    source: source.text,
    model: sql`${model}::json`,
    modelHash: await hashModelText(model),
    declaredAt: new Date(pricing.createdAt),
  });
}
