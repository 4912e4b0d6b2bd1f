import { z } from "zod";
import type { Operation } from "./operation.ts";
import { account } from "./users.ts";

export const signInMethods = z
  .strictObject({
    password: z.enum(["true", "admins", "false"]).describe("Accounts that may sign in with a password"),
    provider: z.strictObject({ name: z.string() }).nullable().describe("Provider of single sign-on; null for none"),
    user: account.nullable().describe("The signed-in user of the request; null for nobody"),
    signUp: z.boolean().describe("True if everybody may create an account with a password"),
  })
  .meta({ id: "SignInMethods" });

const TOKEN = "The logout_token field must be a token of at most 16384 characters";
export const logoutToken = z
  .object({ logout_token: z.string(TOKEN).min(1, TOKEN).max(16_384, TOKEN) })
  .meta({ id: "LogoutToken" });

const NOT_CONFIGURED = "Single sign-on is not configured";
const returnParameter = z.object({
  return: z.string().optional().describe("Path of this server to return to; any other address counts as `/`"),
});

/** Sign-in with the provider. Source: contract sign-in §2. */
export const signOnOperations: readonly Operation[] = [
  {
    id: "showSignInMethods",
    group: "Users",
    method: "GET",
    path: "/auth/methods",
    summary: "Show how people sign in",
    description: "Returns the ways in which people can sign in here, and who is signed in, for the sign-in page.",
    answers: {
      200: {
        schema: signInMethods,
        example: { password: "admins", provider: { name: "Keycloak" }, user: null, signUp: false },
      },
    },
  },
  {
    id: "startSignOn",
    group: "Users",
    method: "GET",
    path: "/auth/oidc/start",
    summary: "Sign in with the provider",
    description:
      "Redirects a browser to the provider of single sign-on. The answer comes back to `/auth/oidc/callback`, which sets the session's cookie. A failure leads to the sign-in page with a code.",
    query: returnParameter,
    answers: { 302: null },
    errors: { 404: NOT_CONFIGURED },
  },
  {
    id: "finishSignOn",
    group: "Users",
    method: "GET",
    path: "/auth/oidc/callback",
    summary: "Return from the provider",
    description:
      "Register this address with the provider. Verifies its answer, begins a session and redirects to the page that asked. A failure leads to the sign-in page with the code `state`, `denied`, `token`, `signup`, `name` or `unavailable`.",
    answers: { 302: null },
    errors: { 404: NOT_CONFIGURED },
  },
  {
    id: "linkIdentity",
    group: "Users",
    method: "GET",
    path: "/auth/oidc/link",
    summary: "Link your account to the provider",
    description:
      "Redirects a signed-in browser to the provider, and adds the identity that comes back to the caller's account.",
    query: returnParameter,
    answers: { 302: null },
    errors: { 403: "This request comes from another page", 404: NOT_CONFIGURED },
  },
  {
    id: "logOutByProvider",
    group: "Users",
    method: "POST",
    path: "/auth/oidc/backchannel-logout",
    summary: "Receive a logout from the provider",
    description:
      "Ends the sessions that a logout token names. Register this address with the provider for OpenID Connect Back-Channel Logout.",
    body: { schema: logoutToken, example: { logout_token: "eyJhbGciOiJSUzI1NiJ9.e30.c2ln" } },
    answers: { 200: null },
    errors: { 400: "INVALID DATA: The logout token is not valid", 404: NOT_CONFIGURED },
  },
];
