import { existsSync, readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { CONTINUING, GUIDES, ROOT, shellBlocksOf, useBeginner } from "./beginner.ts";

/* A new user's first hour: README.md, and each guide that continues it. */

const beginner = useBeginner();

test("the README's commands lead from sign-in to a denied consumption and print its answers", async () => {
  const blocks = shellBlocksOf("README.md");
  expect(blocks.length).toBeGreaterThanOrEqual(6);
  const text = await beginner.expectAnswers(blocks);
  expect(text).toContain('"activePricings":{"1.0.0":{"id":"');
  expect(text).toContain('"maxTasks":{"resetTimeStamp":"');
}, 120_000);

test("a wrong password makes the README's sign-in print the server's error", async () => {
  const [signIn = ""] = shellBlocksOf("README.md");
  const { code, text } = await beginner.run(`set -e\n${beginner.addressed(signIn)}`, { ADMIN_PASSWORD: "wrong" });
  expect(code).toBe(1);
  expect(text).toContain('The server answered {"error":"INVALID DATA: Invalid credentials"}');
}, 120_000);

/** The page for coding agents. */
const LLMS = "src/docs/llms.txt";

test.each(CONTINUING)(
  "the commands of src/docs/$name continue the README and print its answers",
  async (guide) => void (await beginner.expectContinued(guide)),
  120_000,
);

test("llms.txt is complete: its commands run without any other page, and print its answers", async () => {
  const blocks = shellBlocksOf(LLMS);
  expect(blocks.length).toBeGreaterThanOrEqual(3);
  await beginner.expectAnswers(blocks);
}, 120_000);

/** Pages whose TypeScript stands alone. Elsewhere blocks are excerpts. */
const WHOLE = ["README.md", LLMS, ...["ai", "credits", "openfeature", "teams"].map((name) => `src/docs/${name}.md`)];

test("the TypeScript of pages whose blocks stand alone compiles, by the strictest rules", async () => {
  const files = WHOLE.flatMap((page) =>
    [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```(tsx?)\n([\s\S]*?)^```$/gm)].map(
      ([, type, code = ""], i) => ({ name: `${basename(page)}-${i}.${type}`, code }),
    ),
  );
  for (const page of WHOLE) expect(files.map(({ name }) => name).join()).toContain(basename(page));
  const project = join(beginner.folder(), "blocks");
  await mkdir(project);
  for (const { name, code } of files) await writeFile(join(project, name), code);
  const source = (path: string) => [join(ROOT, "src", path)];
  await writeFile(
    join(project, "tsconfig.json"),
    JSON.stringify({
      extends: join(ROOT, "tsconfig.json"),
      compilerOptions: {
        types: ["node"],
        paths: {
          faregate: source("client/client.ts"),
          "faregate/client": source("client/client.ts"),
          "faregate/ai": source("ai/ai.ts"),
          "faregate/react": source("react/react.ts"),
          "faregate/openfeature/web": source("openfeature/web.ts"),
        },
      },
      files: files.map(({ name }) => name),
      include: [],
      exclude: [],
    }),
  );
  const { code, text: said } = await beginner.run(`node_modules/.bin/tsc -p ${project}`, {});
  expect(code, said).toBe(0);
}, 120_000);

test("guides of five topics have commands, three build the client library, and the README stays below 12 kB", async () => {
  expect(GUIDES.filter(({ blocks }) => blocks.length > 0).length).toBeGreaterThanOrEqual(5);
  const builds = CONTINUING.filter(({ blocks }) => blocks.some((block) => block.includes("build:package")));
  expect(builds.length).toBeGreaterThanOrEqual(3);
  expect((await readFile(join(ROOT, "README.md"))).byteLength).toBeLessThanOrEqual(12_000);
});

test("every relative link of README, guides and .github leads to a file", async () => {
  const pages = [
    "README.md",
    ".github/CONTRIBUTING.md",
    ".github/SECURITY.md",
    LLMS,
    ...GUIDES.map(({ name }) => `src/docs/${name}`),
  ];
  const missing: string[] = [];
  for (const page of pages) {
    const text = await readFile(join(ROOT, page), "utf8");
    for (const [, target = ""] of text.matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)) {
      if (!existsSync(resolve(ROOT, dirname(page), target))) missing.push(`${page}: ${target}`);
    }
  }
  expect(missing).toEqual([]);
});
