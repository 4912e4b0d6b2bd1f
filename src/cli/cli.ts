import { Command, CommanderError } from "commander";
import { type CliCommand, CliFailure, EXIT, type Io } from "./command.ts";
import { compare } from "./compare.ts";
import { diff } from "./diff.ts";
import { importSpace } from "./import-space.ts";
import { lint } from "./lint.ts";
import { test } from "./test.ts";
import { apply } from "./apply.ts";
import { exportCommand } from "./export.ts";
import { plan } from "./plan.ts";
import { replay } from "./replay.ts";
import { types } from "./types.ts";

/** Every command. A new command needs a file beside this one and an entry here. */
const COMMANDS: readonly CliCommand[] = [
  types,
  diff,
  lint,
  test,
  replay,
  plan,
  apply,
  exportCommand,
  importSpace,
  compare,
];

const EXIT_CODES = `
Exit codes: 0 done; 1 the answer is no, such as "out of date"; 2 there is no answer: wrong usage, or what could not be read.`;

/**
 * Runs `faregate <args>` and reports all output and errors through `io`.
 * @returns the exit code.
 */
export async function runCli(args: readonly string[], io: Io): Promise<number> {
  const program = new Command("faregate")
    .description("Tools around Faregate and its pricings.")
    .version(io.version)
    .addHelpText("after", EXIT_CODES)
    .showHelpAfterError("Try --help.");
  let code: number = EXIT.done;
  let failed: number = EXIT.failed;
  for (const each of COMMANDS) {
    const command = program.command(each.name).description(each.summary).copyInheritedSettings(program);
    each.declare(command);
    command.addHelpText("after", each.exits?.help ?? EXIT_CODES).action(async () => {
      code = await each.run(command, io);
    });
  }
  // Runs before the options of the command are read.
  program.hook("preSubcommand", (_, command) => {
    failed = COMMANDS.find(({ name }) => name === command.name())?.exits?.failed ?? EXIT.failed;
  });
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({ writeOut: io.out, writeErr: io.err });
  }
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CliFailure) {
      io.err(`faregate: ${error.message}\n`);
      return failed;
    }
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : failed;
    // A bug in this package: print the stack, and exit as for a failure; the runtime's default of 1 may mean "no".
    io.err(`faregate: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    return failed;
  }
}
