import {
  type Authorization,
  createSignOnProvider,
  type SignOnSettings,
} from "../../src/operations/state/sign-on-provider.ts";

/** One half of a sign-in: its start, or the provider's answers. */
export type SignOnCase = { settings: SignOnSettings } & (
  | { redirectUri: string }
  | { callback: string; authorization: Authorization; logoutToken: string }
);

/** Carries out one half; see runOn. */
export async function run(given: SignOnCase): Promise<unknown> {
  const provider = createSignOnProvider(given.settings, () => new Date());
  if ("redirectUri" in given) return provider.begin(given.redirectUri);
  const { callback, authorization, logoutToken } = given;
  const identity = await provider.finish(new URL(callback), authorization);
  const logout = await provider.verifyLogout(logoutToken);
  const refused = await provider.verifyLogout(`${logoutToken}x`).then(
    () => false,
    () => true,
  );
  return { identity, logout, refused };
}
