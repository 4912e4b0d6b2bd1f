import { cpSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ASSETS } from "../../http/routes/documentation.ts";
import { CONSOLE_FOLDER } from "../platform/assets.ts";
import { buildConsole, isConsoleStale } from "./console.ts";
import { driverProblem } from "../platform/driver.ts";

/*
 * Collects the Worker's static files, which wrangler.toml requests before each bundle: the console and the reference
 * page's library. Refuses an unrepaired driver, because wrangler would bundle it.
 */

const FOLDER = fileURLToPath(new URL("../../../dist/worker", import.meta.url));
const LIBRARY = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

const problem = driverProblem(["cf/src"]);
if (problem !== undefined) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}
if (isConsoleStale()) await buildConsole();
// File names contain content hashes, so equal pages mean equal files. Skip those: a change makes wrangler restart.
const isThere = () => pageIn(join(FOLDER, "console")) === pageIn(CONSOLE_FOLDER);
if (!isThere()) {
  // Write beside and swap: another Worker on this machine may be serving this folder.
  const fresh = `${FOLDER}.${process.pid}`;
  // Cloudflare compresses responses itself.
  cpSync(CONSOLE_FOLDER, join(fresh, "console"), { recursive: true, filter: (path) => !path.endsWith(".gz") });
  for (const name of Object.keys(ASSETS)) cpSync(join(LIBRARY, name), join(fresh, "docs", name));
  // A concurrent build may have finished first, and its Worker may already serve these files.
  if (!isThere()) {
    if (existsSync(FOLDER)) renameSync(FOLDER, `${fresh}.old`);
    renameSync(fresh, FOLDER);
  }
  for (const left of [fresh, `${fresh}.old`]) rmSync(left, { recursive: true, force: true });
}

function pageIn(folder: string): string | undefined {
  const page = join(folder, "index.html");
  return existsSync(page) ? readFileSync(page, "utf8") : undefined;
}
