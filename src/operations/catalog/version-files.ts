import { and, asc, eq, sql } from "drizzle-orm";
import type { UploadReport } from "../../core/change/review.ts";
import { hashModelText, type VersionRow, versionKey } from "../../db/queries/pricings.ts";
import { pricings } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { type PricingAddress, requireService, type ServiceAddress, versionNotFound } from "../service-address.ts";
import {
  duplicateVersion,
  MAX_EXPECTATIONS_BYTES,
  type PricingSource,
  readNamed,
  readUpload,
} from "./pricing-source.ts";

/** SHA-256 of a text column's UTF-8 bytes, in hex; null for null. */
const sha256 = (column: typeof pricings.source | typeof pricings.expectations) =>
  sql<string | null>`encode(sha256(convert_to(${column}, 'UTF8')), 'hex')`;

/** A version with the hashes of its texts. */
export interface VersionFile {
  pricingVersion: string;
  state: "active" | "archived";
  /** Service name in the file. It differs from the service's name after a rename. */
  saasName: string;
  /** `createdAt` of the file. */
  createdAt: Date;
  uploadedAt: Date;
  url: string | null;
  sha256: string;
  expectations: string | null;
}

/** Lists the versions of a service in the order of upload. Source: contract files-and-migration §3. */
export async function listVersionFiles(ctx: Context, address: ServiceAddress): Promise<VersionFile[]> {
  const service = await requireService(ctx, address);
  return ctx.db
    .select({
      pricingVersion: pricings.version,
      state: pricings.availability,
      saasName: sql<string>`${pricings.model} ->> 'saasName'`,
      createdAt: pricings.declaredAt,
      uploadedAt: pricings.createdAt,
      url: pricings.url,
      // The column is never null.
      sha256: sql<string>`${sha256(pricings.source)}`,
      expectations: sha256(pricings.expectations),
    })
    .from(pricings)
    .where(eq(pricings.serviceId, service.id))
    .orderBy(asc(pricings.position));
}

/** A stored text, exactly as uploaded, and its SHA-256 in hex. */
export interface StoredText {
  text: string;
  sha256: string;
}

async function readTexts(ctx: Context, address: PricingAddress) {
  const service = await requireService(ctx, address);
  const [row] = await ctx.db
    .select({
      id: pricings.id,
      version: pricings.version,
      source: pricings.source,
      expectations: pricings.expectations,
    })
    .from(pricings)
    .where(and(eq(pricings.serviceId, service.id), eq(pricings.versionKey, versionKey(address.version))));
  if (row === undefined) throw versionNotFound(address);
  return { service, row };
}

/**
 * Returns the text of a version, also of one that was fetched from a URL.
 * @throws Failure notFound.
 */
export async function showSource(ctx: Context, address: PricingAddress): Promise<StoredText> {
  const { source } = (await readTexts(ctx, address)).row;
  return { text: source, sha256: await hashModelText(source) };
}

/**
 * Returns the text of a version's expectations.
 * @throws Failure notFound, also for a version without any.
 */
export async function showExpectations(ctx: Context, address: PricingAddress): Promise<StoredText> {
  const { expectations } = (await readTexts(ctx, address)).row;
  if (expectations !== null) return { text: expectations, sha256: await hashModelText(expectations) };
  const { version, serviceName } = address;
  throw new Failure("notFound", `Pricing version ${version} of service ${serviceName} has no expectations`);
}

const sizeOf = (text: string | null) => ({ bytes: text === null ? null : new TextEncoder().encode(text).byteLength });

/**
 * Replaces a version's expectations, or removes them with null.
 * @returns the number of expectations that it meets, and their coverage.
 * @throws Failure invalid for expectations that cannot be read or are not met; tooLarge, notFound.
 */
export async function setExpectations(
  ctx: Context,
  input: PricingAddress & { expectations: string | null },
): Promise<NonNullable<UploadReport["expectations"]>> {
  const { expectations } = input;
  if ((sizeOf(expectations).bytes ?? 0) > MAX_EXPECTATIONS_BYTES) {
    throw new Failure("tooLarge", "File too large");
  }
  const { row: checked } = await readTexts(ctx, input);
  const report =
    expectations === null ? undefined : await checkExpectations(ctx, input, { text: checked.source, expectations });
  await transaction(ctx, async (ctx) => {
    await requireService(ctx, input, "update");
    const { service, row } = await readTexts(ctx, input);
    // The version was deleted, and its name uploaded again with other content.
    if (row.id !== checked.id) throw versionNotFound(input);
    if (row.expectations === expectations) return;
    await ctx.db.update(pricings).set({ expectations }).where(eq(pricings.id, row.id));
    await audit(ctx, {
      action: "pricing.expectations",
      organizationId: service.organizationId,
      target: `${service.name} ${row.version}`,
      before: sizeOf(row.expectations),
      after: sizeOf(expectations),
    });
  });
  return report ?? { met: 0, coverage: null };
}

/** Checks expectations against a stored pricing. Call it outside of transactions. */
async function checkExpectations(
  ctx: Context,
  { organizationId }: PricingAddress,
  source: PricingSource,
): Promise<UploadReport["expectations"]> {
  const { refusal, report } = await readUpload(ctx, organizationId, source);
  if (refusal !== undefined) throw refusal;
  return report.expectations;
}

/**
 * Reads drafts as uploads to a service, for a prediction that counts them as its latest active versions. Drops drafts
 * that equal a version. Stores nothing. Source: contract files-and-migration §3.
 * @throws Failure as an upload of the first invalid draft.
 */
export async function readDrafts(
  ctx: Context,
  address: ServiceAddress,
  sources: readonly PricingSource[],
): Promise<VersionRow[]> {
  const drafts: VersionRow[] = [];
  for (const source of sources) {
    const { pricing, keyRefusal } = await readNamed(ctx, address, source);
    const service = await requireService(ctx, address);
    const { version } = pricing;
    const key = versionKey(version);
    const draft = JSON.stringify(pricing);
    const hash = await hashModelText(draft);
    const isVersion = and(eq(pricings.serviceId, service.id), eq(pricings.versionKey, key));
    const [stored] = await ctx.db
      .select({ hash: pricings.modelHash, source: pricings.source })
      .from(pricings)
      .where(isVersion);
    const existing = stored ?? drafts.find((other) => other.key === key);
    if (existing !== undefined) {
      if (existing.hash === hash || stored?.source === source.text) continue;
      throw duplicateVersion({ ...address, version });
    }
    if (keyRefusal !== undefined) throw keyRefusal;
    const id = newId(ctx.resources.now());
    drafts.push({ id, version, key, state: "active", hash, declaredAt: new Date(pricing.createdAt), draft });
  }
  return drafts;
}

/**
 * Reads a draft as an upload to a service. It may have the name of a version, which it then replaces in what asks about it. Stores
 * nothing.
 * @throws Failure as the upload would, except for what is already stored.
 */
export async function readDraft(ctx: Context, address: ServiceAddress, source: PricingSource): Promise<VersionRow> {
  const { name } = await requireService(ctx, address);
  const { pricing, keyRefusal } = await readNamed(ctx, { ...address, serviceName: name }, source);
  if (keyRefusal !== undefined) throw keyRefusal;
  const { version, createdAt } = pricing;
  const draft = JSON.stringify(pricing);
  const hash = await hashModelText(draft);
  const id = newId(ctx.resources.now());
  return { id, version, key: versionKey(version), state: "active", hash, declaredAt: new Date(createdAt), draft };
}
