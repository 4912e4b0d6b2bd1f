import { base64url, compactVerify, decodeJwt, decodeProtectedHeader, errors, type JWTPayload } from "jose";
import { isPlatformAdmin } from "../../core/access/caller.ts";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import type { Spender } from "../../core/pricing/budgets.ts";
import { evaluateFeature, featureIds } from "../../core/pricing/evaluate.ts";
import { contexts } from "../../core/pricing/contexts.ts";
import { type PricingTokenPayload, serializeTokenPayload, tokenFeature } from "../../core/pricing-token.ts";
import type { TokenSignature } from "../../core/token-keys.ts";
import { organizationRole } from "../access.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { type IssuedToken, signOncePerSecond } from "../state/issued-tokens.ts";
import { publishedTokenKey, type TokenSigner, tokenSigner } from "../token-keys.ts";
import { recordedSpender } from "./spenders.ts";
import { isOffByBudget } from "./decision.ts";
import { evaluatedOrganization, type Prepared, prepareContract } from "./prepare.ts";
import type { Mode } from "./request.ts";
import { refuseStranger, withSpenders } from "./spenders.ts";

/** Issues a signed, frozen pricing token with the details of every feature. Source: contract features-events §7. */
export function issuePricingToken(
  ctx: Context,
  input: { userId: string; mode: Mode; signature?: TokenSignature | undefined; spender?: Spender | undefined },
): MaybePromise<IssuedToken> {
  const isEdDsa = (input.signature ?? ctx.resources.settings.tokenSignature) === "EdDSA";
  return chain(preparedFor(ctx, input), (prepared) =>
    chain(ctx.resources.issuer(ctx.db), (issuer) =>
      chain(isEdDsa ? tokenSigner(ctx) : undefined, (signer) => {
        const issuedAtSeconds = Math.floor(prepared.at.getTime() / 1000);
        const { contract, evaluation } = prepared;
        const spender = recordedSpender(input.spender);
        const inputs = { evaluation, server: input.mode.server, issuer, kid: signer?.kid, spender, issuedAtSeconds };
        return signOncePerSecond(contract, inputs, () =>
          signToken(ctx, prepared, { ...input, issuer, signer, issuedAtSeconds }),
        );
      }),
    ),
  );
}

/** @throws Failure notFound for a spender who is no member of a contract with members. */
function preparedFor(
  ctx: Context,
  { userId, spender }: { userId: string; spender?: Spender | undefined },
): MaybePromise<Prepared> {
  return chain(prepareContract(ctx, userId), (prepared) =>
    chain(withSpenders(ctx, prepared, [spender ?? []]), (budgeted) => {
      refuseStranger(budgeted, { userId, spender });
      return budgeted;
    }),
  );
}

function signToken(
  ctx: Context,
  prepared: Prepared,
  {
    userId,
    mode,
    spender,
    issuer,
    signer,
    issuedAtSeconds,
  }: {
    userId: string;
    mode: Mode;
    spender?: Spender | undefined;
    issuer: string;
    signer: TokenSigner | undefined;
    issuedAtSeconds: number;
  },
): MaybePromise<IssuedToken> {
  const { evaluation, usage } = prepared;
  const { pricingContext, subscriptionContext } = contexts(evaluation, usage);
  const features: PricingTokenPayload["features"] = {};
  for (const id of featureIds(evaluation, mode)) {
    const feature = tokenFeature(evaluateFeature(evaluation, id, usage, mode));
    if (feature.eval && isOffByBudget(prepared, { featureId: id, mode, spender })) feature.eval = false;
    features[id] = feature;
  }
  const named = recordedSpender(spender);
  const payload = serializeTokenPayload({
    features,
    pricingContext,
    subscriptionContext,
    iat: issuedAtSeconds,
    exp: issuedAtSeconds + ctx.resources.settings.tokenLifetimeSeconds,
    sub: userId,
    iss: issuer,
    aud: evaluatedOrganization(ctx),
    ...(named === null ? {} : { spender: named }),
  });
  const sign = signer?.sign ?? ctx.resources.keyring.signToken;
  return chain(sign(payload), (pricingToken) => Object.freeze({ pricingToken }));
}

/** Result of {@link verifyPricingToken}. `reason` is null exactly when `valid`. */
export interface TokenVerdict {
  valid: boolean;
  reason: string | null;
}

const refused = (reason: string): TokenVerdict => ({ valid: false, reason });

/**
 * Checks a token's signature, audience and expiry. The contract fixes this order: a foreign token is rejected before
 * anything else about it is revealed. Source: contract tokens-and-leases §2.4.
 */
export async function verifyPricingToken(ctx: Context, token: string): Promise<TokenVerdict> {
  const decoded = decode(token);
  if (decoded === undefined) return refused("This is no pricing token");
  const { claims } = decoded;
  if (!(await isSignedHere(ctx, token, decoded))) return refused("The signature is not of this server");
  if (typeof claims.aud !== "string") {
    if (!isPlatformAdmin(ctx.caller)) return refused("The token names no organization");
  } else if (!(await isAudience(ctx, claims.aud))) {
    return refused("The token is of another organization");
  }
  // All published clients treat a token without `exp` as expired.
  const isCurrent = typeof claims.exp === "number" && ctx.resources.now().getTime() < claims.exp * 1000;
  return isCurrent ? { valid: true, reason: null } : refused("The token has expired");
}

interface DecodedToken {
  algorithm: TokenSignature;
  kid: unknown;
  claims: JWTPayload;
}

/** Decodes header and claims without verifying; undefined for a malformed token or an unknown algorithm. */
function decode(token: string): DecodedToken | undefined {
  try {
    const { alg, crit, kid } = decodeProtectedHeader(token);
    if ((alg !== "HS256" && alg !== "EdDSA") || crit !== undefined) return undefined;
    base64url.decode(token.split(".")[2] ?? "");
    return { algorithm: alg, kid, claims: decodeJwt(token) };
  } catch (error) {
    // Besides its own errors, jose throws TypeError for text that it cannot decode.
    if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
    throw error;
  }
}

async function isSignedHere(ctx: Context, token: string, { algorithm, kid }: DecodedToken): Promise<boolean> {
  const { keyring } = ctx.resources;
  const keys = algorithm === "EdDSA" ? [await publishedTokenKey(ctx, kid)] : [keyring.token, keyring.previousToken];
  for (const key of keys) {
    if (key === undefined) continue;
    try {
      await compactVerify(token, key, { algorithms: [algorithm] });
      return true;
    } catch (error) {
      if (!(error instanceof errors.JOSEError)) throw error;
    }
  }
  return false;
}

/** True if the caller may currently verify tokens of this organization. */
async function isAudience(ctx: Context, organizationId: string): Promise<boolean> {
  const { caller } = ctx;
  if (caller.kind === "key") return caller.organizationId === organizationId;
  if (caller.kind === "anonymous") return false;
  if (isPlatformAdmin(caller)) return true;
  try {
    return (await organizationRole(ctx, organizationId)) !== undefined;
  } catch (error) {
    if (error instanceof Failure && error.code === "notFound") return false;
    throw error;
  }
}
