import type { Command } from "commander";

/** Options of `faregate import-space`. */
export interface ImportSpaceOptions {
  /** Undefined only with `abandon`. */
  folder?: string | undefined;
  dryRun?: true;
  statics?: string;
  fetch?: true;
  report?: string;
  abandon?: true;
}

/** Host access for commands. Paths are relative to the working directory. */
export interface Io {
  /** Version of this package. */
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly fetch: typeof fetch;
  now(): Date;
  /**
   * Returns a file's text; undefined if the file does not exist.
   * @throws CliFailure when it cannot be read.
   */
  readFile(path: string): Promise<string | undefined>;
  /**
   * Replaces a file; its folder must exist, unless `createFolder` is set. `isSecret`: only the user may read the file.
   * @throws CliFailure
   */
  writeFile(path: string, text: string, options?: { createFolder?: true; isSecret?: true }): Promise<void>;
  /** Resolves links, also those whose target does not exist. Undefined if there is nothing at the path. */
  realPath(path: string): Promise<string | undefined>;
  /**
   * Lists the names in a folder. Undefined if it does not exist.
   * @throws CliFailure when it cannot be read.
   */
  listFolder(path: string): Promise<string[] | undefined>;
  /**
   * Moves an installation of SPACE into the configured database, which only the host can open.
   * @returns one of EXIT.
   */
  importSpace(options: ImportSpaceOptions): Promise<number>;
  /** Writes results to stdout, for piping. */
  out(text: string): void;
  /** Writes messages to stderr. */
  err(text: string): void;
}

/** Exit codes of all commands. 1 is a negative result ("out of date"); 2 means that there is no result. */
export const EXIT = { done: 0, no: 1, failed: 2 } as const;

/** One subcommand of `faregate`. */
export interface CliCommand {
  readonly name: string;
  /** Exit code of a failure, and a line on the exit codes for `--help`, where they differ from EXIT. */
  readonly exits?: { readonly failed: number; readonly help: string };
  /** Line in the output of `faregate --help`. */
  readonly summary: string;
  /** Declares arguments and options, which `--help` prints. */
  declare(command: Command): void;
  /**
   * Runs the command with the parsed arguments in `given.args` and `given.opts()`.
   * @returns one of EXIT.
   * @throws CliFailure
   */
  run(given: Command, io: Io): Promise<number>;
}

/** An expected failure: its message is printed without a stack, and the exit code is 2. */
export class CliFailure extends Error {
  override readonly name = "CliFailure";
}
