import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { CONSOLE_FOLDER } from "../platform/assets.ts";

/*
 * `npm run build:console` builds src/admin into static files in dist/console, each with a gzip copy. Vite is a
 * development dependency, so a production install serves the console built earlier.
 */

const SOURCE = fileURLToPath(new URL("../..", import.meta.url));
/** Source folders that the console is built from. */
const PARTS = ["admin", "core", "client", "react"];

/** Returns true if the built console is missing or older than its sources. Takes some milliseconds. */
export function isConsoleStale(): boolean {
  const page = join(CONSOLE_FOLDER, "index.html");
  if (!existsSync(page)) return true;
  const builtAt = statSync(page).mtimeMs;
  return PARTS.some((part) =>
    readdirSync(join(SOURCE, part), { recursive: true, withFileTypes: true }).some(
      (entry) => entry.isFile() && statSync(join(entry.parentPath, entry.name)).mtimeMs > builtAt,
    ),
  );
}

/** Builds into a temporary folder and then swaps it in, so a server never serves a partial console. */
export async function buildConsole(): Promise<void> {
  // Override the environment: React's development build is three times as large.
  process.env["NODE_ENV"] = "production";
  const { build } = await import("vite");
  removeLeftovers();
  const fresh = `${CONSOLE_FOLDER}.${process.pid}`;
  mkdirSync(fresh, { recursive: true });
  try {
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
    const old = `${fresh}.old`;
    if (existsSync(CONSOLE_FOLDER)) renameSync(CONSOLE_FOLDER, old);
    renameSync(fresh, CONSOLE_FOLDER);
    rmSync(old, { recursive: true, force: true });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Removes the temporary folders of interrupted builds. */
function removeLeftovers(): void {
  const dist = dirname(CONSOLE_FOLDER);
  for (const name of existsSync(dist) ? readdirSync(dist) : []) {
    const pid = /^console\.(\d+)/.exec(name)?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(dist, name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildConsole();
