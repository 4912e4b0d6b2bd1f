import { eq, sql } from "drizzle-orm";
import { type Coverage, coverageOf } from "../core/change/expectation-coverage.ts";
import { runExpectation } from "../core/change/expectation-run.ts";
import { parseExpectations } from "../core/change/expectations.ts";
import type { Finding } from "../core/change/finding.ts";
import { createSide } from "../core/change/holding.ts";
import { lintPricing } from "../core/change/lint.ts";
import { compilePricing } from "../core/pricing/compile.ts";
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
  /** The text of the expectations that it must meet. */
  expectations?: string | undefined;
}

/** Size of a pricing's text where the operator has not said otherwise; the largest in the wild has 54 KB. */
const MAX_PRICING_BYTES = 2 * 1024 * 1024;

/** How large a pricing's text may be. */
export const maxPricingBytes = ({ settings }: Pick<Context, "settings">): number =>
  settings.maxPricingBytes ?? MAX_PRICING_BYTES;

/**
 * Turns a source into a pricing. Failure invalid with the first problem as its sentence and all of them in `problems`.
 * Source: contract services-pricings §4.2.
 */
export function readPricing(ctx: Pick<Context, "settings" | "now">, source: PricingSource): Pricing {
  const { pricing, refusal } = readKeysLast(ctx, source);
  if (refusal !== undefined) throw refusal;
  return pricing;
}

/**
 * The same for who looks at keys last: a pricing with an illegal key comes with its `refusal`, which is then to be thrown.
 * Source: contract services-pricings §4.8.
 */
export function readKeysLast(
  ctx: Pick<Context, "settings" | "now">,
  source: PricingSource,
): { pricing: Pricing; refusal?: Failure } {
  const result = parsePricing(source.text, ctx.now(), ctx.settings.maxPricingDepth);
  if (result.ok) return result;
  const problems = result.problems.map(({ message, path, line, column }) => ({ message, path, line, column }));
  const [first] = result.problems;
  const sentence = first?.message ?? "The file does not contain valid YAML content.";
  if (first?.kind === "key" && result.pricing !== undefined) {
    return { pricing: result.pricing, refusal: new Failure("invalid", sentence, { problems }) };
  }
  throw new Failure("invalid", `Pricing parsing error: ${sentence}`, { problems });
}

/** Size of the expectations of one upload. */
export const MAX_EXPECTATIONS_BYTES = 256 * 1024;
/** How long looking for warnings may hold up other callers; the largest pricing in the wild takes half of it. */
const LINT_MS = 400;
/** The same for expectations; what takes longer is refused. */
const EXPECTATIONS_MS = 1000;
/** Plans × features of which coverage is counted. */
const MAX_COVERED = 20_000;
/** How many points are named that no expectation covers. */
const MAX_MISSING = 100;

/** What an upload is told about a pricing that is taken. */
export interface UploadReport {
  /** What is allowed in it and does no good; in the order of the file. */
  warnings: Finding[];
  /** False when there was no time to look for all of them; otherwise absent. */
  warningsComplete?: false;
  /** How many expectations were met and how much of the pricing they cover; absent without expectations. */
  expectations?: { met: number; coverage: Coverage | null };
}

/**
 * Holds an upload's pricing against its expectations, and looks for what does no good in it. Failure invalid when the
 * expectations cannot be read or are not met, with each in `problems`. Takes time: call it outside of transactions.
 */
export function reviewPricing(pricing: Pricing, source: PricingSource): UploadReport {
  const met = source.expectations === undefined ? undefined : meetExpectations(pricing, source.expectations);
  const until = performance.now() + LINT_MS;
  let isCut = false;
  const warnings = lintPricing(pricing, source.text, () => (isCut ||= performance.now() > until));
  return {
    warnings,
    ...(isCut ? { warningsComplete: false } : {}),
    ...(met === undefined ? {} : { expectations: met }),
  };
}

function meetExpectations(pricing: Pricing, text: string): NonNullable<UploadReport["expectations"]> {
  const read = parseExpectations(text, pricing);
  if (!read.ok) {
    const [first] = read.problems;
    throw new Failure("invalid", `Expectations parsing error: ${first?.message ?? "The file cannot be read"}`, {
      problems: read.problems.map(({ message, path, line, column }) => ({ message, path, line, column })),
    });
  }
  const side = createSide(compilePricing(pricing));
  const until = performance.now() + EXPECTATIONS_MS;
  const failed = read.expectations.flatMap((expectation, i) => {
    if (performance.now() > until) {
      throw new Failure("invalid", "INVALID DATA: The expectations take too long; run them with npx faregate test");
    }
    const { misses } = runExpectation(side, expectation);
    return misses.length === 0 ? [] : [{ expectation, misses, path: `expectations.${i}` }];
  });
  const [first] = failed;
  if (first !== undefined) {
    const counted = `${failed.length} of ${read.expectations.length} expectations are not met`;
    throw new Failure(
      "invalid",
      `Invalid request: ${counted}. ${first.expectation.name}: ${first.misses[0]?.message ?? ""}`,
      {
        problems: failed.flatMap(({ expectation, misses, path }) =>
          misses.map(({ line, message }) => ({ message: `${expectation.name}: ${message}`, path, line, column: 1 })),
        ),
      },
    );
  }
  const isCounted = Math.max(1, pricing.plans.length) * pricing.features.length <= MAX_COVERED;
  const coverage = isCounted ? coverageOf(side, read.expectations) : null;
  return {
    met: read.expectations.length,
    coverage: coverage === null ? null : { ...coverage, missing: coverage.missing.slice(0, MAX_MISSING) },
  };
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
