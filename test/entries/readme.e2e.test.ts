import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

/*
 * The first five minutes of a new user: every `sh` block of README.md, as printed, against what `npm start` starts, in an
 * empty folder. Only the two ports differ, because the usual ones may be taken where tests run.
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
  folder = await mkdtemp(join(tmpdir(), "faregate-readme-"));
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

test("the README's commands, as printed, lead a new user from sign-in to an event, with the answers printed there", async () => {
  const password = /with the password (\S+)/.exec(output)?.[1] ?? "";
  expect(password, output).not.toBe("");
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
  expect(blocks.length).toBeGreaterThanOrEqual(6);
  const script = blocks
    .join("\n")
    .replaceAll("localhost:3000", `localhost:${ports.rest}`)
    .replaceAll("localhost:5403", `localhost:${ports.events}`);
  // Answers of curl have no line end of their own.
  const separated = script.replaceAll("curl -s ", "curl -sS -w '\\n' ");
  const { code, text } = await run(`set -e -o pipefail\n${separated}`, { ADMIN_PASSWORD: password });
  expect(code, text).toBe(0);
  // What the README prints after `# ` is what came, in that order.
  const promised = [...script.matchAll(/^# (.+)$/gm)].map((match) => match[1] ?? "");
  expect(promised.length).toBeGreaterThanOrEqual(7);
  const lines = text.split("\n").map((line) => line.trim());
  let at = 0;
  for (const line of promised) {
    const found = lines.indexOf(line, at);
    expect(found, `${line}\n— was not printed in\n${text}`).toBeGreaterThanOrEqual(0);
    at = found + 1;
  }
  expect(text).toContain('"activePricings":{"1.0.0":{"id":"');
  expect(text).toContain('"maxTasks":{"resetTimeStamp":"');
}, 60_000);
