import type { CliCommand } from "./command.ts";
import { exportFolder } from "./files/exporting.ts";
import { declareFolder, EXITS, type FolderOptions, HELP } from "./files/options.ts";
import { connect, reporting } from "./files/connect.ts";

/** `faregate export` writes the pricings of a server into a folder. */
export const exportCommand: CliCommand = {
  name: "export",
  summary: "Write a server's pricings into a folder, as plan and apply read it.",
  exits: { failed: EXITS.failed, help: HELP },
  declare: declareFolder,
  async run(given, io) {
    const options = given.opts<FolderOptions>();
    return reporting(async () => {
      const server = await connect(options, io, "read");
      const { written, warnings } = await exportFolder(given.args[0] ?? ".", server, io, { only: options.only });
      for (const warning of warnings) io.err(`faregate: ${warning}\n`);
      if (options.json === true) io.out(`${JSON.stringify({ written, warnings }, null, 2)}\n`);
      else io.out(written.length === 0 ? "nothing to do\n" : written.map((path) => `${path}\n`).join(""));
      return EXITS.done;
    });
  },
};
