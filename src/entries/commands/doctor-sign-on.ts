import type { Config } from "../process/config.ts";
import { signOnOf } from "../process/settings.ts";
import { createSignOnProvider } from "../../operations/state/sign-on-provider.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import type { Finding } from "./doctor-finding.ts";

/** Checks single sign-on: that the provider answers, and that nobody is locked out when it does not. */
export async function examineSignOn(config: Config, tell: (finding: Finding) => void): Promise<void> {
  const settings = signOnOf(config);
  if (settings === undefined) return;
  const what = "sign-on";
  const url = config.PUBLIC_URL ?? `http://localhost:${config.PORT}${config.BASE_URL_PATH}`;
  const callback = `${url}/api/v1/auth/oidc/callback`;
  try {
    const { address } = await createSignOnProvider(settings, () => new Date()).begin(callback);
    tell({ state: "ok", what, sentence: `${settings.name} answers at ${address.origin}. Register ${callback} there.` });
  } catch (error) {
    tell({ state: "FAIL", what, sentence: sentenceOf(error, `OIDC_ISSUER does not answer as a provider`) });
  }
  const advice: [boolean, string][] = [
    [config.PUBLIC_URL === undefined, "PUBLIC_URL is not set: the provider refuses a callback under another host."],
    [
      config.PASSWORD_SIGN_IN === "false",
      "PASSWORD_SIGN_IN is false: nobody signs in while the provider is away. With admins, platform ADMINs do.",
    ],
    [
      config.PASSWORD_SIGN_IN !== "true" && config.ALLOW_PUBLIC_SIGNUP,
      "ALLOW_PUBLIC_SIGNUP is true: everybody can make an account with a password and its key beside the provider.",
    ],
    [
      config.OIDC_CLIENT_SECRET === undefined,
      "OIDC_CLIENT_SECRET is not set: the client is public, and PKCE alone protects it.",
    ],
  ];
  for (const [applies, sentence] of advice) if (applies) tell({ state: "warn", what, sentence });
}
