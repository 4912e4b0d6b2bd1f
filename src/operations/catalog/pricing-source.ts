import { tenantOf } from "../access.ts";
import { eq, sql } from "drizzle-orm";
import type { ReadUpload as ParsedUpload } from "../../core/change/analysis.ts";
import type { UploadReport } from "../../core/change/review.ts";
import { type Pricing, problemText } from "../../core/pricing/model.ts";
import { hashModelText, type ServiceRow, versionKey } from "../../db/queries/pricings.ts";
import { pricings } from "../../db/schema.ts";
import { type Context, newId } from "../context.ts";
import { Failure } from "../errors.ts";
import type { PricingAddress, ServiceAddress } from "../service-address.ts";

/** An uploaded pricing: its text, and the address if it was fetched from a URL. */
export interface PricingSource {
  text: string;
  url?: string | undefined;
  /** Text of the expectations that the pricing must meet. */
  expectations?: string | undefined;
}

/** Default size limit of a pricing's text. The largest known public pricing has 54 KB. */
const MAX_PRICING_BYTES = 2 * 1024 * 1024;

/** Returns the size limit of a pricing's text, in bytes. */
export const maxPricingBytes = ({ resources }: Pick<Context, "resources">): number =>
  resources.settings.maxPricingBytes ?? MAX_PRICING_BYTES;

/** The address is stored with the version and shown in every listing of versions. */
const MAX_URL_LENGTH = 2048;

/** Size limit of the expectations of one upload, in bytes. */
export const MAX_EXPECTATIONS_BYTES = 256 * 1024;
/** Time limit of an upload's linting. The largest known public pricing takes half of it. */
const LINT_MS = 400;
/** Time limit of checking expectations; slower ones are rejected. */
const EXPECTATIONS_MS = 1000;

export type { UploadReport } from "../../core/change/review.ts";

/** A parsed pricing. `keyRefusal` reports an illegal key; the caller throws it after its own checks. */
interface ReadSource {
  pricing: Pricing;
  keyRefusal?: Failure;
}

function fromParsed(result: ParsedUpload["parsed"]): ReadSource {
  if (result.ok) return { pricing: result.pricing };
  const problems = result.problems.map((problem) => {
    const { path, line, column } = problem;
    return { message: problemText(problem), path, line, column };
  });
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
  return ctx.resources.analysis.call(tenantOf(ctx, organizationId), (call) =>
    call.run({
      kind: "upload",
      text: source.text,
      now: ctx.resources.now().getTime(),
      maxDepth: ctx.resources.settings.maxPricingDepth,
      reviews,
      expectations: source.expectations,
      lintMs: LINT_MS,
      expectationsMs: EXPECTATIONS_MS,
    }),
  );
}

/**
 * Parses a source. Source: contract services-pricings §4.2.
 * @throws Failure invalid with the first problem as its message and all of them in `problems`.
 */
export async function readPricing(ctx: Context, organizationId: string, source: PricingSource): Promise<Pricing> {
  const { parsed } = await analyseSource(ctx, organizationId, source, false);
  const { pricing, keyRefusal } = fromParsed(parsed);
  if (keyRefusal !== undefined) throw keyRefusal;
  return pricing;
}

/**
 * Parses an upload, checks its expectations and lints it. Unmet expectations are returned as `refusal`, an illegal key
 * as `keyRefusal`; the report is empty then. Call it outside of transactions. Source: contract services-pricings §4.8.
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
 * Reads an upload to a service.
 * @throws Failure invalid if the pricing names another service.
 */
export async function readNamed(ctx: Context, { organizationId, serviceName }: ServiceAddress, source: PricingSource) {
  const read = await readUpload(ctx, organizationId, source);
  const { saasName } = read.pricing;
  if (saasName === serviceName) return read;
  throw new Failure(
    "invalid",
    `Invalid request: The service name in the pricing file (${saasName}) does not match the service name in the URL (${serviceName})`,
  );
}

/**
 * Checks a draft as an upload does, and lints it. Stores nothing.
 * @throws Failure as the upload would, except for what is already stored.
 */
export async function lintDraft(
  ctx: Context,
  { organizationId, source }: { organizationId: string; source: PricingSource },
): Promise<UploadReport & { saasName: string; version: string }> {
  const { pricing, keyRefusal, refusal, report } = await readUpload(ctx, organizationId, source);
  const failure = refusal ?? keyRefusal;
  if (failure !== undefined) throw failure;
  return { saasName: pricing.saasName, version: pricing.version, ...report };
}

export const duplicateVersion = ({ version, serviceName }: PricingAddress) =>
  new Failure("invalid", `Pricing version ${version} already exists for service ${serviceName}`);

/**
 * Fetches a pricing once, at upload; the stored text never changes. Source: contract services-pricings §7.
 * @throws Failure invalid when the address is not allowed, times out, or responds with anything but 2xx.
 */
export async function fetchPricing(ctx: Context, address: unknown): Promise<PricingSource> {
  if (typeof address !== "string" || !URL.canParse(address)) throw new Failure("invalid", "Invalid URL");
  // Other protocols have a sentence of their own, which `download` throws.
  if (address.length > MAX_URL_LENGTH && /^\s*https?:/i.test(address)) throw new Failure("invalid", "Invalid URL");
  if (ctx.resources.download === undefined) {
    throw new Failure("invalid", "This server accepts pricings only as files: it cannot fetch URLs safely");
  }
  return { text: await ctx.resources.download(address, maxPricingBytes(ctx)), url: address };
}

const pathPart = (text: string) =>
  text
    .trim()
    .replace(/[^A-Za-z0-9._-]/g, "-")
    .replace(/-+/g, "-")
    .toLowerCase();

/** Stores a new active version with its original text. Call it with the service locked. */
export async function insertPricing(
  ctx: Context,
  input: { service: ServiceRow; pricing: Pricing; source: PricingSource },
): Promise<void> {
  const { service, pricing, source } = input;
  const now = ctx.resources.now();
  const id = newId(now);
  let yamlPath: string | null = null;
  if (source.url === undefined) {
    const stem = `/static/pricings/${pathPart(service.organizationId)}-${pathPart(service.name)}-${pathPart(pricing.version)}`;
    // Different names can normalize to the same path. The lock keeps the lookup valid until the commit.
    await ctx.db.execute(sql`select pg_advisory_xact_lock(hashtextextended(${stem}, 0))`);
    const taken = await ctx.db
      .select({ id: pricings.id })
      .from(pricings)
      .where(eq(pricings.yamlPath, `${stem}.yaml`));
    yamlPath = taken.length === 0 ? `${stem}.yaml` : `${stem}-${id}.yaml`;
  }
  // Serialized once: a large model takes tens of milliseconds.
  const model = JSON.stringify(pricing);
  await ctx.db.insert(pricings).values({
    id,
    serviceId: service.id,
    organizationId: service.organizationId,
    version: pricing.version,
    versionKey: versionKey(pricing.version),
    availability: "active",
    url: source.url ?? null,
    yamlPath,
    source: source.text,
    expectations: source.expectations ?? null,
    model: sql`${model}::json`,
    modelHash: await hashModelText(model),
    declaredAt: new Date(pricing.createdAt),
    createdAt: now,
  });
}
