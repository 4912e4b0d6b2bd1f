import { type AppContext, requestOrigin } from "./context.ts";

/** Returns the public base URL of this server. */
export function serverUrl(c: AppContext): string {
  const { publicUrl } = c.get("resources").settings;
  return publicUrl ?? `${requestOrigin(c).origin}${c.get("server").settings.baseUrlPath}`;
}

/** Returns the address of a page of the console, for links that are passed on. */
export function consoleUrl(c: AppContext, page: string): string {
  return `${serverUrl(c)}/console/${page}`;
}

/** Returns the console's language that the Accept-Language header prefers. */
export function languageOf(c: AppContext): "en" | "de" {
  return /^\s*de\b/i.test(c.req.header("accept-language") ?? "") ? "de" : "en";
}
