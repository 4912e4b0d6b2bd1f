import { and, asc, count, eq, sql } from "drizzle-orm";
import type { EVENT_CODES } from "../../core/event-messages.ts";
import { webhookUrlProblem } from "../../core/webhooks.ts";
import { newestEvent } from "../../db/queries/outbox.ts";
import { organizations, webhookEndpoints } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { issueWebhookSecret } from "../credentials.ts";
import { Failure } from "../errors.ts";

const MAX_ENDPOINTS = 20;
/** For this long after a rotation, deliveries carry signatures of both secrets. */
const ROTATION_MS = 24 * 3_600_000;

/** The configurable fields of an endpoint. */
export interface WebhookChoice {
  url: string;
  description?: string | null | undefined;
  /** Null subscribes to all event codes. */
  codes?: readonly (typeof EVENT_CODES)[number][] | null | undefined;
  /** Default of a new endpoint: true. */
  enabled?: boolean | undefined;
}

/** An endpoint as its organization sees it. Only creation and rotation return the secret. */
export interface WebhookView {
  id: string;
  url: string;
  description: string | null;
  codes: string[] | null;
  /** `suspended`: the server stopped delivering for `suspendedReason`; set `enabled: true` to retry. */
  state: "enabled" | "disabled" | "suspended";
  suspendedAt: Date | null;
  suspendedReason: string | null;
  /** Consecutive failed attempts. */
  failures: number;
  failingSince: Date | null;
  createdAt: Date;
  updatedAt: Date;
  secret?: string;
}

export interface WebhookAddress {
  organizationId: string;
  webhookId: string;
}

type Row = typeof webhookEndpoints.$inferSelect;
const viewOf = (row: Row): WebhookView => ({
  id: row.id,
  url: row.url,
  description: row.description,
  codes: row.codes,
  state: row.state,
  suspendedAt: row.suspendedAt,
  suspendedReason: row.suspendedReason,
  failures: row.failures,
  failingSince: row.failingSince,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});

const stateOf = (isEnabled: boolean) => (isEnabled ? "enabled" : "disabled");

const at = ({ organizationId, webhookId }: WebhookAddress) =>
  and(eq(webhookEndpoints.id, webhookId), eq(webhookEndpoints.organizationId, organizationId));

function missing(webhookId: string): Failure {
  return new Failure("notFound", `Webhook ${webhookId} not found`);
}

/**
 * Validates a URL: https: only, except for hosts that the operator allows. Every delivery checks the resolved address
 * again.
 */
function checkedUrl(ctx: Context, text: string): string {
  const refused = (why: string) => new Failure("invalid", `INVALID DATA: ${why}`);
  const allowed = (ctx.resources.settings.webhookAllowedHosts ?? []).map((host) => host.toLowerCase());
  const isAllowed = ({ hostname, port, protocol }: URL): boolean =>
    allowed.includes(hostname) || allowed.includes(`${hostname}:${port || (protocol === "https:" ? "443" : "80")}`);
  const problem = webhookUrlProblem(text, isAllowed);
  if (problem !== undefined) throw refused(problem);
  const url = new URL(text);
  if (!isAllowed(url) && isPrivateHost(ctx, url.hostname)) throw refused("The url must resolve to a public address");
  url.hash = "";
  return url.href;
}

/** True for a literal private IP address. Host names are resolved and checked at delivery instead. */
function isPrivateHost(ctx: Context, hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "");
  // URL normalizes every spelling of an IPv4 address.
  const isLiteral = host.includes(":") || /^\d+\.\d+\.\d+\.\d+$/.test(host);
  return isLiteral && ctx.resources.isPublicAddress?.(host) === false;
}

/**
 * Lists the organization's endpoints, oldest first.
 * @throws Failure notFound for an unknown organization.
 */
export async function listWebhooks(ctx: Context, organizationId: string): Promise<WebhookView[]> {
  await requireOrganization(ctx, organizationId);
  const rows = await ctx.db
    .select()
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.organizationId, organizationId))
    .orderBy(asc(webhookEndpoints.id));
  return rows.map(viewOf);
}

async function requireOrganization(ctx: Context, organizationId: string, lock?: "no key update"): Promise<void> {
  const query = ctx.db.select({ id: organizations.id }).from(organizations).where(eq(organizations.id, organizationId));
  const [found] = await (lock === undefined ? query : query.for(lock));
  if (found === undefined) throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
}

/**
 * Adds an endpoint for events from now on. The secret appears only in this answer.
 * @throws Failure invalid, conflict.
 */
export async function createWebhook(
  ctx: Context,
  input: { organizationId: string; choice: WebhookChoice },
): Promise<WebhookView> {
  const { organizationId, choice } = input;
  const url = checkedUrl(ctx, choice.url);
  const { secret, sealed } = await issueWebhookSecret(ctx.resources.keyring);
  return transaction(ctx, async (ctx) => {
    await requireOrganization(ctx, organizationId, "no key update");
    const [existing] = await ctx.db
      .select({ number: count() })
      .from(webhookEndpoints)
      .where(eq(webhookEndpoints.organizationId, organizationId));
    const most = ctx.resources.settings.maxWebhooks ?? MAX_ENDPOINTS;
    if ((existing?.number ?? 0) >= most) {
      throw new Failure("conflict", `CONFLICT: An organization can have at most ${most} webhooks`);
    }
    const now = ctx.resources.now();
    const [row] = await ctx.db
      .insert(webhookEndpoints)
      .values({
        id: newId(now),
        organizationId,
        url,
        description: choice.description ?? null,
        codes: choice.codes == null ? null : [...choice.codes],
        state: stateOf(choice.enabled ?? true),
        secretSealed: sealed,
        afterEventId: await newestEvent(ctx.db),
        createdAt: now,
        updatedAt: now,
      })
      .returning();
    if (row === undefined) throw new Error("the new webhook has no row");
    await audit(ctx, { action: "webhook.create", organizationId, target: row.id, after: factsOf(row) });
    return { ...viewOf(row), secret };
  });
}

/**
 * Returns one endpoint.
 * @throws Failure notFound, also for another organization's.
 */
export async function showWebhook(ctx: Context, address: WebhookAddress): Promise<WebhookView> {
  const [row] = await ctx.db.select().from(webhookEndpoints).where(at(address));
  if (row === undefined) throw missing(address.webhookId);
  return viewOf(row);
}

/**
 * Updates the given fields. Enabling resets the failure count and resumes pending deliveries. Events from while it was
 * not enabled are not sent.
 * @throws Failure invalid, notFound.
 */
export async function updateWebhook(
  ctx: Context,
  input: WebhookAddress & { changes: Omit<WebhookChoice, "url"> & { url?: string | undefined } },
): Promise<WebhookView> {
  const { description, codes, enabled } = input.changes;
  const url = input.changes.url === undefined ? undefined : checkedUrl(ctx, input.changes.url);
  return transaction(ctx, async (ctx) => {
    const [before] = await ctx.db.select().from(webhookEndpoints).where(at(input)).for("no key update");
    if (before === undefined) throw missing(input.webhookId);
    const [row] = await ctx.db
      .update(webhookEndpoints)
      .set({
        ...(url === undefined ? {} : { url }),
        ...(description === undefined ? {} : { description }),
        ...(codes === undefined ? {} : { codes: codes === null ? null : [...codes] }),
        ...(enabled === undefined ? {} : { state: stateOf(enabled), suspendedAt: null, suspendedReason: null }),
        ...(enabled === true ? { failures: 0, failingSince: null } : {}),
        ...(enabled === true && before.state !== "enabled" ? { afterEventId: await newestEvent(ctx.db) } : {}),
        updatedAt: ctx.resources.now(),
      })
      .where(at(input))
      .returning();
    if (row === undefined) throw missing(input.webhookId);
    await audit(ctx, {
      action: "webhook.update",
      organizationId: row.organizationId,
      target: row.id,
      before: factsOf(before),
      after: { ...factsOf(row), ...(url === undefined || url === before.url ? {} : { urlChanged: true }) },
    });
    return viewOf(row);
  });
}

/** Selects the audited fields of an endpoint. Only the URL's origin, because the rest may contain a secret. */
function factsOf({ url, description, codes, state }: Row) {
  return { url: new URL(url).origin, description, codes, state };
}

/**
 * Deletes an endpoint with its deliveries.
 * @throws Failure notFound.
 */
export async function deleteWebhook(ctx: Context, address: WebhookAddress): Promise<void> {
  const { organizationId, webhookId } = address;
  await transaction(ctx, async (ctx) => {
    const [deleted] = await ctx.db.delete(webhookEndpoints).where(at(address)).returning();
    if (deleted === undefined) throw missing(webhookId);
    await audit(ctx, { action: "webhook.delete", organizationId, target: webhookId, before: factsOf(deleted) });
  });
}

/**
 * Rotates the secret, and returns the new one this once. For a day, the old secret signs too.
 * @throws Failure notFound.
 */
export async function rotateWebhookSecret(ctx: Context, address: WebhookAddress): Promise<WebhookView> {
  const { secret, sealed } = await issueWebhookSecret(ctx.resources.keyring);
  const now = ctx.resources.now();
  const { organizationId, webhookId } = address;
  return transaction(ctx, async (ctx) => {
    const [row] = await ctx.db
      .update(webhookEndpoints)
      .set({
        previousSecretSealed: sql`${webhookEndpoints.secretSealed}`,
        previousSecretUntil: new Date(now.getTime() + ROTATION_MS),
        secretSealed: sealed,
        updatedAt: now,
      })
      .where(at(address))
      .returning();
    if (row === undefined) throw missing(webhookId);
    const after = { previousSecretUntil: row.previousSecretUntil };
    await audit(ctx, { action: "webhook.secret", organizationId, target: webhookId, after });
    return { ...viewOf(row), secret };
  });
}
