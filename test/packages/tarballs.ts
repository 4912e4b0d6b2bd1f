import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { environmentOf, execute } from "./programs.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Paths of both packages' tarballs, and a folder in which that of the server is installed. */
    tarballs: { library: string; server: string; installation: string };
  }
}

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/** Builds both packages and packs them as `npm publish` does, and installs the server, once for all files. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-tarballs-"));
  const pack = async (script: string, built: string) => {
    await run("npm", ["run", "-s", script], { cwd: ROOT });
    const given = ["pack", "--silent", "--pack-destination", folder];
    const { stdout } = await run("npm", given, { cwd: join(ROOT, "dist", built), maxBuffer: 1e7 });
    return join(folder, stdout.trim());
  };
  const installation = join(folder, "installation");
  const packAndInstallServer = async () => {
    const server = await pack("build:server-package", "faregate-server");
    await mkdir(installation);
    await writeFile(join(installation, "package.json"), "{}");
    const env = await environmentOf("Node 20");
    await execute(["npm", "install", "--no-audit", "--no-fund", server], { cwd: installation, env });
    return server;
  };
  const [library, server] = await Promise.all([pack("build:package", "package"), packAndInstallServer()]);
  project.provide("tarballs", { library, server, installation });
  return async () => {
    await rm(folder, { recursive: true, force: true });
    await forgetNpx(folder);
  };
}

/** Removes what npx has installed from these tarballs: it keeps 100 MB for each path, and the next run has others. */
async function forgetNpx(folder: string): Promise<void> {
  const { stdout } = await run("npm", ["config", "get", "cache"]);
  const cache = join(stdout.trim(), "_npx");
  for (const name of await readdir(cache).catch(() => [])) {
    const manifest = await readFile(join(cache, name, "package.json"), "utf8").catch(() => "");
    if (manifest.includes(basename(folder))) await rm(join(cache, name), { recursive: true, force: true });
  }
}
