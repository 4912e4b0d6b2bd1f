import { Option } from "commander";
import { type CliCommand, CliFailure, EXIT } from "./command.ts";
import { connect, reporting, type ServerOptions } from "./files/connect.ts";
import { readPricingFile } from "./pricing-file.ts";
import { replayAsMarkdown } from "./replay-text.ts";
import { deniedShare, type ReplayReport, revenueChange } from "../core/change/replay/report.ts";

interface Options extends ServerOptions {
  from?: string;
  to?: string;
  service?: string;
  keepPlans?: true;
  top: string;
  format: "markdown" | "json";
  failOn: readonly Bound[];
}

/** A bound that fails the command: a share of contracts, or a change of the revenue, in percent. */
interface Bound {
  readonly of: "denied" | "revenue";
  readonly percent: number;
}

/** `faregate replay` says what last month would have been under a pricing file. It changes nothing. */
export const replay: CliCommand = {
  name: "replay",
  summary: "Say what last month would have been under a pricing: who would have been stopped, and what all would pay.",
  declare(command) {
    command
      .argument("<pricing>", "the pricing file")
      .option("--server <url>", "address of the server; default: $FAREGATE_URL")
      .option(
        "--key <key>",
        "an organization's key of scope MANAGEMENT or ALL, or a user's key; default: $FAREGATE_API_KEY",
      )
      .option("--organization <id>", "organization of a user key that sees several; default: $FAREGATE_ORGANIZATION")
      .option("--service <name>", "the service on the server; default: the saasName of the file")
      .option("--from <date>", "start of the range, in ISO 8601; default: the start of last month")
      .option("--to <date>", "end of the range, which it excludes; default: the end of last month")
      .option("--keep-plans", "leave contracts on the plan of the same name, instead of the best fit")
      .option("--top <n>", "most affected users to list, up to 100", "20")
      .addOption(
        new Option("--format <format>", "format of the report").choices(["markdown", "json"]).default("markdown"),
      )
      .addOption(
        new Option("--fail-on <bound>", "exit with 1: denied:5% of contracts or more, revenue:-2% or less; repeatable")
          .argParser((text: string, others: readonly Bound[]) => [...others, boundOf(text)])
          .default([], "none"),
      );
  },
  async run(given, io) {
    const { failOn, format, keepPlans = false, top, from, to, service, ...options } = given.opts<Options>();
    const { source, pricing } = await readPricingFile(given.args[0] ?? "", io);
    if (!/^\d+$/.test(top)) throw new CliFailure(`--top must be a whole number. Received: ${top}`);
    const report = await reporting(async () => {
      const server = await connect(options, io, "manage");
      return server.replay(service ?? pricing.saasName, { from, to, keepPlans, top: Number(top) }, source);
    });
    io.out(format === "json" ? `${JSON.stringify(report, null, 2)}\n` : replayAsMarkdown(report));
    return failOn.some((bound) => isReached(report, bound)) ? EXIT.no : EXIT.done;
  },
};

function boundOf(text: string): Bound {
  const [, of, percent] = /^(denied|revenue):([+-]?\d+(?:\.\d+)?)%?$/.exec(text) ?? [];
  if (of === "denied" || of === "revenue") return { of, percent: Number(percent) };
  throw new CliFailure(`--fail-on must be such as denied:5% or revenue:-2%. Received: ${text}`);
}

function isReached(report: ReplayReport, { of, percent }: Bound): boolean {
  if (of === "denied") return report.totals.denied.contracts > 0 && deniedShare(report) * 100 >= percent;
  const part = revenueChange(report);
  if (part === undefined) return false;
  const change = part * 100;
  // A positive bound is about a rise of what customers pay.
  return percent > 0 ? change >= percent : change <= percent;
}
