import { addressOf } from "../api.ts";
import { useSession } from "../session.tsx";
import { texts } from "../texts.ts";

/** Leads to the provider of single sign-on, where there is one. `inNewTab`: this page keeps what was typed. */
export function ProviderButton({ inNewTab = false }: { inNewTab?: boolean }) {
  const { methods } = useSession();
  if (methods?.provider == null) return null;
  const here = location.pathname.replace(/\/(?:sign-in|register)$/, "/") + location.search.replace(/\?error=\w+$/, "");
  return (
    <a
      className="b full"
      href={addressOf("/auth/oidc/start", { return: here })}
      {...(inNewTab ? { target: "_blank", rel: "noopener" } : {})}
    >
      {texts.signIn.withProvider(methods.provider.name)}
    </a>
  );
}
