import { cpSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ASSETS } from "../../http/routes/documentation.ts";
import { CONSOLE_FOLDER } from "../platform/assets.ts";
import { buildConsole, isConsoleStale } from "./console.ts";
import { driverProblem } from "../platform/driver.ts";

/*
 * Puts the Worker's static files together, as wrangler.toml asks before each bundle: the console, the reference page's library.
 * Refuses to do so over an unrepaired driver, which wrangler would bundle.
 */

const FOLDER = fileURLToPath(new URL("../../../dist/worker", import.meta.url));
const LIBRARY = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

const problem = driverProblem(["cf/src"]);
if (problem !== undefined) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}
if (isConsoleStale()) await buildConsole();
// The page names its files by their content. What is the same is left alone: wrangler restarts what it serves when it changes.
const isThere = () => pageIn(join(FOLDER, "console")) === pageIn(CONSOLE_FOLDER);
if (!isThere()) {
  // Beside, and then swapped: another Worker on this machine may be serving from there.
  const fresh = `${FOLDER}.${process.pid}`;
  // Cloudflare compresses by itself.
  cpSync(CONSOLE_FOLDER, join(fresh, "console"), { recursive: true, filter: (path) => !path.endsWith(".gz") });
  for (const name of Object.keys(ASSETS)) cpSync(join(LIBRARY, name), join(fresh, "docs", name));
  // One that starts beside may have been quicker, and serve from there by now.
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
