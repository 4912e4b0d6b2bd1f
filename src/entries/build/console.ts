import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { CONSOLE_FOLDER } from "../platform/assets.ts";
import { isStale, replaceFolder } from "./output.ts";

/*
 * `npm run build:console` builds src/admin into static files in dist/console, each with a gzip copy. Vite is a
 * development dependency, so a production install serves the console built earlier.
 */

const SOURCE = fileURLToPath(new URL("../..", import.meta.url));
/** Source folders that the console is built from. */
const PARTS = ["admin", "core", "client", "docs", "react"];

export const isConsoleStale = (): boolean => isStale(join(CONSOLE_FOLDER, "index.html"), PARTS);

export async function buildConsole(): Promise<void> {
  // Override the environment: React's development build is three times as large.
  process.env["NODE_ENV"] = "production";
  const { build } = await import("vite");
  await replaceFolder(CONSOLE_FOLDER, async (fresh) => {
    await build({
      root: join(SOURCE, "admin"),
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
    for (const entry of readdirSync(fresh, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
    }
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildConsole();
