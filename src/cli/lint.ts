import { Option } from "commander";
import type { Finding, Severity } from "../core/change/finding.ts";
import { lintPricing } from "../core/change/lint/lint.ts";
import { type KeyRename, legalKeys } from "../core/pricing/parse/rename-keys.ts";
import { CliFailure, type CliCommand, EXIT, type Io } from "./command.ts";
import { readPricingFile, readRequired } from "./pricing-file.ts";

interface Options {
  json?: true;
  fix?: true;
  failOn: Severity | "never";
}

/** Findings of one file; with `--fix` also the keys that were renamed in it. */
interface Linted {
  path: string;
  findings: Finding[];
  renamed?: readonly KeyRename[];
}

/**
 * Renames illegal keys in a file and returns what was renamed.
 * @throws CliFailure with the line of every key that cannot be renamed; the file stays as it is.
 */
async function fixKeys(path: string, io: Io): Promise<readonly KeyRename[]> {
  const source = await readRequired(path, io);
  const fixed = legalKeys(source);
  if (!fixed.ok) {
    const places = fixed.conflicts.map(({ line, column, message }) => `\n  ${path}:${line}:${column} ${message}`);
    throw new CliFailure(`${path} was not changed:${places.join("")}`);
  }
  if (fixed.text !== source) await io.writeFile(path, fixed.text);
  return fixed.renames;
}

function renameText(path: string, { line, column, map, from, to, places }: KeyRename): string {
  return `${path}:${line}:${column} renamed "${from}" in ${map} to "${to}", in ${places} ${places === 1 ? "place" : "places"}\n`;
}

const SEVERITIES: readonly Severity[] = ["error", "warning", "info"];

/** `faregate lint` reports valid but useless parts of a pricing. */
export const lint: CliCommand = {
  name: "lint",
  summary: "Find features that are never on, plans nobody would buy, limits that hold nobody back, and the like.",
  declare(command) {
    command
      .argument("<pricing...>", "pricing files in YAML")
      .option("--json", "print the findings as JSON, by file")
      .option("--fix", "first rename keys with forbidden characters, wherever the file uses them")
      .addOption(
        new Option("--fail-on <severity>", "exit with 1 on findings of this severity or a worse one")
          .choices([...SEVERITIES, "never"])
          .default("error"),
      );
  },
  async run(given, io) {
    const { json, fix, failOn } = given.opts<Options>();
    const files: Linted[] = [];
    const failures: { path: string; error: string }[] = [];
    for (const path of given.args) {
      try {
        const renamed = fix === true ? await fixKeys(path, io) : undefined;
        if (json !== true) for (const rename of renamed ?? []) io.out(renameText(path, rename));
        const { pricing, source } = await readPricingFile(path, io);
        files.push({ path, findings: lintPricing(pricing, source), ...(renamed === undefined ? {} : { renamed }) });
      } catch (error) {
        if (!(error instanceof CliFailure)) throw error;
        failures.push({ path, error: error.message });
        io.err(`faregate: ${error.message}\n`);
      }
    }
    if (json === true) io.out(`${JSON.stringify([...files, ...failures], null, 2)}\n`);
    else
      for (const { path, findings } of files) {
        for (const { line, column, severity, code, message } of findings)
          io.out(`${path}:${line}:${column} ${severity} ${code}: ${message}\n`);
        if (findings.length === 0) io.out(`${path}: nothing found\n`);
      }
    const worst = SEVERITIES.findIndex((each) =>
      files.some(({ findings }) => findings.some(({ severity }) => severity === each)),
    );
    const bad = failOn !== "never" && worst >= 0 && worst <= SEVERITIES.indexOf(failOn);
    if (failures.length > 0) return EXIT.failed;
    return bad ? EXIT.no : EXIT.done;
  },
};
