#!/usr/bin/env -S node --import tsx
import { chmod, mkdir, readdir, readFile, realpath, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { runCli } from "../cli/cli.ts";
import { CliFailure } from "../cli/command.ts";
import manifest from "../../package.json" with { type: "json" };

/* The command line, `npx faregate`. The package's build replaces the first line, because its output is JavaScript. */
process.exitCode = await runCli(process.argv.slice(2), {
  version: manifest.version,
  env: process.env,
  fetch,
  now: () => new Date(),
  readFile: async (path) => {
    try {
      return await readFile(path, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw new CliFailure(`${path} cannot be read: ${String(error)}`, { cause: error });
    }
  },
  realPath: (path) => realpath(path).catch(() => undefined),
  listFolder: async (path) => {
    try {
      return await readdir(path);
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw new CliFailure(`${path} cannot be read: ${String(error)}`, { cause: error });
    }
  },
  writeFile: async (path, text, { createFolder, isSecret } = {}) => {
    try {
      if (createFolder === true) await mkdir(dirname(path), { recursive: true });
      // The mode of writeFile applies to new files only.
      if (isSecret === true) await chmod(path, 0o600).catch(() => undefined);
      await writeFile(path, text, isSecret === true ? { mode: 0o600 } : undefined);
    } catch (error) {
      const isFolderMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
      const reason = isFolderMissing ? `the folder ${dirname(path)} does not exist. Create it first.` : String(error);
      throw new CliFailure(`${path} cannot be written: ${reason}`, { cause: error });
    }
  },
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
});
