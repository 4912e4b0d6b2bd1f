import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { denoPermissions } from "../../src/entries/launcher/runtimes.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const deno = resolve(ROOT, "node_modules/.bin/deno");
const run = promisify(execFile);

it("Deno's type check passes on all sources that it runs", async () => {
  const checked = await run(deno, ["task", "check"], {
    cwd: ROOT,
    maxBuffer: 1e8,
    env: { ...process.env, NO_COLOR: "1" },
  });
  expect(checked.stderr).toContain("Check src/entries/deno.ts");
}, 180_000);

it("deno task and npm run start:deno give the process the same permissions, and none to write, run or load", () => {
  const { tasks } = JSON.parse(readFileSync(resolve(ROOT, "deno.json"), "utf8")) as { tasks: Record<string, string> };
  const given = (tasks["start:rest"] ?? "").split(" ").filter((word) => word.startsWith("--"));
  const launched = denoPermissions().map((word) => (word === `--allow-read=${ROOT}/` ? "--allow-read=." : word));
  expect(given).toEqual(launched);
  expect(given.join(" ")).not.toMatch(/allow-(all|write|run|ffi)|-A/);
});
