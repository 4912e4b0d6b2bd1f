import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { freePort } from "../support/event-server.ts";

/*
 * Runs the `sh` blocks of README.md and of the guides as printed, after `npm start` in an empty folder. Only the two ports
 * differ, because the usual ones may be in use.
 */

export const ROOT = resolve(import.meta.dirname, "../..");

/** A guide of src/docs. */
interface Guide {
  name: string;
  /** Its `sh` blocks. */
  blocks: string[];
}

export const GUIDES: readonly Guide[] = readdirSync(join(ROOT, "src/docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => ({ name, blocks: shellBlocksOf(join("src/docs", name)) }));

/** Begins with a dump and an empty database: migrate-guide.e2e.test.ts runs it. */
const ELSEWHERE = "migrate-from-space.md";

/** Guides that continue the README. */
export const CONTINUING = GUIDES.filter(({ name, blocks }) => blocks.length > 0 && name !== ELSEWHERE);

/** The `sh` blocks of a page. */
export function shellBlocksOf(path: string): string[] {
  const text = readFileSync(join(ROOT, path), "utf8");
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}

/**
 * Takes the place of npx for `npx faregate`: the built program starts in a fifteenth of the processor time of npx and the
 * sources. build-server.ts builds it.
 */
const NPX = `#!/bin/sh
if [ "$1" = faregate ]; then
  shift
  exec "${process.execPath}" "${join(ROOT, "dist/server/faregate.js")}" "$@"
fi
PATH=\${PATH#*:} exec npx "$@"
`;

/** Takes the place of npm: several guides build the package, which takes ten seconds, of the same sources. */
const NPM = `#!/bin/sh
here=$(dirname "$0")
[ "$*" = "run -s build:package" ] || PATH=\${PATH#*:} exec npm "$@"
[ -e "$here/package-is-built" ] && exit 0
PATH=\${PATH#*:} npm "$@" && touch "$here/package-is-built"
`;

/** Writes quick programs into a new folder of this one. Returns the PATH that finds them before others. */
export async function quickPath(folder: string): Promise<string> {
  const programs = join(folder, "programs");
  await mkdir(programs);
  for (const [name, text] of Object.entries({ npx: NPX, npm: NPM })) {
    await writeFile(join(programs, name), text, { mode: 0o755 });
  }
  return `${programs}${delimiter}${process.env["PATH"]}`;
}

/** A running `npm start`, and the folder in which guides are followed. */
export interface Beginner {
  folder(): string;
  /** Makes printed addresses lead to the server. */
  addressed(script: string): string;
  /** Runs a script, echoing nothing; resolves with everything it printed. */
  run(script: string, environment: Record<string, string>): Promise<{ code: number | null; text: string }>;
  /** Runs blocks in one shell and expects each printed `# answer` among the output lines, in the printed order. */
  expectAnswers(blocks: readonly string[], environment?: Record<string, string>): Promise<string>;
  /** Runs a guide's blocks after those of the README, with quick programs. */
  expectContinued(guide: Guide): Promise<string>;
}

/** Gives the tests of a file a server that a new user has started. */
export function useBeginner(): Beginner {
  let folder: string;
  let server: ChildProcess;
  let output = "";
  let path: string;
  let ports: { rest: number; events: number };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "faregate-guides-"));
    for (const name of ["src", "node_modules", "package.json", "tsconfig.json", ".package", "dist"]) {
      await symlink(join(ROOT, name), join(folder, name));
    }
    path = await quickPath(folder);
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

  function run(script: string, environment: Record<string, string>): Promise<{ code: number | null; text: string }> {
    return new Promise((done) => {
      const shell = spawn("bash", ["-c", script], { cwd: folder, env: { ...process.env, ...environment } });
      let text = "";
      shell.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
      shell.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
      shell.once("close", (code) => done({ code, text }));
    });
  }

  const addressed = (script: string) =>
    script
      .replaceAll("localhost:3000", `localhost:${ports.rest}`)
      .replaceAll("localhost:5403", `localhost:${ports.events}`);

  async function expectAnswers(blocks: readonly string[], environment: Record<string, string> = {}): Promise<string> {
    const password = /with the password (\S+)/.exec(output)?.[1] ?? "";
    expect(password, output).not.toBe("");
    const script = addressed(blocks.join("\n"));
    // curl prints no newline after an answer.
    const separated = script.replaceAll("curl -s ", "curl -sS -w '\\n' ");
    const { code, text } = await run(`set -e -o pipefail\n${separated}`, { ...environment, ADMIN_PASSWORD: password });
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

  // Its command only compares two files, which no guide continues.
  const beginning = shellBlocksOf("README.md").filter((block) => !block.includes("npx faregate"));

  return {
    folder: () => folder,
    addressed,
    run,
    expectAnswers,
    expectContinued: ({ blocks }) => expectAnswers([...beginning, ...blocks], { PATH: path }),
  };
}
