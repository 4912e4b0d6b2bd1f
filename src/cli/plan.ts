import type { CliCommand } from "./command.ts";
import { readFolder } from "./files/folder.ts";
import { declarePlanning, EXITS, HELP, type PlanningOptions, reportRefusals } from "./files/options.ts";
import { planText } from "./files/plan-text.ts";
import { planFolder } from "./files/planning.ts";
import { connect, reporting } from "./files/connect.ts";

const EXIT_OF = { nothing: EXITS.done, changes: EXITS.changes, refused: EXITS.failed } as const;

/** `faregate plan` shows what a folder would change on a server. It writes nothing. */
export const plan: CliCommand = {
  name: "plan",
  summary: "Show what a folder of pricings would change on a server, and what that does to contracts.",
  exits: { failed: EXITS.failed, help: HELP },
  declare: declarePlanning,
  async run(given, io) {
    const options = given.opts<PlanningOptions>();
    const { only, prune = false, failOn, json } = options;
    return reporting(async () => {
      const folder = await readFolder(given.args[0] ?? ".", io);
      const server = await connect(options, io, "manage");
      const made = await planFolder(folder, server, io, { only, prune, failOn, overridesGate: false });
      io.out(json === true ? `${JSON.stringify(made, null, 2)}\n` : planText(made));
      reportRefusals(made, io);
      return EXIT_OF[made.verdict];
    });
  },
};
