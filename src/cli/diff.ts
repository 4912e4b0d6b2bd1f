import { Option } from "commander";
import { CHANGE_CLASSES } from "../core/change/change.ts";
import type { ChangeClass } from "../core/change/change.ts";
import { diffPricings } from "../core/change/diff/diff.ts";
import { diffAsMarkdown, diffAsText } from "../core/change/diff/text.ts";
import type { Pricing } from "../core/pricing/model.ts";
import { type CliCommand, CliFailure, EXIT } from "./command.ts";
import { readPricingFile } from "./pricing-file.ts";

interface Options {
  json?: true;
  markdown?: true;
  failOn: ChangeClass | "never";
  rename: readonly (readonly [string, string])[];
}

/** `faregate diff` lists what subscribers gain and lose when one pricing replaces another. */
export const diff: CliCommand = {
  name: "diff",
  summary: "Say what subscribers gain and lose when one pricing takes the place of another.",
  declare(command) {
    command
      .argument("<old>", "the pricing as it is")
      .argument("<new>", "the pricing as it shall be")
      .addOption(new Option("--json", "print the whole diff as JSON").conflicts("markdown"))
      .option("--markdown", "print it for the description of a pull request")
      .addOption(
        new Option("--rename <old:new>", "a plan with a new name, if the new pricing has no renames; repeatable")
          .argParser((pair: string, others: Options["rename"]) => [...others, renameOf(pair)])
          .default([], "none"),
      )
      .addOption(
        new Option(
          "--fail-on <class>",
          "exit with 1 on changes of this class or a worse one; worst first: incompatible, narrowing, widening, neutral",
        )
          .choices([...CHANGE_CLASSES, "never"])
          .default("never"),
      );
  },
  async run(given, io) {
    const { json, markdown, failOn, rename } = given.opts<Options>();
    const [old, now] = given.args;
    if (old === undefined || now === undefined) throw new CliFailure("Two pricing files are needed.");
    const [before, after] = [await readPricingFile(old, io), await readPricingFile(now, io)];
    for (const [from, to] of rename) {
      requirePlan(before.pricing, from, { option: `--rename ${from}:${to}`, file: old });
      requirePlan(after.pricing, to, { option: `--rename ${from}:${to}`, file: now });
    }
    const renames = rename.length === 0 ? undefined : Object.fromEntries(rename);
    const result = diffPricings(before.pricing, after.pricing, renames);
    if (json === true) io.out(`${JSON.stringify(result, null, 2)}\n`);
    else io.out(markdown === true ? diffAsMarkdown(result) : diffAsText(result));
    return isBad(result.class, failOn) ? EXIT.no : EXIT.done;
  },
};

function renameOf(pair: string): readonly [string, string] {
  const [old = "", name = "", ...more] = pair.split(":").map((each) => each.trim());
  if (old !== "" && name !== "" && more.length === 0) return [old, name];
  throw new CliFailure(`--rename must be two plan names with a colon, such as PRO:TEAM. Received: ${pair}`);
}

/** @throws CliFailure with the plans of the file when it has no such plan. Names ignore case. */
function requirePlan({ plans }: Pricing, name: string, { option, file }: { option: string; file: string }): void {
  if (plans.some((plan) => plan.name.toLowerCase() === name.toLowerCase())) return;
  const names = plans.map((plan) => plan.name).join(", ");
  throw new CliFailure(`${option}: ${file} has no plan ${name}. Its plans are: ${names === "" ? "none" : names}`);
}

/** Returns true if the worst change is at least as severe as `failOn`. */
function isBad(worst: ChangeClass | null, failOn: Options["failOn"]): boolean {
  if (worst === null || failOn === "never") return false;
  return CHANGE_CLASSES.indexOf(worst) <= CHANGE_CLASSES.indexOf(failOn);
}
