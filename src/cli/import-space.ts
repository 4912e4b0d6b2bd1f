import { type CliCommand, CliFailure, type ImportSpaceOptions } from "./command.ts";

/** `faregate import-space` moves an installation of the reference service with its ids, keys and passwords. */
export const importSpace: CliCommand = {
  name: "import-space",
  summary: "Move an installation of SPACE with its ids, keys and passwords into an empty database.",
  declare(command) {
    command
      .argument("[folder]", "a folder of mongodump or mongoexport")
      .option("--dry-run", "only report what would be carried, changed and left; needs no database")
      .option("--statics <folder>", "SPACE's volume `public`, with the texts of its pricings")
      .option("--fetch", "fetch the pricings of which SPACE stores only the address")
      .option("--report <file>", "write the report as JSON")
      .option("--abandon", "remove what an unfinished import has written, instead of importing")
      .addHelpText(
        "after",
        "\nReads DATABASE_URL, API_KEYS_SECRET, JWT_SECRET and JWT_SALT, as a server does. Exit code 1: something was left.",
      );
  },
  async run(given, io) {
    const [folder] = given.args;
    const options = given.opts<Omit<ImportSpaceOptions, "folder">>();
    if (folder === undefined && options.abandon !== true) throw new CliFailure("A folder with a dump is needed.");
    return io.importSpace({ folder, ...options });
  },
};
