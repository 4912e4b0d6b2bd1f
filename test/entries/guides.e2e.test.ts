import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

/*
 * A new user's first hour: the `sh` blocks of README.md and of each guide that continues it run as printed, in an empty
 * folder, against what `npm start` starts. Only the two ports differ, because the usual ones may be in use.
 */

const ROOT = resolve(import.meta.dirname, "../..");

let folder: string;
let server: ChildProcess;
let output = "";
let ports: { rest: number; events: number };

async function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.once("error", fail);
    probe.listen(0, () => {
      const address = probe.address();
      probe.close(() => (typeof address === "object" && address !== null ? done(address.port) : fail(new Error())));
    });
  });
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "faregate-guides-"));
  for (const name of ["src", "node_modules", "package.json", "tsconfig.json", ".package", "dist"]) {
    await symlink(join(ROOT, name), join(folder, name));
  }
  ports = { rest: await freePort(), events: await freePort() };
  server = spawn("npm", ["start"], {
    cwd: folder,
    env: { ...process.env, PORT: String(ports.rest), EVENTS_PORT: String(ports.events), LOG_LEVEL: "error" },
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own, so that it can be sent what a terminal sends at Ctrl-C.
    detached: true,
  });
  server.stdout?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  server.stderr?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  await vi.waitFor(() => expect(output).toContain("Faregate is running"), { timeout: 50_000, interval: 100 });
});

afterAll(async () => {
  const group = -(server.pid ?? 0);
  process.kill(group, "SIGINT");
  // npm is gone at once; what it started takes its time to drain.
  await vi.waitFor(() => expect(() => process.kill(group, 0)).toThrow("ESRCH"), { timeout: 20_000, interval: 50 });
  await rm(folder, { recursive: true, force: true });
});

/** Runs a script, echoing nothing; resolves with everything it printed. */
function run(script: string, environment: Record<string, string>): Promise<{ code: number | null; text: string }> {
  return new Promise((done) => {
    const shell = spawn("bash", ["-c", script], { cwd: folder, env: { ...process.env, ...environment } });
    let text = "";
    shell.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
    shell.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
    shell.once("close", (code) => done({ code, text }));
  });
}

function shellBlocks(text: string): string[] {
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}

async function shellBlocksOf(path: string): Promise<string[]> {
  return shellBlocks(await readFile(join(ROOT, path), "utf8"));
}

/** Runs blocks in one shell and expects each printed `# answer` among the output lines, in the printed order. */
async function expectAnswers(blocks: readonly string[]): Promise<string> {
  const password = /with the password (\S+)/.exec(output)?.[1] ?? "";
  expect(password, output).not.toBe("");
  const script = blocks
    .join("\n")
    .replaceAll("localhost:3000", `localhost:${ports.rest}`)
    .replaceAll("localhost:5403", `localhost:${ports.events}`);
  // curl prints no newline after an answer.
  const separated = script.replaceAll("curl -s ", "curl -sS -w '\\n' ");
  const { code, text } = await run(`set -e -o pipefail\n${separated}`, { ADMIN_PASSWORD: password });
  expect(code, text).toBe(0);
  const lines = text.split("\n").map((line) => line.trim());
  let at = 0;
  for (const [, answer = ""] of script.matchAll(/^# (.+)$/gm)) {
    const found = lines.indexOf(answer, at);
    expect(found, `${answer}\n— was not printed in\n${text}`).toBeGreaterThanOrEqual(0);
    at = found + 1;
  }
  return text;
}

test("the README's commands lead from sign-in to a denied consumption and print its answers", async () => {
  const blocks = await shellBlocksOf("README.md");
  expect(blocks.length).toBeGreaterThanOrEqual(6);
  const text = await expectAnswers(blocks);
  expect(text).toContain('"activePricings":{"1.0.0":{"id":"');
  expect(text).toContain('"maxTasks":{"resetTimeStamp":"');
}, 60_000);

test("a wrong password makes the README's sign-in print the server's error", async () => {
  const [signIn = ""] = await shellBlocksOf("README.md");
  const script = signIn.replaceAll("localhost:3000", `localhost:${ports.rest}`);
  const { code, text } = await run(`set -e\n${script}`, { ADMIN_PASSWORD: "wrong" });
  expect(code).toBe(1);
  expect(text).toContain('The server answered {"error":"INVALID DATA: Invalid credentials"}');
}, 60_000);

const GUIDES = readdirSync(join(ROOT, "src/docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => ({ name, blocks: shellBlocks(readFileSync(join(ROOT, "src/docs", name), "utf8")) }));

/** The page for coding agents. */
const LLMS = "src/docs/llms.txt";

/** Begins with a dump and an empty database: migrate-guide.e2e.test.ts runs it. */
const ELSEWHERE = "migrate-from-space.md";

test.each(GUIDES.filter(({ name, blocks }) => blocks.length > 0 && name !== ELSEWHERE))(
  "the commands of src/docs/$name continue the README and print its answers",
  async ({ blocks }) => {
    await expectAnswers([...(await shellBlocksOf("README.md")), ...blocks]);
  },
  60_000,
);

test("llms.txt is complete: its commands run without any other page, and print its answers", async () => {
  const blocks = await shellBlocksOf(LLMS);
  expect(blocks.length).toBeGreaterThanOrEqual(3);
  await expectAnswers(blocks);
}, 60_000);

/** Pages whose TypeScript stands alone. Elsewhere blocks are excerpts. */
const WHOLE = [LLMS, ...["ai", "credits", "openfeature", "teams"].map((name) => `src/docs/${name}.md`)];

test("the TypeScript of pages whose blocks stand alone compiles, by the strictest rules", async () => {
  const files = WHOLE.flatMap((page) =>
    [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```(tsx?)\n([\s\S]*?)^```$/gm)].map(
      ([, type, code = ""], i) => ({ name: `${basename(page)}-${i}.${type}`, code }),
    ),
  );
  for (const page of WHOLE) expect(files.map(({ name }) => name).join()).toContain(basename(page));
  const project = join(folder, "blocks");
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
  const { code, text: said } = await run(`node_modules/.bin/tsc -p ${project}`, {});
  expect(code, said).toBe(0);
}, 60_000);

test("guides of five topics have commands, and the README stays below 12 kB", async () => {
  expect(GUIDES.filter(({ blocks }) => blocks.length > 0).length).toBeGreaterThanOrEqual(5);
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
