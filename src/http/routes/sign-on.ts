import { Hono } from "hono";
import {
  finishSignOn,
  FLOW_SECONDS,
  logOutByProvider,
  requireProvider,
  startSignOn,
} from "../../operations/accounts/sign-on.ts";
import { type SignOnCode, SignOnFailure } from "../../operations/accounts/sign-on-failure.ts";
import { asFailure, Failure } from "../../operations/errors.ts";
import { requireUser } from "../../operations/accounts/user-rows.ts";
import { signInMethods } from "../../operations/accounts/sign-in.ts";
import { logoutToken } from "../../wire/sign-on.ts";
import { API_PREFIX } from "../authorize.ts";
import { addressOf, type AppContext, type AppEnv, context, logRequest } from "../context.ts";
import { consoleUrl, serverUrl } from "../links.ts";
import { queryParameter } from "../params.ts";
import { json, reply } from "../reply.ts";
import { cookieOf, cookieText, refuseAnotherPage, sessionCookie, visitorOf } from "../session-cookie.ts";

const FLOW_COOKIE = "faregate_sign_on";

/** Sign-in with the provider. Source: contract sign-in §2. */
export const signOnRoutes = new Hono<AppEnv>()
  .get("/methods", async (c) => json(c, await signInMethods(context(c))))
  .get("/oidc/start", (c) => goToProvider(c, undefined))
  .get("/oidc/link", (c) => {
    // A link from elsewhere must not add an identity to the account of whoever follows it.
    const site = c.req.header("sec-fetch-site");
    refuseAnotherPage(c, false);
    if (site !== undefined && site !== "same-origin" && site !== "none") {
      throw new Failure("forbidden", "This request comes from another page");
    }
    return goToProvider(c, requireUser(context(c)).id);
  })
  .get("/oidc/callback", (c) =>
    orSignInPage(c, async () => {
      const { token, returnTo } = await finishSignOn(context(c), {
        flow: cookieOf(c, FLOW_COOKIE),
        query: new URL(c.req.url).searchParams,
        visitor: visitorOf(c),
      });
      const answer = redirect(c, returnTo);
      answer.headers.append("Set-Cookie", cookieText(c, FLOW_COOKIE, "", 0));
      if (token !== undefined) answer.headers.append("Set-Cookie", sessionCookie(c, token));
      return answer;
    }),
  )
  .post("/oidc/backchannel-logout", async (c) => {
    try {
      // 400 for a missing token too. Source: OpenID Connect Back-Channel Logout 1.0 §2.8.
      const token = logoutToken.safeParse(c.get("body")).data?.logout_token ?? "";
      await logOutByProvider(context(c), token);
    } catch (error) {
      if (error instanceof Failure && error.cause !== undefined) {
        logRequest(c, "warn", "a logout token was refused", reasonOf(error.cause));
      }
      throw error;
    }
    return reply(c, null, 200, { "Cache-Control": "no-store" });
  });

/** Redirects to the provider, with the state of the authorization in a cookie. */
function goToProvider(c: AppContext, linkTo: string | undefined): Promise<Response> {
  return orSignInPage(c, async () => {
    const { address, flow } = await startSignOn(context(c), {
      redirectUri: `${serverUrl(c)}${API_PREFIX}/auth/oidc/callback`,
      returnTo: ownPath(queryParameter(c, "return")),
      linkTo,
      address: addressOf(c),
    });
    const answer = redirect(c, address.href);
    answer.headers.append("Set-Cookie", cookieText(c, FLOW_COOKIE, flow, FLOW_SECONDS));
    return answer;
  });
}

const redirect = (c: AppContext, to: string) => reply(c, null, 302, { Location: to, "Cache-Control": "no-store" });

/** Redirects to the sign-in page with a code when `work` fails, and logs the reason, which the page never shows. */
async function orSignInPage(c: AppContext, work: () => Promise<Response>): Promise<Response> {
  requireProvider(context(c));
  try {
    return await work();
  } catch (error) {
    const failure = asFailure(error);
    if (failure?.code === "tooManyRequests") throw error;
    const isRefused = failure !== undefined && failure.code !== "unavailable";
    const code: SignOnCode = error instanceof SignOnFailure ? error.code : isRefused ? "token" : "unavailable";
    const level = error instanceof SignOnFailure || failure !== undefined ? "warn" : "error";
    logRequest(c, level, `a sign-in with the provider failed: ${code}`, reasonOf(error));
    const answer = redirect(c, `${consoleUrl(c, "sign-in")}?error=${code}`);
    answer.headers.append("Set-Cookie", cookieText(c, FLOW_COOKIE, "", 0));
    return answer;
  }
}

/** Returns the words of an error and its causes, without the tokens and claims that they may carry. */
function reasonOf(error: unknown): string {
  const words: string[] = [];
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth += 1) {
    const fields = ["code", "error", "error_description", "status"].flatMap((name) => {
      const value: unknown = Reflect.get(current as object, name);
      return typeof value === "string" || typeof value === "number" ? [`${name} ${value}`] : [];
    });
    words.push([current.message, ...fields].join(", "));
  }
  return words.join("; ").slice(0, 1000);
}

/** Returns a path of this server; `/` for an address that leaves it. */
function ownPath(given: string | undefined): string {
  const own = "http://own.invalid";
  if (given === undefined || !isOwnPath(given) || !URL.canParse(given, own)) return "/";
  const url = new URL(given, own);
  const path = url.pathname + url.search + url.hash;
  // Without its dot segments `/.//evil.example` begins with two slashes, which name another host.
  return url.origin === own && isOwnPath(path) && path.length <= MAX_PATH ? path : "/";
}

/** Browsers drop cookies of more than 4,096 bytes, and the path is in one, encrypted. */
const MAX_PATH = 2000;

const isOwnPath = (path: string) => /^\/(?![/\\])[^\\\s\p{C}]*$/u.test(path);
