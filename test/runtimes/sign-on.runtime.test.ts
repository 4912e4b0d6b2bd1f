import { afterAll, beforeAll, expect, test } from "vitest";
import type { Authorization } from "../../src/operations/state/sign-on-provider.ts";
import { CLIENT, startProvider, type TestProvider } from "../support/oidc-provider.ts";
import { runOn } from "./run-on.ts";
import { RUNTIMES } from "./runtimes.ts";

/* A sign-in with a real provider, whose protocol each runtime speaks by itself. */

const CALLBACK = "http://localhost/api/v1/auth/oidc/callback";
let provider: TestProvider;
beforeAll(async () => {
  provider = await startProvider(CALLBACK);
  provider.accounts.set("ada", { preferred_username: "ada", groups: ["admins"] });
});
afterAll(() => provider.close());

test.each([...RUNTIMES])(
  "%s signs in, verifies what the provider signed, and refuses what it did not",
  async (runtime) => {
    const settings = {
      issuer: provider.issuer,
      clientId: CLIENT.id,
      clientSecret: CLIENT.secret,
      scopes: "openid profile email",
      name: "Provider",
      usernameClaim: "preferred_username",
      roles: [],
      allowsSignUp: true,
    };
    const begun = (await runOn(runtime, "sign-on-cases.ts", { settings, redirectUri: CALLBACK })) as {
      authorization: Authorization;
      address: string;
    };
    const callback = await provider.visit(begun.address);
    const logoutToken = await provider.logoutToken("ada", "a-session");
    const { authorization } = begun;
    const told = await runOn(runtime, "sign-on-cases.ts", { settings, callback, authorization, logoutToken });
    expect(told).toMatchObject({
      identity: { issuer: provider.issuer, subject: "ada", claims: { preferred_username: "ada", groups: ["admins"] } },
      logout: { issuer: provider.issuer, session: "a-session" },
      refused: true,
    });
  },
  240_000,
);
