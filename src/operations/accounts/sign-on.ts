import { and, eq, isNull, or } from "drizzle-orm";
import { z } from "zod";
import { addressBlock } from "../../core/access/address-block.ts";
import { sessions, usedProofs } from "../../db/schema.ts";
import { type Context, transaction } from "../context.ts";
import { openApiKey, sealSecret } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { type Logout, type ProvenIdentity, type SignOnProvider, UnansweredError } from "../state/sign-on-provider.ts";
import { beginSession, endSession, type Visitor } from "./session-rows.ts";
import { accountOfIdentity, linkIdentity } from "./sign-on-accounts.ts";
import { SignOnFailure } from "./sign-on-failure.ts";
import { limitAccountCalls } from "./throttle.ts";

/** Seconds that a visitor has at the provider. */
export const FLOW_SECONDS = 600;
/** A logout token is refused for its age before this is forgotten. */
const LOGOUT_MS = 3_600_000;

/** Content of the cookie of an authorization, which is encrypted. */
const flowShape = z.object({
  purpose: z.literal("sign-on"),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  redirectUri: z.string(),
  returnTo: z.string(),
  /** Account that gets the identity. Absent: sign in. */
  linkTo: z.string().optional(),
  expiresAt: z.number(),
});
type Flow = z.infer<typeof flowShape>;

/**
 * Returns the provider.
 * @throws Failure notFound where none is configured.
 */
export function requireProvider(ctx: Context): SignOnProvider {
  const { signOn } = ctx.resources;
  if (signOn === undefined) throw new Failure("notFound", "Single sign-on is not configured");
  return signOn;
}

/**
 * Begins a sign-in with the provider, or the link of an identity. Returns the provider's address, and the sealed state for a
 * cookie of FLOW_SECONDS.
 * @throws SignOnFailure unavailable; Failure tooManyRequests.
 */
export async function startSignOn(
  ctx: Context,
  input: { redirectUri: string; returnTo: string; linkTo?: string | undefined; address: string },
): Promise<{ address: URL; flow: string }> {
  const provider = requireProvider(ctx);
  await limitAccountCalls(ctx, addressBlock(input.address));
  const { redirectUri, returnTo, linkTo } = input;
  const begun = await provider.begin(redirectUri).catch((cause: unknown) => {
    throw new SignOnFailure("unavailable", "the provider does not answer", cause);
  });
  const flow: Flow = {
    purpose: "sign-on",
    ...begun.authorization,
    redirectUri,
    returnTo,
    linkTo,
    expiresAt: ctx.resources.now().getTime() + FLOW_SECONDS * 1000,
  };
  return { address: begun.address, flow: await sealSecret(ctx.resources.keyring, JSON.stringify(flow)) };
}

/**
 * Finishes a sign-in: verifies the provider's answer, finds or creates the account, and begins a session. After a link
 * there is no new session.
 * @throws SignOnFailure; Failure tooManyRequests.
 */
export async function finishSignOn(
  ctx: Context,
  input: { flow: string | undefined; query: URLSearchParams; visitor: Visitor },
): Promise<{ token: string | undefined; returnTo: string }> {
  const provider = requireProvider(ctx);
  const { query, visitor } = input;
  await limitAccountCalls(ctx, addressBlock(visitor.address));
  const flow = await openFlow(ctx, input.flow);
  if (flow === undefined || query.get("state") !== flow.state) {
    throw new SignOnFailure("state", "the callback belongs to no sign-in of this browser");
  }
  if (!(await acceptOnce(ctx, `state ${flow.state}`, FLOW_SECONDS * 1000))) {
    throw new SignOnFailure("state", "the callback was used before");
  }
  const refusal = query.get("error");
  if (refusal !== null) {
    const code = /^(server_error|temporarily_unavailable)$/.test(refusal) ? "token" : "denied";
    throw new SignOnFailure(code, `the provider answered ${refusal}: ${query.get("error_description") ?? ""}`);
  }
  const identity = await finishAt(provider, flow, query);
  if (flow.linkTo !== undefined) {
    if (ctx.caller.kind !== "user" || ctx.caller.id !== flow.linkTo) {
      throw new SignOnFailure("state", "the link was started by another session");
    }
    await linkIdentity(ctx, identity, flow.linkTo);
    return { token: undefined, returnTo: flow.returnTo };
  }
  const user = await accountOfIdentity(ctx, identity, provider.settings);
  const { issuer, subject, session } = identity;
  const token = await beginSession(ctx, user, { visitor, via: "oidc", identity: { issuer, subject, session } });
  return { token, returnTo: flow.returnTo };
}

async function finishAt(provider: SignOnProvider, flow: Flow, query: URLSearchParams): Promise<ProvenIdentity> {
  const callback = new URL(flow.redirectUri);
  callback.search = query.toString();
  try {
    return await provider.finish(callback, flow);
  } catch (cause) {
    if (cause instanceof UnansweredError) {
      throw new SignOnFailure("unavailable", "the provider did not answer in time", cause.cause);
    }
    throw new SignOnFailure("token", "the provider's answer proves nothing", cause);
  }
}

async function openFlow(ctx: Context, sealed: string | undefined): Promise<Flow | undefined> {
  if (sealed === undefined) return undefined;
  try {
    const flow = flowShape.parse(JSON.parse(await openApiKey(ctx.resources.keyring, sealed)));
    return flow.expiresAt > ctx.resources.now().getTime() ? flow : undefined;
  } catch {
    return undefined;
  }
}

/** Returns true for the first use of a proof. */
async function acceptOnce(ctx: Context, proof: string, forgetAfterMs: number): Promise<boolean> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(proof)));
  const proofHash = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const expiresAt = new Date(ctx.resources.now().getTime() + forgetAfterMs);
  const accepted = await ctx.db
    .insert(usedProofs)
    .values({ proofHash, expiresAt })
    .onConflictDoNothing()
    .returning({ proofHash: usedProofs.proofHash });
  return accepted.length > 0;
}

/**
 * Ends the sessions that a logout token of the provider names. Each token counts once.
 * @throws Failure invalid for a token that proves nothing, or was used before.
 */
export async function logOutByProvider(ctx: Context, token: string): Promise<void> {
  const logout = await requireProvider(ctx)
    .verifyLogout(token)
    .catch((cause: unknown) => {
      throw new Failure("invalid", "INVALID DATA: The logout token is not valid", { cause });
    });
  await transaction(ctx, async (ctx) => {
    const { issuer, id } = logout;
    if (!(await acceptOnce(ctx, `logout ${JSON.stringify([issuer, id])}`, LOGOUT_MS))) {
      throw new Failure("invalid", "INVALID DATA: The logout token was used before");
    }
    await endNamed(ctx, logout);
  });
}

async function endNamed(ctx: Context, { issuer, subject, session }: Logout): Promise<void> {
  const isSession = eq(sessions.providerSession, session ?? "");
  // Nobody knows which session of the provider one without a `sid` belongs to: it ends with each of its subject.
  const isNamed = subject === undefined ? isSession : or(isSession, isNull(sessions.providerSession));
  const named = await ctx.db
    .select({ id: sessions.id, userId: sessions.userId })
    .from(sessions)
    .where(
      and(
        eq(sessions.issuer, issuer),
        subject === undefined ? undefined : eq(sessions.subject, subject),
        session === undefined ? undefined : isNamed,
      ),
    );
  for (const { id, userId } of named) await endSession(ctx, id, userId);
}
