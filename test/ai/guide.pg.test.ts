import { readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import { createTestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";
import { inProcess, ORIGIN } from "../support/in-process.ts";

/* The TypeScript of src/docs/ai.md runs as printed. */

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

test("the code of the guide meters an answer of its mock model", async () => {
  const api = await createTestApi();
  const { key } = api.callers.all;
  await upload(api, key, read("src/samples/huddle.yml"));
  await contract(api, key, "acme", {
    contractedServices: { huddle: "1.0.0" },
    subscriptionPlans: { huddle: "TEAM" },
    subscriptionAddOns: {},
  });
  const [, code = ""] = /^```ts\n([^]*?)^```$/m.exec(read("src/docs/ai.md")) ?? [];
  const source = (path: string) => JSON.stringify(pathToFileURL(join(ROOT, "src", path)).href);
  const folder = join(ROOT, "node_modules/.cache/guide");
  await mkdir(folder, { recursive: true });
  const file = join(folder, `ai-${process.pid}.ts`);
  await writeFile(
    file,
    code.replace('"faregate/ai"', source("ai/ai.ts")).replace('"faregate"', source("client/client.ts")),
  );
  vi.stubGlobal("fetch", inProcess(api).fetch);
  vi.stubEnv("FAREGATE_URL", ORIGIN);
  vi.stubEnv("FAREGATE_KEY", key);
  const printed: unknown[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line) => void printed.push(line));
  try {
    await import(/* @vite-ignore */ file);
  } finally {
    log.mockRestore();
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
    await rm(file);
  }
  expect(printed).toEqual(["We ship on Friday.", "The answer is whole"]);
  expect((await show(api, key, "acme")).usageLevels["huddle"]?.["credits"]).toMatchObject({ consumed: 18 });
  await api.close();
}, 120_000);
