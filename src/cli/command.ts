import type { Command } from "commander";

/** Everything a command may touch of the machine it runs on. Paths are relative to the working directory. */
export interface Io {
  /** The version of this package. */
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly fetch: typeof fetch;
  now(): Date;
  /** The text of a file; undefined when there is none. @throws CliFailure when it cannot be read. */
  readFile(path: string): Promise<string | undefined>;
  /** Replaces the file; its folder must exist. @throws CliFailure */
  writeFile(path: string, text: string): Promise<void>;
  /** Results: what somebody would pipe into something else. */
  out(text: string): void;
  /** Everything else that is said. */
  err(text: string): void;
}

/** What every command exits with. 1 is an answer ("out of date"), 2 means that there is none. */
export const EXIT = { done: 0, no: 1, failed: 2 } as const;

/** One word after `faregate`. */
export interface CliCommand {
  readonly name: string;
  /** One line of `faregate --help`. */
  readonly summary: string;
  /** Says which arguments and options it has; `--help` prints them. */
  declare(command: Command): void;
  /** `given` has what was typed, in `args` and `opts()`. @returns one of EXIT. @throws CliFailure */
  run(given: Command, io: Io): Promise<number>;
}

/** A failure whose message is all that is to be said: no stack is printed, and the exit code is 2. */
export class CliFailure extends Error {
  override readonly name = "CliFailure";
}
