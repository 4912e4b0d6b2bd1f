import { type CliCommand, CliFailure } from "./command.ts";
import { applyFolder, type DoneStep } from "./files/applying.ts";
import { readFolder } from "./files/folder.ts";
import { declarePlanning, EXITS, HELP, type PlanningOptions, reportRefusals } from "./files/options.ts";
import { planText } from "./files/plan-text.ts";
import { planFolder } from "./files/planning.ts";
import type { HeldChange } from "./files/server.ts";
import { connect, reporting } from "./files/connect.ts";

interface Options extends PlanningOptions {
  overrideReason?: string;
  secretsOut?: string;
}

/** `faregate apply` makes a server as a folder says. */
export const apply: CliCommand = {
  name: "apply",
  summary: "Make a server's pricings as a folder says, unless the plan is refused.",
  exits: { failed: EXITS.failed, help: HELP },
  declare(command) {
    declarePlanning(command);
    command
      .option("--override-reason <text>", "reason of an OWNER for passing over a closed gate")
      .option("--secrets-out <file>", "write the secrets of created webhooks to this file, as JSON by address");
  },
  async run(given, io) {
    const options = given.opts<Options>();
    const { only, prune = false, failOn, json, overrideReason, secretsOut } = options;
    return reporting(async () => {
      const folder = await readFolder(given.args[0] ?? ".", io);
      const server = await connect(options, io, "manage");
      if (overrideReason !== undefined && !server.rights.isOwner) {
        throw new CliFailure("--override-reason needs the user key of an OWNER");
      }
      const overridesGate = overrideReason !== undefined;
      const plan = await planFolder(folder, server, io, { only, prune, failOn, overridesGate });
      const done: DoneStep[] = [];
      const held: { id: string; summary: string }[] = [];
      if (plan.verdict === "refused") {
        io.out(json === true ? `${JSON.stringify({ ...plan, done, held }, null, 2)}\n` : planText(plan));
        reportRefusals(plan, io);
        return EXITS.failed;
      }
      const onDone = (step: DoneStep, words: string) => {
        done.push(step);
        if (json !== true) io.out(`${words}\n`);
      };
      const onHeld = ({ id, summary, message }: HeldChange) => {
        held.push({ id, summary });
        if (json !== true) io.out(`${message}\n`);
      };
      try {
        if (plan.verdict === "changes") {
          await applyFolder(folder, server, io, { only, prune, overrideReason, secretsOut, onDone, onHeld });
        }
      } finally {
        if (json === true) io.out(`${JSON.stringify({ ...plan, done, held }, null, 2)}\n`);
      }
      if (held.length > 0) return EXITS.held;
      if (json !== true && done.length === 0) io.out("nothing to do\n");
      return EXITS.done;
    });
  },
};
