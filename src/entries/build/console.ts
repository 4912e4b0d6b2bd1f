import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Rolldown } from "vite";
import { CONSOLE_FOLDER } from "../platform/assets.ts";
import { guideFiles } from "./guides.ts";
import { isStale, replaceFolder } from "./output.ts";

/*
 * `npm run build:console` builds src/admin into static files in dist/console, each with a gzip copy. Vite is a
 * development dependency, so a production install serves the console built earlier.
 */

const SOURCE = fileURLToPath(new URL("../..", import.meta.url));
/** Source folders that the console is built from. */
const PARTS = ["admin", "core", "client", "docs", "react"];
/** Modules that the page needs which a signed-in user opens first. */
const FIRST_PAGE = ["main.ts", "app.tsx", "signed-in.tsx", "pages/overview.tsx"];
/**
 * Makes Chromium compile all functions of a file at once, beside the main thread. It costs time in chunks that run only in
 * part.
 */
const COMPILE_HINT = "//# allFunctionsCalledOnLoad\n";

export const isConsoleStale = (): boolean => isStale(join(CONSOLE_FOLDER, "index.html"), PARTS);

export async function buildConsole(): Promise<void> {
  // Override the environment: React's development build is three times as large.
  process.env["NODE_ENV"] = "production";
  const { build } = await import("vite");
  await replaceFolder(CONSOLE_FOLDER, async (fresh) => {
    const admin = join(SOURCE, "admin");
    const built = await build({
      root: admin,
      configFile: false,
      base: "./",
      logLevel: "error",
      publicDir: "public",
      resolve: { dedupe: ["react", "react-dom"] },
      build: {
        outDir: fresh,
        emptyOutDir: true,
        target: "es2023",
        modulePreload: { polyfill: false },
        sourcemap: false,
      },
    });
    for (const file of firstPageFiles(built as Rolldown.RolldownOutput, admin)) {
      writeFileSync(join(fresh, file), COMPILE_HINT + readFileSync(join(fresh, file), "utf8"));
    }
    for (const [name, text] of Object.entries(guideFiles())) {
      mkdirSync(dirname(join(fresh, name)), { recursive: true });
      writeFileSync(join(fresh, name), text);
    }
    for (const entry of readdirSync(fresh, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
    }
  });
}

/** Names of the chunks that hold the first page's modules or are imported by one that does. */
function firstPageFiles({ output }: Rolldown.RolldownOutput, admin: string): Set<string> {
  const chunks = output.filter((file) => file.type === "chunk");
  const modules = new Set(FIRST_PAGE.map((module) => join(admin, module)));
  const files = new Set(
    chunks.filter(({ moduleIds }) => moduleIds.some((id) => modules.has(id))).map(({ fileName }) => fileName),
  );
  // A set's iteration goes on to what is added meanwhile.
  for (const file of files) {
    for (const imported of chunks.find(({ fileName }) => fileName === file)?.imports ?? []) files.add(imported);
  }
  return files;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildConsole();
