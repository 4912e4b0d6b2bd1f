import type { AppContext } from "./context.ts";

/** Returns the address of a page of the console, for links that are passed on. */
export function consoleUrl(c: AppContext, page: string): string {
  const { publicUrl } = c.get("resources").settings;
  const base = publicUrl ?? `${new URL(c.req.url).origin}${c.get("server").settings.baseUrlPath}`;
  return `${base}/console/${page}`;
}

/** Returns the console's language that the Accept-Language header prefers. */
export function languageOf(c: AppContext): "en" | "de" {
  return /^\s*de\b/i.test(c.req.header("accept-language") ?? "") ? "de" : "en";
}
