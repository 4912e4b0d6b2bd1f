import { Command } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { outliveReaders } from "./platform/output.ts";

/*
 * The command of the npm package, `npx faregate-server`. Each command is a module that runs when it is imported and reads its
 * operands from the process, as under npm.
 */

interface ServerCommand {
  name: string;
  summary: string;
  help: string;
  /** Flags and descriptions. Default: none. */
  options?: readonly (readonly [flags: string, description: string])[];
  run: () => Promise<unknown>;
}

const COMMANDS: readonly ServerCommand[] = [
  {
    name: "start",
    summary: "Start database, REST and event server. The default.",
    help: `
Without DATABASE_URL, a Postgres of its own is started and keeps its data in DATA_DIR (default: .data). The schema is migrated
first. The first start prints the password of the user admin. Ctrl-C stops everything.

  npx faregate-server
  PORT=8080 DATA_DIR=/var/lib/faregate npx faregate-server`,
    run: () => import("./start.ts"),
  },
  {
    name: "rest",
    summary: "Run one REST process on PORT, beside a database that is migrated.",
    help: "\nNeeds DATABASE_URL, JWT_SECRET, JWT_SALT and API_KEYS_SECRET. Any number of them may share a database.",
    run: () => ("Bun" in globalThis ? import("./bun.ts") : import("./node.ts")),
  },
  {
    name: "events",
    summary: "Run one event server on EVENTS_PORT, beside a database that is migrated.",
    help: "\nNeeds DATABASE_URL, JWT_SECRET, JWT_SALT and API_KEYS_SECRET. Any number of them may share a database.",
    run: () => import("./events-node.ts"),
  },
  {
    name: "migrate",
    summary: "Bring the database's schema up to date, and create the first ADMIN.",
    help: `
\`start\` does so by itself. Any number of these may run at once: one works, and the others find it done. Needs a direct
connection, no pooler. Exit codes: 0 done; 2 not done.`,
    run: () => import("./commands/migrate.ts"),
  },
  {
    name: "doctor",
    summary: "Check environment, machine, driver and database, and suggest fixes.",
    help: "\nChanges nothing; safe beside a running system. Exit codes: 0 everything works; 1 a check fails.",
    run: () => import("./commands/doctor.ts"),
  },
  {
    name: "backup <folder>",
    summary: "Write a consistent backup into a new or empty folder.",
    help: `
Runs beside the system. A database of its own is copied with its secrets; one at DATABASE_URL is dumped by pg_dump, without the
secrets. Exit codes: 0 done; 2 not done.`,
    run: () => import("./commands/backup.ts"),
  },
  {
    name: "restore <folder>",
    summary: "Restore a backup into a new DATA_DIR, or into an empty database at DATABASE_URL.",
    help: "\nAfterwards every balance is compared with its movements. Exit codes: 0 restored; 1 a balance disagrees; 2 not done.",
    run: () => import("./commands/restore.ts"),
  },
  {
    name: "check-ledger",
    summary: "Check that every balance equals the sum of its movements.",
    help: "\nReads only; safe beside a running system. Exit codes: 0 all agree; 1 one does not; 2 not checked.",
    run: () => import("./commands/check-ledger.ts"),
  },
  {
    name: "export-organization <id> <folder>",
    summary: "Freeze an organization, and write its rows for another instance.",
    help: `
Changes of a frozen organization are answered with 503 and Retry-After; reads and evaluations without amounts go on.
Exit codes: 0 done; 2 not done.`,
    run: () => import("./commands/export-organization.ts"),
  },
  {
    name: "import-organization <folder>",
    summary: "Write an exported organization into this instance, and check the ledger.",
    options: [
      ["--accounts <which>", "existing: take accounts of this instance with the same names for the same people"],
    ],
    help: "\nOne transaction. Exit codes: 0 done; 2 nothing was written.",
    run: () => import("./commands/import-organization.ts"),
  },
  {
    name: "move-organization <folder>",
    summary: "End the move where it began: answer its calls with the new address.",
    options: [
      ["--to <url>", "address of the other instance, which is answered with 410"],
      ["--cancel", "keep the organization here, and admit changes again"],
    ],
    help: "\nCompares every row with the export first. Exit codes: 0 done; 2 not done, such as after a change since the export.",
    run: () => import("./commands/move-organization.ts"),
  },
  {
    name: "distribute",
    summary: "Let the workers of Citus hold old movements and the sums of usage.",
    options: [["--dry-run", "say what would be done, and change nothing"]],
    help: `
Once, on the coordinator, beside a running system, whose processes have to be restarted afterwards. There is no way back but a move
of the organizations. Exit codes: 0 done, or done before; 2 not done.`,
    run: () => import("./commands/distribute.ts"),
  },
  {
    name: "reseal",
    summary: "Re-encrypt API keys and webhook secrets, as the last step of replacing API_KEYS_SECRET.",
    help: `
Before it, every process runs with the new secret and with the old one in API_KEYS_SECRET_PREVIOUS. Afterwards that variable
can be unset. Exit codes: 0 done; 1 something can be read with neither secret; 2 not done.`,
    run: () => import("./commands/reseal.ts"),
  },
  {
    name: "rotate-token-key",
    summary: "Replace the key that signs EdDSA pricing tokens, beside a running system.",
    options: [
      ["--lead <duration>", "time from publishing the new key to signing with it, from 1s to 7d (default: 10m)"],
      ["--revoke", "sign with the new key now, and withdraw every other key with the tokens that it signed"],
    ],
    help: "\nExit codes: 0 done; 1 a key is published already and does not sign yet; 2 not done.",
    run: () => import("./commands/rotate-token-key.ts"),
  },
];

outliveReaders();
const program = new Command("faregate-server")
  .description(`${manifest.description}: database, REST server, event server and console.`)
  .version(manifest.version)
  .showHelpAfterError("Try --help.")
  .addHelpText(
    "after",
    `
The environment configures every command. The most important variables: PORT (3000), EVENTS_PORT (5403), HOST, DATA_DIR
(.data), DATABASE_URL, ADMIN_PASSWORD, PUBLIC_URL, ALLOWED_ORIGINS. All of them: ${manifest.homepage.replace("#readme", "")}/blob/main/src/docs/operate.md`,
  );
for (const { name, summary, help, options = [], run } of COMMANDS) {
  const command = program.command(name).description(summary).addHelpText("after", help).copyInheritedSettings(program);
  for (const [flags, text] of options) command.option(flags, text);
  command.action(async () => {
    const given = Object.entries(command.opts<Record<string, string | true>>()).flatMap(([option, value]) =>
      value === true ? [`--${option}`] : [`--${option}=${value}`],
    );
    // The modules find their operands where npm scripts have them.
    process.argv.splice(2, process.argv.length, ...command.args, ...given);
    await run();
  });
}
program.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
for (const command of program.commands) command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
await program.parseAsync(process.argv.length > 2 ? process.argv : [...process.argv, "start"]);
