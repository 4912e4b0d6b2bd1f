import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isConsoleStale } from "../../src/entries/build/console.ts";

const SCRIPT = fileURLToPath(new URL("../../src/entries/build/console.ts", import.meta.url));

/** Builds the production console once per run, if its sources have changed. */
export default function setup(): void {
  if (!isConsoleStale()) return;
  const built = spawnSync(process.execPath, ["--import", "tsx", SCRIPT], { encoding: "utf8" });
  if (built.status !== 0) throw new Error(`the console cannot be built: ${built.stderr}`);
}
