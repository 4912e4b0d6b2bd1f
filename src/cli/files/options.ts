import { type Command, Option } from "commander";
import type { Severity } from "../../core/change/finding.ts";
import { CliFailure, type Io } from "../command.ts";
import { PARTS, type Part, type Plan, refusalsOf } from "./plan.ts";
import { SEVERITIES } from "./review.ts";
import type { ServerOptions } from "./connect.ts";

/** Exit codes of plan, apply and export: a plan with changes is no failure. `held`: a change waits for a second person. */
export const EXITS = { done: 0, failed: 1, changes: 2, held: 3 } as const;

export const HELP = `
Exit codes: 0 done, or nothing to do; 1 refused or failed; 2 (plan only) there are changes;
3 (apply only) a change waits for a second person.
The server's address and key can be set as FAREGATE_URL, FAREGATE_API_KEY and FAREGATE_ORGANIZATION.`;

export interface FolderOptions extends ServerOptions {
  only?: readonly Part[];
  json?: true;
}

export interface PlanningOptions extends FolderOptions {
  prune?: true;
  failOn: Severity | "never";
}

/** Declares the folder, the server, the parts and the format. */
export function declareFolder(command: Command): void {
  command
    .argument("[dir]", "the folder with faregate.yml", ".")
    .option("--server <url>", "address of the server; default: $FAREGATE_URL")
    .option(
      "--key <key>",
      "an organization's key of scope MANAGEMENT or ALL, or a user's key; default: $FAREGATE_API_KEY",
    )
    .option("--organization <id>", "organization of a user key that sees several; default: $FAREGATE_ORGANIZATION")
    .addOption(
      new Option("--only <part>", `one of ${PARTS.join(", ")}; may be given several times`).argParser(
        (part: string, others: readonly Part[] = []) => {
          const found = PARTS.find((each) => each === part);
          if (found !== undefined) return [...others, found];
          throw new CliFailure(`--only must be one of ${PARTS.join(", ")}. Received: ${part}`);
        },
      ),
    )
    .option("--json", "print JSON");
}

/** Declares what plan and apply share. */
export function declarePlanning(command: Command): void {
  declareFolder(command);
  command
    .option("--prune", "archive active versions, and delete webhooks, that the folder lacks")
    .addOption(
      new Option("--fail-on <severity>", "refuse lint findings of this severity or a worse one")
        .choices([...SEVERITIES, "never"])
        .default("error"),
    );
}

/** Repeats refusals on stderr, where a log shows them even if stdout goes to a file. */
export function reportRefusals(plan: Plan, io: Io): void {
  for (const refusal of refusalsOf(plan)) io.err(`faregate: ${refusal}\n`);
}
