import { createRemoteJWKSet, jwtVerify } from "jose";
import type { Configuration, CustomFetch, ServerMetadata } from "openid-client";
import type { Claims, RoleRule } from "../../core/access/claims.ts";

/** Single sign-on with one provider, from the environment. */
export interface SignOnSettings {
  issuer: string;
  clientId: string;
  /** Absent: a public client, which PKCE alone protects. */
  clientSecret?: string | undefined;
  scopes: string;
  /** Name of the provider in sentences and on its button. */
  name: string;
  usernameClaim: string;
  roles: readonly RoleRule[];
  /** False: only existing accounts sign in. */
  allowsSignUp: boolean;
}

/** One authorization, from its start to its callback. */
export interface Authorization {
  state: string;
  nonce: string;
  verifier: string;
}

/** An identity that the provider proved. */
export interface ProvenIdentity {
  issuer: string;
  subject: string;
  /** The provider's session, `sid`. */
  session: string | undefined;
  claims: Claims;
}

/** Names the sessions that a logout token ends, by `sid`, by `sub`, or by both. */
export interface Logout {
  issuer: string;
  id: string;
  subject: string | undefined;
  session: string | undefined;
}

/** The provider did not answer in time, or cannot be reached. */
export class UnansweredError extends Error {}

/** Protocol of single sign-on with one provider. */
export interface SignOnProvider {
  settings: SignOnSettings;
  /**
   * Begins an authorization. Returns the address at the provider.
   * @throws Error within 5 s if the provider does not answer.
   */
  begin(redirectUri: string): Promise<{ authorization: Authorization; address: URL }>;
  /**
   * Exchanges the code of a callback, and verifies everything that the provider answers.
   * @throws UnansweredError within 5 s if the provider does not answer; Error for an answer that proves nothing.
   */
  finish(callback: URL, authorization: Authorization): Promise<ProvenIdentity>;
  /**
   * Verifies a token of back-channel logout. The caller has to accept its `id` once.
   * Source: OpenID Connect Back-Channel Logout 1.0 §2.6.
   * @throws Error for any other token.
   */
  verifyLogout(token: string): Promise<Logout>;
}

/** Contract sign-in §2: a sign-in says within 5 s that the provider is away. */
const DEADLINE_MS = 4500;
/** Clocks may differ by 60 s; the rest is for the way of the answer. */
const TOLERANCE_SECONDS = 90;
/** An ID token is issued when its code is redeemed. Entra dates it back by five minutes, and clocks may differ. */
const MAX_AGE_SECONDS = 300 + TOLERANCE_SECONDS;
const METADATA_MS = 300_000;
const KEYS_COOLDOWN_MS = 5000;
const LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout";

/** True for an issuer that may be called without TLS: one on this machine. */
export const isLoopback = ({ hostname }: URL): boolean =>
  /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);

/** Requests of one call, which share a deadline. */
interface Exchange {
  fetch: CustomFetch;
  /** True once a request has found nobody, or the deadline has passed. */
  isUnanswered(): boolean;
}

/** Begins an exchange. The library's bodies are what `fetch` takes. */
function beginExchange(): Exchange {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  let hasFailed = false;
  return {
    fetch: (url, options) =>
      fetch(url, { ...options, signal: deadline } as RequestInit).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      }),
    isUnanswered: () => hasFailed || deadline.aborted,
  };
}

/**
 * Creates the client of a provider. Loads openid-client with the first sign-in, so that a process without one never holds it.
 * `now` decides whether tokens are current.
 */
export function createSignOnProvider(settings: SignOnSettings, now: () => Date): SignOnProvider {
  const { issuer, clientId, clientSecret } = settings;
  const isInsecure = isLoopback(new URL(issuer)) && issuer.startsWith("http:");
  let cached: { metadata: ServerMetadata; until: number } | undefined;
  let logoutKeys: { uri: string; find: ReturnType<typeof createRemoteJWKSet> } | undefined;

  const client = () => import("openid-client");
  /** Returns a configuration without cached keys: a provider may have rotated them since the last sign-in. */
  const configure = async ({ fetch }: Exchange): Promise<Configuration> => {
    const oidc = await client();
    const skew = Math.round((now().getTime() - Date.now()) / 1000);
    const metadata = { [oidc.clockTolerance]: TOLERANCE_SECONDS, [oidc.clockSkew]: skew };
    if (cached === undefined || cached.until < Date.now()) {
      const found = await oidc.discovery(new URL(issuer), clientId, metadata, oidc.None(), {
        execute: isInsecure ? [oidc.allowInsecureRequests] : [],
        [oidc.customFetch]: fetch,
      });
      cached = { metadata: found.serverMetadata(), until: Date.now() + METADATA_MS };
    }
    const methods = cached.metadata.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const secretClient = methods.includes("client_secret_basic") ? oidc.ClientSecretBasic : oidc.ClientSecretPost;
    const authentication = clientSecret === undefined ? oidc.None() : secretClient(clientSecret);
    const config = new oidc.Configuration(cached.metadata, clientId, metadata, authentication);
    config[oidc.customFetch] = fetch;
    if (isInsecure) oidc.allowInsecureRequests(config);
    // Also verifies the signature of what came over TLS.
    oidc.enableNonRepudiationChecks(config);
    return config;
  };

  const redeem = async (
    callback: URL,
    { state, nonce, verifier }: Authorization,
    exchange: Exchange,
  ): Promise<ProvenIdentity> => {
    const oidc = await client();
    const config = await configure(exchange);
    const tokens = await oidc.authorizationCodeGrant(config, callback, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    });
    const proven = tokens.claims();
    if (proven === undefined) throw new Error("the provider sent no ID token");
    // The library accepts an ID token of any age that has not expired, and one from the future.
    const age = now().getTime() / 1000 - proven.iat;
    if (age < -TOLERANCE_SECONDS) throw new Error("the ID token is from the future");
    if (age > MAX_AGE_SECONDS) throw new Error("the ID token was not issued for this sign-in: it is too old");
    const wanted = [settings.usernameClaim, "email", ...settings.roles.map(({ claim }) => claim.split(".")[0] ?? "")];
    const isComplete = wanted.every((name) => Object.hasOwn(proven, name));
    const more =
      isComplete || config.serverMetadata().userinfo_endpoint === undefined
        ? {}
        : await oidc.fetchUserInfo(config, tokens.access_token, proven.sub).catch((cause: unknown) => {
            throw new Error("the userinfo endpoint sent no valid answer", { cause });
          });
    const session = proven["sid"];
    return {
      issuer: proven.iss,
      subject: proven.sub,
      session: typeof session === "string" ? session : undefined,
      claims: { ...more, ...proven },
    };
  };

  return {
    settings,
    begin: async (redirectUri) => {
      const oidc = await client();
      const config = await configure(beginExchange());
      const authorization = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
      };
      const address = oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope: settings.scopes,
        state: authorization.state,
        nonce: authorization.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(authorization.verifier),
        code_challenge_method: "S256",
      });
      return { authorization, address };
    },
    finish: async (callback, authorization) => {
      const exchange = beginExchange();
      try {
        return await redeem(callback, authorization, exchange);
      } catch (cause) {
        if (!exchange.isUnanswered()) throw cause;
        throw new UnansweredError("the provider did not answer", { cause });
      }
    },
    verifyLogout: async (token) => {
      const config = await configure(beginExchange());
      const { jwks_uri: uri, issuer: expected } = config.serverMetadata();
      if (uri === undefined) throw new Error("the provider publishes no keys");
      if (logoutKeys?.uri !== uri) {
        const find = createRemoteJWKSet(new URL(uri), {
          timeoutDuration: DEADLINE_MS,
          cooldownDuration: KEYS_COOLDOWN_MS,
        });
        logoutKeys = { uri, find };
      }
      const { payload, protectedHeader } = await jwtVerify(token, logoutKeys.find, {
        issuer: expected,
        audience: clientId,
        clockTolerance: TOLERANCE_SECONDS,
        currentDate: now(),
        maxTokenAge: METADATA_MS / 1000,
        requiredClaims: ["iat", "jti", "events"],
      });
      const { sub, sid, jti = "", events, nonce } = payload;
      const type = protectedHeader.typ?.toLowerCase();
      if (type !== undefined && type !== "jwt" && !type.endsWith("logout+jwt")) throw new Error("not a logout token");
      if (nonce !== undefined) throw new Error("a logout token has no nonce");
      if (typeof events !== "object" || events === null || !Object.hasOwn(events, LOGOUT_EVENT)) {
        throw new Error("the token is not about a logout");
      }
      const session = typeof sid === "string" ? sid : undefined;
      if (sub !== undefined && typeof sub !== "string") throw new Error("sub is no text");
      if (sub === undefined && session === undefined) throw new Error("the token names neither sub nor sid");
      return { issuer: expected, id: jti, subject: sub, session };
    },
  };
}
