import { chmod, mkdir, readdir, readFile, readlink, realpath, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { CliFailure, type Io } from "../../cli/command.ts";
import { decodeFile } from "../../core/pricing/parse/encoding.ts";
import { outliveReaders } from "./output.ts";

/** Access of the command line to the machine that it runs on. */
export function cliHost(version: string): Io {
  outliveReaders();
  const host: Io = {
    version,
    env: process.env,
    fetch,
    now: () => new Date(),
    readFile: async (path) => {
      let bytes: Uint8Array;
      try {
        bytes = await readFile(path);
      } catch (error) {
        if (codeOf(error) === "ENOENT") return undefined;
        throw new CliFailure(`${path} cannot be read: ${reasonOf(error)}`, { cause: error });
      }
      const decoded = decodeFile(bytes);
      if (decoded.ok) return decoded.text;
      throw new CliFailure(`${path}:${decoded.line}:${decoded.column} ${decoded.message}`);
    },
    realPath: (path) => realpath(path).catch(() => targetOf(path)),
    listFolder: async (path) => {
      try {
        return await readdir(path);
      } catch (error) {
        if (codeOf(error) === "ENOENT") return undefined;
        throw new CliFailure(`${path} cannot be read: ${reasonOf(error)}`, { cause: error });
      }
    },
    writeFile: async (path, text, { createFolder, isSecret } = {}) => {
      try {
        if (createFolder === true) await mkdir(dirname(path), { recursive: true });
        // The mode of writeFile applies to new files only.
        if (isSecret === true) await chmod(path, 0o600).catch(() => undefined);
        await writeFile(path, text, isSecret === true ? { mode: 0o600 } : undefined);
      } catch (error) {
        const isFolderMissing = codeOf(error) === "ENOENT";
        const reason = isFolderMissing
          ? `the folder ${dirname(path)} does not exist. Create it first.`
          : reasonOf(error);
        throw new CliFailure(`${path} cannot be written: ${reason}`, { cause: error });
      }
    },
    // Loaded on demand: it brings the database along, which the other commands do not need.
    importSpace: async (options) => (await import("../commands/import-space.ts")).importSpace(options, host),
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
  };
  return host;
}

/** Reasons for errors of the system that a wrong path causes. */
const REASONS = new Map<unknown, string>([
  ["EISDIR", "it is a folder."],
  ["ENOTDIR", "a part of this path is a file and no folder."],
  ["EACCES", "this user has no permission."],
]);

const codeOf = (error: unknown) => (error instanceof Error && "code" in error ? error.code : undefined);
const reasonOf = (error: unknown) => REASONS.get(codeOf(error)) ?? String(error);

/** Links that are followed, as on Linux. */
const MAX_LINKS = 40;

/** Resolves a link whose target does not exist: writing to the link would create it. Undefined for anything else. */
async function targetOf(path: string, links = 1): Promise<string | undefined> {
  try {
    const target = resolve(await realpath(dirname(path)), await readlink(path));
    if (links === MAX_LINKS) return target;
    return await realpath(target).catch(async () => (await targetOf(target, links + 1)) ?? target);
  } catch {
    return undefined;
  }
}
