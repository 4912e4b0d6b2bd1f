import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import { OPENAPI_VERSIONS } from "../../wire/system.ts";
import type { AppContext, AppEnv } from "../context.ts";
import { openApiDocument } from "../openapi.ts";
import type { OpenApiVersion } from "../openapi-schemas.ts";
import { queryParameter } from "../params.ts";
import { json, reply } from "../reply.ts";
import { CATALOGUE_PATH } from "../../wire/errors/catalogue.ts";
import { errorsPage } from "./errors-page.ts";

/** Reads one file of the page's library by name. Undefined if there is none. */
export type ReadAsset = (name: string) => Promise<Uint8Array<ArrayBuffer> | undefined>;

/** Files of the library that the page needs. No other file is served. */
export const ASSETS: Readonly<Record<string, string>> = {
  "swagger-ui.css": "text/css; charset=utf-8",
  "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
};

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Faregate: the HTTP interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;

const START = `SwaggerUIBundle({
  url: new URL("openapi.json", location.href).href,
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "none",
  validatorUrl: null,
  persistAuthorization: false,
});
`;

function versionOf(c: AppContext): OpenApiVersion {
  const version = queryParameter(c, "version") ?? "3.1";
  const known = OPENAPI_VERSIONS.find((each) => each === version);
  if (known !== undefined) return known;
  throw new Failure("invalid", `INVALID DATA: version must be one of ${OPENAPI_VERSIONS.join(", ")}`);
}

/** Serves the OpenAPI document, and a page to read and try it, without external resources. */
export function documentationRoutes(basePath: string, readAsset: ReadAsset | undefined): Hono<AppEnv> {
  const documents = new Map<OpenApiVersion, object>();
  const documentOf = (version: OpenApiVersion): object => {
    const known = documents.get(version) ?? Object.freeze(openApiDocument(basePath, version));
    documents.set(version, known);
    return known;
  };
  const html = { "Content-Type": "text/html; charset=utf-8" };
  const missing = (path: string) => new Failure("notFound", `Cannot GET ${path}`);
  return new Hono<AppEnv>()
    .get("/openapi.json", (c) => json(c, documentOf(versionOf(c))))
    .get("/docs", (c) => {
      if (readAsset === undefined) throw missing(c.req.path);
      return reply(c, PAGE, 200, html);
    })
    .get(CATALOGUE_PATH, (c) => reply(c, errorsPage(), 200, html))
    .get("/docs/start.js", (c) => reply(c, START, 200, { "Content-Type": "text/javascript; charset=utf-8" }))
    .get("/docs/:file", async (c) => {
      const name = c.req.param("file");
      const type = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined;
      const bytes = type === undefined ? undefined : await readAsset?.(name);
      if (type === undefined || bytes === undefined) throw missing(c.req.path);
      return reply(c, bytes, 200, { "Content-Type": type, "Cache-Control": "public, max-age=86400" });
    });
}
