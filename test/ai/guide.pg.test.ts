import { readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import { createTestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";
import { inProcess, ORIGIN } from "../support/in-process.ts";

/* The TypeScript of src/docs/ai.md, and that of a back end in src/docs/llms.txt, run as printed. */

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** Writes the first block of TypeScript of a page into a file that can be imported. Returns its path. */
async function printedIn(page: string): Promise<string> {
  const [, code = ""] = /^```ts\n([^]*?)^```$/m.exec(read(page)) ?? [];
  const source = (path: string) => JSON.stringify(pathToFileURL(join(ROOT, "src", path)).href);
  const folder = join(ROOT, "node_modules/.cache/guide");
  await mkdir(folder, { recursive: true });
  const file = join(folder, `${basename(page)}-${process.pid}.ts`);
  await writeFile(
    file,
    code.replace('"faregate/ai"', source("ai/ai.ts")).replace('"faregate"', source("client/client.ts")),
  );
  return file;
}

test("the code of the guide meters an answer of its mock model, and says why one is not begun", async () => {
  const api = await createTestApi();
  const { key } = api.callers.all;
  await upload(api, key, read("src/samples/huddle.yml"));
  await contract(api, key, "acme", {
    contractedServices: { huddle: "1.0.0" },
    subscriptionPlans: { huddle: "TEAM" },
    subscriptionAddOns: {},
  });
  const file = await printedIn("src/docs/ai.md");
  vi.stubGlobal("fetch", inProcess(api).fetch);
  vi.stubEnv("FAREGATE_URL", ORIGIN);
  vi.stubEnv("FAREGATE_KEY", key);
  const printed: unknown[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line) => void printed.push(line));
  try {
    await import(/* @vite-ignore */ file);
    expect(printed.splice(0)).toEqual(["We ship on Friday.", "The answer is whole"]);
    expect((await show(api, key, "acme")).usageLevels["huddle"]?.["credits"]).toMatchObject({ consumed: 18 });
    await api.call("POST", "/features/acme/huddle-summarize", { key, body: { "huddle-credits": 282 } });
    await import(/* @vite-ignore */ `${file}?again`);
    expect(printed).toEqual(["Not begun: LIMIT_REACHED"]);
  } finally {
    log.mockRestore();
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
    await rm(file);
  }
  await api.close();
}, 120_000);

test("a back end as llms.txt prints it gives back only the note that could not be saved", async () => {
  const api = await createTestApi();
  const { key } = api.callers.all;
  const [, pricing = ""] = /<<'YAML'\n([^]*?)^YAML$/m.exec(read("src/docs/llms.txt")) ?? [];
  await upload(api, key, pricing);
  const file = await printedIn("src/docs/llms.txt");
  vi.stubGlobal("fetch", inProcess(api).fetch);
  vi.stubEnv("FAREGATE_URL", ORIGIN);
  vi.stubEnv("FAREGATE_KEY", key);
  try {
    const { signUp, createNote }: BackEnd = await import(/* @vite-ignore */ file);
    await signUp("ada");
    const saved = async () => {};
    expect([await createNote("ada", saved), await createNote("ada", saved)]).toEqual(["created", "created"]);
    await expect(createNote("ada", () => Promise.reject(new Error("The disk is full")))).rejects.toThrow("not saved");
    expect((await show(api, key, "ada")).usageLevels["notes"]?.["maxNotes"]).toMatchObject({ consumed: 2 });
    expect([await createNote("ada", saved), await createNote("ada", saved)]).toEqual(["created", "limit reached"]);
  } finally {
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
    await rm(file);
  }
  await api.close();
}, 120_000);

/** The part of the printed back end that is called. */
interface BackEnd {
  signUp: (userId: string) => Promise<void>;
  createNote: (userId: string, save: () => Promise<void>) => Promise<string>;
}
