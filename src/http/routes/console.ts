import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import { type AppContext, type AppEnv } from "../context.ts";
import { reply } from "../reply.ts";
import type { ReadAsset } from "./documentation.ts";

/** Path of the console below the sub-path. */
const CONSOLE_PATH = "/console";

/** Pages of the console by the addresses at the root that people type. */
const TYPED_PAGES: ReadonlyMap<string, string> = new Map([
  ["/", ""],
  ["/login", ""],
  ["/sign-in", ""],
  ["/register", "register"],
  ["/account", "account"],
]);

/** Stricter than for other answers: the console loads and calls only this origin, without inline code. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  ...["script-src", "style-src", "connect-src", "font-src", "manifest-src", "base-uri", "form-action"].map(
    (name) => `${name} 'self'`,
  ),
  "img-src 'self' data:",
  "frame-ancestors 'none'",
].join(";");

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  md: "text/markdown; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  woff2: "font/woff2",
};

const NOT_BUILT = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="2">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Faregate</title>
</head>
<body>
<h1>The console is not built yet</h1>
<p><code>npm start</code> builds it by itself, which takes some seconds; this page looks again until it is there.
Elsewhere run <code>npm run build:console</code>, which needs the development dependencies.</p>
</body>
</html>
`;

/**
 * Serves the console: its page at every path below /console, its files below /console/assets, its guides as Markdown
 * below /docs, and the page for coding agents at /llms.txt. Files are cached permanently, because their names change with their content; pages are revalidated. Browsers are redirected to it
 * from the addresses that people type. `read` returns the built files by name, `<name>.gz` the compressed ones.
 */
export function consoleRoutes(baseUrlPath: string, read: ReadAsset): Hono<AppEnv> {
  const base = `${baseUrlPath}${CONSOLE_PATH}/`;
  return new Hono<AppEnv>()
    .on("GET", [...TYPED_PAGES.keys()], async (c, next) => {
      if (!(c.req.header("accept") ?? "").includes("text/html")) return next();
      const to = TYPED_PAGES.get(c.req.path.slice(c.req.path.lastIndexOf("/"))) ?? "";
      return reply(c, null, 302, { Location: base + to, Vary: "Accept, Origin" });
    })
    .get(`${CONSOLE_PATH}/assets/:file`, async (c) => {
      const name = `assets/${c.req.param("file")}`;
      return (await fileOf(c, read, name, "public, max-age=31536000, immutable")) ?? missing(c);
    })
    .get("/llms.txt", async (c) => (await fileOf(c, read, "llms.txt", "no-cache")) ?? missing(c))
    .get("/docs/:guide", async (c) => {
      return (await fileOf(c, read, `docs/${c.req.param("guide")}`, "no-cache")) ?? missing(c);
    })
    .get(`${CONSOLE_PATH}/favicon.svg`, async (c) => {
      return (await fileOf(c, read, "favicon.svg", "public, max-age=86400")) ?? missing(c);
    })
    .get(CONSOLE_PATH, (c) => page(c, read, base))
    .get(`${CONSOLE_PATH}/*`, (c) => page(c, read, base));
}

function missing(c: AppContext): never {
  throw new Failure("notFound", `Cannot GET ${c.req.path}`);
}

async function fileOf(c: AppContext, read: ReadAsset, name: string, caching: string): Promise<Response | undefined> {
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)];
  if (type === undefined || !/^[\w./-]+$/.test(name) || name.includes("..")) return undefined;
  const headers = { "Content-Type": type, "Cache-Control": caching, Vary: "Accept-Encoding, Origin" };
  const compressed = (c.req.header("accept-encoding") ?? "").includes("gzip") ? await read(`${name}.gz`) : undefined;
  if (compressed !== undefined) return reply(c, compressed, 200, { ...headers, "Content-Encoding": "gzip" });
  const bytes = await read(name);
  return bytes === undefined ? undefined : reply(c, bytes, 200, headers);
}

async function page(c: AppContext, read: ReadAsset, base: string): Promise<Response> {
  const headers = { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": CONTENT_SECURITY_POLICY };
  const bytes = await read("index.html");
  if (bytes === undefined)
    return reply(c, NOT_BUILT, 503, { ...headers, "Retry-After": "2", "Cache-Control": "no-store" });
  // URLs in the page are relative to its base, so that it works below any sub-path and at any depth.
  const text = new TextDecoder().decode(bytes).replace('<base href="/console/"', `<base href="${base}"`);
  const etag = `"${await fingerprint(text)}"`;
  const caching = { ...headers, "Cache-Control": "no-cache", ETag: etag };
  if (c.req.header("if-none-match") === etag) return reply(c, null, 304, caching);
  return reply(c, text, 200, caching);
}

async function fingerprint(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest.slice(0, 12), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
